"""What a notebook uses: opening a chapter, reading answers again, failures that are shown."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from oplab.course.stubs import Todo, make_stub
from oplab.errors import OplabError
from oplab.lessons import Answers, lesson, raises
from oplab.onnxtools.quiet import cpp_warnings
from tests.support import ROOT


def test_warnings_of_cpp_code_are_printed_once(capfd):
    with cpp_warnings():
        for _ in range(2):
            os.write(2, b"[W 1] Warning: no shape. (function f)\nanother line\n")
    assert capfd.readouterr() == ("Warning: no shape.\n", "")
    with cpp_warnings():
        os.write(2, b"a line\n")
    assert capfd.readouterr().out == "no warning\n"
    os.write(2, b"after\n")
    assert capfd.readouterr().err == "after\n"


@pytest.mark.parametrize(
    ("below", "shown"),
    [
        ("\n index: 2 Got: 200 Expected: 512\n index: 3 Got: 300 Expected: 512\n Please fix 1", [2, 3]),
        ("\n ACTUAL: 230\n DESIRED: 229", ["ACTUAL: 230", "DESIRED: 229"]),
        ("\nname:  OpType: Add\nindex: 2 Got: 200", []),  # no number, and then another subject
        ("\nnumerical:tensor([[2., 0.],\n        [0., 2.]])", []),  # half of a matrix
        ("".join(f"\nindex: {number} Got: 1" for number in range(9)), [0, 1, 2, 3]),
    ],
)
def test_raises_shows_the_numbers_below_the_line(below, shown, capsys):
    with raises(ValueError, "wrong"):
        raise ValueError(f"title: 1\nsize is wrong for the following indices{below}")
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == "ValueError: size is wrong for the following indices"
    assert len(rest) == len(shown)
    for line, words in zip(rest, shown, strict=True):
        assert line.startswith(f"    index: {words} " if isinstance(words, int) else f"    {words}")


def test_raises_fails_on_anything_else():
    with pytest.raises(AssertionError, match="ValueError was expected; nothing was raised"), raises(ValueError):
        pass
    with pytest.raises(AssertionError, match="ValueError was expected, but KeyError was raised"), raises(ValueError):
        raise KeyError("x")
    with pytest.raises(AssertionError, match="'shape' is not in its message"), raises(ValueError, "shape"):
        raise ValueError("dtype")


def test_answers_are_read_again_after_a_save(tmp_path):
    file = tmp_path / "c04_x.py"
    file.write_text("def f():\n    return 1\n")
    answers = Answers(file)
    assert answers.f() == 1
    file.write_text("def f():\n    return 2\n")  # the same size, within the same second
    seen = file.stat()
    os.utime(file, ns=(seen.st_atime_ns, seen.st_mtime_ns + 1))
    assert answers.f() == 2
    assert dir(answers) == ["f"]


def test_a_stub_in_a_notebook_is_a_sentence_without_a_traceback(tmp_path):
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    file = tmp_path / "c04_x.py"
    file.write_text('from oplab import todo\n\n\ndef f():\n    raise todo("c04.f")\n')
    shell = InteractiveShell.instance()
    shell.user_ns["ex"] = Answers(file)
    with capture_output() as captured:
        result = shell.run_cell("ex.f()")
    assert isinstance(result.error_in_exec, Todo)
    assert "c04.f is not written yet" in captured.stdout + captured.stderr
    assert "Traceback" not in captured.stdout + captured.stderr


def test_a_notebook_may_be_started_from_anywhere(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPLAB_ROOT", raising=False)
    lab = lesson("04_aten_symbolic")
    assert lab.build.is_dir()
    out = capsys.readouterr().out
    assert "exercises/c04_aten_symbolic.py" in out and "asinh" in out and "torch 2." in out


@pytest.fixture
def small_course(tmp_path, monkeypatch):
    """Chapter 04 with a learner's file: the course's own folder is not written to."""
    root = tmp_path / "course"
    for part in ("course.toml", "oplab", "csrc", "notebooks"):
        (root / part).parent.mkdir(parents=True, exist_ok=True)
        (root / part).symlink_to(ROOT / part)
    (root / "build").mkdir()
    for folder in ("exercises", "solutions"):
        shutil.copytree(ROOT / "solutions", root / folder)
    monkeypatch.setenv("OPLAB_ROOT", str(root))
    return root


def test_a_reference_answer_that_passes_says_nothing_and_one_that_fails_raises(small_course, monkeypatch, capsys):
    """So a saved notebook shows no pass before the learner has one, and a run with the solutions still proves each of them."""
    monkeypatch.setenv("OPLAB_TRACK", "solutions")
    lab = lesson("04_aten_symbolic")
    capsys.readouterr()
    lab.check("asinh")
    assert capsys.readouterr().out == ""
    file = small_course / "solutions" / "c04_aten_symbolic.py"
    file.write_text(make_stub(file.read_text(), file.name))
    with pytest.raises(OplabError, match="The reference answer of c04.asinh does not pass"):
        lab.check("asinh")


FAILED_EXPORT = """
import sys, tempfile, torch
from oplab import quiet_exports
if sys.argv[1] == "quiet":
    quiet_exports()
class Asinh(torch.nn.Module):
    def forward(self, x):
        return torch.asinh(x)
try:
    torch.onnx.export(Asinh(), (torch.ones(2),), tempfile.mktemp(), dynamo=False)
except torch.onnx.errors.UnsupportedOperatorError as error:
    print("raised", "aten::asinh" in str(error))
"""


@pytest.mark.nightly
@pytest.mark.parametrize(("how", "graph"), [("quiet", False), ("loud", True)])
def test_a_failed_export_prints_no_graph_and_still_raises(how, graph):
    """``loud`` shows that there is something to silence: when it no longer prints, the hook can go."""
    done = subprocess.run([sys.executable, "-c", FAILED_EXPORT, how], capture_output=True, text=True, check=True)
    assert "raised True" in done.stdout
    assert ("onnx::" in done.stdout + done.stderr or "graph(" in done.stdout + done.stderr) is graph
    assert ("Warning" in done.stderr) is graph
