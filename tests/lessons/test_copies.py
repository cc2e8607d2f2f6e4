"""The learner's copies of the lessons: made, replaced where they were not changed, and never lost."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from oplab.course import copies
from oplab.course.manifest import Course, load
from oplab.errors import OplabError
from tests.support import ROOT

STEMS = ("00_begin", "05_clip", "A1_cpp")
ENTRY = '[[chapter]]\nstem = "{0}"\ntitle = "{0}"\nminutes = 5\n\n'


def notebook(text: str, count: int | None = 1) -> str:
    """A lesson of one heading and one cell that was run, as tools/notebooks.py writes it."""
    output = {"name": "stdout", "output_type": "stream", "text": ["3\n"]}
    cells = [
        {"cell_type": "markdown", "id": "a", "metadata": {}, "source": ["# Lesson\n", "\n", text]},
        {
            "cell_type": "code",
            "execution_count": count,
            "id": "b",
            "metadata": {},
            "outputs": [output],
            "source": ["print(3)"],
        },
    ]
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}, indent=1) + "\n"


@pytest.fixture
def course(tmp_path) -> Course:
    """Three lessons, and no copy yet."""
    (tmp_path / "course.toml").write_text('title = "T"\n' + "".join(ENTRY.format(stem) for stem in STEMS))
    (tmp_path / "notebooks").mkdir()
    for stem in STEMS:
        lesson(tmp_path, stem).write_text(notebook("first edition"))
    return load(tmp_path)


@pytest.fixture
def copied(course) -> Course:
    copies.sync(course)
    return course


def lesson(root: Path, stem: str) -> Path:
    return root / "notebooks" / f"{stem}.ipynb"


def copy(course: Course, stem: str) -> Path:
    return course.root / "work" / f"{stem}.ipynb"


def edit(path: Path, change) -> bytes:
    """Change a notebook, as JupyterLab writes it: with the keys in its order, and texts in one piece."""
    found = json.loads(path.read_text())
    change(found)
    path.write_text(json.dumps(found, indent=2, sort_keys=True))
    return path.read_bytes()


def update(course: Course) -> None:
    """A new edition of each lesson."""
    for stem in STEMS:
        lesson(course.root, stem).write_text(notebook("second edition"))


def run_cell(found: dict) -> None:
    found["cells"][1]["execution_count"] = 7


def write_below(found: dict) -> None:
    found["cells"].append({"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": "x"})


def fold(found: dict) -> None:
    """What a save does without an edit, and what folding a section leaves."""
    found["cells"][0]["source"] = "".join(found["cells"][0]["source"])
    found["cells"][0]["metadata"]["jp-MarkdownHeadingCollapsed"] = True
    found["cells"][1]["metadata"]["scrolled"] = True
    found["metadata"]["language_info"] = {"name": "python", "version": "3.13.1"}
    found["nbformat_minor"] = 6


def visible(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.endswith(".lock")}


def test_the_first_time_each_lesson_is_copied(course):
    counts = []
    assert copies.states(course) == dict.fromkeys(STEMS, "missing")
    assert copies.sync(course, counts.append) == list(STEMS)
    assert counts == [3]
    assert copies.states(course) == dict.fromkeys(STEMS, "same")
    assert all(copy(course, stem).read_bytes() == lesson(course.root, stem).read_bytes() for stem in STEMS)
    assert visible(course.root / "work") == {".lessons.json", *(f"{stem}.ipynb" for stem in STEMS)}
    assert copies.sync(course, counts.append) == [] and counts == [3]
    assert copies.path(course, course.chapter("c05")) == copy(course, "05_clip")


def test_a_new_lesson_replaces_only_what_the_learner_did_not_change(copied):
    mine = edit(copy(copied, "00_begin"), run_cell)
    assert copies.states(copied) == {"00_begin": "changed", "05_clip": "same", "A1_cpp": "same"}
    update(copied)
    assert copies.states(copied) == {"00_begin": "newer", "05_clip": "same", "A1_cpp": "same"}
    assert copies.sync(copied) == ["05_clip", "A1_cpp"]
    assert copy(copied, "00_begin").read_bytes() == mine
    assert copy(copied, "05_clip").read_text() == notebook("second edition")
    assert copies.states(copied) == {"00_begin": "newer", "05_clip": "same", "A1_cpp": "same"}
    assert not (copied.root / "build").exists()


@pytest.mark.parametrize(
    ("change", "state"),
    [
        (fold, "same"),
        (run_cell, "changed"),
        (write_below, "changed"),
        (lambda found: found["cells"][0]["source"].append("!"), "changed"),
    ],
)
def test_what_counts_as_a_change(change, state, copied):
    mine = edit(copy(copied, "05_clip"), change)
    assert copies.states(copied)["05_clip"] == state
    update(copied)
    assert ("05_clip" in copies.sync(copied)) == (state == "same")
    assert (copy(copied, "05_clip").read_bytes() == mine) == (state == "changed")


@pytest.mark.parametrize("record", ["{", None])
def test_a_broken_record_loses_nothing(record, copied):
    file = copied.root / "work" / ".lessons.json"
    file.unlink()
    if record is not None:
        file.write_text(record)
    mine = edit(copy(copied, "00_begin"), run_cell)
    assert copies.states(copied) == {"00_begin": "changed", "05_clip": "same", "A1_cpp": "same"}
    assert copies.sync(copied) == []  # the other two are written down again
    update(copied)
    assert copies.sync(copied) == ["05_clip", "A1_cpp"]
    assert copy(copied, "00_begin").read_bytes() == mine


def test_reset_keeps_what_was_there(copied):
    mine = edit(copy(copied, "05_clip"), run_cell)
    update(copied)
    file, backup = copies.reset(copied, copied.chapter("c05"))
    assert file == copy(copied, "05_clip") and file.read_text() == notebook("second edition")
    assert backup.is_relative_to(copied.root / "build" / "backup") and backup.read_bytes() == mine
    assert backup.name == "05_clip.ipynb"
    assert copies.states(copied)["05_clip"] == "same"
    again = copies.reset(copied, copied.chapter("c05"))[1]
    assert again != backup and backup.read_bytes() == mine
    file.unlink()
    assert copies.reset(copied, copied.chapter("c05")) == (file, None)


def test_a_copy_that_is_no_notebook_is_the_learner_s(copied):
    update(copied)
    for content in (b"", b"\xff{", b"{}", b"[1]"):
        copy(copied, "05_clip").write_bytes(content)
        assert copies.states(copied)["05_clip"] == "newer"
        copies.sync(copied)
        assert copy(copied, "05_clip").read_bytes() == content
    assert copies.reset(copied, copied.chapter("c05"))[1].read_bytes() == content


def test_a_folder_that_cannot_be_written_is_a_sentence(course):
    (course.root / "work").symlink_to("/sys")  # not even root writes there
    with pytest.raises(OplabError, match="Your copies of the lessons, in work/, cannot be written") as caught:
        copies.sync(course)
    assert "a folder that you can write to" in caught.value.fix
    (course.root / "work").unlink()
    (course.root / "work").write_text("a file")
    with pytest.raises(OplabError, match="cannot be written"):
        copies.sync(course)
    assert (course.root / "work").read_text() == "a file"


def test_a_full_disk_is_a_sentence_and_leaves_the_copies(copied, monkeypatch):
    update(copied)
    before = copy(copied, "05_clip").read_bytes()

    def full(path, *_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(copies, "write_atomically", full)
    for action in (lambda: copies.sync(copied), lambda: copies.reset(copied, copied.chapter("c05"))):
        with pytest.raises(OplabError, match="No space left on device") as caught:
            action()
        assert caught.value.fix == "Free some disk space, and try again."
    assert copy(copied, "05_clip").read_bytes() == before
    monkeypatch.undo()
    assert copies.sync(copied) == list(STEMS)
    assert visible(copied.root / "work") == {".lessons.json", *(f"{stem}.ipynb" for stem in STEMS)}


@pytest.mark.parametrize("moment", ["before the copy is moved away", "while it is away"])
def test_what_is_saved_while_a_copy_is_replaced_is_kept(moment, copied, monkeypatch):
    update(copied)
    file, saved = copy(copied, "05_clip"), notebook("mine")
    rename, away = os.rename, []

    def slow(source, target):
        last = Path(source) == file
        if last and moment.startswith("before"):
            file.write_text(saved)
        rename(source, target)
        if last and moment.startswith("while"):
            away.append(1)
            file.write_text(saved)

    monkeypatch.setattr(copies.os, "rename", slow)
    assert copies.sync(copied) == ["00_begin", "A1_cpp"]
    assert file.read_text() == saved
    kept = [path.read_text() for path in (copied.root / "build").rglob("05_clip.ipynb")]
    assert kept == [notebook("first edition")] * len(away)
    assert visible(copied.root / "work") == {".lessons.json", *(f"{stem}.ipynb" for stem in STEMS)}


def test_a_copy_that_was_away_when_the_process_was_killed_comes_back(copied):
    mine = edit(copy(copied, "05_clip"), run_cell)
    copy(copied, "05_clip").rename(copied.root / "work" / ".05_clip.replaced")
    update(copied)
    assert copies.sync(copied) == ["00_begin", "A1_cpp"]
    assert copy(copied, "05_clip").read_bytes() == mine


def test_an_old_copy_that_was_not_removed_goes_to_the_backups(copied):
    """Killed after the new copy was there."""
    (copied.root / "work" / ".05_clip.replaced").write_text(notebook("old"))
    copies.sync(copied)
    assert visible(copied.root / "work") == {".lessons.json", *(f"{stem}.ipynb" for stem in STEMS)}
    (kept,) = (copied.root / "build" / "backup").rglob("*.ipynb")
    assert kept.read_text() == notebook("old")


@pytest.mark.nightly
def test_two_processes_make_each_copy_once(course):
    code = (
        "import pathlib, oplab.course.copies as copies, oplab.course.manifest as manifest\n"
        f"print(*copies.sync(manifest.load(pathlib.Path({str(course.root)!r}))))"
    )
    with ThreadPoolExecutor(3) as pool:
        runs = [
            pool.submit(subprocess.run, [sys.executable, "-c", code], capture_output=True, text=True) for _ in range(3)
        ]
    done = [run.result() for run in runs]
    assert [run.stderr for run in done] == [""] * 3
    assert sorted(stem for run in done for stem in run.stdout.split()) == list(STEMS)
    assert copies.states(course) == dict.fromkeys(STEMS, "same")


def test_a_lesson_is_named_as_a_file(course):
    for name in ("notebooks/05", "notebooks/05_clip", "notebooks/05_clip.ipynb", "./work/05_clip.ipynb"):
        assert copies.named(course, name).stem == "05_clip"
    assert copies.named(course, "work/A1").stem == "A1_cpp"
    for name in ("c05", "c05.clip", "exercises/c05_clip.py"):
        assert copies.named(course, name) is None
    with pytest.raises(OplabError, match="There is no chapter"):
        copies.named(course, "work/07_clip.ipynb")


def test_the_copies_of_this_course_are_ignored_by_git():
    for name in ("work/05_writing_symbolic.ipynb", "work/.lessons.json"):
        assert subprocess.run(["git", "check-ignore", "-q", name], cwd=ROOT).returncode == 0
