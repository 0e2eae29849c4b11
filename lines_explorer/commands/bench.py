"""``bench``: the engine's speed as ratios within one run, so that they hold on any machine."""

from __future__ import annotations

import os
import platform
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch

from lines_explorer import merging
from lines_explorer.commands.plain_loop import plain_point
from lines_explorer.commands.report import Report, table
from lines_explorer.engine import Engine, Store, single_task_recipes
from lines_explorer.engine.backend import write_scaled
from lines_explorer.engine.precision import FLOAT32
from lines_explorer.layers import layout_of, tensor_factors
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import Schedule, free, lines, single_task
from lines_explorer.suites import Suite

VIT_B_32 = 87_849_216  # floats of the image tower
BLOCKS = 12
SPLIT = "validation"
GOALS: dict[str, tuple[str, float]] = {
    "merge_vs_triad": ("at least", 0.8),
    "forward_vs_gemm": ("at least", 0.7),
    "exact_vs_forward": ("at most", 1.15),
    "speedup": ("at least", 30.0),
    "first_estimate_share": ("at most", 0.1),
    "near_estimate_share": ("at most", 0.2),
    "stored_ms": ("at most", 3.0),
    "memory_growth": ("at most", 0.01),
    "stored_delay": ("at most", 3.0),
}
Figures = dict[str, Any]


@dataclass(frozen=True)
class Effort:
    """How much is measured: ``repeats`` of which the median counts, ``points`` of the curve, random ``moves`` of the
    sliders, ``floats`` of the flat buffers, forward passes in ``batches``, simulated ``visitors``.
    """

    repeats: int = 5
    points: int = 11
    moves: int = 1000
    floats: int = VIT_B_32
    batches: tuple[int, ...] = (64, 128, 256, 512)
    visitors: int = 30


def bench(suite: Suite, device: str = "auto", effort: Effort | None = None, precision: str = FLOAT32) -> Report:
    """All figures of one suite on one device, as ratios, and which goals they reach.

    Shipped and earlier results are left aside: everything is computed in this run.
    """
    effort = effort or Effort()
    with tempfile.TemporaryDirectory(prefix="lines-explorer-bench-") as folder:
        store = Store(Path(folder) / "results.sqlite")
        engine = Engine(suite, device, store, shipped=False, precision=precision)
        target = next(iter(suite.experts))
        data = description(engine) | merge_vs_triad(engine.backend.device, effort.repeats, effort.floats)
        data |= forward_vs_gemm(engine, effort.repeats, effort.batches)
        data |= exact_vs_forward(engine, target, effort.repeats) | edit_vs_exact(engine, target, effort.repeats)
        data |= first_estimate(engine, target)
        data |= curve_against_loop(engine, target, effort.points, Path(folder))
        data |= near_estimate(engine, target, effort.repeats)
        data |= stored_ms(engine, target) | visitors(engine, effort.visitors)
        data |= thousand_moves(engine, effort.moves)
        store.close()
    data["reached"] = {name: reached(name, data[name]) for name in GOALS if data.get(name) is not None}
    return Report(data, bench_text(data))


def description(engine: Engine) -> Figures:
    """What was measured on what."""
    total = sum(len(engine.suite.images(task, SPLIT)[1]) for task in scored(engine.suite))
    return {
        "suite": engine.suite.name,
        "images": total,
        "device": str(engine.backend.device),
        "precision": engine.precision,
        "agreement": engine.agreement and engine.agreement.same / engine.agreement.n,
        "threads": torch.get_num_threads(),
        "fused": engine.backend.tower.fused,
        "torch": torch.__version__,
        "machine": platform.machine(),
    }


def merge_vs_triad(device: torch.device, repeats: int, floats: int = VIT_B_32) -> Figures:
    """Bandwidth of the in-place merge, a factor per block, over that of one plain a + s·b of the same bytes."""
    base, vector, out = (torch.full((floats,), value, device=device) for value in (0.5, 0.25, 0.0))
    ends = [floats * part // (BLOCKS + 2) for part in range(BLOCKS + 3)]
    parts = [slice(first, last) for first, last in zip(ends[:-1], ends[1:], strict=True)]

    def merge() -> None:
        for number, part in enumerate(parts, start=1):
            write_scaled(out[part], base[part], vector[part], 0.05 * number)

    merged, plain = alternating(merge, lambda: torch.add(base, vector, alpha=0.3, out=out), repeats, device)
    return {"merge_vs_triad": plain / merged, "merge_gb_per_s": 12e-9 * floats / merged, "merge_floats": floats}


def forward_vs_gemm(engine: Engine, repeats: int, batches: Sequence[int]) -> Figures:
    """Time of a forward pass's matrix products alone, back to back, over the pass's own; the best batch counts.

    None for a tower that is not open_clip's ViT, whose products are not known.
    """
    if not engine.backend.tower.steps:
        return {"forward_vs_gemm": None}
    tower, device = engine.backend.tower, engine.backend.device
    size, ratios = engine.suite.image_size, {}
    with torch.inference_mode():
        for batch in batches:
            pixels = torch.randn(batch, 3, size, size, device=device)
            work = products(engine, batch)
            forward, gemm = alternating(
                lambda pixels=pixels: tower.finish(tower.embed(pixels)),
                lambda work=work: [product() for product in work],
                repeats,
                device,
            )
            ratios[batch] = (gemm / forward, batch / forward)
    best = max(ratios, key=lambda batch: ratios[batch][0])
    return {"forward_vs_gemm": ratios[best][0], "best_batch": best, "images_per_second": ratios[best][1]}


def products(engine: Engine, batch: int) -> list[Callable[[], torch.Tensor]]:
    """Every matrix product of a forward pass of ``batch`` images, with the model's own weights and shapes."""
    state, device = engine.backend.state_dict(), engine.backend.device
    weights = {key.removeprefix("visual."): value.to(device) for key, value in state.items()}
    tokens, width = weights["positional_embedding"].shape
    heads = engine.backend.tower.heads
    patches = weights["conv1.weight"].flatten(1)
    pairs = [(batch * (tokens - 1), patches.T), (batch, weights["proj"])]
    kinds = ("attn.in_proj_weight", "attn.out_proj.weight", "mlp.c_fc.weight", "mlp.c_proj.weight")
    for block in range(engine.backend.layout.depth):
        pairs += [(batch * tokens, weights[f"transformer.resblocks.{block}.{kind}"].T) for kind in kinds]
    inputs = {(rows, matrix.shape[0]): torch.randn(rows, matrix.shape[0], device=device) for rows, matrix in pairs}
    work = [lambda x=inputs[rows, matrix.shape[0]], m=matrix: x @ m for rows, matrix in pairs]
    query, key, value = torch.randn(3, batch * heads, tokens, width // heads, device=device)
    attention = torch.randn(batch * heads, tokens, tokens, device=device)
    return work + [lambda: query @ key.mT, lambda: attention @ value] * engine.backend.layout.depth


def exact_vs_forward(engine: Engine, target: str, repeats: int) -> Figures:
    """Time of one exact point on all tasks over the forward pass alone of as many ready pixels in the same batches."""
    evaluator, tower, device = engine.evaluator, engine.backend.tower, engine.backend.device
    pairs = [(task, SPLIT) for task in scored(engine.suite)]
    total = description(engine)["images"]
    count = -(-total // evaluator.batch)
    sizes = [total * (batch + 1) // count - total * batch // count for batch in range(count)]
    size = engine.suite.image_size
    ready = {batch: torch.randn(batch, 3, size, size, device=device) for batch in set(sizes)}
    recipe = Recipe(engine.suite.name, (target,), schedule=lines(0.31, 0.64))

    def forward() -> None:
        with torch.inference_mode():
            for batch in sizes:
                tower.finish(tower.embed(ready[batch]))

    exact, alone = alternating(lambda: [*evaluator.run(recipe, pairs, keep=False)], forward, repeats, device)
    return {"exact_vs_forward": exact / alone, "exact_seconds": exact}


def edit_vs_exact(engine: Engine, target: str, repeats: int) -> Figures:
    """Time of an edit of the last block alone over that of a point of which nothing is known."""
    pairs = [(task, SPLIT) for task in scored(engine.suite)]
    depth, steps = engine.backend.layout.depth, iter(range(10_000))

    def edit() -> None:
        factors = (0.5,) * (depth - 1) + (0.5 + 1e-4 * next(steps),)
        [*engine.evaluator.run(Recipe(engine.suite.name, (target,), schedule=free(factors, 0.5)), pairs)]

    def exact() -> None:
        recipe = Recipe(engine.suite.name, (target,), schedule=lines(0.5, 0.1 + 1e-4 * next(steps)))
        [*engine.evaluator.run(recipe, pairs, keep=False)]

    edited, whole = alternating(edit, exact, repeats, engine.backend.device)
    engine.evaluator.activations.clear()
    return {"edit_vs_exact": edited / whole}


def curve_against_loop(engine: Engine, target: str, points: int, cache: Path) -> Figures:
    """A single-task curve on all tasks by the engine, and by the plain loop; the same answers image by image?"""
    suite, recipes = engine.suite, single_task_recipes(engine.suite.name, target, points=points)
    started = time.perf_counter()
    for recipe in recipes:
        engine.evaluate(recipe)
    between = time.perf_counter()
    plain = [plain_point(suite, recipe, SPLIT, cache / "datasets") for recipe in recipes]
    curve, loop = between - started, time.perf_counter() - between
    differences = 0
    for recipe, answers in zip(recipes, plain, strict=True):
        ours = engine.stored_answers(recipe)
        differences += sum(int((ours[task] != answers[task]).sum()) for task in answers)
    return {
        "points": points,
        "curve_seconds": curve,
        "reference_loop_seconds": loop,
        "speedup": loop / curve,
        "different_answers": differences,
    }


def first_estimate(engine: Engine, target: str, width: float = 0.03) -> Figures:
    """Share of the images after which the means of target and control are known to ± ``width``, where of the expert's
    points only the two ends are stored, which the page's denominators need anyway.
    """
    engine.zero_shot()
    engine.evaluate(Recipe(engine.suite.name, (target,), schedule=single_task(1.0)))
    return {"first_estimate_share": share_until(engine, target, lines(0.33, 0.42), width)}


def near_estimate(engine: Engine, target: str, repeats: int, width: float = 0.01) -> Figures:
    """The same to ± ``width`` between two points of a stored curve; the median of several places."""
    middles = [0.05 + 0.1 * (number % 10) for number in range(repeats)]
    return {"near_estimate_share": median(share_until(engine, target, single_task(g), width) for g in middles)}


def share_until(engine: Engine, target: str, schedule: Schedule, width: float) -> float:
    """Share of the images seen when both estimated means first have 95 % intervals of ± ``width`` or less."""
    for evaluation in engine.stream(Recipe(engine.suite.name, (target,), schedule=schedule)):
        found = engine.estimated_summary(evaluation, (target,))
        if all(mean is None or (mean.high - mean.low) / 2 <= width for mean in (found.target, found.control)):
            scores = evaluation.scores.values()
            return sum(score.n for score in scores) / sum(score.total for score in scores)
    return 1.0


def stored_ms(engine: Engine, target: str, asks: int = 200) -> Figures:
    """Milliseconds until a stored point is answered."""
    recipe = Recipe(engine.suite.name, (target,), schedule=single_task(1.0))
    engine.evaluate(recipe)
    return {"stored_ms": 1000 * median(stored_seconds(engine, recipe) for _ in range(asks))}


def stored_seconds(engine: Engine, recipe: Recipe) -> float:
    """Seconds until one stored point is answered."""
    started = time.perf_counter()
    engine.evaluate(recipe)
    return time.perf_counter() - started


def asked_again(engine: Engine, recipe: Recipe) -> float:
    """`stored_seconds`, after a pause like that between two moves of a slider."""
    time.sleep(0.002)
    return stored_seconds(engine, recipe)


def visitors(engine: Engine, count: int, distinct: int = 6, moves: int = 3) -> Figures:
    """``count`` visitors at once, each looking at ``moves`` of ``distinct`` new points, while stored points are asked.

    ``evaluated_once``: every distinct point reached the device once.  ``stored_delay``: the 95th percentile of a stored
    answer's time meanwhile over that without visitors.
    """
    target = next(iter(engine.suite.experts))
    stored = Recipe(engine.suite.name, (target,), schedule=single_task(1.0))
    engine.evaluate(stored)
    fresh = [Recipe(engine.suite.name, (target,), schedule=lines(0.201 + 0.01 * k, 0.3)) for k in range(distinct)]
    alone = [asked_again(engine, stored) for _ in range(100)]

    def look(visitor: int) -> None:
        for move in range(moves):
            for _ in engine.stream(fresh[(visitor + move) % distinct], visitor=visitor):
                pass

    threads = [threading.Thread(target=look, args=(visitor,)) for visitor in range(count)]
    meanwhile = []
    with counted_loads(engine) as loads:
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            meanwhile.append(asked_again(engine, stored))
    needed = {fresh[(visitor + move) % distinct] for visitor in range(count) for move in range(moves)}
    once = sorted(recipe.hash() for recipe in loads) == sorted(recipe.hash() for recipe in needed)
    return {"visitors": count, "evaluated_once": once, "stored_delay": percentile95(meanwhile) / percentile95(alone)}


@contextmanager
def counted_loads(engine: Engine) -> Iterator[list[Recipe]]:
    """The recipes that are written into the resident model meanwhile."""
    loads: list[Recipe] = []
    load = engine.backend.load
    engine.backend.load = lambda recipe: (loads.append(recipe), load(recipe))[1]
    try:
        yield loads
    finally:
        del engine.backend.load


def thousand_moves(engine: Engine, moves: int) -> Figures:
    """Growth of the process's memory over random slider moves, and whether the last weights are a fresh merge's."""
    chance = random.Random(0)
    names = tuple(engine.suite.experts)
    images = engine.suite.images(scored(engine.suite)[0], SPLIT)[0][:16]

    def move() -> Recipe:
        tasks = chance.choice((names[:1], names[-1:], names))
        recipe = Recipe(engine.suite.name, tasks, schedule=lines(chance.uniform(-1, 1), chance.uniform(-1, 1)))
        engine.backend.load(recipe)
        engine.backend.features(images)
        return recipe

    with engine.lock:
        for _ in range(max(10, moves // 10)):
            move()
        before = resident_bytes()
        last = [move() for _ in range(moves)][-1]
        growth = (resident_bytes() - before) / before if before else None
        return {"moves": moves, "memory_growth": growth, "weights_bit_equal": bit_equal(engine, last)}


def bit_equal(engine: Engine, recipe: Recipe) -> bool:
    """Whether the resident weights are those of a fresh merge of ``recipe``, bit for bit."""
    base = engine.suite.visual_base()
    vectors = [engine.suite.task_vector(task) for task in recipe.tasks]
    merged = merging.METHODS[recipe.method].merge(vectors, tasks=recipe.tasks, **dict(recipe.parameters))
    fresh = merging.apply(base, merged, tensor_factors(layout_of(base), recipe.schedule, recipe.rule))
    state = engine.backend.state_dict()
    return all(torch.equal(state[key].view(torch.int32), tensor.view(torch.int32)) for key, tensor in fresh.items())


def alternating(
    first: Callable[[], Any], second: Callable[[], Any], repeats: int, device: torch.device
) -> tuple[float, float]:
    """Median seconds of both, measured in turn after one warm-up each."""

    def seconds(work: Callable[[], Any]) -> float:
        started = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - started

    times = [(seconds(first), seconds(second)) for _ in range(repeats + 1)][1:]
    return median(pair[0] for pair in times), median(pair[1] for pair in times)


def scored(suite: Suite) -> list[str]:
    """The tasks that have the split that is measured on."""
    return [name for name, task in suite.tasks.items() if SPLIT in task.splits]


def percentile95(seconds: Sequence[float]) -> float:
    """The value that 95 % do not exceed."""
    return sorted(seconds)[min(len(seconds) - 1, int(0.95 * len(seconds)))]


def resident_bytes() -> int | None:
    """Memory of this process at the moment, in bytes; None where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return None


def reached(name: str, value: float) -> bool:
    """Whether a figure reaches its goal."""
    bound, goal = GOALS[name]
    return value >= goal if bound == "at least" else value <= goal


def bench_text(data: Figures) -> str:
    """The figures with a goal, then the others."""
    rows = [
        [name, f"{data[name]:.3g}", f"{bound} {goal:g}", "yes" if data["reached"][name] else "no"]
        for name, (bound, goal) in GOALS.items()
        if name in data["reached"]
    ]
    others = [[name, f"{value:.4g}" if isinstance(value, float) else str(value)] for name, value in data.items()]
    plain = [row for row in others if row[0] not in {*GOALS, "reached"}]
    return "\n\n".join([table(["figure", "value", "goal", "reached"], rows), table(["also", "value"], plain)])
