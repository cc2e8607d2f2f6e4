"""The manifest: what is read, and the sentence with a line for what is broken."""

from __future__ import annotations

import pytest

from oplab.course.manifest import Limits, load
from oplab.errors import OplabError
from tests.support import ROOT

GOOD = """\
title = "T"
[limits]
wall = 5.0

[[chapter]]
stem = "04_aten_symbolic"
title = "ATen"
minutes = 10

[[chapter.exercise]]
name = "asinh"
goal = "map asinh"
points = 2
difficulty = 1
minutes = 5
hints = ["a", "b"]
limits = { memory_mb = 100 }

[[chapter]]
stem = "12_kernels"
title = "Kernels"
minutes = 10

[[chapter.exercise]]
name = "my_add"
goal = "a kernel"
points = 3
difficulty = 1
minutes = 5
hints = ["a"]
kind = "ort"
"""


def read(tmp_path, text):
    (tmp_path / "course.toml").write_text(text)
    return load(tmp_path)


def test_ids_files_and_limits_follow_from_the_stem(tmp_path):
    course = read(tmp_path, GOOD)
    asinh, my_add = course.exercises
    assert (asinh.id, asinh.file) == ("c04.asinh", "c04_aten_symbolic.py")
    assert (my_add.id, my_add.file) == ("c12.my_add", "csrc/c12_my_add.cpp")
    assert asinh.limits == Limits(wall=5.0, memory_mb=100)
    assert my_add.limits == Limits(wall=5.0)
    assert course.checks_file(asinh) == tmp_path / "oplab/checks/c04_aten_symbolic.py"
    assert [exercise.id for exercise in course.select(["c12", "c04.asinh"])] == ["c04.asinh", "c12.my_add"]


def test_the_path_is_the_core_then_what_is_deeper_then_the_appendices(tmp_path):
    text = GOOD.replace('stem = "12_kernels"', 'stem = "A1_cpp"').replace(
        'hints = ["a", "b"]', 'hints = ["a"]\ndeeper = true'
    )
    later = '[[chapter]]\nstem = "05_more"\ntitle = "More"\nminutes = 5\n[[chapter.exercise]]\nname = "clip"\n'
    later += 'goal = "g"\npoints = 1\ndifficulty = 1\nminutes = 5\nhints = ["a"]\n'
    course = read(tmp_path, text.replace('[[chapter]]\nstem = "A1', f'{later}\n[[chapter]]\nstem = "A1'))
    assert [exercise.id for exercise in course.exercises] == ["c04.asinh", "c05.clip", "cA1.my_add"]
    assert [exercise.id for exercise in course.path] == ["c05.clip", "c04.asinh", "cA1.my_add"]
    assert course.exercise("cA1.my_add").file == "csrc/cA1_my_add.cpp"
    assert [chapter.appendix for chapter in course.chapters] == [False, False, True]


def test_a_chapter_without_minutes_is_deeper_as_a_whole(tmp_path):
    course = read(tmp_path, GOOD.replace("minutes = 10", "minutes = 0", 1))
    assert [exercise.deeper for exercise in course.exercises] == [True, False]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('title = "T"', 'title = "T', "line 1"),
        ('title = "T"', 'title = "T"\nsolutions = "yes"', "line 2: solutions = 'yes' has to be 'after_hints' or"),
        ('stem = "04_aten_symbolic"', 'stem = "aten"', "line 6: stem = 'aten' has to look like"),
        ("points = 2", "points = 0", "line 13: points = 0 has to be a whole number from 1 to 100"),
        ('hints = ["a", "b"]', "hints = []", "line 16: hints has to be a list of strings"),
        ("wall = 5.0", "wal = 5.0", "line 3: limits has no key 'wal'"),
        (
            'kind = "ort"',
            'kind = "cuda"',
            "line 31: kind = 'cuda' has to be one of python, cpp, ort, torch, openvino, host",
        ),
        ("minutes = 10\n", 'minutes = 10\nable = "You can"\n', "line 9: able has to be one sentence"),
        ('"ATen"\n', '"ATen"\nbuilds_on = ["c12"]\n', "line 8: builds_on: c12 is not before c04"),
        ('stem = "12_kernels"', 'stem = "03_kernels"', "in the order of their numbers"),
    ],
)
def test_a_broken_manifest_is_a_sentence_with_its_line(old, new, words, tmp_path):
    assert old in GOOD
    with pytest.raises(OplabError) as caught:
        read(tmp_path, GOOD.replace(old, new, 1))
    assert "course.toml" in caught.value.message
    assert words in caught.value.message


def test_what_a_chapter_builds_on(tmp_path):
    """Earlier chapters and appendices, although appendices are the last in the file."""
    text = GOOD.replace('"ATen"\n', '"ATen"\nbuilds_on = ["cA1"]\nable = "You can map 1.5 operators."\n', 1)
    later = '\n[[chapter]]\nstem = "A1_cpp"\ntitle = "C++"\nminutes = 5\nbuilds_on = []\n'
    course = read(tmp_path, text.replace('"Kernels"\n', '"Kernels"\nbuilds_on = ["c04"]\n') + later)
    assert [chapter.builds_on for chapter in course.chapters] == [("cA1",), ("c04",), ()]
    assert [chapter.able for chapter in course.chapters] == ["You can map 1.5 operators.", "", ""]


def test_the_core_path_takes_as_long_as_the_readme_says():
    course = load(ROOT)
    assert sum(chapter.minutes for chapter in course.chapters if not chapter.appendix) <= 30 * 60
