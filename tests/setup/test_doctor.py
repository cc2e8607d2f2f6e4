"""The doctor: what it sees, what it advises, and that it survives an environment with nothing in it."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from oplab import doctor
from tests.support import ROOT


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_asked", {})


def row(name: str) -> doctor.Component:
    found = [row for row in doctor.report() if row.name == name]
    assert len(found) == 1, f"{len(found)} rows of {name}"
    return found[0]


def test_here_all_that_is_needed_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main() == 0
    printed = capsys.readouterr().out
    for name in ("Python", *doctor.PACKAGES, "C++ compiler", "cmake", "ORT headers", "Operators", "Free disk", "GPU"):
        assert name in printed
    assert importlib.metadata.version("torch") in printed and "my_add" in printed
    assert printed.endswith("Everything that the course needs is installed.\n")


def test_a_missing_package(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    version = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: None if name in ("torch", "onnxruntime") else version(name))
    assert row("torch") == doctor.Component("torch", "not installed", False, "make setup")
    assert row("ORT headers").ok is False and row("Operators").ok is False
    assert doctor.main() == 1
    assert "Missing: torch, onnxruntime, ORT headers, Operators." in capsys.readouterr().out


@pytest.mark.nightly
def test_another_version_than_the_pinned_one(monkeypatch: pytest.MonkeyPatch) -> None:
    version = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: "1.0" if name == "onnx" else version(name))
    assert row("onnx").value.startswith("1.0; the course was tested with 1.") and row("onnx").ok is None
    monkeypatch.setattr(
        doctor, "_version", lambda name: f"{doctor._pins()[name]}+cpu" if name == "torch" else version(name)
    )
    assert row("torch").ok is True


@pytest.mark.nightly
def test_no_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    assert row("C++ compiler").ok is False and "g++" in row("C++ compiler").fix


@pytest.mark.nightly
def test_operators_that_are_not_compiled_or_do_not_load(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "course.toml").write_text("")
    monkeypatch.setenv("OPLAB_ROOT", str(tmp_path))
    assert "not compiled" in row("Operators").value and row("Operators").fix == "make setup"
    lib = tmp_path / "build" / "lib"
    lib.mkdir(parents=True)
    for name in ("oplab_torch_ops.so", "oplab_ort_ops.so", "oplab_torch_ops.dylib", "oplab_ort_ops.dylib"):
        (lib / name).write_bytes(b"no library")
    found = row("Operators")
    assert "do not load" in found.value and found.ok is False and found.fix == "make clean setup"


def test_it_works_where_nothing_is_installed() -> None:
    """-S: no site-packages at all, so neither torch nor rich nor oplab's own dependencies."""
    done = subprocess.run(
        [sys.executable, "-S", "-m", "oplab.doctor"], cwd=ROOT, capture_output=True, text=True, timeout=180
    )
    assert done.returncode == 1 and "Traceback" not in done.stdout + done.stderr
    assert "NO  torch" in done.stdout and "-> make setup" in done.stdout
