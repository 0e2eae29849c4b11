"""The command line's contract: one JSON object on stdout, one clear sentence for bad input, exit codes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lines_explorer import cli
from lines_explorer.checkpoints import read_safetensors
from lines_explorer.commands import export, options
from lines_explorer.commands.report import Report, percent, table
from lines_explorer.errors import ExplorerError
from lines_explorer.layers import layout_of
from lines_explorer.suites import Suite, open_suite

Run = Callable[..., tuple[int, str, str]]
EDIT = ("--alpha", "0.2", "--beta", "0.8")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a verb in this process → (exit code, stdout, stderr)."""

    def call(*arguments: object) -> tuple[int, str, str]:
        code = cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def ask(run: Run, tiny_suite_folder: Path) -> Callable[..., dict[str, Any]]:
    """Run a verb on the tiny suite with ``--json`` → its object."""

    def call(verb: str, *arguments: object) -> dict[str, Any]:
        code, out, err = run(verb, "--suite", tiny_suite_folder, *arguments, "--json")
        assert code == 0, err
        assert out.count("\n") == 1 and out.endswith("\n")
        return json.loads(out)

    return call


@pytest.fixture
def suite(tiny_suite_folder: Path) -> Suite:
    return open_suite(str(tiny_suite_folder))


@pytest.fixture
def tasks(suite: Suite) -> list[str]:
    return sorted(suite.experts)


def test_suites_lists_tasks_with_sizes(ask: Callable[..., dict[str, Any]], suite: Suite) -> None:
    (described,) = ask("suites")["suites"]
    assert described["name"] == suite.name and described["base"] == suite.architecture
    assert described["blocks"] == layout_of(suite.base()).depth
    assert described["parameters"] == sum(tensor.numel() for tensor in suite.base().values())
    assert [row["name"] for row in described["tasks"]] == list(suite.tasks)
    for row in described["tasks"]:
        assert row["classes"] == len(suite.tasks[row["name"]].classes)
        assert row["val"] == len(suite.images(row["name"], "validation")[1])
        assert row["test"] == len(suite.images(row["name"], "test")[1])
        assert set(row["zero_shot"]) == {"val", "test"} == set(row["expert"])


def test_evaluate_tells_counts_and_intervals(
    ask: Callable[..., dict[str, Any]], suite: Suite, tasks: list[str]
) -> None:
    target = tasks[0]
    answer = ask("evaluate", "--tasks", target, *EDIT)
    assert answer["recipe"]["tasks"] == [target] and answer["split"] == "val" and len(answer["hash"]) == 16
    assert set(answer["tasks"]) == set(suite.tasks)
    for row in answer["tasks"].values():
        assert 0 <= row["low"] <= row["accuracy"] == row["correct"] / row["n"] <= row["high"] <= 1
    assert answer["target"]["accuracy"] == answer["tasks"][target]["accuracy"]
    others = [row["accuracy"] for name, row in answer["tasks"].items() if name != target]
    assert answer["control"]["accuracy"] == pytest.approx(sum(others) / len(others))
    assert answer["seconds"] >= 0


def test_expert_is_its_own_denominator(ask: Callable[..., dict[str, Any]], tasks: list[str]) -> None:
    answer = ask("evaluate", "--tasks", tasks[0], "--scale", 1)
    normalized = answer["tasks"][tasks[0]]["normalized"]
    assert normalized is None or normalized == pytest.approx(1)


def test_scores_only_what_is_asked(ask: Callable[..., dict[str, Any]], tasks: list[str]) -> None:
    answer = ask("evaluate", "--tasks", tasks[0], *EDIT, "--score-on", tasks[1], "--split", "test")
    assert list(answer["tasks"]) == [tasks[1]] and answer["split"] == "test"
    assert answer["target"] is None and answer["control"]["tasks"] == 1


def test_several_experts_take_the_norm_ratio(run: Run, tiny_suite_folder: Path, tasks: list[str]) -> None:
    code, out, err = run(
        "evaluate", "--suite", tiny_suite_folder, "--tasks", ",".join(tasks[:2]), "--beta", "0.5", "--json"
    )
    assert code == 0 and "norm ratio" in err
    assert json.loads(out)["recipe"]["schedule"]["alpha"] == pytest.approx(0.5)


def test_free_factors_are_scored(ask: Callable[..., dict[str, Any]], suite: Suite, tasks: list[str]) -> None:
    factors = [0.5] * layout_of(suite.base()).depth
    answer = ask("evaluate", "--tasks", tasks[0], "--factors", ",".join(map(str, factors)), "--rest", 0.5)
    assert answer["recipe"]["schedule"]["factors"] == factors
    assert answer["tasks"] == ask("evaluate", "--tasks", tasks[0], "--scale", 0.5)["tasks"]


def test_curve_runs_from_the_expert(ask: Callable[..., dict[str, Any]], tasks: list[str]) -> None:
    answer = ask("curve", "--target", tasks[0], "--points", 3)
    points = answer["points"]
    assert [(point["alpha"], point["beta"]) for point in points] == [(1, 0), (0.5, 0.5), (0, 1)]
    expert = ask("evaluate", "--tasks", tasks[0], "--scale", 1)
    for kind in ("target", "control"):
        assert points[0][kind]["accuracy"] == expert[kind]["accuracy"]
        assert set(points[0][kind]) >= {"accuracy", "n", "normalized"}


def test_constant_curve_ends_at_the_base(ask: Callable[..., dict[str, Any]], tasks: list[str]) -> None:
    last = ask("curve", "--target", tasks[0], "--points", 2, "--schedule", "constant")["points"][-1]
    assert last["alpha"] == 0
    assert last["control"]["normalized"] == pytest.approx(1)


def test_merge_writes_the_model_that_was_scored(
    ask: Callable[..., dict[str, Any]], suite: Suite, tasks: list[str], tmp_path: Path
) -> None:
    import open_clip
    import torch

    from lines_explorer import checkpoints, layers, merging, schedule

    out = tmp_path / "new" / "model"
    answer = ask("merge", "--tasks", tasks[0], *EDIT, "--out", out)
    file = Path(answer["file"])
    assert file.parent == out and answer["sha256"] == checkpoints.sha256(file)
    factors = layers.tensor_factors(layers.layout_of(suite.base()), schedule.lines(0.2, 0.8))
    expected = merging.apply(suite.visual_base(), suite.task_vector(tasks[0]), factors)
    written = checkpoints.read_safetensors(file)
    assert all(torch.allclose(written[key], tensor, rtol=1e-6, atol=1e-7) for key, tensor in expected.items())
    model = open_clip.create_model(f"local-dir:{out}")
    model.load_state_dict(written, strict=True)
    assert all(torch.equal(tensor, written[key]) for key, tensor in model.state_dict().items())
    source = json.loads(checkpoints.metadata(file)["lines_explorer"])
    assert source["recipe"] == answer["recipe"] and source["base_sha256"] == suite.base_sha256
    assert source["experts_sha256"] == {tasks[0]: checkpoints.sha256(suite.experts[tasks[0]])}


def test_merge_is_reproducible_and_scores_the_same(
    ask: Callable[..., dict[str, Any]], suite: Suite, tasks: list[str], tmp_path: Path
) -> None:
    import open_clip
    import torch

    first = ask("merge", "--tasks", "all", "--scale", 0.3, "--out", tmp_path / "first")
    second = ask("merge", "--tasks", ",".join(reversed(tasks)), "--scale", 0.3, "--out", tmp_path / "second")
    assert first["sha256"] == second["sha256"]
    scored = ask("evaluate", "--tasks", "all", "--scale", 0.3)
    model = open_clip.create_model(f"local-dir:{tmp_path / 'first'}").eval()
    head = read_safetensors(tmp_path / "first" / export.HEADS)[tasks[0]]
    images, labels = suite.images(tasks[0], "validation")
    mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in suite.normalisation())
    with torch.no_grad():
        features = model.encode_image((images.float() / 255 - mean) / std, normalize=True)
    assert int((features @ head.T).argmax(1).eq(labels).sum()) == scored["tasks"][tasks[0]]["correct"]


def test_merge_overwrites_only_when_forced(run: Run, tiny_suite_folder: Path, tasks: list[str], tmp_path: Path) -> None:
    command = ("merge", "--suite", tiny_suite_folder, "--tasks", tasks[0], "--out", tmp_path)
    assert run(*command, "--scale", 0.5)[0] == 0
    before = (tmp_path / export.WEIGHTS).read_bytes()
    code, out, err = run(*command, "--scale", 0.6)
    assert code == 2 and out == "" and "--force" in err
    assert (tmp_path / export.WEIGHTS).read_bytes() == before
    assert run(*command, "--scale", 0.6, "--force")[0] == 0
    assert (tmp_path / export.WEIGHTS).read_bytes() != before
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [export.WEIGHTS, export.CONFIG, export.HEADS, export.CARD, export.MERGEKIT]
    )


BAD_INPUT = {
    "unknown suite": (["evaluate", "--suite", "nosuch", "--tasks", "a"], "nosuch"),
    "unknown task": (["evaluate", "--tasks", "nosuch"], "{tasks}"),
    "unknown target": (["curve", "--target", "nosuch"], "{tasks}"),
    "unknown method": (["evaluate", "--tasks", "{first}", "--method", "nosuch"], "sum, average"),
    "unknown split": (["evaluate", "--tasks", "{first}", "--split", "train"], "val, test"),
    "unknown curve split": (["curve", "--target", "{first}", "--split", "train"], "val, test"),
    "unknown scored task": (["evaluate", "--tasks", "{first}", "--score-on", "nosuch"], "{tasks}"),
    "unknown rule": (["evaluate", "--tasks", "{first}", "--rule", "nosuch"], "reference, depth"),
    "unknown schedule": (["curve", "--target", "{first}", "--schedule", "nosuch"], "lines"),
    "no task": (["evaluate", "--tasks", ""], "--tasks"),
    "task twice": (["evaluate", "--tasks", "{first},{first}"], "twice"),
    "alpha nan": (["evaluate", "--tasks", "{first}", "--alpha", "nan", "--beta", "0"], "--alpha is nan"),
    "beta infinite": (["evaluate", "--tasks", "{first}", "--beta", "inf"], "--beta is inf"),
    "alpha absurd": (["evaluate", "--tasks", "{first}", "--alpha", "-10.5"], "between -10 and 10"),
    "scale absurd": (["evaluate", "--tasks", "{first}", "--scale", "1e9"], "--scale"),
    "alpha no number": (["evaluate", "--tasks", "{first}", "--alpha", "much"], "--alpha"),
    "factors count": (["evaluate", "--tasks", "{first}", "--factors", "1"], "blocks"),
    "factors no numbers": (["evaluate", "--tasks", "{first}", "--factors", "a,b"], "--factors"),
    "scale and alpha": (["evaluate", "--tasks", "{first}", "--scale", "1", "--alpha", "1"], "contradict"),
    "factors and beta": (["evaluate", "--tasks", "{first}", "--factors", "1", "--beta", "1"], "contradict"),
    "rest alone": (["evaluate", "--tasks", "{first}", "--rest", "1"], "--factors"),
    "too few points": (["curve", "--target", "{first}", "--points", "1"], "--points"),
    "unknown format": (["merge", "--tasks", "{first}", "--out", "{out}", "--format", "gguf"], "open_clip"),
    "out is a file": (["merge", "--tasks", "{first}", "--out", "{file}"], "is a file"),
    "missing option": (["curve"], "--target"),
    "unknown option": (["suites", "--nosuch"], "--nosuch"),
    "unknown verb": (["nosuch"], "nosuch"),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_bad_input_is_one_sentence(
    case: str, run: Run, tiny_suite_folder: Path, tasks: list[str], tmp_path: Path
) -> None:
    arguments, expected = BAD_INPUT[case]
    file = tmp_path / "file"
    file.write_text("here already")
    words = {"first": tasks[0], "tasks": ", ".join(tasks), "out": tmp_path / "out", "file": file}
    command = [argument.format(**words) for argument in arguments]
    if "--suite" not in command and command[0] in ("evaluate", "curve", "merge"):
        command += ["--suite", str(tiny_suite_folder)]
    code, out, err = run(*command)
    assert code == 2 and out == ""
    assert err.startswith("error: ") and err.count("\n") == 1 and "Traceback" not in err
    for part in expected.format(**words).split(", "):
        assert part in err


def test_damaged_suite_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "suite.yaml").write_text("name: [")
    code, out, err = run("suites", "--suite", tmp_path)
    assert code == 2 and out == "" and "suite.yaml" in err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_write_permission(run: Run, tiny_suite_folder: Path, tasks: list[str], tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    code, out, err = run("merge", "--suite", tiny_suite_folder, "--tasks", tasks[0], "--out", tmp_path / "new")
    assert code == 2 and out == "" and "cannot be written" in err


def test_out_below_a_file(run: Run, tiny_suite_folder: Path, tasks: list[str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, out, err = run("merge", "--suite", tiny_suite_folder, "--tasks", tasks[0], "--out", tmp_path / "file" / "new")
    assert code == 2 and out == "" and "cannot be written" in err


def test_fault_is_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(suite: str, device: str) -> None:
        raise ZeroDivisionError("broken")

    monkeypatch.setattr(cli, "open_engine", break_down)
    code, out, err = run("suites", "--suite", "any", "--json")
    assert code == 1 and out == "" and "ZeroDivisionError: broken" in err


def test_interrupt_is_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(suite: str, device: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "open_engine", interrupt)
    assert run("suites", "--suite", "any", "--json") == (130, "", "interrupted\n")


def test_what_others_print_stays_off_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> Report:
        print("loading")
        return Report({"value": float("nan")}, "text")

    cli.answer(work, as_json=True)
    captured = capsys.readouterr()
    assert captured.out == '{"value": null}\n' and captured.err == "loading\n"


def test_help_and_no_verb(run: Run) -> None:
    code, out, _ = run("--help")
    assert code == 0
    assert all(verb in out for verb in ("suites", "evaluate", "curve", "merge", "build-suite", "serve"))


def process(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "lines_explorer", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, **pipes, preexec_fn=_heeds_interrupts)


def _heeds_interrupts() -> None:
    """A shell starts its background jobs deaf to SIGINT, and so their children: a terminal's process is not."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_process_keeps_the_contract_in_a_pipe(tiny_suite_folder: Path, tasks: list[str]) -> None:
    work = process(
        "evaluate", "--suite", str(tiny_suite_folder), "--tasks", tasks[0], *EDIT, "--split", "test", "--json"
    )
    out, err = work.communicate(timeout=120)
    assert work.returncode == 0, err
    assert json.loads(out)["split"] == "test" and "\r" not in err


def test_process_stops_on_interrupt(
    tiny_suite_folder: Path, tasks: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINES_EXPLORER_CACHE", str(tmp_path))
    work = process("curve", "--suite", str(tiny_suite_folder), "--target", tasks[0], "--points", "101", "--json")
    deadline = time.monotonic() + 120
    while not (tmp_path / "results.sqlite").exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    work.send_signal(signal.SIGINT)
    out, err = work.communicate(timeout=120)
    assert work.returncode == 130 and out == "" and err.endswith("interrupted\n") and "Traceback" not in err


def test_process_stops_on_interrupt_in_the_middle_of_a_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that computes is waited for: it would take the process down with a signal and another exit code."""
    monkeypatch.setenv("LINES_EXPLORER_CACHE", str(tmp_path))
    work = process("curve", "--target", "digits", "--points", "7", "--schedule", "lines", "--split", "test")
    store, deadline = tmp_path / "results.sqlite", time.monotonic() + 120
    while time.monotonic() < deadline and not (store.exists() and evaluated(store)):
        time.sleep(0.01)
    time.sleep(0.1)
    work.send_signal(signal.SIGINT)
    _, err = work.communicate(timeout=120)
    assert work.returncode == 130 and err.endswith("interrupted\n")


def evaluated(store: Path) -> bool:
    """Whether a result is stored."""
    with contextlib.closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as opened:
        try:
            return bool(opened.execute("SELECT 1 FROM results LIMIT 1").fetchone())
        except sqlite3.OperationalError:
            return False


def test_text_helpers() -> None:
    assert table(["task", "n"], [["digits", "5"]]) == "task    n\ndigits  5"
    assert (percent(0.4867), percent(None), percent(float("nan"))) == ("48.7", "–", "–")
    with pytest.raises(ExplorerError, match="choose from a, b"):
        options.choose("thing", "c", ["a", "b"])
