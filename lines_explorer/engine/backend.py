"""One resident model on one device. Nothing else touches the device.

The image tower's parameters are views into one flat float32 buffer, ordered by depth; the base and each merged task
vector are flat buffers in the same order.  Writing θ₀ + λ⁽ˡ⁾τ⁽ˡ⁾ is then one pass over a few long slices, always from
the untouched base: slider moves neither drift nor allocate.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import torch

from lines_explorer.engine.forward import Start, Tower, Watch
from lines_explorer.engine.precision import FLOAT32, Agreement, check_precision, computing
from lines_explorer.errors import ExplorerError
from lines_explorer.layers import layout_of, tensor_factors
from lines_explorer.merging import METHODS, norm_ratio, standard
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import LIMIT
from lines_explorer.suites import Suite
from lines_explorer.suites.needs import supply, unmet
from lines_explorer.suites.suite import VISUAL

ALIGNMENT = 16  # floats: every tensor starts on a 64-byte boundary
KEPT_VECTORS = 4
KEPT_ALPHAS = 10_000
LARGEST_FACTOR = 2 * LIMIT  # of α + βx

Parameters = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class _Merged:
    """A merged task vector and, where it is one expert stored as full weights, that expert; flat, on the device."""

    vector: torch.Tensor
    expert: torch.Tensor | None


class Backend:
    """The suite's model on ``device`` ("auto": a GPU if there is one), its weights float32.

    ``precision`` is that of the forward pass, one of `PRECISIONS`.  Not thread-safe: its owner (the Engine) serialises
    the calls, except for `alpha_from_norms`.
    """

    def __init__(self, suite: Suite, device: str = "auto", precision: str = FLOAT32) -> None:
        self.suite = suite
        self.device = _device(device)
        self.precision = check_precision(precision, self.device)
        base = suite.visual_base()
        self.layout = layout_of(base)
        floats = [key for key in base if base[key].is_floating_point()]
        self._keys = sorted(floats, key=lambda key: (self.layout.position[key], key))
        self._slices: dict[str, slice] = {}
        self._shapes = {key: base[key].shape for key in self._keys}
        end = 0
        for key in self._keys:
            self._slices[key] = slice(end, end + base[key].numel())
            end = -(-self._slices[key].stop // ALIGNMENT) * ALIGNMENT
        self._size = end
        self._base = self._flat(base)
        self._resident = self._base.clone()
        self._model = suite.build_model().to(self.device)
        self._bind()
        self.tower = Tower(self._model, fuse=self.precision == FLOAT32)
        self._merged: OrderedDict[tuple, _Merged] = OrderedDict()
        self._alphas: dict[tuple, float] = {}
        self._heads: dict[str, torch.Tensor] = {}
        mean, std = (torch.tensor(x, device=self.device).view(1, 3, 1, 1) * 255 for x in suite.normalisation())
        self._mean, self._std = mean, std
        self.recipe = Recipe.base(suite.name)

    @torch.inference_mode()
    def load(self, recipe: Recipe) -> None:
        """Writes θ₀ + λ⁽ˡ⁾·τ_MTL⁽ˡ⁾ into the resident model; the recipe without tasks restores the base.

        Exact at the ends: factor 0 gives the base's bits, factor 1 of a single expert stored as full weights gives
        the expert's.  Raises ExplorerError for an unknown task or method, and before anything is written.
        """
        self.check(recipe)
        if not recipe.tasks:
            self._resident.copy_(self._base)
        else:
            merged = self._merged_vector(recipe.tasks, recipe.method, recipe.parameters)
            factors = tensor_factors(self.layout, recipe.schedule, recipe.rule)
            for factor, part in self._runs(factors):
                expert = None if merged.expert is None else merged.expert[part]
                write_scaled(self._resident[part], self._base[part], merged.vector[part], factor, expert)
        self.recipe = recipe

    def check(self, recipe: Recipe) -> None:
        """Raises ExplorerError when the recipe is of another suite or names what this suite does not have."""
        if recipe.suite != self.suite.name:
            raise ExplorerError(f"The recipe is for suite {recipe.suite}, but {self.suite.name} is open.")
        for task in recipe.tasks:
            if task not in self.suite.fine_tuned:
                known = ", ".join(self.suite.fine_tuned)
                raise ExplorerError(f"Suite {self.suite.name} has no expert {task}; it has {known}.")
        if recipe.method not in METHODS:
            raise ExplorerError(f"There is no merge method {recipe.method}; choose one of {', '.join(METHODS)}.")
        if recipe.tasks:
            METHODS[recipe.method].check(recipe.parameters, len(recipe.tasks))
            if (sentence := unmet(self.suite, recipe.method, recipe.tasks)) is not None:
                raise ExplorerError(sentence)
        tensor_factors(self.layout, recipe.schedule, recipe.rule)

    def prefixes(self) -> tuple[tuple, ...]:
        """For each boundary 0…L a key of the loaded weights that act before it: equal keys, equal activations."""
        recipe, depth = self.recipe, self.layout.depth
        before, _ = recipe.schedule.outer_factors(depth, recipe.rule)
        factors = (before, *recipe.schedule.block_factors(depth)) if recipe.tasks else (0.0,) * (depth + 1)
        merged = (recipe.tasks, recipe.method, recipe.parameters)
        lengths = range(1, len(factors) + 1)
        return tuple((merged if any(factors[:length]) else None, factors[:length]) for length in lengths)

    @torch.inference_mode()
    def features(self, images: torch.Tensor) -> torch.Tensor:
        """Unit image features (b, D), float32, of uint8 images (b, 3, H, W), by the loaded weights."""
        return self._features(self.embed(images))

    @torch.inference_mode()
    def embed(self, images: torch.Tensor) -> Start:
        """Boundary 0 of uint8 images (b, 3, H, W): where a forward pass starts that nothing shortens."""
        pixels = images.to(self.device, non_blocking=True).float().sub_(self._mean).div_(self._std)
        with computing(self.precision, self.device):
            return self.tower.embed(pixels)

    @torch.inference_mode()
    def predict(
        self, start: Start, parts: Sequence[tuple[str, int]], watch: Watch | None = None,
        heard: Callable[[int, torch.Tensor], None] | None = None,
    ) -> torch.Tensor:  # fmt: skip
        """Predicted labels int64 (b,) of a mixed batch, left on the device: the argmax of feature · headᵀ.

        ``parts`` says (task, how many of its images follow), in order; where the features are not finite the label
        is −1.  Nothing here waits for the device.  ``heard`` is called with the number of each part and its outputs
        feature · headᵀ, float32 (b, classes).
        """
        features = self._features(start, watch)
        pieces = features.split([count for _, count in parts])
        outputs = [piece @ self.head(task).T for piece, (task, _) in zip(pieces, parts, strict=True)]
        for number, part in enumerate(outputs if heard else ()):
            heard(number, part)
        answers = torch.cat([part.argmax(dim=1) for part in outputs])
        return answers.masked_fill_(~features.isfinite().all(dim=1), -1)

    @torch.inference_mode()
    def agreement(self, parts: Sequence[tuple[str, torch.Tensor]]) -> Agreement:
        """How often the loaded model says the same as in float32 about (task, uint8 images (b, 3, H, W))."""
        sizes = [(task, len(images)) for task, images in parts]
        images, own = torch.cat([images for _, images in parts]), self.precision
        faster = self.predict(self.embed(images), sizes)
        try:
            self.precision = FLOAT32
            same = int((self.predict(self.embed(images), sizes) == faster).sum())
        finally:
            self.precision = own
        return Agreement(own, same, len(images))

    def make_room(self) -> None:
        """Gives up what can be computed again, because the device's memory ran out."""
        self._merged.clear()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()

    def head(self, task: str) -> torch.Tensor:
        """The task's head (classes, D) on the device."""
        if task not in self._heads:
            self._heads[task] = self.suite.head(task).to(self.device)
        return self._heads[task]

    def state_dict(self) -> dict[str, torch.Tensor]:
        """A CPU copy of the loaded weights under the suite's names: ``visual.*`` and ``logit_scale``."""
        flat = self._resident.cpu()
        floats = {key: flat[self._slices[key]].view(self._shapes[key]).clone() for key in self._keys}
        return {key: floats[key] if key in floats else value.clone() for key, value in self.suite.base().items()}

    def alpha_from_norms(self, tasks: Sequence[str], method: str = "sum", parameters: Parameters = ()) -> float:
        """α = (1/T)·‖Σₜτₜ‖₁ / ‖τ_MTL‖₁ over the image tower (METHOD: multi-task); kept once computed."""
        recipe = Recipe(self.suite.name, tuple(tasks), method, tuple(parameters))
        self.check(recipe)
        recipe = standard(recipe)
        key = (recipe.tasks, recipe.method, recipe.parameters)
        if (ratio := self._alphas.get(key)) is None:
            ratio = norm_ratio(*self._merge(*key))
            if len(self._alphas) >= KEPT_ALPHAS:
                self._alphas.clear()
            self._alphas[key] = ratio
        return ratio

    def _features(self, start: Start, watch: Watch | None = None) -> torch.Tensor:
        with computing(self.precision, self.device):
            return self.tower.finish(start, watch).float()

    def _bind(self) -> None:
        """Makes the model's image-tower parameters (and float buffers) views into the resident buffer."""
        bound = set()
        tower = self._model.visual
        for name, tensor in [*tower.named_parameters(), *tower.named_buffers()]:
            if (key := VISUAL + name) in self._slices:
                tensor.data = self._resident[self._slices[key]].view(self._shapes[key])
                bound.add(key)
        if unbound := sorted(set(self._keys) - bound):
            raise ExplorerError(f"The model has no tensor {unbound[0]} that the base of {self.suite.name} has.")

    def _flat(self, tensors: Mapping[str, torch.Tensor]) -> torch.Tensor:
        flat = torch.zeros(self._size)
        for key in self._keys:
            flat[self._slices[key]] = tensors[key].reshape(-1)
        return flat.to(self.device)

    def _runs(self, factors: Mapping[str, float]) -> list[tuple[float, slice]]:
        """Neighbouring tensors with one factor, joined: (factor, slice of the flat buffers)."""
        runs = [(factor, list(keys)) for factor, keys in groupby(self._keys, key=factors.__getitem__)]
        return [(factor, slice(self._slices[keys[0]].start, self._slices[keys[-1]].stop)) for factor, keys in runs]

    def _merge(self, tasks: Sequence[str], method: str, parameters: Parameters) -> tuple[list, dict]:
        vectors = [self.suite.task_vector(task) for task in tasks]
        measured = supply(self.suite, method, tasks)
        return vectors, METHODS[method].merge(vectors, tasks=tasks, statistics=measured, **dict(parameters))

    def _merged_vector(self, tasks: tuple[str, ...], method: str, parameters: Parameters) -> _Merged:
        key = (tasks, method, parameters)
        if key not in self._merged:
            vectors, merged = self._merge(tasks, method, parameters)
            expert = None
            untouched = len(tasks) == 1 and all(torch.equal(merged[k], vectors[0][k]) for k in self._keys)
            if untouched and not self.suite.is_delta(tasks[0]):
                expert = self._flat(self.suite.expert(tasks[0]))
            vector = self._flat(merged)
            self._require_bounded(vector, tasks)
            while len(self._merged) >= KEPT_VECTORS:
                self._merged.popitem(last=False)
            self._merged[key] = _Merged(vector, expert)
        self._merged.move_to_end(key)
        return self._merged[key]

    def _require_bounded(self, vector: torch.Tensor, tasks: tuple[str, ...]) -> None:
        """Refuses a merged task vector with which some allowed factor could leave float32."""
        if not bool(torch.isfinite(self._base.abs() + LARGEST_FACTOR * vector.abs()).all()):
            bad = next(k for k in self._keys if not torch.isfinite(LARGEST_FACTOR * vector[self._slices[k]]).all())
            raise ExplorerError(f"The merged task vector of {', '.join(tasks)} is not finite in tensor {bad}.")


def write_scaled(
    target: torch.Tensor, base: torch.Tensor, vector: torch.Tensor, factor: float, expert: torch.Tensor | None = None
) -> None:
    """θ₀ + λτ into ``target``, in one pass; exactly ``base`` at λ = 0 and exactly ``expert``, if given, at λ = 1."""
    if factor == 0:
        target.copy_(base)
    elif factor == 1 and expert is not None:
        target.copy_(expert)
    else:
        torch.add(base, vector, alpha=factor, out=target)


def _device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as fault:
        raise ExplorerError(
            f"The device {name} cannot be used ({str(fault).splitlines()[0]}); try auto or cpu."
        ) from fault
    return device
