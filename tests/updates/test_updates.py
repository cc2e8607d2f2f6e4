"""``oplab update`` in a folder that ``oplab init`` has made: what is replaced, merged, kept and named, and what a kill leaves."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import pytest

from oplab import paths
from oplab.course.manifest import load
from oplab.errors import OplabError
from oplab.updates import conflicts, delivery, journal
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


def test_nothing_new(root):
    before = everything(root)
    assert update(root, release(), "0.2.0").lines == ["Everything is up to date (0.2.0)."]
    after = everything(root)
    assert {path: text for path, text in after.items() if not path.startswith(("work/", updates.LOCK))} == before


def test_what_is_as_delivered_is_replaced(root):
    new = release(clip="Clip x, faithfully.", lesson="second edition") | {
        "exercises/csrc/c05_new.cpp": CPP.replace(b"shift", b"new"),
        "docs/more.md": b"# More\n",
    }
    del new["docs/page.md"]
    report = update(root, new)
    assert report.lines == [
        "1 stub and 1 other file are new; 1 lesson and 1 stub have changed; 1 file removed",
    ]
    assert visible(root) == new
    assert (root / "work/05_symbolic.ipynb").read_bytes() == new["notebooks/05_symbolic.ipynb"]
    assert backups(root) == {} and not (root / journal.FOLDER).exists()
    assert json.loads((root / paths.DELIVERED).read_text())["release"] == "0.3.0"
    assert (root / delivery.STUBS / "csrc/c05_new.cpp").exists()
    assert update(root, new).lines == ["Everything is up to date (0.3.0)."]


def state_of(path):
    """What a write or a rename changes of a file. Not its time of access: to read it is allowed."""
    found = path.stat()
    return found.st_mode, found.st_ino, found.st_nlink, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def test_an_edited_stub_that_did_not_change_is_untouched(root):
    answer(root)
    mine = edit(root, PY, "LIMIT = 6\n", "LIMIT = 6   \n\n\n\n") + b"\n\n\n"  # a merge would tidy this
    (root / PY).write_bytes(mine)
    before = state_of(root / PY)
    report = update(root, release(lesson="second edition"))
    assert report.lines == ["1 lesson has changed"]
    assert (root / PY).read_bytes() == mine and state_of(root / PY) == before
    assert backups(root) == {}


def test_an_edited_stub_that_changed_is_merged(root):
    mine = answer(root)
    report = update(root, release(log="The natural logarithm."))
    assert report.lines == ["1 stub merged with your changes"] and report.conflicts == []
    assert (root / PY).read_bytes() == mine.replace(b"The logarithm.", b"The natural logarithm.")
    assert backups(root) == {PY: mine}
    # the next merge begins from this stub
    update(root, release(log="The natural logarithm of x."), "0.4.0")
    assert (root / PY).read_bytes() == mine.replace(b"The logarithm.", b"The natural logarithm of x.")


def test_in_a_conflict_the_learner_s_lines_stay_until_it_is_settled(root):
    edit(root, PY, "Clip x.", "Clip x, my words.")
    mine = answer(root)
    report = update(root, release(clip="Clip x, faithfully.", log="Other."))
    line = (root / PY).read_text().splitlines().index('    """Clip x, my words."""') + 1
    assert report.lines == [f"1 stub merged with your changes; 1 conflict: {PY}, line {line} (c05.clip)"]
    assert (root / PY).read_bytes() == mine.replace(b"The logarithm.", b"Other.")
    (conflict,) = conflicts.load(root)
    assert conflict.new == ('    """Clip x, faithfully."""',) and conflict.mine == ('    """Clip x, my words."""',)
    assert conflict.stub[0] == "def clip(x):" and conflict.exercise == "c05.clip"
    (sentence,) = updates.problems(load(root))
    assert f"c05.clip in lines that you had changed, too: {PY}, line {line}." in sentence
    edit(root, PY, "def clip", "\n\ndef clip")
    assert f"line {line + 2}." in updates.problems(load(root))[0]
    assert update(root, release(clip="Clip x, faithfully.", log="Other.")).lines == [
        "Everything is up to date (0.3.0)."
    ]
    with pytest.raises(OplabError, match=r"c05\.log has no conflict") as caught:
        conflicts.settle(root, "c05.log")
    assert caught.value.fix == "Open conflicts: c05.clip."
    assert conflicts.settle(root, "c05.clip") == [conflict]
    assert updates.problems(load(root)) == []


def test_a_reset_settles(root):
    edit(root, PY, "Clip x.", "My words.")
    update(root, release(clip="Clip x, faithfully."))
    assert len(conflicts.load(root)) == 1
    edit(root, PY, "My words.", "Clip x, faithfully.")
    assert conflicts.load(root) == [] and updates.problems(load(root)) == []


def test_conflicts_of_cpp_and_outside_of_functions(root):
    edit(root, "exercises/csrc/c05_shift.cpp", "int shift", "long shift")
    edit(root, PY, "LIMIT = 6", "LIMIT = 7")
    new = release()
    new[PY] = new[PY].replace(b"LIMIT = 6", b"LIMIT = 8")
    new["exercises/csrc/c05_shift.cpp"] = CPP.replace(b"int shift", b"float shift")
    found = {(one.exercise, one.file, one.name) for one in update(root, new).conflicts}
    assert found == {("c05", PY, None), ("c05.shift", "exercises/csrc/c05_shift.cpp", None)}
    assert [one.exercise for one in conflicts.settle(root, "c05")] == ["c05", "c05.shift"]


@pytest.mark.parametrize("text", ["", "{", '{"version": 1}', '{"version": 1, "conflicts": [{}]}', "[" * 100_000])
def test_a_broken_list_of_conflicts_is_none(text, root):
    (root / "build").mkdir()
    (root / conflicts.FILE).write_text(text)
    assert updates.problems(load(root)) == []


def test_a_deleted_stub_stays_deleted(root):
    (root / PY).unlink()
    report = update(root, release(clip="Clip x, faithfully."))
    assert report.lines == ["Everything is up to date (0.3.0)."]
    report = update(root, release(clip="Other.", lesson="second edition"), "0.4.0")
    assert report.lines[1:] == [f"{PY} stays deleted; `oplab reset c05.clip` brings it back."]
    assert not (root / PY).exists()


def test_a_deleted_function_stays_deleted(root):
    text = (root / PY).read_text()
    (root / PY).write_text(text[: text.index("\n\ndef log")])
    report = update(root, release(clip="Other.", log="Other."))
    assert report.lines[1:] == [f"c05.log is not in {PY}, where it has changed; `oplab reset c05.log` brings it back."]
    assert "def log" not in (root / PY).read_text()


def test_a_stub_that_the_course_has_dropped(root):
    new = release()
    del new["exercises/csrc/c05_shift.cpp"]
    other = root.with_name("other")
    shutil.copytree(root, other)
    mine = edit(other, "exercises/csrc/c05_shift.cpp", "int", "long")
    assert update(root, new).lines == ["1 file removed"]
    assert backups(root) == {}
    (numbers, note) = update(other, new).lines
    assert note.startswith("The course no longer has exercises/csrc/c05_shift.cpp; yours is kept as build/backup/")
    assert backups(other) == {"exercises/csrc/c05_shift.cpp": mine}
    for folder in (root, other):
        assert visible(folder) == new and not (folder / "exercises/csrc").exists()


def test_the_course_s_own_files_are_restored(root):
    mine = edit(root, "docs/page.md", "page", "my page")
    (root / "docs" / "mine.md").write_text("mine")
    (root / "course.toml").unlink()
    (_, note) = update(root, release(), "0.2.0").lines
    assert note.startswith("docs/page.md is replaced by the course's; yours is kept as build/backup/")
    assert backups(root) == {"docs/page.md": mine}
    assert visible(root) == release() | {"docs/mine.md": b"mine"}


def test_a_page_that_the_course_has_dropped(root):
    mine = edit(root, "docs/page.md", "page", "my page")
    new = release()
    del new["docs/page.md"]
    (_, note) = update(root, new).lines
    assert note.startswith("The course no longer has docs/page.md; yours is kept as build/backup/")
    assert backups(root) == {"docs/page.md": mine} and visible(root) == new


def test_a_stub_of_the_learner_s_own_with_the_name_of_a_new_one(root):
    name = "exercises/csrc/c05_new.cpp"
    (root / name).write_text("int mine;\n")
    report = update(root, release() | {name: CPP.replace(b"shift", b"new")})
    assert [one.exercise for one in report.conflicts] == ["c05.new"]
    assert (root / name).read_text() == "int mine;\n"


def test_renamed_exercises(root):
    mine = answer(root)
    cpp = edit(root, "exercises/csrc/c05_shift.cpp", "int", "long")
    names = []
    report = update(root, renamed_release(), renaming=names.append)
    assert names == [{"c05.clip": "c05.bound", "c05.limit": "c05.bound", "c05.shift": "c05.move"}]
    assert report.conflicts == [] and "exercises/csrc/c05_shift.cpp is now exercises/csrc/c05_move.cpp." in report.lines
    assert (root / PY).read_bytes() == mine.replace(b"def clip", b"def bound")
    assert (root / "exercises/csrc/c05_move.cpp").read_bytes() == cpp.replace(b"c05.shift", b"c05.move")
    assert backups(root) == {PY: mine, "exercises/csrc/c05_shift.cpp": cpp}
    assert load(root).renamed["c05.clip"] == "c05.limit"


def test_a_chapter_s_file_with_a_new_name(root):
    mine = answer(root)
    new = release()
    new["exercises/c05_custom.py"] = new.pop(PY)
    report = update(root, new)
    assert report.lines == [f"{PY} is now exercises/c05_custom.py."]
    assert (root / "exercises/c05_custom.py").read_bytes() == mine and not (root / PY).exists()


def test_an_exercise_that_moved_to_another_chapter(root):
    answer(root)
    new = release()
    text = new[PY].decode()
    at, end = text.index("def clip"), text.index("def log")
    new[PY] = (text[:at] + text[end:]).encode()
    new["exercises/c06_more.py"] = (text[:at] + text[at:end].rstrip()).replace("c05.clip", "c06.clip").encode() + b"\n"
    new["course.toml"] = b'title = "T"\n[renamed]\n"c05.clip" = "c06.clip"\n'
    update(root, new)
    assert "return min(x, 6)" in (root / "exercises/c06_more.py").read_text()
    assert "def clip" not in (root / PY).read_text()


def test_an_older_release_is_refused(root):
    before = everything(root)
    with pytest.raises(
        OplabError, match=r"has Operator Lab 0\.2\.0, and the version that is installed is older: 0\.1\.9"
    ):
        update(root, release(clip="x"), "0.1.9")
    assert {path: text for path, text in everything(root).items() if path != updates.LOCK} == before
    with pytest.raises(OplabError):
        update(root, release(clip="x"), "0.2.0rc1")
    update(root, release(clip="x"), "0.10.0")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b'{"version": 1, "release": "0.2.0", "files": []}',
        b'{"version": 1, "release": "x", "files": {}}',
    ]
    + [b'{"version": 1, "release": "0.2.0", "files": {"../../x": "a"}}', b"\xff", b"[" * 100_000],
)
def test_a_broken_record_loses_nothing(text, root):
    mine = answer(root)
    page = edit(root, "docs/page.md", "page", "my page")
    (root / paths.DELIVERED).write_bytes(text)
    report = update(root, release(log="Other."))
    assert any(line.startswith(".oplab/delivered.json cannot be read.") for line in report.lines)
    assert (root / PY).read_bytes() == mine.replace(b"The logarithm.", b"Other.")
    assert backups(root) == {PY: mine, "docs/page.md": page, paths.DELIVERED: text}
    assert update(root, release(log="Other.")).lines == ["Everything is up to date (0.3.0)."]


def test_a_record_of_a_newer_version_is_refused(root):
    (root / paths.DELIVERED).write_text('{"version": 2}')
    with pytest.raises(OplabError, match="A newer Operator Lab"):
        update(root, release())


def test_without_the_stubs_as_they_were(root):
    """What differs in a function is then a conflict, and what is as delivered is still known by its digest."""
    mine = answer(root)
    shutil.rmtree(root / delivery.STUBS)
    new = release(log="Other.") | {"exercises/csrc/c05_shift.cpp": CPP + b"// more\n"}
    report = update(root, new)
    assert {one.exercise for one in report.conflicts} == {"c05.clip", "c05.log"}
    assert (root / PY).read_bytes() == mine
    assert (root / "exercises/csrc/c05_shift.cpp").read_bytes() == CPP + b"// more\n"


def test_a_stub_as_it_was_that_somebody_has_edited(root):
    """It is no base for a merge: what the learner has would count as the course's."""
    mine = answer(root)
    (root / delivery.STUBS / "c05_symbolic.py").write_bytes(mine)
    assert [one.exercise for one in update(root, release(clip="Other.")).conflicts] == ["c05.clip"]
    assert (root / PY).read_bytes() == mine


def test_a_folder_in_the_place_of_a_file(root):
    (root / "docs/more.md").mkdir()
    before = visible(root)
    with pytest.raises(OplabError, match=r"docs/more\.md is a folder"):
        update(root, release() | {"docs/more.md": b"x"})
    assert visible(root) == before


def test_links(root, tmp_path):
    """A file that the learner has linked is updated where it is."""
    elsewhere = tmp_path / "elsewhere.py"
    answer(root)
    (root / PY).rename(elsewhere)
    (root / PY).symlink_to(elsewhere)
    update(root, release(log="Other."))
    assert (root / PY).is_symlink() and '"""Other."""' in elsewhere.read_text() and "min(x, 6)" in elsewhere.read_text()


def test_a_copy_of_a_lesson_that_was_edited_stays(root):
    update(root, release(), "0.2.0")
    mine = edit(root, "work/05_symbolic.ipynb", "first edition", "my notes")
    report = update(root, release(lesson="second edition"))
    assert report.lines[1:] == [
        "work/05_symbolic.ipynb has your changes and stays; `oplab reset notebooks/05` gets the new one."
    ]
    assert (root / "work/05_symbolic.ipynb").read_bytes() == mine


def test_a_dry_run_writes_nothing(root):
    edit(root, PY, "Clip x.", "My words.")
    before, new = everything(root), release(clip="Other.", lesson="second edition")
    report = update(root, new, dry_run=True)
    assert everything(root) == before
    assert report.lines == update(root, new).lines and len(report.conflicts) == 1


@pytest.mark.parametrize("where", ["build", "exercises"])
def test_a_folder_that_cannot_be_written(where, root, monkeypatch):
    if where == "build":
        (root / "build").symlink_to("/sys/kernel")  # not even root writes there
    else:
        real = os.access
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != where and real(path, mode))
    before = visible(root)
    with pytest.raises(OplabError, match="cannot be written"):
        update(root, release(clip="Other."))
    assert visible(root) == before
    if where == "build":
        (root / "build").unlink()


def test_a_folder_that_is_no_course(tmp_path):
    with pytest.raises(OplabError, match="neither a git clone of the course nor a folder that `oplab init` has made"):
        updates.update(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_backups_of_two_updates_in_one_second(root, monkeypatch):
    monkeypatch.setattr(time, "strftime", lambda form: "now")
    mine = answer(root)
    update(root, release(log="One."))
    update(root, release(log="Two."), "0.4.0")
    assert (root / "build/backup/now" / PY).read_bytes() == mine
    assert b"One." in (root / "build/backup/now-2" / PY).read_bytes()
