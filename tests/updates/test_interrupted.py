"""An update that is killed, or that a full disk or another update stops: the next one finishes it, and nothing is lost."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
import sys

import pytest

from oplab.course.manifest import load
from oplab.errors import OplabError
from oplab.updates import conflicts, journal
from oplab.updates import update as updates
from tests.support import ROOT
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


def test_a_full_disk_while_staging_changes_nothing(root, monkeypatch):
    edit(root, PY, "The logarithm.", "My words.")
    before, real = everything(root), journal.write_atomically
    for after in range(4):
        count = 0

        def full(path, content, after=after, **options):
            nonlocal count
            count += 1
            if count > after:
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
            real(path, content, **options)

        monkeypatch.setattr(journal, "write_atomically", full)
        with pytest.raises(OplabError, match="nothing has changed: No space left on device") as caught:
            update(root, release(clip="Other.", lesson="second edition"))
        assert caught.value.fix == "Free some disk space, and try again."
        assert {path: text for path, text in everything(root).items() if path != updates.LOCK} == before


def test_what_is_saved_while_an_update_runs_is_merged(root, monkeypatch):
    answer(root)
    real = journal.begin

    def save(*arguments):
        real(*arguments)
        edit(root, PY, "return min(x, 6)", "return min(x, 7)")
        edit(root, "docs/page.md", "page", "my page")

    monkeypatch.setattr(journal, "begin", save)
    report = update(root, release(log="Other.") | {"docs/page.md": b"new"})
    text = (root / PY).read_text()
    assert "min(x, 7)" in text and '"""Other."""' in text
    assert f"{PY} was saved while the update ran, and is merged." in report.lines
    assert (root / "docs/page.md").read_bytes() == b"new" and b"# my page\n" in backups(root).values()


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
    edit(root, PY, "Clip x.", "My words.")
    mine = answer(root)
    cpp = edit(root, "exercises/csrc/c05_shift.cpp", "int", "long")
    page = edit(root, "docs/page.md", "page", "my page")
    new = renamed_release() | {"docs/page.md": b"# new\n"}
    new[PY] = new[PY].replace(b"Clip x.", b"Other.")
    whole = tmp_path / "whole"
    shutil.copytree(root, whole)
    expected = update(whole, new)
    assert len(expected.conflicts) == 1
    for count in range(1, 1000):
        folder = tmp_path / f"killed-{count}"
        shutil.copytree(root, folder)
        killed = killed_after(count, lambda folder=folder: update(folder, new))
        contents = set(everything(folder).values())
        assert {mine, cpp, page} <= contents, count
        names: list = []
        report = update(folder, new, renaming=names.append)
        assert names, count
        assert visible(folder) == visible(whole), count
        assert [one.exercise for one in conflicts.load(folder)] == ["c05.bound"], count
        assert {mine, cpp, page} <= set(backups(folder).values()), count
        assert not (folder / journal.FOLDER).exists(), count
        assert report.lines[-1] == "Everything is up to date (0.3.0)." or report.conflicts == expected.conflicts
        if not killed:
            break
    assert 20 < count < 999


@pytest.mark.nightly
def test_a_real_kill(root):
    """SIGKILL while the journal's files are moved."""
    mine = answer(root)
    code = (
        "import os, signal, sys; from pathlib import Path; from oplab.updates import journal, update as updates\n"
        "from tests.support.updated_course import release\n"
        "put = journal._put\n"
        "def die(*a):\n    put(*a)\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "journal._put = die\n"
        f"updates.update_folder(Path({str(root)!r}), '0.3.0', release(log='Other.', lesson='second edition'))"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == -9
    assert updates.problems(load(root)) == ["An update was interrupted. `oplab update` finishes it."]
    assert update(root, release(), dry_run=True).lines[0] == "An update was interrupted, and would be finished first."
    report = update(root, release(log="Other.", lesson="second edition"))
    assert report.lines[0] == "An update that was interrupted is finished."
    assert (root / PY).read_bytes() == mine.replace(b"The logarithm.", b"Other.") and updates.problems(load(root)) == []


@pytest.mark.parametrize("text", ["{", '{"version": 9}', "[]"])
def test_a_broken_journal_is_a_sentence(text, root):
    (root / journal.FOLDER).mkdir(parents=True)
    (root / journal.FOLDER / "journal.json").write_text(text)
    with pytest.raises(OplabError, match="the interrupted update cannot be finished"):
        update(root, release())
