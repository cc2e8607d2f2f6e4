"""What is executed for a grade comes from source texts: no compiled file, no .pth file, and no module of the current folder."""

from __future__ import annotations

import importlib.util
import json
import os
import py_compile
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from oplab.grading import isolation, submitted
from oplab.reports import graphs
from tests.support import ROOT

START = """
from pathlib import Path
from oplab.grading.client import Server
with Server() as server:
    server.start()
"""


def run(code: str, folder: Path, **more) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        [sys.executable, "-P", "-c", code], env=env, capture_output=True, text=True, timeout=200, **more
    )


@pytest.mark.nightly
def test_the_server_executes_no_compiled_file_of_the_package(tmp_path):
    """A file that claims to belong to a source and does something else; Python itself believes it."""
    ignored = shutil.ignore_patterns("c[0-9A][0-9]_*", "__pycache__", "data", "static")
    package = shutil.copytree(ROOT / "oplab", tmp_path / "oplab", ignore=ignored)
    source, mark, evil = package / "checks" / "judge.py", tmp_path / "executed", tmp_path / "evil.py"
    evil.write_text(f"{source.read_text()}\nopen({str(mark)!r}, 'w').close()\n")
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    (package / "checks" / "__pycache__").mkdir()
    py_compile.compile(evil, importlib.util.cache_from_source(str(source)), doraise=True, invalidation_mode=unchecked)

    done = run(START, tmp_path)
    assert done.returncode == 0, done.stderr
    assert not mark.exists()
    run("import oplab.checks.judge", tmp_path)
    assert mark.exists(), "Python does not execute it either: this test would prove nothing"


def test_the_process_that_draws_imports_nothing_of_the_environment(tmp_path, monkeypatch):
    mark = tmp_path / "executed"
    for name in ("onnx.py", "sitecustomize.py", "json.py"):
        (tmp_path / name).write_text(f"open({str(mark)!r}, 'w').close()\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "kept" / "c00.x"
    folder.mkdir(parents=True)
    (folder / "evidence.json").write_text(json.dumps({"items": {"model": {"kind": "file", "file": "f0.bin"}}}))
    (folder / "f0.bin").write_bytes(_model())
    drawn = graphs.draw({"c00.x": []}, tmp_path / "kept")
    assert [graph.svg[:4] for graph in drawn["c00.x"]] == ["<svg"]
    assert not mark.exists()


def _model() -> bytes:
    from onnx import TensorProto, helper

    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [x], [y])
    return helper.make_model(graph).SerializeToString()


@pytest.mark.skipif(not isolation.landlock_abi(), reason="this kernel has no Landlock")
def test_the_process_that_draws_writes_no_file(tmp_path):
    job = json.dumps({"folder": str(tmp_path), "exercises": {}, "each": 1})
    code = f"from oplab.reports.draw import main; main(); open({str(tmp_path / 'made')!r}, 'w')"
    done = run(code, ROOT, input=job)
    assert "PermissionError" in done.stderr and not (tmp_path / "made").exists()


class TestSubmitted:
    @pytest.mark.parametrize("what", ["file", "folder", "pipe", "directory", "large", "socket"])
    def test_what_is_no_plain_file(self, tmp_path, monkeypatch, what):
        other = tmp_path / "other"
        other.mkdir()
        (other / "x.py").write_text("secret")
        mine = tmp_path / "mine"
        (mine / "csrc").mkdir(parents=True)
        file = mine / "csrc" / "x.py"
        words = "is not a plain file"
        if what == "file":
            file.symlink_to(other / "x.py")
            words = "x.py is a link, and links are not followed"
        elif what == "folder":
            (mine / "csrc").rmdir()
            (mine / "csrc").symlink_to(other)
            words = "csrc is a link, and links are not followed"
        elif what == "pipe":
            os.mkfifo(file)
        elif what == "directory":
            file.mkdir()
        elif what == "socket":
            monkeypatch.chdir(mine / "csrc")  # the whole path may be too long for a socket
            socket.socket(socket.AF_UNIX).bind("x.py")
        else:
            file.write_text("#" * (1 << 20) + "#")
            words = "larger than 1 MB"
        with pytest.raises(submitted.NotReadable, match=words):
            submitted.read(mine, "csrc/x.py")
