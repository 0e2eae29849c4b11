"""The evaluations that ship with a suite, and its card, written from them."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from lines_explorer.analysis import SingleTaskPoint, multi_task_choice, single_task_choice
from lines_explorer.engine import Engine, Evaluation
from lines_explorer.engine.curves import constant_recipes, multi_task_recipes, reversed_recipe, single_task_recipes
from lines_explorer.engine.results import write_results
from lines_explorer.recipe import Recipe
from lines_explorer.schedule import constant
from lines_explorer.sweep.family import CONSTANT, LINES, Family, negation_family, robust_family, soup_family
from lines_explorer.sweep.runs import runs

SHIPPED = ("sum", "average")
"""Merge methods whose lines ship with the suite; the others are evaluated when they are asked for."""


def validation_recipes(engine: Engine) -> Iterator[Recipe]:
    """Base; both single-task lines of every expert, and LiNeS in reverse order; all experts merged.

    Of the merges, both multi-task lines of the shipped methods.
    """
    suite = engine.suite.name
    experts = tuple(engine.suite.experts)
    yield Recipe.base(suite)
    for task in experts:
        yield from single_task_recipes(suite, task)
        yield from constant_recipes(suite, task)
        yield reversed_recipe(suite, task, engine.backend.layout.depth)
    for method in SHIPPED:
        yield from multi_task_recipes(suite, experts, method, engine.alpha_from_norms(experts, method))
        yield from multi_task_recipes(suite, experts, method, None)
    yield from mode_recipes(engine)


def mode_recipes(engine: Engine) -> Iterator[Recipe]:
    """What the page’s further modes draw: every task subtracted; runs and uniform soup of the tasks with several."""
    suite = engine.suite.name
    for task, names in runs(engine.suite).items():
        for kind in (CONSTANT, LINES):
            yield from _line(negation_family(suite, task, kind))
            if len(names) > 1:
                yield from _line(soup_family(suite, names, kind))
        if len(names) > 1:
            yield from (Recipe(suite, (name,), schedule=constant(1.0)) for name in names)


def _line(family: Family) -> Iterator[Recipe]:
    return map(family.recipe, family.grid)


def shifted_recipes(engine: Engine, task: str) -> list[Recipe]:
    """What is scored on a task's shifted sets besides its chosen points: both lines of robust fine-tuning."""
    lines = [_line(robust_family(engine.suite.name, task, kind)) for kind in (CONSTANT, LINES)]
    return [recipe for line in lines for recipe in line]


def chosen_recipes(engine: Engine) -> dict[str, Recipe]:
    """What the protocol chooses on validation: per expert and line, and per method with and without LiNeS."""
    suite = engine.suite.name
    experts = tuple(engine.suite.experts)
    chosen = {}
    for task in experts:
        chosen[f"{task}: LiNeS"] = best_single(engine, single_task_recipes(suite, task))
        chosen[f"{task}: constant"] = best_single(engine, constant_recipes(suite, task))
    for method in SHIPPED:
        alpha = engine.alpha_from_norms(experts, method)
        chosen[f"{method} of all: LiNeS"] = best_multi(engine, multi_task_recipes(suite, experts, method, alpha))
        chosen[f"{method} of all: constant"] = best_multi(engine, multi_task_recipes(suite, experts, method, None))
    return chosen


def best_single(engine: Engine, recipes: Sequence[Recipe]) -> Recipe:
    """The single-task point with the largest 2·target + control, both normalized, on validation."""
    points = []
    for recipe in recipes:
        summary = engine.summary(engine.evaluate(recipe), recipe.tasks)
        alpha = recipe.schedule.alpha
        points.append(SingleTaskPoint(alpha, summary.target_normalized, summary.control_normalized))
    return recipes[single_task_choice(points)]


def best_multi(engine: Engine, recipes: Sequence[Recipe]) -> Recipe:
    """The multi-task point with the largest mean normalized accuracy on validation."""
    points = []
    for recipe in recipes:
        summary = engine.summary(engine.evaluate(recipe), recipe.tasks)
        coefficient = recipe.schedule.beta or recipe.schedule.alpha
        points.append((coefficient, summary.target_normalized))
    return recipes[multi_task_choice(points)]


def compute(engine: Engine) -> None:
    """Evaluate what ships and write ``results/*.json``: validation lines; base, experts and chosen points on test.

    Shifted sets are scored for the base and for the shifted task's expert, edited and not, and along both lines of
    robust fine-tuning.  Goes on from the store when it was interrupted.
    """
    folder = engine.suite.folder / "results"
    folder.mkdir(exist_ok=True)
    whole = dict.fromkeys(validation_recipes(engine))
    validation = list(_evaluated(engine, whole, "validation"))
    validation += [
        engine.evaluate(recipe, [task])
        for task in engine.suite.experts if engine.suite.tasks[task].shifts
        for recipe in dict.fromkeys(shifted_recipes(engine, task)) if recipe not in whole
    ]  # fmt: skip
    chosen = chosen_recipes(engine)
    experts = {task: Recipe(engine.suite.name, (task,), schedule=constant(1.0)) for task in engine.suite.experts}
    wanted = dict.fromkeys([Recipe.base(engine.suite.name), *experts.values(), *chosen.values()])
    test = list(_evaluated(engine, wanted, "test"))
    _write(engine, folder / "validation.json", "validation", validation)
    _write(engine, folder / "test.json", "test", test)
    for task, expert in experts.items():
        for shift in engine.suite.tasks[task].shifts:
            recipes = [Recipe.base(engine.suite.name), expert, chosen[f"{task}: LiNeS"], chosen[f"{task}: constant"]]
            recipes += shifted_recipes(engine, task)
            rows = [engine.evaluate(recipe, [task], shift) for recipe in dict.fromkeys(recipes)]
            _write(engine, folder / f"{task}-{shift}.json", shift, rows)


def _write(engine: Engine, path: Path, split: str, evaluations: Sequence[Evaluation]) -> None:
    write_results(path, engine.suite.hash, split, evaluations, engine.stored_answers, hash_of=engine.suite.hash_of)


def _evaluated(engine: Engine, recipes: dict[Recipe, None], split: str) -> Iterator[Evaluation]:
    started = time.time()
    for count, recipe in enumerate(recipes, 1):
        yield engine.evaluate(recipe, None, split)
        if count % 10 == 0 or count == len(recipes):
            print(f"{split} {count}/{len(recipes)} {time.time() - started:.0f} s", file=sys.stderr, flush=True)


def write_card(engine: Engine, path: Path, training: str) -> None:
    """``CARD.md``: what the suite is, how it was trained (``training``, Markdown), and its measured accuracies."""
    lines = [f"# {engine.suite.title}", "", training.strip(), ""]
    for split in ("validation", "test"):
        lines += [f"## {split.capitalize()} accuracy", "", *_task_table(engine, split), ""]
        lines += [*_merge_table(engine, split), ""]
    lines += ["## Shifted sets", "", *_shift_table(engine), ""]
    path.write_text("\n".join(lines), encoding="utf-8")


def _task_table(engine: Engine, split: str) -> list[str]:
    """Per task: chance, base, expert, and the LiNeS and constant points chosen on validation, target and control."""
    chosen = chosen_recipes(engine)
    base = engine.zero_shot(split)
    columns = ["task", "classes", "n", "chance", "zero-shot", "expert", "its control"]
    columns += ["LiNeS (α, β)", "its control", "constant λ", "its control"]
    rows = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    sums: list[list[float]] = []
    for task in engine.suite.experts:
        zero = base.scores[task].accuracy
        points = [Recipe(engine.suite.name, (task,), schedule=constant(1.0))]
        points += [chosen[f"{task}: LiNeS"], chosen[f"{task}: constant"]]
        numbers = [zero.value]
        for recipe in points:
            summary = engine.summary(engine.evaluate(recipe, None, split), [task])
            numbers += [summary.target.value, summary.control.value]
        sums.append(numbers)
        classes = len(engine.suite.tasks[task].classes)
        lines, scale = points[1].schedule, points[2].schedule.alpha
        cells = [_percent(value) for value in numbers]
        cells[3] += f" ({lines.alpha:g}, {lines.beta:g})"
        cells[5] += f" ({scale:g})"
        title = engine.suite.tasks[task].title
        rows.append(f"| {title} | {classes} | {zero.n} | {_percent(1 / classes)} | {' | '.join(cells)} |")
    means = [_percent(sum(column) / len(column)) for column in zip(*sums, strict=True)]
    return [*rows, f"| **mean** | | | | {' | '.join(means)} |"]


def _merge_table(engine: Engine, split: str) -> list[str]:
    experts = tuple(engine.suite.experts)
    chosen = chosen_recipes(engine)
    rows = ["| merge of all experts | without LiNeS (λ) | with LiNeS (α, β) |", "|---|---|---|"]
    for method in SHIPPED:
        cells = []
        for line in ("constant", "LiNeS"):
            recipe = chosen[f"{method} of all: {line}"]
            summary = engine.summary(engine.evaluate(recipe, None, split), experts)
            schedule = recipe.schedule
            at = f"{schedule.alpha:.3g}" + (f", {schedule.beta:g}" if line == "LiNeS" else "")
            cells.append(f"{_percent(summary.target.value)}, normalized {_percent(summary.target_normalized)} ({at})")
        rows.append(f"| {method} | {' | '.join(cells)} |")
    return rows


def _shift_table(engine: Engine) -> list[str]:
    rows = ["| task | shifted set | n | zero-shot | expert | LiNeS | constant λ |", "|---|---|---|---|---|---|---|"]
    chosen = chosen_recipes(engine)
    for task in engine.suite.experts:
        recipes = [Recipe.base(engine.suite.name), Recipe(engine.suite.name, (task,), schedule=constant(1.0))]
        recipes += [chosen[f"{task}: LiNeS"], chosen[f"{task}: constant"]]
        for shift, title in engine.suite.tasks[task].shifts.items():
            scores = [engine.evaluate(recipe, [task], shift).scores[task] for recipe in recipes]
            cells = " | ".join(_percent(score.accuracy.value) for score in scores)
            rows.append(f"| {engine.suite.tasks[task].title} | {title} | {scores[0].n} | {cells} |")
    return rows


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
