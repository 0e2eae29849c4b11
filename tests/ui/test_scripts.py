"""The page's pure scripts, without a page: views, previews, clicks, history, trail, shapes, CSV."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import lines_explorer.ui
from lines_explorer.ui.modes import MODES, knob_of

STATIC = Path(lines_explorer.ui.__file__).parent / "static"
PURE = ("state.js", "history.js", "free.js", "parameters.js", "tools.js")


def node() -> str:
    """A JavaScript engine: the system's, or the one that Playwright brings."""
    playwright = pytest.importorskip("playwright")
    return shutil.which("node") or str(Path(playwright.__file__).parent / "driver" / "node")


def run(expression: str, **given):
    """The value of a JavaScript expression after the pure scripts were loaded; ``given`` are its variables."""
    return run_files(PURE, expression, **given)


def run_files(names, expression: str, **given):
    """The same after other scripts."""
    scripts = [(STATIC / name).read_text(encoding="utf-8") for name in names]
    values = "".join(f"const {name} = {json.dumps(value)};" for name, value in given.items())
    program = "globalThis.window = globalThis;" + "\n".join(scripts)
    table = json.dumps({mode: row.as_json() for mode, row in MODES.items()})
    program += f"\nconst LX = window.LinesExplorer;LX.modes = {table};{values}"
    program += f"console.log(JSON.stringify({expression}) ?? 'null');"
    done = subprocess.run([node(), "-"], input=program, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


CONTROLS = {
    "mode": "edit", "target": "shapes", "schedule": "lines", "gamma": 0.3, "alpha": 0.3, "beta": 0.7, "scale": 0.5,
    "tasks": ["shapes", "places"], "method": "sum", "norms": True, "alpha_many": 0.2, "beta_many": 0.4,
    "scale_many": 0.6, "soup": "greedy", "floor": 0.9, "target_robustness": "shapes", "target_soup": "shapes",
    "runs_shapes": ["shapes/1"], "gamma_robustness": 0.4, "alpha_robustness": 0.2, "beta_robustness": 0.2,
    "scale_robustness": 0.3, "gamma_soup": 1, "alpha_soup": 1, "beta_soup": 0, "scale_soup": 0.9,
    "gamma_negation": 0.4, "alpha_negation": -0.2, "beta_negation": -0.2, "scale_negation": -0.7,
}  # fmt: skip
FREE = {"factors": [0, 0.5, 1], "rest": 0.1}


def test_view_and_controls_are_each_others_inverse():
    for mode, beta in (("edit", 0.7), ("many", 0.4), ("robustness", 0.2), ("soup", 0), ("negation", -0.2)):
        controls = CONTROLS | {"mode": mode}
        view = run("LX.viewOf(c, f)", c=controls, f=FREE)
        assert (view["beta"], view["runs"]) == (beta, ["shapes/1"] if mode == "soup" else [])
        assert view["factors"] == FREE["factors"]
        moved = view | {"alpha": 0.9, "schedule": "free"}
        back = run("LX.viewOf(LX.controlsFor(v, c), f)", v=moved, c=controls, f=FREE)
        assert back == moved


def test_view_has_the_servers_fields(catalogue):
    for mode in MODES:
        view = run("LX.viewOf(c, f)", c=CONTROLS | {"mode": mode}, f=FREE)
        assert list(view) == list(catalogue.default().as_json())
        assert catalogue.read(view).as_json() == view
        assert run("LX.familyOf(v)", v=view) == catalogue.read(view).family


@pytest.mark.parametrize(
    ("mode", "knob", "place"),
    [
        ("edit", 0.3, [0.3, 0.7]), ("robustness", 0.5, [0.25, 0.25]), ("soup", 1, [1, 0]), ("soup", 1.25, [1, 0.25]),
        ("soup", 0.25, [0.25, 0.75]), ("negation", 0.5, [-0.25, -0.25]), ("negation", 1.5, [-0.75, -0.75]),
    ],
)  # fmt: skip
def test_one_knob_moves_both_along_the_modes_line(mode, knob, place):
    assert run("LX.fromKnob(m, k)", m=mode, k=knob) == place
    assert run("LX.toKnob(m, ...p, 9)", m=mode, p=place) == knob == knob_of(mode, *place)
    assert run("LX.toKnob(m, 0.123, 0.2, 9)", m=mode) == 9 and knob_of(mode, 0.123, 0.2) is None


def test_each_mode_begins_at_its_own_start(catalogue):
    modes = {mode: catalogue.default(mode).as_json() for mode in MODES}
    names = list(CONTROLS)
    values = run("LX.initial(b)", b={"modes": modes, "controls": names, "runs": catalogue.runs})
    start = dict(zip(names, values, strict=True))
    assert (start["mode"], start["alpha"], start["gamma"], start["alpha_soup"]) == ("edit", 0.3, 0.3, 1)
    assert (start["beta_negation"], start["gamma_negation"], start["gamma_robustness"]) == (-0.25, 0.5, 0.6)
    assert (start["runs_shapes"], start["tasks"]) == (list(catalogue.runs["shapes"]), list(catalogue.tasks))


@pytest.mark.parametrize("change", [{"alpha": None}, {"tasks": []}, {"rest": None}, {"factors": [0, None, 1]}])
def test_incomplete_views_are_known(change):
    view = run("LX.viewOf(c, f)", c=CONTROLS, f=FREE)
    assert run("LX.complete(v)", v=view)
    assert not run("LX.complete(v)", v=view | change)


@pytest.mark.parametrize(
    ("name", "factors"),
    [
        ("lines", [0.2, 0.35, 0.5, 0.65, 0.8]),
        ("step", [0.2, 0.2, 0.8, 0.8, 0.8]),
        ("smooth", [0.2, 0.29375, 0.5, 0.70625, 0.8]),
        ("triangle", [0.2, 0.5, 0.8, 0.5, 0.2]),
        ("reversed", [0.8, 0.65, 0.5, 0.35, 0.2]),
    ],
)
def test_shapes(name, factors):
    assert run("LX.shape(n, 0.2, 0.6, 5)", n=name) == pytest.approx(factors)
    assert run("LX.shape(n, 0.2, 0.6, 1)", n=name) == [0.2]


def test_drawn_factors_stay_within_the_limits():
    assert run("LX.drawn([-2, 0.123456, 9], [-1, 3])") == [-1, 0.1235, 3]


def test_history():
    told = run(
        """(() => { const h = LX.makeHistory(3), said = [];
        for (const x of [1, 1, 2, 3]) h.push({ x });
        said.push(h.canUndo, h.canRedo, h.undo(), h.undo(), h.undo(), h.canUndo, h.redo());
        h.push({ x: 2 }); said.push(h.canRedo); h.push({ x: 9 }); said.push(h.canRedo, h.undo(), h.redo(), h.redo());
        for (const x of [5, 6, 7]) h.push({ x });
        said.push(h.undo(), h.undo(), h.undo());
        return said; })()"""
    )
    assert told == [
        True, False, {"x": 2}, {"x": 1}, None, False, {"x": 2},
        True, False, {"x": 2}, {"x": 9}, None, {"x": 6}, {"x": 5}, None,
    ]  # fmt: skip


def test_trail_is_kept_per_family_and_once_per_stay():
    told = run(
        """(() => { const t = LX.makeTrail(2);
        for (const [key, a] of [["f", 1], ["f", 1], ["g", 1], ["f", 2], ["f", 3]]) t.visit(key, { view: { a }, x: a });
        return [t.of("f"), t.of("g"), t.of("h")]; })()"""
    )
    assert [[visit["x"] for visit in visits] for visits in told] == [[2, 3], [1], []]


def stat(value: float) -> dict:
    return {"value": value, "low": value - 0.1, "high": value + 0.1, "n": 10, "normalized": value}


def family_point(knob: float, alpha: float, beta: float, target: float) -> dict:
    task = {"shapes": stat(target), "places": stat(1 - target)}
    weakest = {"task": "shapes", "normalized": target}
    return {
        "knob": knob, "alpha": alpha, "beta": beta, "target": stat(target), "control": stat(1 - target), "tasks": task,
        "weakest": weakest,
    }  # fmt: skip


FAMILY = {
    "targets": ["shapes"], "alpha_norms": 0.5,
    "lines": [family_point(0, 0, 1, 0.5), family_point(1, 1, 0, 0.9)],
    "constant": [family_point(0, 0, 0, 0.1), family_point(1, 1, 0, 0.9)],
}  # fmt: skip
VIEW = {
    "mode": "edit", "target": "shapes", "tasks": ["shapes"], "method": "sum", "schedule": "lines", "alpha": 0.5,
    "beta": 0.5, "scale": 0.5, "norms": True, "factors": [0, 0, 0], "rest": 0, "runs": [],
    "soup": "uniform", "floor": 0.95,
}  # fmt: skip


def test_previews_only_where_there_is_something_to_read_between():
    preview = "LX.preview(v, f)"
    assert run(preview, v=VIEW, f=FAMILY)["target"]["value"] == pytest.approx(0.7)
    assert run(preview, v=VIEW | {"schedule": "constant"}, f=FAMILY)["target"]["value"] == pytest.approx(0.5)
    between = run(preview, v=VIEW | {"beta": 0.25}, f=FAMILY)
    assert between["target"]["value"] == pytest.approx(0.6) and not between["exact"]
    assert run(preview, v=VIEW | {"schedule": "free"}, f=FAMILY) is None
    assert run(preview, v=VIEW | {"beta": 0.9}, f=FAMILY) is None


def test_factors_of_each_schedule():
    factors = "LX.factors(v, f, 3)"
    assert run(factors, v=VIEW, f=FAMILY) == [0.5, 0.75, 1]
    assert run(factors, v=VIEW | {"schedule": "constant"}, f=FAMILY) == [0.5, 0.5, 0.5]
    assert run(factors, v=VIEW | {"schedule": "free", "factors": [1, 0, 2]}, f=FAMILY) == [1, 0, 2]
    assert run("LX.curveOf(v, f)", v=VIEW | {"schedule": "free"}, f=FAMILY) is None


def test_a_click_in_the_plane_takes_the_nearest_of_all_points():
    across = "(p) => 100 * p.control.value"
    visits = [{"x": 42, "y": 58, "view": VIEW | {"schedule": "free"}}]
    front = [family_point(0, 0.2, 0.4, 0.3)]
    nearest = f"LX.nearest(LX.places(v, f, t, p, {across}), x, y, 80, 80)?.view ?? null"
    given = {"v": VIEW, "f": FAMILY, "t": visits, "p": front}
    assert run(nearest, **given, x=41, y=60)["schedule"] == "free"
    line = run(nearest, **given, x=51, y=49)
    assert (line["schedule"], line["alpha"], line["beta"]) == ("lines", 0, 1)
    flat = run(nearest, **given, x=89, y=11)
    assert (flat["schedule"], flat["scale"], flat["norms"]) == ("constant", 0, True)
    cell = run(nearest, **given, x=70, y=31)
    assert (cell["alpha"], cell["beta"]) == (0.2, 0.4)
    nothing = {"targets": [], "lines": [], "constant": []}
    assert run(nearest, v=VIEW, f=nothing, t=[], p=[], x=1, y=1) is None


def test_a_click_on_the_surface_sets_both_sliders_within_their_limits():
    limits = {"alpha": [0, 1.5], "beta": [-0.5, 1.5]}
    on = run("LX.onSurface(v, 0.4567, 9, l)", v=VIEW | {"schedule": "free"}, l=limits)
    assert (on["schedule"], on["alpha"], on["beta"], on["norms"]) == ("lines", 0.46, 1.5, True)
    many = run("LX.onSurface(v, -1, 0.111, l)", v=VIEW | {"mode": "many"}, l=limits)
    assert (many["alpha"], many["beta"], many["norms"]) == (0, 0.11, False)


def test_csv_keeps_names_and_leaves_out_what_is_not_known():
    row = {"name": 'A, "b"', "role": "target", "base": {"value": 0.5}, "current": {"value": 0.25, "n": 40}}
    head, line, end = run("LX.csv(r)", r=[row]).split("\r\n")
    cells = dict(zip(head.split(","), line.removeprefix('"A, ""b""",').split(","), strict=False))
    assert line.startswith('"A, ""b""",target,0.5,,0.25')
    assert len(head.split(",")) - 1 == len(cells) and end == ""


@pytest.mark.parametrize("known", ["evaluated", "estimated", "interpolated"])
def test_csv_says_what_the_current_numbers_are(known):
    row = {"name": "Shapes", "role": "target", "known": known, "current": {"value": 0.25, "n": 10, "total": 40}}
    head, line, _ = run("LX.csv(r)", r=[row]).split("\r\n")
    assert dict(zip(head.split(","), line.split(","), strict=True))["current_is"] == known
