"""What grading relies on follows from imports: nothing that a check can import is forgotten."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from oplab.grading.imports import reachable
from oplab.grading.integrity import PACKAGE, CourseFiles
from oplab.paths import root

STEMS = sorted(path.stem[1:] for path in (PACKAGE / "checks").glob("c??_*.py"))
PARTS = {
    "p": "",
    "p.checks": "",
    "p.checks.c01": "",
    "p.a": "import p.b",
    "p.b": "",
    "p.c": "",
    "p.lazy": "TABLE = {'one': 'p.b', 'two': 'inner', 'three': 3}\ndef __getattr__(name): ...",
    "p.lazy.inner": "from p import c",
}


@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("", set()),
        ("from p import a", {"p.a", "p.b"}),
        ("from p.a import anything", {"p.a", "p.b"}),
        ("def later():\n    from p import c", {"p.c"}),
        ("import p as q\nprint(q.c.something.more)", {"p.c"}),
        ("from p.lazy import one", {"p.lazy", "p.b"}),
        ("from p import lazy\nlazy.two()", {"p.lazy", "p.lazy.inner", "p.c"}),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import p.a\nelse:\n    import p.c", {"p.c"}),
        ("(" * 100_000, set()),
    ],
)
def test_what_a_module_can_import(text, more):
    assert reachable(["p.checks.c01"], {**PARTS, "p.checks.c01": text}) == {"p", "p.checks", "p.checks.c01"} | more


def relied_on(*stems: str, answers: tuple[str, ...] = ()) -> set[str]:
    files = CourseFiles(root(), stems, answers)
    assert files.relied_on <= set(files.paths)
    return {path.relative_to(root()).as_posix() for path in files.relied_on}


def test_every_module_that_the_server_and_the_checks_import_is_relied_on():
    code = f"""
import importlib, json, sys
import oplab.grading.fork_server
for stem in {STEMS}:
    importlib.import_module(f"oplab.checks.c{{stem}}")
print(json.dumps([m.__file__ for name, m in sys.modules.items() if name.partition(".")[0] == "oplab"]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root(), timeout=300)
    assert done.returncode == 0, done.stderr
    imported = {Path(file).relative_to(root()).as_posix() for file in json.loads(done.stdout.splitlines()[-1])}
    assert len(imported) > 40
    assert imported - relied_on(*STEMS) == set()


def test_each_chapter_relies_on_what_it_imports_and_on_no_more():
    first, speed = relied_on("00_first_round_trip"), relied_on("14_fast_kernels")
    assert {"oplab/checks/speed.py", "oplab/timing.py", "oplab/checks/c14_fast_kernels.py"} <= speed - first
    common = {
        "course.toml",
        "oplab/__init__.py",
        "oplab/errors.py",
        "oplab/grading/worker.py",
        "oplab/grading/grader.py",
    }
    assert common <= first & speed
    assert {"oplab/checks/c00_first_round_trip.py", "solutions/c00_first_round_trip.py"} <= first - speed
    assert not any(file.startswith(("oplab/viewer/", "oplab/cli/", "oplab/authoring/")) for file in first)


def test_an_import_inside_of_a_function_and_the_data_beside_it_count():
    found = relied_on("16_capstone")  # imports the nets in its functions; they read their weights from files
    assert {"oplab/nets/srcnn.py", "oplab/nets/srcnn.npz"} <= found
