"""Splits that keep groups together and treat every class alike."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping


def stratified(sizes: Mapping[str, int], train: float, validation: float) -> dict[str, str]:
    """Group → ``train``, ``validation`` or ``test`` for the groups of one class.

    ``sizes``: number of pictures by group.  ``train`` and ``validation`` are cumulative shares of the pictures in
    [0, 1] (0.62, 0.70 gives 62 % / 8 % / 30 %).  Groups are taken in the order of their hashes until a share is
    full, so that small classes are divided as evenly as large ones, the same on every machine.
    """
    total, done = sum(sizes.values()), 0
    chosen: dict[str, str] = {}
    for name in sorted(sizes, key=lambda name: hashlib.md5(name.encode()).hexdigest()):
        share = (done + sizes[name] / 2) / total
        chosen[name] = "train" if share < train else "validation" if share < validation else "test"
        done += sizes[name]
    return chosen
