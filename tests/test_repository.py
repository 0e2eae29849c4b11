"""The house rules, as tests: sizes, shapes, commands, and what the repository does not speak of."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
TOP_LEVEL = {
    *("app.py", "lines_explorer", "assets", "tests", "docs"),
    *("README.md", "LICENSE", "CONTRIBUTING.md", "pyproject.toml", "requirements.txt", "requirements-dev.txt"),
}
MOST_BYTES, MOST_LINES, LONGEST_FUNCTION = 10_000_000, 400, 60
WRITTEN = {".py", ".js", ".css", ".html"}
TEXT = {".py", ".md", ".toml", ".txt", ".yaml", ".yml", ".js", ".css", ".html", ""}
ELSEWHERE = ["/" + "work/", "../" + "shared", "/" + "root/", "/" + "home/", "/" + "tmp/w"]


@cache
def files() -> tuple[Path, ...]:
    """Files of the repository, relative to its root: those git keeps or would, or all of an unpacked archive."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    if (ROOT / ".git").exists():
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
        names = [Path(name) for name in listed if name]
    else:
        names = [path.relative_to(ROOT) for path in ROOT.rglob("*")]
        names = [name for name in names if not {".venv", "__pycache__"} & set(name.parts)]
    return tuple(sorted(name for name in names if (ROOT / name).is_file()))


def python_files() -> list[Path]:
    return [name for name in files() if name.suffix == ".py"]


@cache
def nodes(name: Path) -> tuple[ast.AST, ...]:
    """Every node of a Python file's syntax tree."""
    return tuple(ast.walk(ast.parse((ROOT / name).read_text(encoding="utf-8"))))


def command_lines() -> list[str]:
    """The lines of the README's shell blocks."""
    return re.findall(r"```sh\n(.+?)\n```", (ROOT / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)


def requirements(name: str) -> set[str]:
    """Package names in a requirements file, as import systems know them: lower case, with ``_``."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    found = [match[0] for line in lines if (match := re.match(r"[A-Za-z][\w.-]*", line))]
    return {package.lower().replace("-", "_") for package in found}


def imported(folder: str) -> set[str]:
    """Top-level modules that the Python files under ``folder`` import."""
    modules = set()
    for name in python_files():
        if name.is_relative_to(folder):
            for node in nodes(name):
                if isinstance(node, ast.Import):
                    modules |= {alias.name.split(".")[0] for alias in node.names}
                elif isinstance(node, ast.ImportFrom) and not node.level:
                    modules.add(node.module.split(".")[0])
    return modules


def test_top_level_has_only_what_the_design_names() -> None:
    found = {name.parts[0] for name in files()}
    assert not {name for name in found - TOP_LEVEL if not name.startswith(".")}


def test_no_file_needs_large_file_storage() -> None:
    assert [str(name) for name in files() if (ROOT / name).stat().st_size > MOST_BYTES] == []


def test_files_stay_short() -> None:
    written = [name for name in files() if name.suffix in WRITTEN]
    lines = {str(name): len((ROOT / name).read_text(encoding="utf-8").splitlines()) for name in written}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


def test_functions_stay_short() -> None:
    long = {}
    for name in python_files():
        for node in nodes(name):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = node.end_lineno - node.lineno + 1
                if length > LONGEST_FUNCTION:
                    long[f"{name}:{node.name}"] = length
    assert long == {}


def test_repository_speaks_of_the_project_alone() -> None:
    found = []
    for name in files():
        if name.suffix in TEXT and name.parts[0] != "assets":
            text = (ROOT / name).read_text(encoding="utf-8")
            found += [f"{name}: {words}" for words in ELSEWHERE if words in text]
    assert found == []


def test_ci_runs_the_test_line_of_the_readme() -> None:
    run, test = command_lines()[:2]
    assert "\n" not in run and run.endswith("app.py")
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert [line for line in script if not line.startswith("#")] == [
        "set -euo pipefail",
        'cd "$(dirname "$0")/.."',
        test,
    ]
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111


def test_readme_front_matter_opens_a_space() -> None:
    _, front, _ = (ROOT / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    space = yaml.safe_load(front)
    assert space["sdk"] == "gradio" and (ROOT / space["app_file"]).is_file()
    assert re.fullmatch(r"6\.\d+\.\d+", space["sdk_version"]) and space["python_version"] == "3.11"
    assert len(space["short_description"]) <= 60 and space["license"] == "mit"


def test_readme_links_and_pictures_are_there() -> None:
    missing = []
    for name in ("README.md", "CONTRIBUTING.md"):
        targets = re.findall(r"\]\(([^)#:]+)\)", (ROOT / name).read_text(encoding="utf-8"))
        missing += [f"{name}: {target}" for target in targets if not (ROOT / target).exists()]
    assert missing == []


@pytest.mark.parametrize(("module", "allowed"), [("torch", "torch"), ("gradio", "ui"), ("plotly", "ui")])
def test_layers_import_one_way(module: str, allowed: str) -> None:
    """The pages' libraries stay in ``ui``; numbers alone need no torch."""
    pure = ["analysis", "schedule.py", "layers.py", "recipe.py"] if allowed == "torch" else []
    others = [path.name for path in (ROOT / "lines_explorer").iterdir() if path.name not in (allowed, "__pycache__")]
    wrong = [name for name in pure or others if module in imported(f"lines_explorer/{name}")]
    assert wrong == []


def test_requirements_are_what_is_imported() -> None:
    """Every package the app imports is required, and nothing is required that nobody imports."""
    names = {"PIL": "pillow", "yaml": "pyyaml", "open_clip": "open_clip_torch", "fontTools": "fonttools"}
    names |= {"sklearn": "scikit_learn"}
    core, dev = requirements("requirements.txt"), requirements("requirements-dev.txt")

    def third_party(*folders: str) -> set[str]:
        modules = set().union(*map(imported, folders)) - set(sys.stdlib_module_names)
        return {names.get(module, module) for module in modules} - {"lines_explorer", "tests"}

    parts = [f"lines_explorer/{path.name}" for path in (ROOT / "lines_explorer").iterdir() if path.name != "training"]
    app = third_party("app.py", *parts)
    named = {"torchvision", "datasets", "pandas"}  # resolved with torch; what suites from a hub and sweeps will need
    assert core - app <= named
    assert app <= core
    assert third_party("lines_explorer/training") <= core | dev
    assert third_party("tests") - {path.stem for path in (ROOT / "tests").rglob("*.py")} - {"app"} <= core | dev
    assert dev <= third_party("tests", "lines_explorer/training") | {"ruff", "hypothesis", "playwright", "pytest_xdist"}


def test_project_metadata_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["scripts"] == {"lines-explorer": "lines_explorer.cli:run"}
    assert project["license"] == "MIT" and (ROOT / "LICENSE").read_text(encoding="utf-8").startswith("MIT License")
