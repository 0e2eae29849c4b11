"""Outputs of the base and of unedited experts, kept because their sums foretell what a merged model will answer.

Over the distance of a fine-tuning a network is nearly linear in its weights, so a merge of weights answers much like
the same merge of outputs (compared by Wortsman et al., "Robust fine-tuning of zero-shot models", CVPR 2022):

    z ≈ z₀ + c·Σₜ (zₜ − z₀)

The right-hand side costs no forward pass.  It is no measurement and is shown nowhere: an estimate takes its argmax for
one more predictor, which the images really scored correct (see ``analysis.estimate``).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from lines_explorer.engine.pictures import Pair
from lines_explorer.recipe import Recipe

BYTES = 256 * 2**20
ROWS = 8192  # of which sums are formed at once
BASE = ""
HALF = 2  # bytes

Recorder = Callable[[Pair, np.ndarray, torch.Tensor], None]


@dataclass(frozen=True, eq=False)
class Foretold:
    """The outputs z₀ and zₜ by task, each half (N, classes), and the coefficients c that are tried."""

    base: Mapping[str, torch.Tensor]
    experts: Mapping[str, Sequence[torch.Tensor]]
    coefficients: tuple[float, ...]

    def right(self, task: str, labels: np.ndarray) -> np.ndarray:
        """Bool (K, N), whether argmax z₀ + c·Σₜ (zₜ − z₀) is the label, for each of the K coefficients."""
        found, truth = np.empty((len(self.coefficients), len(labels)), dtype=bool), torch.from_numpy(labels)
        for first in range(0, len(labels), ROWS):
            part = slice(first, first + ROWS)
            start = self.base[task][part].float()
            change = sum(expert[part].float() - start for expert in self.experts[task])
            for number, coefficient in enumerate(self.coefficients):
                found[number, part] = ((start + coefficient * change).argmax(dim=1) == truth[part]).numpy()
        return found


class _Kept:
    """Outputs of one model on one split of one task, and of which images they are there."""

    def __init__(self, images: int, classes: int) -> None:
        self.outputs = torch.zeros(images, classes, dtype=torch.half)
        self.seen = np.zeros(images, dtype=bool)

    @property
    def bytes(self) -> int:
        return self.outputs.numel() * HALF


class Outputs:
    """At most ``budget`` bytes of outputs in the main memory; the longest unused give way.  Not thread-safe."""

    def __init__(self, budget: int = BYTES) -> None:
        self._budget = budget
        self._kept: OrderedDict[tuple[str, Pair], _Kept] = OrderedDict()

    def recorder(self, recipe: Recipe, sizes: Mapping[Pair, int]) -> Recorder | None:
        """Takes (pair, rows, outputs (b, classes)) of a run of base or expert over the pairs; None for all others.

        ``sizes`` has every pair's number of images.
        """
        if (name := _end(recipe)) is None:
            return None

        def record(pair: Pair, rows: np.ndarray, outputs: torch.Tensor) -> None:
            if sizes[pair] * outputs.shape[1] * HALF > self._budget:
                return
            kept = self._kept.get((name, pair))
            if kept is None:
                kept = self._kept[name, pair] = _Kept(sizes[pair], outputs.shape[1])
                self._make_room()
            kept.outputs[torch.from_numpy(rows)] = outputs.to("cpu", torch.half)
            kept.seen[rows] = True

        return record

    def foretold(self, recipe: Recipe, mean_factor: float, tasks: Sequence[str], split: str) -> Foretold | None:
        """What a merge of outputs says about ``tasks``; None unless base and experts are known on all their images.

        ``mean_factor`` is λ̄, the mean of the recipe's factors over depth.  Of one expert c = λ̄ and the middles between
        it and both ends are tried, of T experts λ̄, λ̄/2 and λ̄/T.
        """
        known = {(name, task): self._whole(name, (task, split)) for name in (BASE, *recipe.tasks) for task in tasks}
        if not recipe.tasks or any(outputs is None for outputs in known.values()):
            return None
        many = len(recipe.tasks)
        coefficients = (mean_factor / 2, mean_factor, (mean_factor + 1) / 2 if many == 1 else mean_factor / many)
        experts = {task: [known[name, task] for name in recipe.tasks] for task in tasks}
        return Foretold({task: known[BASE, task] for task in tasks}, experts, coefficients)

    def _whole(self, name: str, pair: Pair) -> torch.Tensor | None:
        kept = self._kept.get((name, pair))
        if kept is None or not kept.seen.all():
            return None
        self._kept.move_to_end((name, pair))
        return kept.outputs

    def _make_room(self) -> None:
        while sum(one.bytes for one in self._kept.values()) > self._budget:
            self._kept.popitem(last=False)


def _end(recipe: Recipe) -> str | None:
    """The name of the expert or run that the recipe is, ``BASE`` for the base, None for anything edited or merged."""
    recipe = recipe.canonical()
    if not recipe.tasks:
        return BASE
    unedited = len(recipe.tasks) == 1 and recipe == Recipe(recipe.suite, recipe.tasks).canonical()
    return recipe.tasks[0] if unedited else None
