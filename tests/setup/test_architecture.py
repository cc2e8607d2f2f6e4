"""The plan of the library: imports point downwards, packages are few, files are short, and docs/architecture.md shows what is there."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]
ARROWS = 125  # pairs of packages of which one imports the other
LINES = 500
LAYERS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"][0][
    "layers"
]


@pytest.fixture(scope="module")
def graph():
    return grimp.build_graph("oplab", cache_dir=None)


def test_imports_point_downwards():
    code = "import sys; from importlinter.cli import lint_imports_command; lint_imports_command()"
    command = [sys.executable, "-c", code, "--config", ROOT / "pyproject.toml", "--no-cache", "--no-logo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_packages_know_few_others(graph):
    def package(module: str) -> str:
        return module.split(".")[1] if "." in module else module

    arrows = {
        (package(module), package(imported))
        for module in graph.modules
        for imported in graph.find_modules_directly_imported_by(module)
        if package(module) != package(imported)
    }
    assert len(arrows) <= ARROWS, sorted(arrows)


def test_no_chapter_imports_another(graph):
    chapters = [module for module in graph.modules if re.fullmatch(r"oplab\.checks\.c(\d\d|A\d)_\w+", module)]
    assert len(chapters) > 16
    for chapter in chapters:
        assert graph.find_modules_directly_imported_by(chapter).isdisjoint(chapters), chapter


def test_files_are_short():
    long = {
        path.relative_to(ROOT).as_posix(): lines
        for folder in ("oplab", "tools", "benchmarks", "tests")
        for path in (ROOT / folder).rglob("*.py")
        if not re.fullmatch(r"c(\d\d|A\d)_\w+\.py", path.name)
        and (lines := len(path.read_text(encoding="utf-8").splitlines())) > LINES
    }
    assert not long


def test_the_picture_shows_each_layer_in_order():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    picture = re.search(r"```mermaid\n(.+?)```", page, re.DOTALL)[1]
    shown = [set(re.findall(r"[a-z]+", names)) for names in re.findall(r'\["(.+?)"\]', picture)]
    assert shown == [set(re.findall(r"[a-z]+", layer)) for layer in LAYERS]
