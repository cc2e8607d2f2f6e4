"""A small course that the authors' tools made, for tests: one finished exercise with stub, check, mutants and notebook."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from oplab.authoring.new import Plan, create
from oplab.course.manifest import load
from tests.support import ROOT
from tests.support.fixture_course import command

MANIFEST = """\
# The first comment.
title = "Small"   # next to a key

[[chapter]]
stem = "03_before"
title = "Before"
able = "You can begin."
minutes = 5

# This comment belongs to chapter 09.
[[chapter]]
stem = "09_after"
title = "After"
able = "You can go on."
builds_on = ["c03"]
minutes = 5
"""
DOUBLE = Plan("c05.double", "return 2 * x", "Twice, and more")
MUTANTS = """\
# One in each form.
[thrice]
says = "The result is 3 * x"
find = "2 * x"
with = "3 * x"

[shape]
says = "expected float32[3, 4], got float32[4, 3]"
edits = [["return 2 * x", "return x.T"], ["def double(x: torch.Tensor)", "def double(x: torch.Tensor, two=2)"]]

[none]
says = "got nothing"
code = '''
def double(x):
    return None
'''
"""


S = "c05_twice_and_more"
MUTANT_FILE = f"tests/mutants/{S}/double.toml"
OTHER_FILE = f"tests/alternatives/{S}/double.toml"
QUIZ = "notebooks/quiz/05.toml"
LESSON = "notebooks/src/05_twice_and_more.py"


def begin(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "course.toml").write_text(MANIFEST)
    (folder / "build").mkdir()
    (folder / "csrc").symlink_to(ROOT / "csrc")
    for part in ("lib", "cache"):
        (folder / "build" / part).symlink_to(ROOT / "build" / part)
    return folder


def finish(root: Path) -> Path:
    """What an author does after `new-exercise`; the empty chapters go."""
    create(load(root), DOUBLE)
    stem = "c05_twice_and_more"
    for name, changes in {
        f"solutions/{stem}.py": {
            "WRITE: what double does, as a specification that can be run": "Twice x",
            "x  # WRITE: the reference": "2 * x",
        },
        f"oplab/checks/{stem}.py": {
            "WRITE: what is judged, in one sentence": "values",
            'x, name="y")  # WRITE: the expected value; likely={"The result is …: …": …}': (
                '2 * x, name="y", likely={"The result is 3 * x": 3 * x})'
            ),
        },
        LESSON: {"WRITE: the lesson": "Twice", "WRITE: what to do": "write it"},
        "course.toml": {
            "WRITE: a question that leads on.": "Add?",
            "WRITE: something more concrete.": "x + x",
            "You can WRITE: what one can do after this chapter.": "You can double.",
            'builds_on = ["c03"] # WRITE: the chapters whose content it needs\n': "",
        },
    }.items():
        text = (root / name).read_text()
        for old, new in changes.items():
            assert old in text, f"{old!r} is not in {name}"
            text = text.replace(old, new)
        (root / name).write_text(text)
    text = (root / "course.toml").read_text()
    text = re.sub(r'\[\[chapter\]\]\nstem = "0[39]_\w+"\n(?:(?!\[).+\n)+', "", text)
    (root / "course.toml").write_text(text)
    (root / "notebooks" / "05_twice_and_more.ipynb").write_text("{}")
    (root / QUIZ).write_text((root / QUIZ).read_text().replace("WRITE: ", ""))
    (root / MUTANT_FILE).write_text(MUTANTS)
    (root / OTHER_FILE).parent.mkdir(parents=True)
    (root / OTHER_FILE).write_text('[sum]\nfind = "2 * x"\nwith = "x + x"\n')
    return root


def oplab(root: Path, *args: str) -> subprocess.CompletedProcess:
    line, env = command(root, *args)
    done = subprocess.run(line, env=env, capture_output=True, text=True, timeout=900, cwd=root)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def edit(name: str, old: str, new: str):
    def change(root: Path) -> None:
        path = root / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    return change


def add(name: str, text: str = "x = 1\n"):
    def change(root: Path) -> None:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)

    return change


def append(name: str, text: str):
    def change(root: Path) -> None:
        with (root / name).open("a") as file:
            file.write(text)

    return change


def remove(name: str):
    return lambda root: (root / name).unlink()
