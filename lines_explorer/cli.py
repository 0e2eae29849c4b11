"""The command line: ``python -m lines_explorer VERB``.

``--json`` prints exactly one JSON object on stdout; everything else goes to stderr.  Exit codes: 0 done,
2 bad input (one clear sentence on stderr), 1 fault (a traceback on stderr), 130 interrupted.  Modules that
need seconds to import (torch, open_clip, gradio) are imported by the verb that uses them.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lines_explorer import cli_files
from lines_explorer.commands.arguments import Downloads, Method, Settings
from lines_explorer.errors import ExplorerError

if TYPE_CHECKING:
    from lines_explorer.commands.report import Report
    from lines_explorer.engine import Engine

DONE, FAULT, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
POCKET = "pocket"

app = typer.Typer(
    name="lines-explorer",
    help="Merge fine-tuned models with a factor per block, and score what the merged model gains and loses.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Suite = Annotated[str, typer.Option("--suite", help="Name of a suite (see `suites`), or a folder with a suite.yaml.")]
Tasks = Annotated[
    str,
    typer.Option("--tasks", help="Experts to merge, separated by commas; `all`; further runs are digits/1, digits/2."),
]
Soup = Annotated[
    str | None, typer.Option("--soup", help="uniform or greedy: the mean of --tasks, which are runs of one task.")
]
Shifts = Annotated[bool, typer.Option("--shifts", help="Score the shifted test sets of the target too.")]
Kind = Annotated[
    str | None, typer.Option("--schedule", help="Curve over depth: lines, square, root, sigmoid, reversed.")
]
Alpha = Annotated[
    float | None,
    typer.Option("--alpha", help="Factor of the first block. Default: 1 for one expert, the norm ratio for several."),
]
Beta = Annotated[float | None, typer.Option("--beta", help="What the last block's factor adds to alpha. Default: 0.")]
Scale = Annotated[float | None, typer.Option("--scale", help="One constant factor, instead of alpha and beta.")]
Factors = Annotated[str | None, typer.Option("--factors", help="One factor per block, separated by commas.")]
Rest = Annotated[
    float | None, typer.Option("--rest", help="With --factors: the factor outside the blocks. Default: 1.")
]
Rule = Annotated[
    str, typer.Option("--rule", help="Tensors after the last block: reference (alpha) or depth (alpha+beta).")
]
Split = Annotated[str, typer.Option("--split", help="val, test, or a shifted test set of the suite.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu, cuda, cuda:1, mps.")]
Precision = Annotated[str, typer.Option("--precision", help="float32; tf32 and bf16 are checked against it first.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]


def answer(work: Callable[[], Report], as_json: bool) -> None:
    """Run ``work`` with stdout kept clean for its report, then print the report."""
    with contextlib.redirect_stdout(sys.stderr):
        report = work()
    sys.stdout.write((report.as_json() if as_json else report.text) + "\n")


def note(text: str | None) -> None:
    """A remark for people, on stderr."""
    if text:
        print(text, file=sys.stderr)


def open_engine(suite: str, device: str, precision: str = "float32") -> Engine:
    """The engine of a suite on a device; what a large one takes in memory is told before."""
    from lines_explorer.engine import Engine
    from lines_explorer.suites import bill_sentence, open_suite

    opened = open_suite(suite)
    note(bill_sentence(opened))
    return Engine(opened, device=device, precision=precision)


@app.command()
def evaluate(
    tasks: Tasks,
    suite: Suite = POCKET,
    method: Method = "sum",
    settings: Settings = None,
    alpha: Alpha = None,
    beta: Beta = None,
    schedule: Kind = None,
    scale: Scale = None,
    factors: Factors = None,
    rest: Rest = None,
    rule: Rule = "reference",
    soup: Soup = None,
    score_on: Annotated[str | None, typer.Option("--score-on", help="Tasks to score. Default: every one.")] = None,
    split: Split = "val",
    shifts: Shifts = False,
    device: Device = "auto",
    precision: Precision = "float32",
    as_json: Json = False,
) -> None:
    """Score one merged model: raw and normalized accuracies with 95 % intervals."""

    def work() -> Report:
        from lines_explorer.commands import options, scoring

        engine = open_engine(suite, device, precision)
        asked = options.ScheduleOptions(schedule, alpha, beta, scale, factors, rest)
        recipe, remark = options.parse_recipe(engine, tasks, method, asked, rule, settings or (), soup)
        part = options.parse_split(engine.suite, split)
        names = options.parse_score_on(engine.suite, score_on, part)
        note(remark)
        return scoring.evaluate(engine, recipe, names, part, shifts)

    answer(work, as_json)


@app.command()
def curve(
    target: Annotated[str, typer.Option("--target", help="The expert to edit, or a further run such as digits/1.")],
    suite: Suite = POCKET,
    schedule: Annotated[
        str,
        typer.Option(
            "--schedule",
            help="lines, constant, square, root, sigmoid, reversed; or blocks: one block after the other scaled to 0.",
        ),
    ] = "lines",
    points: Annotated[
        int | None, typer.Option("--points", help="Points on the line. Default: 11; negation 16; of each block 5.")
    ] = None,
    method: Method = "sum",
    settings: Settings = None,
    setting: Annotated[
        str, typer.Option("--setting", help="edit, robustness (WiSE-FT, alpha = beta), negation (subtract).")
    ] = "edit",
    shifts: Shifts = False,
    split: Split = "val",
    device: Device = "auto",
    precision: Precision = "float32",
    as_json: Json = False,
) -> None:
    """Score the line of one expert: the single-task trade-off alpha = gamma, beta = 1 - gamma, or another setting's."""

    def work() -> Report:
        from lines_explorer.commands import curves, options, scoring_blocks

        engine = open_engine(suite, device, precision)
        part = options.parse_split(engine.suite, split)
        parameters = options.parse_parameters(method, settings or ())
        if schedule == scoring_blocks.BLOCKS:
            return scoring_blocks.blocks(engine, target, points, part, method)
        merged = curves.Merged(method, parameters)
        return curves.curve(engine, target, schedule, points, part, setting, shifts, merged)

    answer(work, as_json)


@app.command()
def merge(
    tasks: Tasks,
    out: Annotated[Path, typer.Option("--out", help="Folder for the model.")],
    suite: Suite = POCKET,
    method: Method = "sum",
    settings: Settings = None,
    alpha: Alpha = None,
    beta: Beta = None,
    schedule: Kind = None,
    scale: Scale = None,
    factors: Factors = None,
    rest: Rest = None,
    rule: Rule = "reference",
    soup: Soup = None,
    file_format: Annotated[str, typer.Option("--format", help="open_clip, hf.")] = "open_clip",
    force: Annotated[bool, typer.Option("--force", help="Replace a model that is already there.")] = False,
    as_json: Json = False,
) -> None:
    """Write the merged model, the very one that `evaluate` scores."""

    def work() -> Report:
        from lines_explorer.commands import export, options

        export.check_format(file_format)
        export.check_folder(out, force)
        engine = open_engine(suite, "cpu")
        asked = options.ScheduleOptions(schedule, alpha, beta, scale, factors, rest)
        recipe, remark = options.parse_recipe(engine, tasks, method, asked, rule, settings or (), soup)
        note(remark)
        return export.merge(engine, recipe, out, force, file_format)

    answer(work, as_json)


@app.command()
def inspect(
    files: Annotated[list[Path], typer.Argument(help="Checkpoint files or folders, of any kind.")],
    hashed: Annotated[bool, typer.Option("--hash/--no-hash", help="Read each file once for its sha256.")] = True,
    as_json: Json = False,
) -> None:
    """Tell what checkpoints are: format, family, blocks, sizes, problems. Nothing in them is run, no tensor loaded."""
    refused: list[str] = []

    def work() -> Report:
        from lines_explorer.commands import inspecting

        report = inspecting.inspect(files, hashed)
        refused.extend(inspecting.refusals(report))
        return report

    answer(work, as_json)
    if refused:
        others = f" ({len(refused) - 1} more of the {len(files)} cannot be read.)" if len(refused) > 1 else ""
        raise ExplorerError(refused[0] + others)


@app.command()
def search(
    tasks: Tasks,
    suite: Suite = POCKET,
    method: Method = "sum",
    settings: Settings = None,
    use_lines: Annotated[bool, typer.Option("--lines/--no-lines", help="LiNeS, or one constant factor.")] = True,
    schedule: Annotated[
        str | None, typer.Option("--schedule", help="square, root, sigmoid, reversed, constant.")
    ] = None,
    weight: Annotated[float | None, typer.Option("--weight", help="What the target counts for. Default: 2.")] = None,
    constraint: Annotated[
        float | None, typer.Option("--constraint", help="Least share of zero-shot control: 0.95.")
    ] = None,
    tie: Annotated[str, typer.Option("--tie", help="Among equals: protocol, larger or smaller.")] = "protocol",
    refine: Annotated[int, typer.Option("--refine", help="Rounds of finer points after the grid; 0: the grid.")] = 2,
    bootstrap: Annotated[bool, typer.Option("--bootstrap/--no-bootstrap", help="Tell how sure the choice is.")] = True,
    rule: Rule = "reference",
    device: Device = "auto",
    precision: Precision = "float32",
    as_json: Json = False,
) -> None:
    """Choose one point on validation, by the protocol or under a constraint, and report it once on test."""

    def work() -> Report:
        from lines_explorer.commands import searching

        asked = searching.SearchOptions(
            tasks, method, settings or (), use_lines, schedule, weight, constraint, tie, refine, rule, bootstrap
        )
        return searching.search_suite(open_engine(suite, device, precision), asked)

    answer(work, as_json)


@app.command()
def sweep(
    spec: Annotated[Path, typer.Argument(help="YAML file of points; see lines_explorer/sweep/spec.py.")],
    out: Annotated[Path, typer.Option("--out", help="Parquet file: a row per point and task.")],
    engine: Annotated[str, typer.Option("--engine", help="local.")] = "local",
    address: Annotated[str | None, typer.Option("--address", help="Address of a cluster; not supported yet.")] = None,
    device: Device = "auto",
    precision: Precision = "float32",
    as_json: Json = False,
) -> None:
    """Score many points. Run again after an interruption, it continues."""

    def work() -> Report:
        from lines_explorer.commands import sweeping

        sweeping.check_engine(engine, address)
        sweeping.check_table(out)
        points = sweeping.read_spec(spec)
        return sweeping.sweep(open_engine(points.suite, device, precision), points, out)

    answer(work, as_json)


@app.command()
def study(
    suite: Suite = POCKET,
    out: Annotated[Path, typer.Option("--out", help="The page; tables and figures go beside it.")] = Path(
        "docs/RESULTS.md"
    ),
    settings: Annotated[
        str, typer.Option("--settings", help="all, or edit, merge, robustness, soup, negation, seeds.")
    ] = "all",
    methods: Annotated[str, typer.Option("--methods", help="Merge methods, separated by commas.")] = "all",
    schedules: Annotated[str, typer.Option("--schedules", help="Schedules compared with the constant one.")] = "all",
    tasks: Annotated[str, typer.Option("--tasks", help="Tasks, separated by commas.")] = "all",
    device: Device = "auto",
    precision: Precision = "float32",
    as_json: Json = False,
) -> None:
    """Rerun the paper's settings with and without LiNeS. Run again after an interruption, it continues."""

    def work() -> Report:
        from lines_explorer.commands import studying

        engine = open_engine(suite, device, precision)
        asked = studying.parse_asked(engine, settings, methods, schedules, tasks)
        return studying.study(engine, out, asked)

    answer(work, as_json)


@app.command()
def bench(
    suite: Suite = POCKET,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Measurements of which the median counts.")] = 5,
    points: Annotated[int, typer.Option("--points", min=2, max=101, help="Points of the curve.")] = 11,
    moves: Annotated[int, typer.Option("--moves", min=1, help="Random slider moves.")] = 1000,
    floats: Annotated[int, typer.Option("--floats", min=1000, help="Size of the merge buffers.")] = 87_849_216,
    opening: Annotated[Path | None, typer.Option("--opening", help="Instead: open 8 ViT-B/32 experts here.")] = None,
    experts: Annotated[int, typer.Option("--experts", min=1, max=64, help="With --opening: how many.")] = 8,
    width: Annotated[int, typer.Option("--width", help="With --opening: width of the tower, 768 in ViT-B/32.")] = 768,
    device: Device = "auto",
    precision: Precision = "float32",
    as_json: Json = False,
) -> None:
    """Measure the engine's speed as ratios within one run; or what opening a suite costs against torch.load."""

    def work() -> Report:
        if opening is not None:
            from lines_explorer.commands.opening import opening as measure_opening

            return measure_opening(opening, experts, width, repeats)
        from lines_explorer.commands import bench as benchmark
        from lines_explorer.suites import open_suite

        effort = benchmark.Effort(repeats=repeats, points=points, moves=moves, floats=floats)
        return benchmark.bench(open_suite(suite), device, effort, precision)

    answer(work, as_json)


@app.command()
def serve(
    suite: Suite = POCKET,
    host: Annotated[str, typer.Option("--host", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0 for a free one.")] = 7860,
    device: Device = "auto",
    precision: Precision = "float32",
    downloads: Downloads = None,
) -> None:
    """Open the page, as `python app.py` does."""
    from lines_explorer.ui import serve as serve_page

    serve_page(suite=suite, host=host, port=port, device=device, precision=precision, downloads=downloads)


@app.command(
    name="build-suite",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
def build_suite(context: typer.Context) -> None:
    """Train a suite: data, base, experts, results, all, or your own folders of labelled images."""
    try:
        from lines_explorer.training import build
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("lines_explorer"):
            raise
        raise ExplorerError(f"build-suite needs {error.name}: pip install -r requirements-dev.txt.") from error
    raise typer.Exit(build.main(list(context.args)) or DONE)


app.command()(cli_files.suites)
app.command(name="merge-files")(cli_files.merge_files)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb and return its exit code; ``arguments`` default to those of the process."""
    try:
        code = app(args=arguments, standalone_mode=False) or DONE  # typer turns Ctrl-C into 130
        note("interrupted" if code == INTERRUPTED else None)
        return code
    except ExplorerError as error:
        note(f"error: {error}")
        return BAD_INPUT
    except typer.TyperException as error:
        note(f"error: {error.format_message().rstrip('.')}. See --help.")
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        note("interrupted")
        return INTERRUPTED
    except Exception:
        traceback.print_exc()
        return FAULT


def run() -> None:
    """Entry point of ``python -m lines_explorer`` and of the installed script."""
    sys.exit(main())
