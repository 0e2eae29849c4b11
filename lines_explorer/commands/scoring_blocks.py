"""``curve --schedule blocks``: one block of an expert's task vector after the other is scaled to 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from lines_explorer.analysis import Knockout, knockout
from lines_explorer.commands.curves import MOST_POINTS
from lines_explorer.commands.options import choose, split_name, tasks_with
from lines_explorer.commands.report import Report, percent, table
from lines_explorer.commands.scoring import means, score
from lines_explorer.engine import block_recipes
from lines_explorer.errors import ExplorerError
from lines_explorer.sweep.measuring import answers

if TYPE_CHECKING:
    from lines_explorer.engine import Engine
    from lines_explorer.recipe import Recipe

BLOCKS = "blocks"
POINTS = 5


def blocks(engine: Engine, target: str, points: int | None, split: str, method: str = "sum") -> Report:
    """How far each block's part of the target's task vector can be scaled to 0 before target accuracy drops.

    A row per block, and one for the tensors outside the blocks: target and control accuracy (fractions) at every
    scale, and the smallest scale that costs the target nothing measurable on the same pictures.  What was scored is in
    the store: an interrupted run begun again only does what is missing.
    """
    points = POINTS if points is None else points
    choose("target", target, engine.suite.experts)
    if method != "sum":
        raise ExplorerError("--schedule blocks scales the blocks of one expert's task vector: leave --method out.")
    if not 2 <= points <= MOST_POINTS:
        raise ExplorerError(f"--points is {points}: give a whole number from 2 to {MOST_POINTS}.")
    recipes = block_recipes(engine.suite.name, target, engine.backend.layout.depth, points)
    rows = [block_row(engine, target, place, recipes[place], split) for place in [*list(recipes)[1:], 0]]
    data = {"suite": engine.suite.name, "target": target, "schedule": BLOCKS, "split": split_name(split)}
    return Report(data | {"blocks": rows}, blocks_text(data | {"blocks": rows}))


def block_row(
    engine: Engine, target: str, place: int, scaled: Sequence[tuple[float, Recipe]], split: str
) -> dict[str, Any]:
    """One block (0: outside the blocks) at all its scales."""
    score_on, right, curve = tasks_with(engine.suite, split), [], []
    for scale, recipe in scaled:
        label = f"block {place}" if place else "outside the blocks"
        evaluation = score(engine, recipe, score_on, split, label=f"{label}, scale {scale:.3g}")
        right.append((scale, answers(engine, recipe, (target,), split)[target]))
        curve.append({"scale": scale} | means(engine.summary(evaluation, (target,))))
    found = knockout(right)
    for point, difference in zip(curve, found.differences, strict=True):
        point["difference"] = {"value": difference.value, "low": difference.low, "high": difference.high}
        point["difference"] |= {"p": difference.p, "within_noise": difference.within_noise}
    return {"block": place or None, "lowest": found.lowest, "safe": safe(found), "points": curve}


def safe(found: Knockout) -> bool:
    """Whether the block can be left out altogether."""
    return found.lowest == found.scales[-1] == 0


def blocks_text(data: dict[str, Any]) -> str:
    """The scales as columns of target accuracy in percent, then what leaving the block out does, and down to where."""
    rows = []
    for row in data["blocks"]:
        last = row["points"][-1]
        ends = [f"{100 * last['difference'][end]:+.1f}" for end in ("value", "low", "high")]
        cells = [percent(point["target"]["accuracy"]) for point in row["points"]]
        control = [percent((point["control"] or {}).get("accuracy")) for point in (row["points"][0], last)]
        name = "outside" if row["block"] is None else str(row["block"])
        rows.append([name, *cells, f"{ends[0]} [{ends[1]}, {ends[2]}]", " → ".join(control), f"{row['lowest']:.3g}"])
    scales = [f"s = {point['scale']:.3g}" for point in data["blocks"][0]["points"]]
    header = ["block", *scales, "change at 0", "control", "down to"]
    title = f"{data['target']} of {data['suite']}, one block's task vector scaled by s, {data['split']} split, target %"
    note = "down to: the smallest s without a measurable loss of target accuracy (same pictures, 95 %), there and above"
    return f"{title}\n{table(header, rows)}\n{note}"
