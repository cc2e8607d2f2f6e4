"""``%%exercise``: a cell's function goes into the learner's file, and nothing else is lost."""

from __future__ import annotations

import os
import shutil

import pytest

from oplab.course.manifest import load
from oplab.errors import OplabError
from oplab.lessons import magic, writing
from oplab.lessons.saved import Answers
from tests.support import ROOT

FILE = '''\
"""Answers."""

from __future__ import annotations

import math

from oplab import todo

LIMIT = 3


# Why it is here.
@cached
def one(x):
    # TODO c01.one: return one
    raise todo("c01.one")


def helper(x):
    return x


def two(x):
    return helper(x)
'''


def merged(cell: str, text: str = FILE, name: str = "one") -> str:
    return writing.merged(text, cell, name, "exercises/c01_x.py", {"two"})


def test_the_function_and_nothing_else_is_replaced():
    cell = "# mine\n@once\n@twice\ndef one(x):\n    # why\n    return 1\n"
    old = '@cached\ndef one(x):\n    # TODO c01.one: return one\n    raise todo("c01.one")\n'
    assert merged(cell) == FILE.replace(old, "@once\n@twice\ndef one(x):\n    # why\n    return 1\n")
    assert merged(cell, merged(cell)) == merged(cell)


def test_new_helpers_come_before_the_function_and_known_ones_are_replaced():
    cell = (
        "import numpy as np\nimport math\n\nSIZE = 4\nLIMIT = 5\n\n\ndef helper(x):\n    return -x\n\n\n"
        "def one(x):\n    return SIZE\n\n\ndef half(x):\n    return x / 2\n"
    )
    text = merged(cell)
    order = [
        "import math",
        "from oplab import todo\nimport numpy as np\n",
        "LIMIT = 5\n",
        "SIZE = 4\n\n\ndef half(x):",
        "# Why it is here.\ndef one(x):\n    return SIZE\n",
        "def helper(x):\n    return -x\n",
        "def two",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places) and text.count("import math") == 1 and "LIMIT = 3" not in text
    assert merged(cell, text) == text
    compile(text, "x", "exec")


def test_a_function_that_the_file_lost_comes_at_its_end():
    text = "import math\n\n\ndef two(x):\n    return 2\n"
    assert merged("half = 0.5\ndef one(x):\n    return half\n", text).startswith(text)
    assert merged("def one(x):\n    return 1", text) == f"{text}\n\ndef one(x):\n    return 1\n"
    assert merged("def one(x):\n    return 1", "") == "def one(x):\n    return 1\n"


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("!ls\ndef one(x):\n    return 1\n", "The cell is not valid Python: line 1"),
        ("one = lambda x: 1\n", "The cell does not define one"),
        ("def one(x):\n    return 1\n\none(3)\n", "Line 4 of the cell does not define or import anything"),
        ("def one(x):\n    return 1\ndef two(x):\n    return 2\n", "also defines two, which is an exercise itself"),
        (
            "import cmath as math\ndef one(x):\n    return 1\n",
            "math is already something else in exercises/c01_x.py, line 5",
        ),
        ("from __future__ import generator_stop\ndef one(x):\n    return 1\n", "does not begin with"),
    ],
)
def test_what_a_cell_may_not_hold_is_a_sentence(cell, words):
    with pytest.raises(OplabError, match=words):
        merged(cell)


def test_a_file_that_is_not_python_or_has_two_statements_on_the_line_is_refused():
    for text, words in (("def two(:\n", "is not valid Python: line 1"), ("A = 1; B = 2\n", "holds several statements")):
        with pytest.raises(OplabError, match=words):
            merged("A = 3\ndef one(x):\n    return A\n", text)


def test_a_file_that_changes_at_the_last_moment_is_not_overwritten(tmp_path):
    file = tmp_path / "c01_x.py"
    file.write_text("theirs")
    with pytest.raises(OplabError, match="was changed while the cell was written"):
        writing.write(file, b"seen", "mine", "exercises/c01_x.py")
    assert file.read_text() == "theirs" and os.listdir(tmp_path) == ["c01_x.py"]
    link = tmp_path / "link.py"
    link.symlink_to(file)
    file.chmod(0o600)
    writing.write(link, b"theirs", "mine", "exercises/c01_x.py")
    assert link.is_symlink() and file.read_text() == "mine" and file.stat().st_mode & 0o777 == 0o600


@pytest.fixture
def root(tmp_path, monkeypatch):
    """The course with a learner's files: its own folder is not written to."""
    root = tmp_path / "course"
    root.mkdir()
    for part in ("course.toml", "oplab", "csrc", "notebooks", "solutions"):
        (root / part).symlink_to(ROOT / part)
    shutil.copytree(ROOT / "exercises", root / "exercises")
    monkeypatch.setenv("OPLAB_ROOT", str(root))
    monkeypatch.setenv("OPLAB_TRACK", "exercises")
    return root


class Notebook:
    """What the magic needs of a lesson; it notes what is graded."""

    def __init__(self, root):
        self.course = load(root)
        self.chapter = self.course.chapter("c04")
        self.graded: list[str] = []

    def find(self, name):
        return self.course.exercise(name, self.chapter)

    def check(self, name):
        self.graded.append(name)


RIGHT = """\
def asinh() -> None:
    import torch

    torch.onnx.register_custom_op_symbolic("aten::asinh", lambda g, x: g.op("Asinh", x), 9)
"""


def test_a_cell_is_written_kept_shown_and_graded(root, capsys):
    file = root / "exercises" / "c04_aten_symbolic.py"
    before, answers, notebook = file.read_text(), Answers(file), Notebook(root)
    writer = magic.Writer(notebook)
    writer.run("asinh", RIGHT)
    assert answers.asinh.__doc__ is None and RIGHT in file.read_text()
    (backup,) = (root / "build" / "backup").rglob("c04_aten_symbolic.py")
    assert backup.read_text() == before
    shown = capsys.readouterr().out
    assert shown.startswith("What changed in exercises/c04_aten_symbolic.py\n--- before\n+++ now\n")
    assert '-    raise todo("c04.asinh")' in shown and "+    import torch" in shown
    assert f"saved in {backup.relative_to(root)}." in shown
    assert notebook.graded == ["c04.asinh"]
    writer.run("c04.asinh", RIGHT)
    assert capsys.readouterr().out == "exercises/c04_aten_symbolic.py already contains this.\n"
    assert len(list((root / "build" / "backup").rglob("*.py"))) == 1


def test_a_function_that_was_edited_elsewhere_is_replaced_only_when_asked_again(root, capsys):
    file = root / "exercises" / "c04_aten_symbolic.py"
    writer = magic.Writer(Notebook(root))
    writer.run("asinh", RIGHT)
    file.write_text(file.read_text().replace('"Asinh"', '"Sinh"'))
    theirs = file.read_text()
    with pytest.raises(
        OplabError, match=r"asinh in exercises/c04_aten_symbolic.py has changed since this notebook wrote it"
    ):
        writer.run("asinh", RIGHT)
    assert file.read_text() == theirs
    writer.run("asinh", RIGHT)
    assert '"Asinh"' in file.read_text()
    assert theirs in {path.read_text() for path in (root / "build" / "backup").rglob("c04*.py")}
    # Another exercise of the file, or a stub that was restored, is no reason to refuse.
    file.write_text(file.read_text() + "\n\ndef mine():\n    pass\n")
    writer.run("asinh", RIGHT.replace("9)", "11)"))
    shutil.copy2(ROOT / "exercises" / "c04_aten_symbolic.py", file)
    writer.run("asinh", RIGHT)


def test_windows_line_ends_stay(root):
    file = root / "exercises" / "c04_aten_symbolic.py"
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    magic.Writer(Notebook(root)).run("asinh", RIGHT)
    data = file.read_bytes()
    assert data.count(b"\n") == data.count(b"\r\n") and b'register_custom_op_symbolic("aten::asinh"' in data


def test_a_wrong_line_is_a_sentence_and_nothing_is_written(root):
    before = {path: path.read_bytes() for path in (root / "exercises").rglob("*") if path.is_file()}
    notebook = Notebook(root)
    for line, words in (
        ("", "takes one exercise"),
        ("c04.asin", "There is no exercise c04.asin"),
        ("grid", r"c13.grid is written in C\+\+, in exercises/csrc/c13_grid.cpp"),
    ):
        with pytest.raises(OplabError, match=words):
            magic.Writer(notebook).run(line, RIGHT)
    assert before == {path: path.read_bytes() for path in (root / "exercises").rglob("*") if path.is_file()}
    assert not (root / "build").exists() and not notebook.graded


def test_the_references_are_never_written(root, monkeypatch):
    monkeypatch.setenv("OPLAB_TRACK", "solutions")
    with pytest.raises(OplabError, match="OPLAB_TRACK=solutions is set"):
        magic.Writer(Notebook(root)).run("asinh", RIGHT)
