"""``oplab update`` in a git clone: as `git pull --ff-only`, with the learner's stubs merged and nothing in a stash."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from oplab.course.manifest import load
from oplab.errors import OplabError
from oplab.updates import conflicts, journal
from oplab.updates import update as updates
from tests.support.killing import killed_after
from tests.support.updated_course import CPP, PY, Release, answer, edit, everything, release, visible, write

FIRST = release() | {".gitignore": b"/build/\n/work/\n", "oplab/code.py": b"VERSION = 1\n", "tools/run": b"#!/bin/sh\n"}
SETTINGS = (
    "user.name=a",
    "user.email=a@example.org",
    "init.defaultBranch=main",
    "protocol.file.allow=always",
    "gc.auto=0",
)


@pytest.fixture(autouse=True)
def plain(monkeypatch, tmp_path):
    """Git without the settings of this machine."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    (tmp_path / "gitconfig").write_text("[core]\nfsync = none\n")


def git(root: Path, *arguments: str) -> str:
    settings = [part for setting in SETTINGS for part in ("-c", setting)]
    return subprocess.run(["git", *settings, *arguments], cwd=root, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def origin(tmp_path) -> Path:
    folder = tmp_path / "origin"
    write(folder, FIRST)
    (folder / "tools/run").chmod(0o755)
    git(folder, "init", "-q", "--template=")
    commit(folder)
    return folder


@pytest.fixture
def root(origin) -> Path:
    return clone(origin, "course")


def clone(origin: Path, name: str) -> Path:
    git(origin.parent, "clone", "-q", "--template=", str(origin), name)
    return origin.with_name(name)


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "a release")


def publish(origin: Path, new: Release, *, without: tuple[str, ...] = ()) -> None:
    """The next commit of the course."""
    write(origin, new)
    for name in without:
        (origin / name).unlink()
    commit(origin)


def status(root: Path) -> list[str]:
    return git(root, "status", "--porcelain").splitlines()


def head(root: Path) -> str:
    return git(root, "rev-parse", "HEAD").strip()


def backups(root: Path) -> dict[str, bytes]:
    folder = root / "build" / "backup"
    return {
        "/".join(path.relative_to(folder).parts[1:]): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_an_update_moves_the_branch_and_merges(root, origin):
    mine = answer(root)
    new = release(log="Other.", lesson="second edition") | {
        "oplab/code.py": b"VERSION = 2\n",
        "oplab/more.py": b"",
        "exercises/csrc/c05_new.cpp": CPP.replace(b"shift", b"new"),
        "tools/run": b"#!/bin/sh\ntrue\n",
    }
    publish(origin, new, without=("docs/page.md",))
    report = updates.update(root)
    assert report.lines == [
        "1 stub and 1 other file are new; 1 lesson and 2 other files have changed; 1 file removed; 1 stub merged with your changes",
        "The next `make lab`, or any other `make …`, sets up what has changed.",
    ]
    assert head(root) == head(origin) and git(root, "symbolic-ref", "HEAD").strip() == "refs/heads/main"
    assert status(root) == [f" M {PY}"]
    assert (root / PY).read_bytes() == mine.replace(b"The logarithm.", b"Other.") and backups(root) == {PY: mine}
    expected = FIRST | new
    del expected["docs/page.md"]
    assert visible(root) == expected | {PY: (root / PY).read_bytes()}
    assert os.access(root / "tools/run", os.X_OK)
    assert updates.update(root).lines[0].startswith("Everything is up to date")
    # what git itself pulls next
    publish(origin, {"oplab/code.py": b"VERSION = 3\n"})
    git(root, "pull", "-q", "--ff-only")
    assert status(root) == [f" M {PY}"]


def test_what_is_staged(root, origin):
    """A stub in the index would be lost with its old stub; other files stay staged."""
    staged = answer(root)
    git(root, "add", PY)
    mine = edit(root, PY, "min(x, 6)", "min(x, 7)")
    (root / "notes.md").write_text("mine")
    git(root, "add", "notes.md")
    publish(origin, release(log="Other."))
    report = updates.update(root)
    assert status(root) == [f" M {PY}", "A  notes.md"]
    assert backups(root) == {PY: mine, f"{PY}.staged": staged}
    assert any(line.startswith(f"{PY} as you had staged it with git is kept as build/backup/") for line in report.lines)


def test_a_conflict(root, origin):
    edit(root, PY, "Clip x.", "My words.")
    publish(origin, release(clip="Other."))
    report = updates.update(root)
    assert [one.exercise for one in report.conflicts] == ["c05.clip"]
    assert conflicts.load(root) == report.conflicts and head(root) == head(origin)
    # recorded although the next update finds nothing
    assert updates.update(root).conflicts == [] and len(conflicts.load(root)) == 1


def test_dropped_renamed_and_deleted(root, origin):
    answer(root)
    cpp = edit(root, "exercises/csrc/c05_shift.cpp", "int", "long")
    text = (origin / PY).read_bytes().replace(b"def clip", b"def bound").replace(b"c05.clip", b"c05.bound")
    table = b'\n[renamed]\n"c05.clip" = "c05.bound"\n'
    manifest = (
        FIRST["course.toml"].replace(b'"clip"', b'"bound"').split(b'[[chapter.exercise]]\nname = "shift"')[0] + table
    )
    publish(origin, {PY: text, "course.toml": manifest}, without=("exercises/csrc/c05_shift.cpp",))
    names = []
    updates.update(root, renaming=names.append)
    assert names == [{"c05.clip": "c05.bound"}]
    assert "def bound(x):" in (root / PY).read_text() and "min(x, 6)" in (root / PY).read_text()
    assert not (root / "exercises/csrc").exists()
    assert backups(root)["exercises/csrc/c05_shift.cpp"] == cpp and status(root) == [f" M {PY}"]
    updates.update(root, renaming=names.append)  # also where nothing is new: the learner may have pulled by hand
    assert len(names) == 2


def test_after_a_pull_by_hand(root, origin):
    publish(origin, release(clip="Other.", lesson="second edition"))
    git(root, "pull", "-q", "--ff-only")
    assert updates.update(root).lines == [f"Everything is up to date (commit {head(origin)[:9]})."]


def changed(folder: Path) -> None:
    edit(folder, "oplab/code.py", "1", "5")


def in_the_way(folder: Path) -> None:
    (folder / "oplab/more.py").write_text("mine")


def staged(folder: Path) -> None:
    changed(folder)
    git(folder, "add", "oplab/code.py")


def deleted(folder: Path) -> None:
    (folder / "oplab/code.py").unlink()


def committed(folder: Path) -> None:
    (folder / "mine.txt").write_text("mine")
    commit(folder)


def detached(folder: Path) -> None:
    git(folder, "checkout", "-q", "--detach")


def without_upstream(folder: Path) -> None:
    git(folder, "branch", "--unset-upstream")


def without_network(folder: Path) -> None:
    git(folder, "remote", "set-url", "origin", "/nowhere/course.git")


def merging(folder: Path) -> None:
    (folder / ".git/MERGE_HEAD").write_text(head(folder))


def locked(folder: Path) -> None:
    (folder / ".git/index.lock").write_text("")


def branch_is_gone(folder: Path) -> None:
    git(folder, "config", "branch.main.merge", "refs/heads/gone")


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (changed, r"You have changed oplab/code\.py, and the update changes it, too\. Nothing has been updated"),
        (in_the_way, r"You have changed oplab/more\.py"),
        (staged, r"You have changed oplab/code\.py"),
        (deleted, r"You have changed oplab/code\.py"),
        (committed, r"The branch main has 1 commit that the course does not have"),
        (detached, r"No branch is checked out \(git calls this a detached HEAD\)"),
        (without_upstream, r"The branch main does not follow a branch"),
        (without_network, r"repository cannot be reached, and nothing has changed: '/nowhere/course\.git' does not"),
        (merging, r"in the middle of something else here: .*MERGE_HEAD exists"),
        (locked, r"index\.lock exists"),
        (branch_is_gone, r"no longer has the branch gone"),
    ],
)
def test_what_is_in_the_way_is_a_sentence(prepare, words, root, origin):
    publish(origin, release(log="Other.") | {"oplab/code.py": b"VERSION = 2\n", "oplab/more.py": b""})
    answer(root)
    prepare(root)
    before = everything(root), head(root), (root / ".git/index").read_bytes()
    for dry_run in (True, False):
        with pytest.raises(OplabError, match=words) as caught:
            updates.update(root, dry_run=dry_run)
        assert caught.value.fix and "Traceback" not in str(caught.value)
        after = {name: text for name, text in everything(root).items() if name != updates.LOCK}
        assert (after, head(root), (root / ".git/index").read_bytes()) == before


def test_changes_that_the_update_does_not_touch_stay(root, origin):
    mine = edit(root, "docs/page.md", "page", "my page")
    (root / "oplab/more.py").write_bytes(b"same\n")
    publish(origin, {"oplab/more.py": b"same\n", "oplab/code.py": b"VERSION = 2\n"})
    updates.update(root)
    assert status(root) == [" M docs/page.md"] and (root / "docs/page.md").read_bytes() == mine


def test_a_file_makes_way_for_a_folder(root, origin):
    (origin / "docs/page.md").unlink()
    publish(origin, {"docs/page.md/one.md": b"1\n"})
    updates.update(root)
    assert (root / "docs/page.md/one.md").read_bytes() == b"1\n" and status(root) == []


def test_a_folder_makes_way_for_a_file(root, origin):
    (root / "docs/mine.md").write_text("mine")
    shutil.rmtree(origin / "docs")
    publish(origin, {"docs": b"1\n"})
    with pytest.raises(OplabError, match="docs is a folder, and the course has a file of this name"):
        updates.update(root)
    (root / "docs/mine.md").unlink()
    updates.update(root)
    assert (root / "docs").read_bytes() == b"1\n" and status(root) == []


def test_a_dry_run_writes_nothing(root, origin):
    edit(root, PY, "Clip x.", "My words.")
    publish(origin, release(clip="Other.", lesson="second edition") | {"oplab/more.py": b"1\n"})

    def files() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in root.rglob("*") if path.is_file()}

    before = files()
    report = updates.update(root, dry_run=True)
    assert files() == before
    assert report.lines == updates.update(root).lines[:-1] and len(report.conflicts) == 1


def test_a_folder_inside_another_repository(root):
    write(root / "inner", release())
    (root / "inner/.git").mkdir()
    with pytest.raises(OplabError, match="is part of the git repository"):
        updates.update(root / "inner")


def test_git_is_missing(root, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(OplabError, match="There is no program git"):
        updates.update(root)


@pytest.mark.nightly
def test_a_run_that_is_killed_anywhere_is_finished_by_the_next(root, origin, tmp_path):
    """After each rename and each git command."""
    edit(root, PY, "Clip x.", "My words.")
    mine = answer(root)
    new = release(clip="Other.", log="Other.") | {"oplab/code.py": b"VERSION = 2\n", "docs/page.md/one.md": b"1\n"}
    del new["docs/page.md"]
    (origin / "docs/page.md").unlink()
    publish(origin, new)
    whole = tmp_path / "whole"
    shutil.copytree(root, whole)
    assert len(updates.update(whole).conflicts) == 1
    for count in range(1, 1000):
        folder = tmp_path / f"killed-{count}"
        shutil.copytree(root, folder)
        killed = killed_after(count, lambda folder=folder: updates.update(folder))
        assert mine in everything(folder).values(), count
        updates.update(folder)
        assert visible(folder) == visible(whole), count
        assert head(folder) == head(origin) and status(folder) == [f" M {PY}"], count
        assert len(conflicts.load(folder)) == 1 and mine in backups(folder).values(), count
        assert not (folder / journal.FOLDER).exists(), count
        if not killed:
            break
    assert 15 < count < 999


def test_an_interrupted_update_of_a_branch_that_has_moved_is_given_up(root, origin, monkeypatch):
    mine = answer(root)
    publish(origin, release(log="Other."))

    def stop(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(journal, "finish", stop)
        updates.update(root)
    assert updates.problems(load(root)) == ["An update was interrupted. `oplab update` finishes it."]
    committed(root)
    with pytest.raises(OplabError, match="has 1 commit that the course does not have"):
        updates.update(root)
    assert mine in backups(root).values() and (root / PY).read_bytes() == mine
