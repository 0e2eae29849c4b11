"""Do 95 % intervals hold the truth 95 times in 100?  Simulated on real right answers of the embedded suite.

They are kept in a small file.  To make it again after the suite has changed, from the repository's root:

    PYTHONPATH=. python tests/analysis/test_coverage.py [RESULTS.sqlite]

What that result store has not kept is evaluated on the CPU and kept there.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from lines_explorer.analysis.estimate import Estimates, Sample, allocation, estimate_accuracies, stratified_order
from lines_explorer.engine.estimating import importance

FILE = Path(__file__).resolve().parents[1] / "data" / "pocket_validation.npz"
SUITE, SPLIT = "pocket", "validation"
CURVES = (("emoji", "lines"), ("letters", "constant"), ("digits", "lines"), ("flags", "constant"))
SHARES = (0.05, 0.1, 0.2, 0.4, 0.7)
NEIGHBOURS = {
    "plain": (),
    "one beside": (-1,),
    "both sides": (-1, 1),
    "two on each side": (-1, 1, -2, 2),
    "ends of the curve": ("expert", "base"),
}
ROUNDS, ORDERS = 400, 40
NOISE = 3 * (0.95 * 0.05 / ROUNDS) ** 0.5  # of a mean's coverage in one cell


@cache
def curves() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """By task: labels int (N,), and right answers bool (curves, 11, N), the expert's point first, the base's last."""
    with np.load(FILE) as file:
        labels = {name.removeprefix("labels/"): file[name].astype(int) for name in file if name.startswith("labels/")}
        packed = {task: file[f"right/{task}"] for task in labels}
    right = {task: np.unpackbits(packed[task], axis=-1, count=len(labels[task])).astype(bool) for task in labels}
    return labels, right


@cache
def orders() -> dict[str, list[np.ndarray]]:
    labels, _ = curves()
    return {task: [stratified_order(labels[task], seed) for seed in range(ORDERS)] for task in labels}


def looked_at(rng: np.random.Generator, images: dict[str, int], kind: str) -> tuple[Estimates, dict[str, float]]:
    """A random point of a random curve after so many images of each task in a random order; and the truth."""
    labels, right = curves()
    most = max([1, *(abs(step) for step in NEIGHBOURS[kind] if isinstance(step, int))])
    curve, point = rng.integers(len(CURVES)), rng.integers(most, 11 - most)
    place = {"expert": 0, "base": 10}
    known = [place[step] if step in place else point + step for step in NEIGHBOURS[kind]]
    samples = {}
    for task, bits in right.items():
        seen = orders()[task][rng.integers(ORDERS)][: images[task]]
        samples[task] = Sample(labels[task], seen, bits[curve, point, seen], bits[curve, known])
    return estimate_accuracies(samples), {task: float(bits[curve, point].mean()) for task, bits in right.items()}


def simulated(kind: str, images: dict[str, int]) -> np.ndarray:
    """Tasks covered, mean covered, half width of the mean's interval; the mean's error and its standard error."""
    rng = np.random.default_rng(0)
    rounds = []
    for _ in range(ROUNDS):
        found, truth = looked_at(rng, images, kind)
        mean, middle = found.mean(), np.mean(list(truth.values()))
        tasks = {task: found.task(task) for task in truth}
        covered = np.mean([tasks[task].low <= truth[task] <= tasks[task].high for task in truth])
        rounds.append((covered, mean.low <= middle <= mean.high, (mean.high - mean.low) / 2, mean.value - middle))
    means, spread = np.mean(rounds, axis=0), np.std([error for *_, error in rounds])
    share = sum(images.values()) / sum(map(len, curves()[0].values()))
    print(f"{kind:18} {share:4.0%}  task {means[0]:.3f}  mean {means[1]:.3f}  ±{100 * means[2]:.2f} points"
          f"  error {100 * means[3]:+.2f} ± {100 * spread:.2f}")  # fmt: skip
    return np.array([*means, spread * (1 / ROUNDS + 1 / ORDERS) ** 0.5])


@cache
def proportional(kind: str) -> np.ndarray:
    """``simulated`` after each of SHARES of every task's images."""
    labels, _ = curves()
    return np.array([simulated(kind, {t: max(1, round(s * len(labels[t]))) for t in labels}) for s in SHARES])


@pytest.mark.parametrize("kind", NEIGHBOURS)
def test_intervals_cover(kind: str) -> None:
    """With neighbours and few images a single task mostly shows no miss; its interval is then on the safe side."""
    tasks, mean, _, error, standard = proportional(kind).T
    assert 0.93 <= mean.mean() <= 0.975, mean
    assert 0.93 - NOISE <= mean.min() and mean.max() <= 0.97 + NOISE, mean
    assert 0.93 <= tasks.mean() and tasks[2:].mean() <= 0.97, tasks
    assert 0.925 <= tasks.min() and tasks.max() <= 0.99, tasks
    assert (np.abs(error) <= 3.5 * standard).all(), error


@pytest.mark.parametrize(("kind", "share", "points"), [("plain", 0.1, 0.033), ("both sides", 0.1, 0.01)])
def test_a_tenth_of_the_images_is_enough_for_a_first_answer(kind: str, share: float, points: float) -> None:
    labels, _ = curves()
    sizes = [len(rows) for rows in labels.values()]
    images = dict(zip(labels, allocation(sizes, round(share * sum(sizes))), strict=True))
    tasks, mean, half, _, _ = simulated(kind, images)
    assert tasks >= 0.93 and mean >= 0.9
    assert half <= points


@pytest.mark.parametrize(("kind", "share", "points"), [("both sides", 0.05, 0.03), ("both sides", 0.2, 0.01)])
def test_target_and_control_are_known_soon_as_the_engine_shares_the_images_out(
    kind: str, share: float, points: float
) -> None:
    """One target among ten tasks gets half of the images: its own mean and the control's are known equally soon."""
    labels, _ = curves()
    sizes, rng, halves = [len(rows) for rows in labels.values()], np.random.default_rng(1), []
    for number in range(60):
        target = list(labels)[number % len(labels)]
        weights = importance((target,), list(labels))
        images = allocation(sizes, round(share * sum(sizes)), list(weights[task] for task in labels))
        found, _ = looked_at(rng, dict(zip(labels, images, strict=True)), kind)
        means = found.task(target), found.mean([task for task in labels if task != target])
        halves.append([(mean.high - mean.low) / 2 for mean in means])
    print(f"{kind} {share:.0%}: target, control ±{100 * np.mean(halves, axis=0)} points")
    assert (np.mean(halves, axis=0) <= points).all()


def export(store_path: str | None) -> None:
    """Writes FILE from what the suite ships and its result store."""
    from lines_explorer.engine.backend import Backend
    from lines_explorer.engine.curves import constant_recipes, single_task_recipes
    from lines_explorer.engine.evaluator import Evaluator
    from lines_explorer.engine.store import Store
    from lines_explorer.suites import open_suite

    suite, store = open_suite(SUITE), Store(store_path)
    store.seed(suite.folder / "results" / f"{SPLIT}.json", suite.hash)
    evaluator = cache(lambda: Evaluator(Backend(suite, "cpu")))

    def right_answers(recipe, task: str) -> np.ndarray:
        row = store.get(suite.hash, recipe.hash(), task, SPLIT)
        if row is None or row.bits is None:
            *_, last = evaluator().run(recipe, [(task, SPLIT)])
            store.put(suite.hash, recipe.hash(), task, SPLIT, last.bits[task, SPLIT], last.seconds)
            return last.bits[task, SPLIT]
        return row.right()

    arrays = {}
    for task in suite.tasks:
        arrays[f"labels/{task}"] = suite.images(task, SPLIT)[1].numpy().astype(np.uint8)
        lines = [(single_task_recipes(SUITE, t) if k == "lines" else constant_recipes(SUITE, t)) for t, k in CURVES]
        bits = np.array([[right_answers(recipe, task) for recipe in line] for line in lines])
        arrays[f"right/{task}"] = np.packbits(bits, axis=-1)
    FILE.parent.mkdir(exist_ok=True)
    np.savez_compressed(FILE, **arrays)
    print(f"{FILE}: {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    export(sys.argv[1] if len(sys.argv) > 1 else None)
