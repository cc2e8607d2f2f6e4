"""Merges of a learner's file with a new stub: git's, but new words of a TODO are no conflict, and Python still compiles."""

from __future__ import annotations

import pytest

from oplab.updates.merging import merge
from tests.support import ROOT
from tests.support.updated_course import CPP, STUB

BASE = STUB.format(clip="Clip x.", log="The logarithm.").encode()
MINE = BASE.replace(
    b'    # TODO c05.clip: write clip\n    raise todo("c05.clip")\n', b"    return helper(min(x, 6))\n"
).replace(b"def clip", b"def helper(x):\n    return x\n\n\ndef clip")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"The logarithm.", b"The natural logarithm."),
        (b"LIMIT = 6", b"LIMIT = 7"),
        (b"write log", b"write log, please"),
        (b'"""Clip x."""', b'"""Clip x, faithfully."""'),
        (b"def log(x):", b"def exp(x):\n    return x\n\n\ndef log(x):"),
        (b"Chapter 05.", b"Chapter 05: symbolic."),
    ],
)
def test_what_the_course_changed_elsewhere_comes_to_the_learner(old, new):
    assert merge(BASE, MINE, BASE.replace(old, new), "a.py") == MINE.replace(old, new)


def test_new_words_of_a_todo_that_is_written_change_nothing():
    assert merge(BASE, MINE, BASE.replace(b"write clip", b"write clip at every opset"), "a.py") == MINE
    mine = CPP.replace(
        b'// TODO c05.shift: write shift\n#error "c05.shift is not written yet"\n', b"int shift(int x);\n"
    )
    assert merge(CPP, mine, CPP.replace(b"TODO c05.shift: write", b"TODO c05.shift: code"), "a.cpp") == mine


@pytest.mark.parametrize(
    ("base", "mine", "new"),
    [
        (BASE, BASE.replace(b"= 6", b"= 7"), BASE.replace(b"= 6", b"= 8")),
        (
            BASE,
            MINE,
            BASE.replace(b"    # TODO c05.clip: write clip\n", b"").replace(b'raise todo("c05.clip")', b"return x"),
        ),
        (BASE, b"", BASE.replace(b"= 6", b"= 8")),  # an editor that has emptied the file, and not yet written it
        # right alone, and together no Python any more
        (b"\n\n\n\nb = 2\n", b"x = 0\n\n\n\nb = 2\n", b"\n\n\n\nfrom __future__ import annotations\nb = 2\n"),
    ],
)
def test_a_conflict(base, mine, new):
    assert merge(base, mine, new, "a.py") is None


def test_line_ends_are_the_learner_s():
    mine = MINE.replace(b"\n", b"\r\n")
    assert merge(BASE, mine, BASE.replace(b"= 6", b"= 7"), "a.py") == mine.replace(b"LIMIT = 6", b"LIMIT = 7")


def test_without_git_nothing_is_merged(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert merge(BASE, MINE, BASE.replace(b"= 6", b"= 7"), "a.py") is None


def test_each_answer_of_this_course_meets_a_change_of_its_docstrings():
    """A learner has written everything; the course changes the first words of each docstring and each TODO."""
    from oplab.course.stubs import make_stub

    merged = 0
    for solution in sorted((ROOT / "solutions").rglob("c*.py")):
        mine = solution.read_bytes()
        base = make_stub(mine.decode(), solution.name).encode()
        new = base.replace(b'"""', b'"""New: ', 1).replace(b"# TODO c", b"# TODO c").replace(b": ", b": now, ", 1)
        result = merge(base, mine, new, solution.name)
        assert result is not None and b"New: " in result, solution.name
        merged += 1
    assert merged > 15
