"""``oplab update`` in a folder that ``oplab init`` has made: what is replaced, merged, kept and named."""

from __future__ import annotations

import json
import shutil

import pytest

from oplab import paths
from oplab.course.manifest import load
from oplab.errors import OplabError
from oplab.updates import delivery
from oplab.updates import update as updates
from tests.support.updated_course import (
    CPP,
    PY,
    answer,
    backups,
    edit,
    everything,
    release,
    renamed_release,
    update,
    visible,
)

SHIFT = "exercises/csrc/c05_shift.cpp"


def test_nothing_new(root):
    before = everything(root)
    assert update(root, release(), "0.2.0") == updates.Done(["Everything is up to date (0.2.0)."], False)
    assert {path: text for path, text in everything(root).items() if not path.startswith(("work/", "build/"))} == before


def test_what_is_as_delivered_is_replaced(root):
    new = release(clip="Clip x, faithfully.", lesson="second edition") | {
        "exercises/csrc/c05_new.cpp": CPP.replace(b"shift", b"new"),
        "docs/more.md": b"# More\n",
    }
    del new["docs/page.md"]
    assert update(root, new).lines == [
        "1 stub and 1 other file are new; 1 lesson and 1 stub have changed; 1 file removed"
    ]
    assert visible(root) == new
    assert (root / "work/05_symbolic.ipynb").read_bytes() == new["notebooks/05_symbolic.ipynb"]
    assert backups(root) == {} and not (root / "build/backup").exists()
    assert json.loads((root / paths.DELIVERED).read_text())["release"] == "0.3.0"
    assert (root / delivery.STUBS / "csrc/c05_new.cpp").exists()
    assert update(root, new).lines == ["Everything is up to date (0.3.0)."]


def test_an_edited_stub_that_did_not_change_is_untouched(root):
    mine, before = answer(root), (root / PY).stat()
    assert update(root, release(lesson="second edition")).lines == ["1 lesson has changed"]
    assert (root / PY).read_bytes() == mine and (root / PY).stat().st_ino == before.st_ino and backups(root) == {}


def test_an_edited_stub_that_changed_is_merged(root):
    mine = answer(root)
    (root / PY).chmod(0o640)
    assert update(root, release(log="The natural logarithm.")).lines == ["1 stub merged with your changes"]
    assert (root / PY).read_bytes() == mine.replace(b"The logarithm.", b"The natural logarithm.")
    assert backups(root) == {PY: mine} and (root / PY).stat().st_mode & 0o777 == 0o640
    # the next merge begins from this stub
    update(root, release(log="The natural logarithm of x."), "0.4.0")
    assert (root / PY).read_bytes() == mine.replace(b"The logarithm.", b"The natural logarithm of x.")


def test_in_a_conflict_the_new_stub_lies_next_to_the_learner_s(root):
    mine = edit(root, PY, "Clip x.", "Clip x, my words.")
    new = release(clip="Clip x, faithfully.")
    done = update(root, new)
    assert done.conflicts and done.lines == updates.problems(load(root))
    assert done.lines[0].startswith(f"{PY} has your changes in lines that the course has changed, too.")
    assert (root / PY).read_bytes() == mine and (root / f"{PY}.new").read_bytes() == new[PY]
    again = update(root, new)
    assert again.conflicts and again.lines == ["Everything is up to date (0.3.0).", *done.lines]
    (root / f"{PY}.new").write_bytes(b"my notes")  # the next one replaces it
    newest = release(clip="Clip x, and so on.")
    update(root, newest, "0.4.0")
    assert (root / f"{PY}.new").read_bytes() == newest[PY] and backups(root) == {f"{PY}.new": b"my notes"}
    (root / PY).write_bytes(newest[PY])  # as `oplab reset` does
    assert updates.problems(load(root)) == []


def test_a_deleted_stub_stays_deleted(root):
    (root / PY).unlink()
    assert update(root, release()).lines == ["Everything is up to date (0.3.0)."]
    assert update(root, release(clip="Other."), "0.4.0").lines == [
        f"{PY} stays deleted; `oplab reset c05.clip` restores it."
    ]
    assert not (root / PY).exists()


def test_files_that_the_course_has_dropped(root):
    new = release()
    del new[SHIFT], new["docs/page.md"]
    other = root.with_name("other")
    shutil.copytree(root, other)
    mine = {SHIFT: edit(other, SHIFT, "int", "long"), "docs/page.md": edit(other, "docs/page.md", "page", "my page")}
    assert update(root, new).lines == ["2 files removed"] and backups(root) == {}
    lines = update(other, new).lines
    assert lines[1].startswith("The course no longer has docs/page.md; your version is saved in build/backup/")
    assert lines[2].startswith(f"The course no longer has {SHIFT}; your version is saved in build/backup/")
    assert backups(other) == mine
    for folder in (root, other):
        assert visible(folder) == new and not (folder / "exercises/csrc").exists()


def test_the_course_s_own_files_are_restored(root):
    mine = edit(root, "docs/page.md", "page", "my page")
    (root / "docs" / "mine.md").write_text("mine")
    (root / "course.toml").unlink()
    (_, note) = update(root, release(), "0.2.0").lines
    assert note.startswith("docs/page.md is replaced by the course's; your version is saved in build/backup/")
    assert backups(root) == {"docs/page.md": mine}
    assert visible(root) == release() | {"docs/mine.md": b"mine"}


def test_a_file_of_the_learner_s_own_with_the_name_of_a_new_stub(root):
    name = "exercises/csrc/c05_new.cpp"
    (root / name).write_text("int mine;\n")
    assert update(root, release() | {name: CPP}).conflicts
    assert (root / name).read_text() == "int mine;\n" and (root / f"{name}.new").read_bytes() == CPP


def test_renamed_exercises(root):
    mine, cpp = answer(root), edit(root, SHIFT, "int", "long")
    names = []
    done = update(root, renamed_release(), renaming=names.append)
    assert names == [{"c05.clip": "c05.bound", "c05.limit": "c05.bound", "c05.shift": "c05.move"}]
    assert not done.conflicts and done.lines[0] == "1 other file has changed; 2 stubs merged with your changes"
    assert done.lines[1].startswith(
        f"{SHIFT} is now exercises/csrc/c05_move.cpp; your version is saved in build/backup/"
    )
    assert (root / PY).read_bytes() == mine.replace(b"def clip", b"def bound")
    assert (root / "exercises/csrc/c05_move.cpp").read_bytes() == cpp.replace(b"c05.shift", b"c05.move")
    assert backups(root) == {PY: mine, SHIFT: cpp} and not (root / SHIFT).exists()


def test_an_older_release_is_refused(root):
    before = visible(root)
    with pytest.raises(OplabError, match=r"has Operator Lab 0\.2\.0, and the version that is installed is older: 0\.1"):
        update(root, release(clip="x"), "0.1.9")
    with pytest.raises(OplabError):
        update(root, release(clip="x"), "0.2.0rc1")
    assert visible(root) == before and updates.problems(load(root)) == []
    update(root, release(clip="x"), "0.10.0")


@pytest.mark.parametrize("text", [b"", b'{"version": 1, "release": "x", "files": {}}'])
def test_a_broken_record_loses_nothing(text, root):
    mine, page = answer(root), edit(root, "docs/page.md", "page", "my page")
    (root / paths.DELIVERED).write_bytes(text)
    assert any(
        line.startswith(".oplab/delivered.json cannot be read.") for line in update(root, release(log="Other.")).lines
    )
    assert (root / PY).read_bytes() == mine.replace(b"The logarithm.", b"Other.")
    assert backups(root) == {PY: mine, "docs/page.md": page, paths.DELIVERED: text}
    assert update(root, release(log="Other.")).lines == ["Everything is up to date (0.3.0)."]


def test_a_file_that_the_learner_has_linked_is_updated_where_it_is(root, tmp_path):
    elsewhere = tmp_path / "elsewhere.py"
    answer(root)
    (root / PY).rename(elsewhere)
    (root / PY).symlink_to(elsewhere)
    update(root, release(log="Other."))
    assert (root / PY).is_symlink() and '"""Other."""' in elsewhere.read_text() and "min(x, 6)" in elsewhere.read_text()


def test_a_copy_of_a_lesson_that_was_edited_stays(root):
    update(root, release(), "0.2.0")
    mine = edit(root, "work/05_symbolic.ipynb", "first edition", "my notes")
    assert update(root, release(lesson="second edition")).lines[1:] == [
        "work/05_symbolic.ipynb has your changes and is kept; `oplab reset notebooks/05` restores the new one."
    ]
    assert (root / "work/05_symbolic.ipynb").read_bytes() == mine


def test_a_dry_run_writes_nothing(root):
    edit(root, PY, "Clip x.", "My words.")
    before, new = everything(root), release(clip="Other.", lesson="second edition")
    done = update(root, new, dry_run=True)
    assert everything(root) == before and done == update(root, new)
