"""Updates of a git clone: what ``git pull --ff-only`` does, with the learner's stubs merged and nothing in a stash.

Git fetches and says what has changed. Its files are restored from the new commit, the learner's stubs are merged in their places, and
at the end the branch and the index move. A run that was killed before is repeated: HEAD is still the old commit.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from oplab.course import renaming
from oplab.errors import OplabError
from oplab.updates.placing import Placing, expect_file
from oplab.updates.stubs import EXERCISES, Report, kind_of, update_stubs

_BUSY = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "index.lock")


class Clone:
    """A git repository that holds the course."""

    def __init__(self, root: Path):
        self.root = root
        top = self._git("rev-parse", "--show-toplevel", fault="This folder cannot be read as a git repository").strip()
        if not os.path.samefile(top, root):
            raise OplabError(
                f"{root} is part of the git repository {top}, and not a clone of the course.",
                "Clone the course, or make a folder with `oplab init course`.",
            )
        self._git("ls-files", "--error-unmatch", "course.toml", fault="The repository does not have course.toml")

    def update(self, placing: Placing, report: Report) -> tuple[str, dict[str, str]]:
        """Move the branch to its upstream's commit. Git fetches in a dry run, too, which changes no file.

        Returns:
            a name of the commit for people, and new ids of exercises by old ones.

        Raises:
            OplabError: the branch cannot be moved forward, or the learner has changed a file that the update changes, too, and
                that is not a stub. Nothing has changed.
        """
        old, new = self._news()
        changed = dict(
            reversed(pair) for pair in _pairs(self._git("diff", "--name-status", "--no-renames", "-z", old, new))
        )
        others = {path: status for path, status in changed.items() if not path.startswith(EXERCISES)}
        self._expect_free(old, new, others)
        self._expect_nothing_only_staged()
        placing.begin()
        for path, status in others.items():
            if status == "D":
                report.removed += 1
            else:
                (report.added if status == "A" else report.changed)[kind_of(path)] += 1
        if not placing.dry_run:
            tracked = self._names("ls-files", "-z")
            self._restore(new, [path for path, status in others.items() if status == "D" and path in tracked])
            self._restore(new, [path for path, status in others.items() if status != "D"])
        stubs = {path: status for path, status in changed.items() if path.startswith(EXERCISES)}
        base = {path: self._show(old, path) for path, status in stubs.items() if status != "A"}
        fresh = {path: self._show(new, path) for path, status in stubs.items() if status != "D"}
        renamed = renaming.read(self._show(new, "course.toml").decode("utf-8", "replace"))
        update_stubs(placing, report, base, fresh, renamed)
        if old != new and not placing.dry_run:
            self._git("reset", "--quiet", new)
        return f"commit {new[:9]}", renamed

    def _news(self) -> tuple[str, str]:
        """The branch's commit, and the one that it is to have."""
        branch = self._ask("symbolic-ref", "-q", "--short", "HEAD")
        if branch is None:
            raise OplabError(
                "No branch is checked out (git calls this a detached HEAD), so nothing can be updated.",
                "Check out your branch first: git switch main",
            )
        remote = self._ask("config", f"branch.{branch}.remote")
        if remote is None:
            raise OplabError(
                f"The branch {branch} does not follow a branch of the course's repository.",
                f"Set one: git branch --set-upstream-to=origin/main {branch}",
            )
        for name in _BUSY:
            path = self.root / self._git("rev-parse", "--git-path", name).strip()
            if path.exists():
                raise OplabError(
                    f"Another git operation is in progress here: {path} exists.",
                    "Finish it (`git status` names it), or delete index.lock if no git command is running.",
                )
        self._git(
            "fetch",
            "--quiet",
            "--prune",
            remote,
            fault="The course's repository cannot be reached, and nothing has changed",
        )
        old, new = (
            self._git("rev-parse", "HEAD").strip(),
            self._ask("rev-parse", "-q", "--verify", "@{upstream}^{commit}"),
        )
        if new is None:
            raise OplabError(
                f"The course's repository no longer has the branch that {branch} follows.",
                "Follow another one: git branch --set-upstream-to=origin/main",
            )
        behind, ahead = (int(self._git("rev-list", "--count", span)) for span in (f"{old}..{new}", f"{new}..{old}"))
        if behind and ahead:
            raise OplabError(
                f"The branch {branch} has {ahead} commit{'s' * (ahead != 1)} that the course does not have, "
                "so it cannot be moved forward.",
                "Rebase them onto the course's branch: git pull --rebase",
            )
        return old, new if behind else old

    def _expect_free(self, old: str, new: str, others: dict[str, str]) -> None:
        """Raises OplabError if the learner has changed a file outside of exercises/ that the update changes, too."""
        leaving = {path for path, status in others.items() if status == "D"}
        differ = self._names("diff", "--name-only", "-z", old) & self._names("diff", "--name-only", "-z", new)
        tracked = self._names("ls-files", "-z")
        for path, status in others.items():
            if status != "D":
                expect_file(self.root, path, leaving)
            there = self.root / path
            untracked = path not in tracked and there.is_file() and there.read_bytes() != self._show(new, path)
            if path in differ or untracked:
                raise OplabError(
                    f"You have changed {path}, and the update changes it, too. Nothing has been updated.",
                    f"Move your change away (git stash push --include-untracked -- {path}), run `oplab update`, "
                    "and get it back (git stash pop).",
                )

    def _expect_nothing_only_staged(self) -> None:
        """Raises OplabError if something is in the index and nowhere else: the index becomes that of the new commit."""
        for path in sorted(
            self._names("diff", "--cached", "--name-only", "-z") & self._names("diff", "--name-only", "-z")
        ):
            raise OplabError(
                f"{path} is staged in git, and has changed since. Nothing has been updated.",
                f"Stage it again (git add {path}), or take it back (git restore --staged {path}).",
            )

    def _restore(self, commit: str, paths: list[str]) -> None:
        if paths:
            where = ("--staged", "--worktree", "--pathspec-from-file=-", "--pathspec-file-nul")
            self._git("restore", f"--source={commit}", *where, stdin="\0".join(paths))

    def _show(self, commit: str, path: str) -> bytes:
        return self._run("show", f"{commit}:{path}").stdout

    def _names(self, *arguments: str) -> set[str]:
        return set(self._git(*arguments).split("\0")) - {""}

    def _ask(self, *arguments: str) -> str | None:
        """What git prints; None if it has no answer."""
        done = self._run(*arguments)
        return os.fsdecode(done.stdout).strip() if done.returncode == 0 else None

    def _git(self, *arguments: str, stdin: str = "", fault: str = "Git cannot update the repository") -> str:
        done = self._run(*arguments, stdin=os.fsencode(stdin))
        if done.returncode:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            reason = next((line for line in lines if line.startswith(("fatal:", "error:"))), (lines or [""])[-1])
            reason = reason.removeprefix("fatal: ").removeprefix("error: ").rstrip(".")
            raise OplabError(f"{fault}: {reason or f'git ends with {done.returncode}'}.", "Fix that, and try again.")
        return os.fsdecode(done.stdout)

    def _run(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        # A hook or an alias of git's may have started this command, with variables that name another repository.
        env = {
            name: value for name, value in os.environ.items() if not name.startswith(("GIT_DIR", "GIT_WORK", "GIT_IND"))
        }
        env |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_LITERAL_PATHSPECS": "1"}
        try:
            return subprocess.run(["git", *arguments], cwd=self.root, env=env, input=stdin, capture_output=True)
        except FileNotFoundError:
            raise OplabError("There is no program git, which updates a clone of the course.", "Install git.") from None


def _pairs(text: str) -> list[tuple[str, str]]:
    """``status, path, status, path, …``, each ended by NUL."""
    parts = text.split("\0")[:-1]
    return list(zip(parts[::2], parts[1::2], strict=True))
