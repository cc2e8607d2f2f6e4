"""``make lab`` opens the lesson that it is asked for."""

from __future__ import annotations

import subprocess
import sys

import lab
import pytest

from tests.support import ROOT


@pytest.mark.parametrize("name", ["05", "5", "c05", "05_writing_symbolic"])
def test_a_chapter_is_found_by_its_number(name):
    assert lab.lesson_of(ROOT, name) == "notebooks/05_writing_symbolic.ipynb"
    assert lab.lesson_of(ROOT, "a1") == "notebooks/A1_cpp_in_an_hour.ipynb"


def test_the_lesson_is_what_jupyterlab_opens():
    given = lab.arguments(ROOT, 1000, "notebooks/05_writing_symbolic.ipynb")
    assert "--LabApp.default_url=/lab/tree/notebooks/05_writing_symbolic.ipynb" in given


def test_a_chapter_that_does_not_exist_is_a_sentence():
    done = subprocess.run([sys.executable, "tools/lab.py", "--chapter=77"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and "There is no chapter 77. There are 00, 01" in done.stderr
    assert "Traceback" not in done.stderr
