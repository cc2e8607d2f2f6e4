"""An update that is killed, that a full disk or another update stops, or during which somebody saves: nothing is lost."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import shutil
import threading

import pytest

from oplab.course.manifest import load
from oplab.errors import OplabError
from oplab.updates import placing
from oplab.updates import update as updates
from tests.support.killing import killed_after
from tests.support.updated_course import (
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


def test_a_full_disk_is_a_sentence_and_the_next_update_goes_on(root, monkeypatch):
    mine, real = answer(root), os.fsync

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OplabError, match="The update stopped at .*: No space left on device") as caught:
        update(root, release(log="Other.", lesson="second edition"))
    assert "resumes where it left off" in caught.value.fix and (root / PY).read_bytes() == mine
    assert updates.problems(load(root)) == ["An update was interrupted. `oplab update` finishes it."]
    monkeypatch.setattr(os, "fsync", real)
    update(root, release(log="Other.", lesson="second edition"))
    assert (root / PY).read_bytes() == mine.replace(b"The logarithm.", b"Other.") and updates.problems(load(root)) == []


def renaming_editor(path, text):
    """As vim saves."""
    draft = path.with_name(".draft")
    draft.write_text(text)
    os.replace(draft, path)


@pytest.mark.parametrize("save", [renaming_editor, lambda path, text: path.write_text(text)])
@pytest.mark.parametrize("exchanges", [True, False])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_what_is_saved_while_a_file_is_replaced_is_merged(save, exchanges, moment, root, monkeypatch):
    """Just before and just after the new file takes its place, with Linux's exchange of two names and without it."""
    answer(root)
    real, swaps = placing._swap, itertools.count()

    def swap(one, other):
        if (first := next(swaps) == 0) and moment == "before":
            save(root / PY, (root / PY).read_text().replace("min(x, 6)", "min(x, 7)"))
        done = exchanges and real(one, other)
        if first and moment == "after":
            save(root / PY, (root / PY).read_text().replace("min(x, 6)", "min(x, 7)"))
        return done

    monkeypatch.setattr(placing, "_swap", swap)
    update(root, release(log="Other."))
    text = (root / PY).read_text()
    assert '"""Other."""' in text and "min(x, 7)" in text


@pytest.mark.nightly  # at every push, the test above plants two saves at the worst moments
@pytest.mark.parametrize("save", [renaming_editor, lambda path, text: path.write_text(text)])
def test_no_save_is_lost_while_a_program_saves_all_the_time(save, root):
    """The last save is the file, is in it, or is in the backup: a program that had emptied the file may write it later."""
    text = (root / PY).read_text()
    edit(root, PY, "LIMIT = 6", "LIMIT = 0")
    for number in range(1, 30):
        stop, saves = threading.Event(), []

        def work(stop=stop, saves=saves):
            for count in itertools.count(1):
                save(root / PY, text.replace("LIMIT = 6", f"LIMIT = {count}"))
                saves.append(count)
                if stop.is_set():
                    return

        thread = threading.Thread(target=work)
        thread.start()
        try:
            update(root, release(log=f"Number {number}."), f"0.3.{number}")
        except OplabError as error:
            assert "keeps changing" in error.message
        finally:
            stop.set()
            thread.join()
        contents = [
            content for name, content in everything(root).items() if name.endswith(PY.removeprefix("exercises/"))
        ]
        assert any(f"LIMIT = {saves[-1]}\n".encode() in content for content in contents), number


def test_the_second_update_waits(root):
    """The lock is another process's; it ends when this one has seen that it is waited for."""
    (root / "build").mkdir()
    holder = os.open(root / updates.LOCK, os.O_RDWR | os.O_CREAT)
    os.write(holder, b"4711\n")
    fcntl.flock(holder, fcntl.LOCK_EX)
    owners = []

    def waiting(owner: str) -> None:
        owners.append(owner)
        os.close(holder)

    update(root, release(lesson="second edition"), waiting=waiting)
    assert owners == ["4711"]


def test_a_run_that_is_killed_anywhere_is_finished_by_the_next(root, tmp_path):
    """After each single change of the disk; the learner's text is in the folder at each of these moments."""
    mine, cpp = edit(root, PY, "LIMIT = 6", "LIMIT = 7"), edit(root, SHIFT, "int", "long")
    merged = edit(root, "exercises/c06_more.py", "def clip", "def helper(x):\n    return x\n\n\ndef clip")
    page = edit(root, "docs/page.md", "page", "my page")
    new = renamed_release() | {"docs/page.md": b"# new\n"}
    new[PY] = new[PY].replace(b"LIMIT = 6", b"LIMIT = 8")
    # so near to the learner's change that git merges it, but not the merge's result once more
    new["exercises/c06_more.py"] = new["exercises/c06_more.py"].replace(b"LIMIT = 6", b"LIMIT = 8")
    whole = tmp_path / "whole"
    shutil.copytree(root, whole)
    assert update(whole, new).conflicts and not (whole / "exercises/c06_more.py.new").exists()
    for count in range(1, 1000):
        folder = tmp_path / f"killed-{count}"
        shutil.copytree(root, folder)
        killed = killed_after(count, lambda folder=folder: update(folder, new))
        assert {mine, cpp, merged, page} <= set(everything(folder).values()), count
        names: list = []
        update(folder, new, renaming=names.append)
        assert names, count
        assert visible(folder) == visible(whole), count
        assert {cpp, merged, page} <= set(backups(folder).values()), count
        assert updates.problems(load(folder)) == updates.problems(load(whole)), count
        if not killed:
            break
    assert 20 < count < 999
