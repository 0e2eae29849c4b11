"""Images answered differently, and confusion counts, by hand and by law."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lines_explorer.analysis import paired
from lines_explorer.analysis.flips import alternated, confusion, flips, largest, row_shares
from lines_explorer.errors import ExplorerError


def test_flips_by_hand() -> None:
    first, second = np.array([1, 1, 0, 0, 1], dtype=bool), np.array([1, 0, 1, 0, 0], dtype=bool)
    lost, gained = flips(first, second)
    assert (lost.tolist(), gained.tolist()) == ([1, 4], [2])
    with pytest.raises(ExplorerError, match="5 and 4"):
        flips(first, second[:4])


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_flips_are_those_that_the_paired_difference_counts(pairs: list[tuple[bool, bool]]) -> None:
    first, second = np.array(pairs, dtype=bool).T
    lost, gained = flips(first, second)
    found = paired.paired_difference(first, second)
    assert (len(lost), len(gained)) == (found.lost, found.gained)
    assert [list(x) for x in flips(second, first)] == [list(gained), list(lost)]


def test_confusion_by_hand() -> None:
    counts = confusion(np.array([0, 0, 1, 2, 2]), np.array([0, 2, 1, 0, 0]), 3)
    assert counts.tolist() == [[1, 0, 1], [0, 1, 0], [2, 0, 0]]
    assert largest(counts, 5) == [(2, 0, 2), (0, 2, 1)]
    assert largest(counts, 1) == [(2, 0, 2)]
    assert largest(-counts, 5) == [(2, 0, -2), (0, 2, -1)]


def test_shares_are_of_the_row() -> None:
    shares = row_shares(np.array([[3, 1], [0, 0]]))
    assert shares[0].tolist() == [0.75, 0.25] and np.isnan(shares[1]).all()


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=60))
def test_confusion_keeps_every_image(pairs: list[tuple[int, int]]) -> None:
    labels, predicted = (np.array([pair[side] for pair in pairs], dtype=int) for side in (0, 1))
    counts = confusion(labels, predicted, 5)
    assert counts.sum() == len(pairs) and np.trace(counts) == (labels == predicted).sum()
    assert counts.sum(axis=1).tolist() == np.bincount(labels, minlength=5).tolist()


@pytest.mark.parametrize(("labels", "predicted"), [([0], [0, 1]), ([3], [0]), ([0], [-1])])
def test_confusion_refuses(labels: list[int], predicted: list[int]) -> None:
    with pytest.raises(ExplorerError):
        confusion(np.array(labels), np.array(predicted), 3)


def test_alternated() -> None:
    assert alternated([[1, 2, 3], [], [7]]) == [1, 7, 2, 3]
    assert alternated([]) == []
