"""Texts of the command line → validated tasks, splits, schedules and recipes of one suite."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lines_explorer.errors import ExplorerError
from lines_explorer.merging import METHODS
from lines_explorer.recipe import Recipe, task_of
from lines_explorer.schedule import CURVES, LIMIT, RULES, Schedule, constant, free
from lines_explorer.sweep.settings import GREEDY, UNIFORM, greedy_soup

if TYPE_CHECKING:
    from lines_explorer.engine import Engine
    from lines_explorer.suites import Suite

SPLITS = {"val": "validation", "validation": "validation", "test": "test"}


@dataclass(frozen=True)
class ScheduleOptions:
    """The schedule as asked for: α and β over a curve, or one ``scale``, or one factor per block."""

    kind: str | None = None
    alpha: float | None = None
    beta: float | None = None
    scale: float | None = None
    factors: str | None = None
    rest: float | None = None


def choose(what: str, name: str, valid: Iterable[str]) -> str:
    """``name`` if it is one of ``valid``; otherwise an ``ExplorerError`` that lists them."""
    names = list(valid)
    if name not in names:
        raise ExplorerError(f"Unknown {what} {name!r}: choose from {', '.join(names)}.")
    return name


def parse_names(option: str, text: str, valid: Sequence[str]) -> tuple[str, ...]:
    """``"a,b"`` → ``("a", "b")``, each one of ``valid`` and named once; ``"all"`` → all of them."""
    if text.strip() == "all" and "all" not in valid:
        return tuple(valid)
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise ExplorerError(f"{option} {text!r} has an empty name: write names separated by commas, such as a,b.")
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ExplorerError(f"{option} names {', '.join(repeated)} twice: name each task once.")
    return tuple(choose("task", name, valid) for name in names)


def parse_experts(suite: Suite, text: str) -> tuple[str, ...]:
    """Names of experts and of runs (``digits/1``); ``"all"`` → all experts, without further runs."""
    if text.strip() == "all" and "all" not in suite.experts:
        return tuple(suite.experts)
    return parse_names("--tasks", text, tuple(suite.fine_tuned))


def parse_split(suite: Suite, text: str) -> str:
    """``val``, ``test`` or a shifted test set of the suite, as the engine calls it."""
    if text in SPLITS:
        return SPLITS[text]
    shifts = sorted({shift for task in suite.tasks.values() for shift in task.shifts})
    return choose("split", text, ["val", "test", *shifts])


def split_name(split: str) -> str:
    """The command line's word for the engine's split: ``validation`` → ``val``."""
    return "val" if split == "validation" else split


def tasks_with(suite: Suite, split: str) -> tuple[str, ...]:
    """Tasks of the suite that have ``split`` (a regular split, or a shifted test set)."""
    return tuple(name for name, task in suite.tasks.items() if split in task.splits)


def parse_score_on(suite: Suite, text: str | None, split: str) -> tuple[str, ...]:
    """The tasks to score: those named, or every task that has the split."""
    available = tasks_with(suite, split)
    if text is None:
        return available
    names = parse_names("--score-on", text, tuple(suite.tasks))
    missing = [name for name in names if name not in available]
    if missing:
        raise ExplorerError(
            f"No split {split_name(split)!r} for {', '.join(missing)}: tasks that have it are {', '.join(available)}."
        )
    return names


def number(option: str, value: float) -> float:
    """``value`` if it is finite and between −10 and 10, otherwise an ``ExplorerError`` naming the option."""
    if not math.isfinite(value) or abs(value) > LIMIT:
        raise ExplorerError(f"{option} is {value:g}: give a finite number between -{LIMIT:g} and {LIMIT:g}.")
    return value


def parse_factors(text: str, depth: int) -> tuple[float, ...]:
    """``"f1,…,fL"`` → L numbers, one per block of a base with ``depth`` = L blocks."""
    try:
        factors = tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise ExplorerError(f"--factors {text!r} is not a list of numbers separated by commas.") from error
    if len(factors) != depth:
        raise ExplorerError(f"--factors has {len(factors)} numbers, but the base has {depth} blocks: give {depth}.")
    return tuple(number(f"--factors, block {block}:", factor) for block, factor in enumerate(factors, start=1))


def parse_schedule(options: ScheduleOptions, depth: int, default_alpha: Callable[[], float]) -> Schedule:
    """The one schedule the options describe; options of two different kinds contradict each other.

    Without ``--alpha`` the first block's factor is ``default_alpha()``; without ``--beta`` β is 0.
    """
    kinds = {
        "--scale": [options.scale],
        "--factors": [options.factors, options.rest],
        "--alpha/--beta/--schedule": [options.alpha, options.beta, options.kind],
    }
    given = [name for name, values in kinds.items() if any(value is not None for value in values)]
    if len(given) > 1:
        raise ExplorerError(f"{' and '.join(given)} contradict each other: give one of them.")
    if options.scale is not None:
        return constant(number("--scale", options.scale))
    if options.factors is not None:
        rest = number("--rest", 1.0 if options.rest is None else options.rest)
        return free(parse_factors(options.factors, depth), rest)
    if options.rest is not None:
        raise ExplorerError("--rest goes with --factors: give both.")
    kind = choose("schedule", options.kind or "lines", CURVES)
    alpha = number("--alpha", default_alpha() if options.alpha is None else options.alpha)
    return Schedule(kind, alpha, number("--beta", 0.0 if options.beta is None else options.beta))


def parse_recipe(
    engine: Engine, tasks: str, method: str, options: ScheduleOptions, rule: str = "reference", soup: str | None = None
) -> tuple[Recipe, str | None]:
    """The recipe the options describe, and a note for people when α was chosen for them.

    One expert without ``--alpha`` keeps α = 1 (the expert itself when β = 0).  Several experts take the
    norm ratio (1/T for a plain sum), as the paper's multi-task setting does.  ``soup``: the mean of runs of one task,
    all of them (uniform) or those that help on validation (greedy), α = 1 unless given.
    """
    suite = engine.suite
    names = parse_experts(suite, tasks)
    choose("method", method, METHODS)
    choose("layer rule", rule, RULES)
    notes: list[str] = []
    if soup is not None:
        method, names = "average", parse_soup(engine, names, method, soup)
        notes += [f"The greedy soup keeps {', '.join(names)}."] if soup == GREEDY else []

    def default_alpha() -> float:
        if len(names) == 1 or soup is not None:
            return 1.0
        alpha = engine.alpha_from_norms(names, method)
        notes.append(f"--alpha not given: {alpha:.4g}, the norm ratio of {len(names)} experts under {method!r}.")
        return alpha

    schedule = parse_schedule(options, engine.backend.layout.depth, default_alpha)
    recipe = Recipe(suite=suite.name, tasks=names, method=method, schedule=schedule, rule=rule)
    return recipe, notes[0] if notes else None


def parse_soup(engine: Engine, names: Sequence[str], method: str, soup: str) -> tuple[str, ...]:
    """The runs that a soup keeps; all must be runs of one task."""
    choose("soup", soup, (UNIFORM, GREEDY))
    if method not in ("sum", "average"):
        raise ExplorerError(f"--soup averages its runs, --method {method} does not: leave one of them out.")
    if len(tasks := sorted(set(map(task_of, names)))) > 1:
        raise ExplorerError(f"A soup is of runs of one task, not of {', '.join(tasks)}: name runs such as a,a/1,a/2.")
    return tuple(names) if soup == UNIFORM else greedy_soup(engine, tasks[0], names)
