"""Stubs are made from solutions, recognised, and put back."""

from __future__ import annotations

import pytest

from oplab.course.manifest import load
from oplab.course.stubs import Todo, is_untouched, make_stub, restore, todo
from tests.support import ROOT

SOLUTION = '''\
"""Doc."""

from oplab import todo


# ANSWER c01.one
def _helper():
    return 1


# END


def one(x):
    """Return one."""
    # ANSWER c01.one: return one
    return _helper()
    # END


@decorated
def two(x):
    # ANSWER c01.two: return two
    return 2
    # END
'''


def test_a_block_becomes_a_todo_and_a_helper_vanishes():
    stub = make_stub(SOLUTION, "s")
    assert "_helper" not in stub and "ANSWER" not in stub and "END" not in stub
    assert '    """Return one."""\n    # TODO c01.one: return one\n    raise todo("c01.one")\n' in stub


def test_todo_names_exercise_file_and_line():
    error = todo("c01.one")
    assert isinstance(error, NotImplementedError) and isinstance(error, Todo)
    assert "c01.one is not written yet: grading/test_stubs.py, line " in str(error)
    assert error._render_traceback_() == [str(error)]


def test_untouched_looks_at_one_function_only():
    stub = make_stub(SOLUTION, "s")
    mine = stub.replace('raise todo("c01.two")', "return 2")
    assert is_untouched(mine, stub, "one")
    assert not is_untouched(mine, stub, "two")
    assert is_untouched(stub.replace("\n\n", "\n\n\n"), stub, "one")
    assert not is_untouched("x = 1", stub, "one")


def test_restore_replaces_one_function_with_its_decorators():
    stub = make_stub(SOLUTION, "s")
    mine = stub.replace("@decorated\ndef two(x):", "@mine\n@again\ndef two(x, y):").replace(
        'raise todo("c01.one")', "return 7"
    )
    assert restore(mine, stub, "two") == stub.replace('raise todo("c01.one")', "return 7")


def test_exercises_in_git_are_the_stubs():
    """What a fresh clone holds. A learner's own edits are not ours to test, so the committed text is read."""
    import subprocess

    for exercise in load(ROOT).exercises:
        name = f"exercises/{exercise.file}"
        committed = subprocess.run(["git", "show", f"HEAD:{name}"], cwd=ROOT, capture_output=True, text=True)
        if committed.returncode:
            pytest.skip("not a git checkout, so the committed stubs cannot be read")
        solution = (ROOT / "solutions" / exercise.file).read_text(encoding="utf-8")
        assert committed.stdout == make_stub(solution, exercise.file), (
            f"run `python tools/make_stubs.py`: {name} is not its stub"
        )
