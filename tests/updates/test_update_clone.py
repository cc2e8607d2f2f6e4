"""``oplab update`` in a git clone: as `git pull --ff-only`, with the learner's stubs merged and nothing in a stash."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from oplab.course.manifest import load
from oplab.errors import OplabError
from oplab.updates import update as updates
from tests.support.killing import killed_after
from tests.support.updated_course import CPP, PY, Release, answer, backups, edit, everything, release, visible, write

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


def test_an_update_moves_the_branch_and_merges(root, origin):
    mine = answer(root)
    new = release(log="Other.", lesson="second edition") | {
        "oplab/code.py": b"VERSION = 2\n",
        "oplab/more.py": b"",
        "exercises/csrc/c05_new.cpp": CPP.replace(b"shift", b"new"),
        "tools/run": b"#!/bin/sh\ntrue\n",
    }
    new["course.toml"] = FIRST["course.toml"].replace(b'"log"', b'"ln"') + b'\n[renamed]\n"c05.log" = "c05.ln"\n'
    publish(origin, new, without=("docs/page.md",))
    before, names = (everything(root), head(root), status(root)), []
    dry = updates.update(root, dry_run=True, renaming=names.append)
    assert (everything(root), head(root), status(root)) == before and names == []
    report = updates.update(root, renaming=names.append)
    assert report == dry and names == [{"c05.log": "c05.ln"}]
    assert report.lines == [
        "1 stub and 1 other file are new; 1 lesson and 3 other files have changed; 1 file removed; 1 stub merged with your changes",
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
    """It is staged no more, and the same in the folder; what is in the index alone stops the update."""
    answer(root)
    git(root, "add", PY)
    (root / "notes.md").write_text("mine")
    git(root, "add", "notes.md")
    mine = edit(root, PY, "min(x, 6)", "min(x, 7)")
    publish(origin, release(log="Other."))
    with pytest.raises(OplabError, match=f"{PY} is staged in git, and has changed since. Nothing has been updated"):
        updates.update(root)
    git(root, "add", PY)
    updates.update(root)
    assert status(root) == [f" M {PY}", "?? notes.md"] and backups(root) == {PY: mine}


def test_a_conflict(root, origin):
    mine = edit(root, PY, "Clip x.", "My words.")
    publish(origin, release(clip="Other.") | {".gitignore": b"/build/\n/work/\n*.new\n"})
    assert updates.update(root).conflicts and head(root) == head(origin)
    assert (root / PY).read_bytes() == mine and b"Other." in (root / f"{PY}.new").read_bytes()
    assert status(root) == [f" M {PY}"] and updates.update(root).conflicts


IN_THE_WAY = {
    r"You have changed oplab/code\.py, and the update changes it, too\. Nothing has been updated": lambda folder: edit(
        folder, "oplab/code.py", "1", "5"
    ),
    r"You have changed oplab/more\.py": lambda folder: write(folder, {"oplab/more.py": b"mine"}),
    r"The branch main has 1 commit that the course does not have": lambda folder: commit(folder),
    r"No branch is checked out \(git calls this a detached HEAD\)": lambda folder: git(
        folder, "switch", "-q", "--detach"
    ),
    r"The branch main does not follow a branch": lambda folder: git(folder, "branch", "--unset-upstream"),
    r"repository cannot be reached, and nothing has changed: '/nowhere/course\.git' does not": lambda folder: git(
        folder, "remote", "set-url", "origin", "/nowhere/course.git"
    ),
    r"Another git operation is in progress here: .*MERGE_HEAD exists": lambda folder: write(
        folder, {".git/MERGE_HEAD": head(folder).encode()}
    ),
    r"no longer has the branch that main follows": lambda folder: git(
        folder, "config", "branch.main.merge", "refs/heads/gone"
    ),
}


@pytest.mark.parametrize("words", IN_THE_WAY)
def test_what_is_in_the_way_is_a_sentence(words, root, origin):
    publish(origin, release(log="Other.") | {"oplab/code.py": b"VERSION = 2\n", "oplab/more.py": b""})
    answer(root)
    IN_THE_WAY[words](root)
    before = everything(root), head(root), git(root, "ls-files", "--stage")
    for dry_run in (True, False):
        with pytest.raises(OplabError, match=words) as caught:
            updates.update(root, dry_run=dry_run)
        assert caught.value.fix and "Traceback" not in str(caught.value)
        after = {name: text for name, text in everything(root).items() if name != updates.LOCK}
        assert (after, head(root), git(root, "ls-files", "--stage")) == before
    assert updates.problems(load(root)) == []


def test_changes_that_the_update_does_not_touch_stay(root, origin):
    mine = edit(root, "docs/page.md", "page", "my page")
    (root / "oplab/more.py").write_bytes(b"same\n")
    publish(origin, {"oplab/more.py": b"same\n", "oplab/code.py": b"VERSION = 2\n"})
    updates.update(root)
    assert status(root) == [" M docs/page.md"] and (root / "docs/page.md").read_bytes() == mine


def test_a_folder_inside_another_repository(root):
    write(root / "inner", release())
    (root / "inner/.git").mkdir()
    with pytest.raises(OplabError, match="is part of the git repository"):
        updates.update(root / "inner")


def test_a_run_that_is_killed_anywhere_is_finished_by_the_next(root, origin, tmp_path):
    """After each change of the disk and each git command that writes."""
    edit(root, "exercises/c06_more.py", "More.", "My words.")
    mine = answer(root)
    new = release(log="Other.") | {"oplab/code.py": b"VERSION = 2\n", "docs/page.md/one.md": b"1\n"}
    new["exercises/c06_more.py"] = new["exercises/c06_more.py"].replace(b"More.", b"Other.")
    del new["docs/page.md"]
    (origin / "docs/page.md").unlink()
    publish(origin, new | {".gitignore": b"/build/\n/work/\n*.new\n"})
    whole = tmp_path / "whole"
    shutil.copytree(root, whole)
    assert updates.update(whole).conflicts
    for count in range(1, 1000):
        folder = tmp_path / f"killed-{count}"
        shutil.copytree(root, folder)
        killed = killed_after(count, lambda folder=folder: updates.update(folder))
        assert mine in everything(folder).values(), count
        updates.update(folder)
        assert visible(folder) == visible(whole) and status(folder) == status(whole), count
        assert head(folder) == head(origin) and mine in backups(folder).values(), count
        assert updates.problems(load(folder)) == updates.problems(load(whole)), count
        if not killed:
            break
    assert 8 < count < 999
