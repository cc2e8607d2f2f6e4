"""Updates of a git clone: what ``git pull --ff-only`` does, in steps that a killed process can repeat, with the learner's stubs merged.

Git fetches, and says what has changed. The files are then staged and renamed as in any other folder (:mod:`oplab.updates.journal`), and
at the end the index and the branch are set. So there is no moment at which the learner's changes are only in a stash.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oplab.course.renaming import read as read_renamed
from oplab.errors import OplabError
from oplab.updates import journal
from oplab.updates.planning import EXERCISES, Plan, expect_file, kind_of, plan_stubs

_BUSY = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "index.lock")


@dataclass(frozen=True)
class News:
    """What the branch's upstream has.

    Attributes:
        branch: the full name of the branch, ``refs/heads/main``.
        old: its commit.
        new: the commit that it is to have; the same if there is nothing new.
    """

    branch: str
    old: str
    new: str


@dataclass(frozen=True)
class _File:
    """A file that differs between two commits; ``status`` is A, M, T or D."""

    path: str
    status: str
    blob: str


class Clone:
    """A git repository that holds the course.

    Args:
        root: the course's folder.

    Raises:
        OplabError: git is missing, or the folder is not such a repository.
    """

    def __init__(self, root: Path):
        self.root = root
        self._env: dict[str, str] = {}
        top = self._git("rev-parse", "--show-toplevel", fault="This folder cannot be read as a git repository")
        if not os.path.samefile(top.decode().strip(), root):
            raise OplabError(
                f"{root} is part of the git repository {top.decode().strip()}, and not a clone of the course.",
                "Clone the course, or make a folder with `oplab init course`.",
            )
        self._git("ls-files", "--error-unmatch", "course.toml", fault="The repository does not have course.toml")

    @contextlib.contextmanager
    def news(self, dry_run: bool) -> Iterator[News]:
        """Fetch, and see whether the branch can be moved forward. With ``dry_run``, what is fetched is forgotten afterwards.

        Raises:
            OplabError: it cannot; nothing has changed.
        """
        branch = self._ask("symbolic-ref", "-q", "HEAD")
        if branch is None:
            raise OplabError(
                "No branch is checked out (git calls this a detached HEAD), so nothing can be updated.",
                "Check out your branch first: git switch main",
            )
        short = branch.removeprefix("refs/heads/")
        old = self._ask("rev-parse", "--verify", "-q", "HEAD")
        remote, merged = (self._ask("config", f"branch.{short}.{key}") for key in ("remote", "merge"))
        if old is None or remote is None or merged is None:
            raise OplabError(
                f"The branch {short} does not follow a branch of the course's repository.",
                f"Set one: git branch --set-upstream-to=origin/main {short}",
            )
        for name in _BUSY:
            path = self.root / self._git("rev-parse", "--git-path", name).decode().strip()
            if path.exists():
                raise OplabError(
                    f"Git is in the middle of something else here: {path} exists.",
                    "Finish it (`git status` names it), or delete index.lock if no git command is running.",
                )
        with tempfile.TemporaryDirectory() if dry_run else contextlib.nullcontext() as objects:
            new = self._fetch(remote, merged, objects)
            try:
                yield News(branch, old, self._forward(short, old, new))
            finally:
                self._env = {}

    def plan(self, plan: Plan, news: News, stage: bool) -> dict[str, str]:
        """Add to a plan what moves the branch forward.

        Args:
            plan: is extended.
            news: from :meth:`news`.
            stage: check out what is new in ``build/update/tree``; otherwise the plan's changes have no content.

        Returns:
            the exercises that have new names.

        Raises:
            OplabError: the update would overwrite changes of the learner outside of ``exercises/``.
        """
        files = self._changed(news)
        dirty = self._names("diff", "--name-only", "-z", "HEAD")
        self._expect_free(files, dirty)
        others = [file for file in files if not file.path.startswith(EXERCISES)]
        tree = self._check_out(news, [file.path for file in others if file.status != "D"]) if stage else None
        for file in sorted(others, key=lambda file: file.status != "D"):  # a file may make way for a folder
            was = journal.digest_of(self.root / file.path)
            text = tree / file.path if tree is not None and file.status != "D" else None
            plan.changes.append(journal.Change(file.path, text, was))
            if file.status == "D":
                plan.removed += 1
            else:
                (plan.added if file.status == "A" else plan.changed)[kind_of(file.path)] += 1
        stubs = [file for file in files if file.path.startswith(EXERCISES)]
        base = {self._stub(file): self._show(news.old, file.path) for file in stubs if file.status != "A"}
        new = {self._stub(file): self._show(news.new, file.path) for file in stubs if file.status != "D"}
        renamed = read_renamed(self._show(news.new, "course.toml").decode("utf-8", "replace"))
        plan_stubs(plan, self.root, base, new, renamed, lambda name, _: EXERCISES + name not in dirty)
        self._keep_staged(plan, {file.path for file in stubs})
        return renamed

    def state(self, data: dict[str, Any]) -> str:
        """What has become of an interrupted update: ``begun``; ``moved``, if the branch is elsewhere by now."""
        same = self._ask("symbolic-ref", "-q", "HEAD") == data["branch"]
        here = self._ask("rev-parse", "--verify", "-q", "HEAD")
        return "begun" if same and here in (data["old"], data["new"]) else "moved"

    def forward(self, data: dict[str, Any]) -> None:
        """Set the index and the branch, once the files are in their places. It may be repeated.

        Raises:
            OplabError: git refuses.
        """
        old, new = data["old"], data["new"]
        fault = "The files are updated, but git cannot follow; run `oplab update` again"
        if self._ask("rev-parse", "HEAD") != new:
            stubs = [step["path"] for step in data["steps"] if step["path"].startswith(EXERCISES)]
            stubs += [file.path for file in self._changed(News("", old, new)) if file.path.startswith(EXERCISES)]
            if stubs:
                names = "\0".join(dict.fromkeys(stubs)).encode()
                self._git("reset", "-q", old, "--pathspec-from-file=-", "--pathspec-file-nul", stdin=names, fault=fault)
            self._git("read-tree", "-i", "-m", old, new, fault=fault)
            self._git("update-ref", "-m", "oplab update: Fast-forward", data["branch"], new, old, fault=fault)
        self._ask("update-index", "-q", "--refresh")

    def label(self, commit: str) -> str:
        """A commit for people."""
        return f"commit {commit[:9]}"

    def _fetch(self, remote: str, merged: str, objects: str | None) -> str:
        """The commit of the upstream branch. Without ``objects`` it is fetched into the repository."""
        fault = "The course's repository cannot be reached, and nothing has changed"
        if objects is None:
            self._git("fetch", "--quiet", remote, fault=fault)
            new = self._ask("rev-parse", "--verify", "-q", "@{upstream}^{commit}")
        else:
            real = self.root / self._git("rev-parse", "--git-path", "objects").decode().strip()
            self._env = {"GIT_OBJECT_DIRECTORY": objects, "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(real)}
            listed = self._git("ls-remote", remote, merged, fault=fault).decode().split()
            new = listed[0] if listed else None
            if new is not None:
                quiet = ("--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", "--refmap=")
                self._git("fetch", *quiet, remote, merged, fault=fault)
        if new is None:
            raise OplabError(
                f"The course's repository no longer has the branch {merged.removeprefix('refs/heads/')}.",
                "Follow another one: git branch --set-upstream-to=origin/main",
            )
        return new

    def _forward(self, short: str, old: str, new: str) -> str:
        """The commit to move to: that of upstream, or the branch's own where upstream has nothing new."""
        if self._is_ancestor(new, old):
            return old
        if not self._is_ancestor(old, new):
            count = int(self._git("rev-list", "--count", f"{new}..{old}"))
            raise OplabError(
                f"The branch {short} has {count} commit{'s' * (count != 1)} that the course does not have, "
                "so it cannot be moved forward.",
                "Put them on top of the course's: git pull --rebase",
            )
        return new

    def _is_ancestor(self, one: str, other: str) -> bool:
        return self._run("merge-base", "--is-ancestor", one, other).returncode == 0

    def _changed(self, news: News) -> list[_File]:
        parts = self._git("diff-tree", "-r", "-z", "--no-renames", news.old, news.new).decode(
            "utf-8", "surrogateescape"
        )
        fields = parts.split("\0")[:-1]
        files = []
        for about, path in zip(fields[::2], fields[1::2], strict=True):
            _, mode, _, blob, status = about.split(" ")
            if "160000" not in (mode, about[1:7]):  # a submodule
                files.append(_File(path, status, blob))
        return files

    def _expect_free(self, files: list[_File], dirty: set[str]) -> None:
        """Raises OplabError if the learner has changed a file outside of exercises/ that the update changes, too."""
        tracked = self._names("ls-files", "-z")
        leaving = {file.path for file in files if file.status == "D"}
        for file in files:
            if file.path.startswith(EXERCISES):
                continue
            expect_file(self.root, file.path, leaving)
            path = self.root / file.path
            mine = file.path in dirty
            if not mine and file.path not in tracked and os.path.lexists(path) and not path.is_dir():
                mine = self._ask("hash-object", "--path", file.path, "--", str(path)) != file.blob
            if mine:
                raise OplabError(
                    f"You have changed {file.path}, and the update changes it, too. Nothing has been updated.",
                    f"Move your change away (git stash push --include-untracked -- {file.path}), run `oplab update`, "
                    "and get it back (git stash pop).",
                )

    def _check_out(self, news: News, paths: list[str]) -> Path:
        """Files of the new commit, in ``build/update/tree``."""
        tree = self.root / journal.FOLDER / "tree"
        journal.clear(self.root)
        try:
            tree.mkdir(parents=True)
        except OSError as error:
            raise OplabError(
                f"{tree} cannot be created: {error.strerror}. Nothing has changed.",
                "Make the course's folder writable, and try again.",
            ) from None
        fault = "The update cannot be prepared, and nothing has changed"
        self._env = {**self._env, "GIT_INDEX_FILE": str(tree.with_name("index"))}
        names = "\0".join(paths).encode("utf-8", "surrogateescape")
        try:
            self._git("read-tree", news.new, fault=fault)
            self._git("checkout-index", "-q", "-z", "--stdin", f"--prefix={tree}/", stdin=names, fault=fault)
        except OplabError:
            journal.clear(self.root)
            raise
        finally:
            del self._env["GIT_INDEX_FILE"]
        return tree

    def _keep_staged(self, plan: Plan, stubs: set[str]) -> None:
        """Backs up what is in the index and nowhere else."""
        staged = self._names("diff", "--cached", "--name-only", "-z") & self._names("diff", "--name-only", "-z")
        for path in sorted(staged & stubs):
            if (found := self._run("show", f":{path}")).returncode == 0:
                plan.backups[f"{path}.staged"] = found.stdout
                plan.notes.append(f"{path} as you had staged it with git is kept as {plan.backup}/{path}.staged.")

    @staticmethod
    def _stub(file: _File) -> str:
        return file.path.removeprefix(EXERCISES)

    def _show(self, commit: str, path: str) -> bytes:
        found = self._run("show", f"{commit}:{path}")
        return found.stdout if found.returncode == 0 else b""

    def _names(self, *arguments: str) -> set[str]:
        return set(self._git(*arguments).decode("utf-8", "surrogateescape").split("\0")) - {""}

    def _ask(self, *arguments: str) -> str | None:
        """What git prints; None if it has no answer."""
        done = self._run(*arguments)
        return done.stdout.decode().strip() if done.returncode == 0 else None

    def _git(self, *arguments: str, stdin: bytes = b"", fault: str = "Git cannot read the repository") -> bytes:
        done = self._run(*arguments, stdin=stdin)
        if done.returncode:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            reason = next((line for line in lines if line.startswith(("fatal:", "error:"))), (lines or [""])[-1])
            reason = reason.removeprefix("fatal: ").removeprefix("error: ").rstrip(".")
            raise OplabError(f"{fault}: {reason or f'git ends with {done.returncode}'}.", "Fix that, and try again.")
        return done.stdout

    def _run(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_DIR")}
        for name in ("GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"):
            env.pop(name, None)
        env |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", **self._env}
        try:
            return subprocess.run(["git", *arguments], cwd=self.root, env=env, input=stdin, capture_output=True)
        except FileNotFoundError:
            raise OplabError("There is no program git, which updates a clone of the course.", "Install git.") from None
