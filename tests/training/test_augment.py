"""Random styles of drawings: silhouettes and other grounds."""

import numpy as np

from lines_explorer.training.augment import drawn_parts, restyled


def ring(ink: int, ground: int) -> np.ndarray:
    """A square ring on a flat ground, (1, 32, 32, 3)."""
    picture = np.full((1, 32, 32, 3), ground, np.uint8)
    picture[:, 8:24, 8:24] = ink
    picture[:, 12:20, 12:20] = ground
    return picture


def test_what_differs_from_the_flat_ground_is_drawn():
    ground, covered = drawn_parts(ring(30, 200))
    assert (ground == 200).all() and covered.shape == (1, 32, 32, 1)
    assert covered[0, 9, 9] == 1 and covered[0, 15, 15] == 0 and covered.sum() == 16 * 16 - 8 * 8


def test_a_silhouette_is_filled_and_two_coloured():
    shapes = restyled(np.repeat(ring(30, 200), 50, 0), np.random.default_rng(0), shapes=1.0, grounds=0.0)
    white_on_black = shapes[:, 0, 0, 0] == 0
    assert set(np.unique(shapes)) == {0, 255} and 25 <= white_on_black.sum() < 50
    assert (shapes[white_on_black][:, 8:24, 8:24] == 255).all()
    assert (shapes[~white_on_black][:, 8:24, 8:24] == 0).all()


def test_another_ground_keeps_the_drawing_visible():
    for ink, ground in ((30, 200), (220, 40)):
        styled = restyled(np.repeat(ring(ink, ground), 50, 0), np.random.default_rng(0), shapes=0.0, grounds=1.0)
        contrast = np.abs(styled[:, 9, 9].astype(int) - styled[:, 0, 0]).max(-1)
        assert contrast.min() > 60
        assert len(np.unique(styled[:, 0, 0], axis=0)) > 10
        assert (styled.max(-1) == styled.min(-1)).all((1, 2)).sum() > 10  # greys


def test_only_the_asked_share_is_restyled():
    pictures = np.repeat(ring(30, 200), 200, 0)
    styled = restyled(pictures, np.random.default_rng(0), shapes=0.2, grounds=0.2)
    unchanged = (styled == pictures).all((1, 2, 3)).sum()
    assert 100 <= unchanged <= 140
    assert (restyled(pictures, np.random.default_rng(0), 0.0, 0.0) == pictures).all()
