"""Which images two settings answer differently, and what is taken for what."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lines_explorer.errors import ExplorerError


def flips(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(lost, gained): indices int64 of the images right in the first setting alone, and in the second alone.

    Args:
        first: bool (n,), which images the first setting answers rightly.
        second: bool (n,), the same of the second setting on the same images, in the same order.

    Raises:
        ExplorerError: different numbers of images.
    """
    first, second = np.asarray(first, dtype=bool), np.asarray(second, dtype=bool)
    if first.shape != second.shape or first.ndim != 1:
        raise ExplorerError(f"Two settings answer the same images, not {first.size} and {second.size} of them.")
    return np.flatnonzero(first & ~second), np.flatnonzero(second & ~first)


def confusion(labels: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """Counts int64 (classes, classes): how many images of the class of the row were taken for that of the column.

    Args:
        labels: int (n,), the true classes, each from 0 to ``classes`` − 1.
        predicted: int (n,), the predicted ones.
        classes: number of classes, at least 1.

    Raises:
        ExplorerError: different numbers of labels and predictions, or a class that there is not.
    """
    labels, predicted = np.asarray(labels), np.asarray(predicted)
    if labels.shape != predicted.shape or labels.ndim != 1:
        raise ExplorerError(f"{labels.size} labels need as many predictions, not {predicted.size}.")
    both = np.concatenate([labels, predicted])
    if len(both) and not 0 <= both.min() <= both.max() < classes:
        raise ExplorerError(f"Classes run from 0 to {classes - 1}; {both.min()} to {both.max()} were given.")
    return np.bincount(labels * classes + predicted, minlength=classes**2).reshape(classes, classes)


def row_shares(counts: np.ndarray) -> np.ndarray:
    """`confusion` counts as shares float64 (classes, classes) of each row's images; nan where a class has none."""
    totals = counts.sum(axis=1, keepdims=True)
    return np.divide(counts, totals, out=np.full(counts.shape, np.nan), where=totals > 0)


def largest(counts: np.ndarray, most: int) -> list[tuple[int, int, int]]:
    """The ``most`` mistakes with the largest absolute counts, as (true, predicted, count): never 0, off the diagonal.

    Args:
        counts: int (classes, classes), of `confusion` or a difference of two.
        most: how many at most; ties come in the order of the rows.
    """
    wrong = np.array(counts, dtype=np.int64)
    np.fill_diagonal(wrong, 0)
    order = np.argsort(-np.abs(wrong), axis=None, kind="stable")[:most]
    places = [tuple(map(int, np.unravel_index(place, wrong.shape))) for place in order]
    return [(true, predicted, int(wrong[true, predicted])) for true, predicted in places if wrong[true, predicted]]


def alternated(lists: Sequence[Sequence]) -> list:
    """The first of every list, then the second of every list, and so on."""
    longest = max(map(len, lists), default=0)
    return [one[place] for place in range(longest) for one in lists if place < len(one)]
