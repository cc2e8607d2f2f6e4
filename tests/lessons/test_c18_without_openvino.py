"""Chapter 18 where an engine is not installed: its cells print one line each, and all other cells run."""

from __future__ import annotations

import subprocess
import sys

import jupytext
import pytest

from tests.support import ROOT, environment

HIDE = """\
import sys
for name in {hidden!r}:
    sys.modules[name] = None  # an import fails, and find_spec finds nothing, as where it is not installed
"""
# The exercises have their own tests, and the quiz and the picture of a graph need no engine.
LEFT_OUT = ("lab.check(", "lab.quiz(", "lab.show(")


def program(hidden: tuple[str, ...]) -> str:
    notebook = jupytext.read(ROOT / "notebooks" / "src" / "18_four_engines.py")
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    lines = [line for cell in cells for line in cell.splitlines() if not line.startswith(LEFT_OUT)]
    return HIDE.format(hidden=hidden) + "\n".join(lines)


@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize(
    ("hidden", "missing"),
    [
        (("openvino", "ncnn", "pnnx"), {"OpenVINO", "ncnn", "pnnx", "ncnn and pnnx"}),
        pytest.param(("openvino",), {"OpenVINO"}, marks=pytest.mark.nightly),
        pytest.param(("pnnx",), {"pnnx"}, marks=pytest.mark.nightly),
    ],
    ids=["none", "no openvino", "no pnnx"],
)
def test_the_lesson_runs_without(hidden, missing, tmp_path):
    names = {"openvino": "OpenVINO"}
    for name in ("openvino", "ncnn", "pnnx"):
        if name not in hidden:
            pytest.importorskip(name, reason=f"{names.get(name, name)} is not installed; `make deps-engines` does it")
    done = subprocess.run(
        [sys.executable, "-c", program(hidden)],
        cwd=tmp_path,
        env=environment(OPLAB_ROOT=str(ROOT), OPLAB_TRACK="solutions"),
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stdout.splitlines() if line.startswith("This needs ")]
    assert said and all(line.endswith(", not installed here: `make deps-engines`.") for line in said)
    assert {line.removeprefix("This needs ").partition(", not")[0] for line in said} <= missing
    for engine in ("openvino", "ncnn"):
        printed = any(line.startswith(f"{names.get(engine, engine):13} float32") for line in done.stdout.splitlines())
        needs = {"openvino"} if engine == "openvino" else {"ncnn", "pnnx"}
        if not needs & set(hidden):
            marked = any(line.startswith(f"⏱ {names.get(engine, engine):13}") for line in done.stdout.splitlines())
            assert printed and marked
        else:
            assert not printed
