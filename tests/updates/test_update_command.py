"""The command `oplab update`: what it prints, how it ends, and progress that follows renamed exercises."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from oplab.cli.start import move_progress
from oplab.cli.start import update as command
from oplab.course.manifest import load
from oplab.errors import OplabError
from oplab.grading import last
from oplab.grading import progress as progressing
from oplab.grading.results import Outcome
from oplab.updates import delivery
from tests.support.updated_course import Release, deliver, everything, release

PY = "exercises/c05_symbolic.py"


@pytest.fixture
def root(tmp_path, monkeypatch) -> Path:
    folder = deliver(tmp_path / "course", release())
    monkeypatch.setenv("OPLAB_ROOT", str(folder))
    monkeypatch.setenv("COLUMNS", "100")
    return folder


@pytest.fixture
def installed(monkeypatch):
    """Pretend that a release is installed."""

    def install(number: str, files: Release) -> None:
        monkeypatch.setattr(delivery, "release", lambda: number)
        monkeypatch.setattr(delivery, "files", lambda: files)

    return install


def run(*arguments: str) -> tuple[int, str]:
    app = typer.Typer()
    app.command()(command)
    done = CliRunner().invoke(app, arguments)
    if isinstance(done.exception, OplabError):
        raise done.exception
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


def test_from_an_update_to_a_conflict(root, installed):
    installed("0.2.0", release())
    assert run() == (0, "Everything is up to date (0.2.0).\n")
    (root / PY).write_text((root / PY).read_text().replace("Clip x.", "My words."))
    installed("0.3.0", release(clip="Clip x, faithfully.", lesson="second edition"))
    before = everything(root)
    code, shown = run("--dry-run")
    first, *others = shown.splitlines()
    assert code == 1 and first == "This is what `oplab update` would do; no file has been changed:"
    assert everything(root) == before
    assert run() == (1, "\n".join(others) + "\n")
    assert others[0] == "1 lesson has changed" and f"the new stub is {PY}.new: merge what you need" in others[1]


def test_progress_and_outcomes_follow(root, installed):
    build = root / "build"
    build.mkdir()
    with progressing.update(build) as progress:
        progress.exercises["c05.clip"] = progressing.Entry("passed", 1, True, 2)
        progress.exercises["c05.log"] = progressing.Entry("failed", 0, False, 1)
    last.save(build, Outcome("c05.clip", "05_symbolic", "passed", 1, 1, 0.5, "fine", ()), 1.0)
    new = release()
    new["course.toml"] = new["course.toml"].replace(b'"clip"', b'"bound"')
    new["course.toml"] += b'[renamed]\n"c05.old" = "c05.clip"\n"c05.clip" = "c05.bound"\n'
    new[PY] = new[PY].replace(b"def clip", b"def bound").replace(b"c05.clip", b"c05.bound")
    installed("0.3.0", new)
    for _ in range(2):
        assert run()[0] == 0
        reached = progressing.load(build).exercises
        assert reached["c05.bound"] == progressing.Entry("passed", 1, True, 2) and set(reached) == {
            "c05.bound",
            "c05.log",
        }
        assert last.load(build, "c05.bound")["message"] == "fine" and last.load(build, "c05.clip") is None
    assert load(root).renamed == {"c05.old": "c05.clip", "c05.clip": "c05.bound"}


def test_progress_of_both_names_is_united(tmp_path):
    """The learner has pulled by hand, and graded the new name before an update moved the old one."""
    with progressing.update(tmp_path) as progress:
        progress.exercises["c05.old"] = progressing.Entry("passed", 3, True, 3)
        progress.exercises["c05.new"] = progressing.Entry("failed", 0, False, 1)
    (tmp_path / last.FOLDER).mkdir()
    (tmp_path / last.FOLDER / "c05.old.json").write_text("{")
    move_progress(tmp_path, {"c05.old": "c05.new"})
    assert progressing.load(tmp_path).exercises == {"c05.new": progressing.Entry("failed", 0, True, 3)}


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('"c05.clip" = "c05.log"', "c05.clip is an exercise of the course, so it is not an old name"),
        ('"c05.a" = "c05.b"\n"c05.b" = "c05.a"', "c05.a leads back to itself"),
        ('"c05.old" = 3', 'an entry has to look like "c05.old" = "c05.new"'),
    ],
)
def test_a_broken_table_of_names_is_a_sentence(table, words, root):
    text = release()["course.toml"].decode()
    (root / "course.toml").write_text(text.replace("[[chapter]]", f"[renamed]\n{table}\n[[chapter]]", 1))
    with pytest.raises(OplabError) as caught:
        load(root)
    assert words in caught.value.message and "course.toml, line 3: renamed: " in caught.value.message
