"""``oplab lint-course`` on a small course of its own: each broken promise is found."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from oplab.authoring import lint, mutants
from oplab.course.manifest import load
from oplab.grading.client import Server
from oplab.grading.results import UNREADABLE, Outcome
from tests.support import ROOT
from tests.support.authoring_course import (
    LESSON,
    MUTANT_FILE,
    OTHER_FILE,
    QUIZ,
    S,
    add,
    append,
    begin,
    edit,
    finish,
    oplab,
    remove,
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    return finish(begin(tmp_path_factory.mktemp("authors") / "course"))


@pytest.fixture
def root(finished, tmp_path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "course", symlinks=True))


@pytest.fixture(scope="module")
def server():
    with Server() as running:
        yield running


def test_a_finished_exercise_has_no_finding(finished):
    done = oplab(finished, "lint-course")
    assert done.returncode == 0, done.stdout
    assert done.stdout == "1 exercises, 19 rules, 7 answers graded: all as promised.\n"


def mutant(old: str, new: str):
    return edit(MUTANT_FILE, old, new)


def alternative(old: str, new: str):
    return edit(OTHER_FILE, old, new)


def table(name: str, form: str, file: str = MUTANT_FILE):
    """Add a mutant, or an alternative."""

    def change(root: Path) -> None:
        says = 'says = "words"\n' if file == MUTANT_FILE else ""
        path = root / file
        path.write_text(f"{path.read_text()}\n[{name}]\n{says}{form}\n")

    return change


CHAPTER = '\n[[chapter]]\nstem = "%s"\ntitle = "More"\nminutes = 5\nable = "You can halve."\nbuilds_on = %s\n'
DIAMOND = CHAPTER % ("06_more", '["c05"]') + CHAPTER % ("07_most", '["c06", "c05"]')
BROKEN = {
    "one hint": (edit("course.toml", '    "Add?",\n', ""), "c05.double: it has 1 hint; at least 2 are needed."),
    "no pairs": (table("odd", 'edits = [["2 * x"]]'), "odd: edits has to be a list of pairs of strings"),
    "minutes": (
        edit("course.toml", "minutes = 10\n\n", "minutes = 9\n\n"),
        "it takes 10 minutes, and 0 for what is deeper; course.toml has 9 and 0. `oplab author c05` writes them.",
    ),
    "too many minutes": (
        edit("course.toml", "difficulty = 2\nminutes = 10\n", "difficulty = 2\nminutes = 121\n"),
        "its core takes 121 minutes; at most 120 fit into one sitting.",
    ),
    "a section that is not folded": (
        edit(LESSON, "# ## Exercises", "# ## Deeper: Limits"),
        "the cell of a deeper section begins with",
    ),
    "a core section after a deeper one": (
        edit(LESSON, "# ## Exercises", "# ## Deeper: Limits\n# ## 2. Again"),
        "a core section is after a deeper one.",
    ),
    "a check in another section": (
        edit(LESSON, "# ## Exercises", "# ## Deeper: Limits"),
        f"c05.double: it is core in course.toml, and {LESSON} checks it in another section.",
    ),
    "no link": (edit(LESSON, "#line=", "#"), f"c05.double: {LESSON} has no link before its check: "),
    "a long line": (
        edit(LESSON, "from oplab import lesson", f"from oplab import lesson  # {'x' * 80}"),
        "it has 108 columns; at most 96.",
    ),
    "a long line of a stub": (
        edit(f"exercises/{S}.py", "import torch\n", f"import torch  # {'x' * 95}\n"),
        f"exercises/{S}.py, line",
    ),
    "two goals": (
        edit(f"solutions/{S}.py", "    # END\n", "    # END\n    # ANSWER c05.double: again\n    # END\n"),
        "c05.double: its stub has 2 TODOs; it has to be exactly one.",
    ),
    "no end": (edit(f"solutions/{S}.py", "    # END\n", ""), "this ANSWER has no END."),
    "unknown goal": (
        edit(f"solutions/{S}.py", "    # END\n", "    # END\n    # ANSWER c05.gone: x\n    # END\n"),
        "an ANSWER for c05.gone",
    ),
    "no solution": (remove(f"solutions/{S}.py"), f"solutions/{S}.py cannot be read"),
    "no function": (edit(f"solutions/{S}.py", "def double", "def doubles"), "has no function double."),
    "no mutants": (remove(MUTANT_FILE), "c05.double: it has 0 mutants; at least 3 are needed."),
    "not TOML": (mutant('find = "2 * x"', "find = 2 * x"), f"{MUTANT_FILE}: it is not valid TOML: "),
    "no words": (
        mutant('says = "got nothing"\n', ""),
        f"{MUTANT_FILE}, none: says is missing: words that the message has to contain.",
    ),
    "odd status": (
        mutant('nothing"\n', 'nothing"\nstatus = "passed"\n'),
        "none: status 'passed' is not a way to be rejected; it can be failed, error, timeout, crashed, build_failed.",
    ),
    "unknown key": (
        mutant("find =", "fnid ="),
        "thrice: it has the unknown key 'fnid'; known are code, edits, find, says,",
    ),
    "no form": (
        mutant('find = "2 * x"\nwith = "3 * x"\n', ""),
        "thrice: it needs exactly one of: find and with; edits; code.",
    ),
    "found nowhere": (
        mutant('find = "2 * x"', 'find = "2 * y"'),
        f"thrice: '2 * y' occurs 0 times in the part of c05.double in solutions/{S}.py; it has to occur exactly once.",
    ),
    "found often": (mutant('find = "2 * x"', 'find = "x"'), "thrice: 'x' occurs 4 times in the part of c05.double"),
    "the reference": (
        table("same", 'find = \'"""Twice x\'\nwith = \'"""Two times x\''),
        f"{MUTANT_FILE}, same: its code is that of the reference, apart from layout and comments.",
    ),
    "the same twice": (
        table("again", 'code = "def double(x):\\n    return 3 * x"'),
        f"{MUTANT_FILE}, again: its code is that of the mutant thrice, apart from layout and comments.",
    ),
    "other function": (
        mutant("def double", "def doubel"),
        "none: it does not define double, so the reference is graded.",
    ),
    "orphaned mutant": (
        add(f"tests/mutants/{S}/single.toml", ""),
        f"tests/mutants/{S}/single.toml: it belongs to no exercise: the name has to be <exercise>.toml",
    ),
    "an alternative that is the reference": (
        table("same", 'code = "def double(x):\\n    return 2*x  # twice"', OTHER_FILE),
        f"{OTHER_FILE}, same: its code is that of the reference, apart from layout and comments.",
    ),
    "orphaned solution": (add("solutions/c06_gone.py"), "solutions/c06_gone.py: it belongs to no exercise"),
    "not in the lesson": (
        edit("notebooks/src/05_twice_and_more.py", 'lab.check("double")', '# lab.check("double")'),
        'no line `lab.check("double")`',
    ),
    "no notebook": (remove("notebooks/05_twice_and_more.ipynb"), "`make notebooks CH=05` makes it."),
    "a choice without a reason": (
        edit(QUIZ, 'why = "why it is wrong"', 'why = ""'),
        f"{QUIZ}, question 1, choice 2: why is missing or empty.",
    ),
    "a quiz that is not shown": (edit(LESSON, "lab.quiz()", "# lab.quiz()"), f"{LESSON} has no line `lab.quiz()`."),
    "a word in a quiz": (edit(QUIZ, "choice 1", "nobody warns"), f"{QUIZ}, line"),
    "nothing one can do": (
        edit("course.toml", "You can double.", "Doubling."),
        "05_twice_and_more: course.toml does not say what one can do after it",
    ),
    "builds on a chapter twice over": (
        append("course.toml", DIAMOND),
        "07_most: it builds on c05 through c06, so builds_on need not name c05.",
    ),
    "unfinished": (edit("course.toml", "Add?", "WRITE: it"), "course.toml, line"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_rule_finds(case, root):
    change, words = BROKEN[case]
    change(root)
    findings = [str(finding) for finding in lint.lint(load(root))]
    assert any(words in finding for finding in findings), findings


def test_a_helper_in_an_answer_block_belongs_to_the_exercise(root):
    exercise = load(root).exercise("c05.double")
    helper = "# ANSWER c05.double\ndef two():\n    return 2\n# END\n\n\n"
    other = "# ANSWER c05.half\ndef one():\n    return 2 - 1\n# END\n\n\n"
    solution = helper + other + "def double(x):\n    return two() * x\n"
    assert "return 3\n" in mutants.apply([("return 2", "return 3")], exercise, solution)
    with pytest.raises(ValueError, match="occurs 0 times"):
        mutants.apply([("2 - 1", "3")], exercise, solution)


def test_a_mutant_in_cpp_differs_by_more_than_comments(root):
    exercise = replace(load(root).exercise("c05.double"), kind="ort")
    solution = '// ANSWER c05.double: twice\nauto s = "//";  int a = 1;\n// END\n'
    made = [
        mutants.KnownAnswer(exercise, "mutant", name, text, status="failed", says="words")
        for name, text in {
            "spaces": 'auto s="//"; // the same\nint a\n= 1;',
            "comment": 'auto s = /* words */ "//"; int a = 1;',
            "text": 'auto s = "/"; int a = 1;',
            "again": 'auto s = "/";\n\nint a = 1;',
        }.items()
    ]
    assert [(problem.name, problem.sentence.split(",")[0]) for problem in mutants.repeated(made, solution)] == [
        ("spaces", "its code is that of the reference"),
        ("comment", "its code is that of the reference"),
        ("again", "its code is that of the mutant text"),
    ]


TRIED = {
    "wrong solution": (
        edit(f"solutions/{S}.py", "return 2 * x", "return 3 * x"),
        "c05.double: solution: expected passed, got failed",
    ),
    "accepted mutant": (mutant("None", "x + x"), "mutant none: expected failed, got passed"),
    "other reason": (mutant("got nothing", "got a list"), "mutant none: it is rejected for another reason"),
    "other state": (mutant("return None", "raise ValueError"), "mutant none: expected failed, got error"),
    "wrong alternative": (alternative("x + x", "x"), "alternative sum: expected passed, got failed"),
    "a stub that does something": (
        edit(f"solutions/{S}.py", "    # ANSWER", "    return x\n    # ANSWER"),
        "edited stub: expected todo, got failed",
    ),
}


@pytest.mark.parametrize("case", TRIED)
def test_a_trial_finds(case, root, server):
    change, words = TRIED[case]
    change(root)
    course = load(root)
    kind = words.removeprefix("c05.double: ").split(":")[0]
    (trial,) = [trial for trial in lint.trials(course) if trial.id == f"c05.double: {kind}"]
    finding = lint.Finding(trial.id, trial.problem(lint.attempt(course, trial, server)))
    assert words in str(finding)


def test_lint_exits_1_and_names_what_is_wrong(root):
    mutant("None", "2.0 * x")(root)
    done = oplab(root, "lint-course", "c05.double")
    assert done.returncode == 1
    assert "c05.double: mutant none: expected failed, got passed" in done.stdout
    assert "7 answers graded: 1 findings." in done.stdout


@pytest.mark.nightly
def test_one_answer_alone_is_graded(finished):
    done = oplab(finished, "lint-course", "c05.double", "--answers", "thrice")
    assert done.stdout.endswith("1 answers graded: all as promised.\n")
    done = oplab(finished, "lint-course", "c05.double", "--answers", "twice")
    assert done.returncode == 2 and "There is no answer twice." in done.stderr


def test_author_makes_the_stub_grades_and_says_what_is_next(root):
    remove(f"exercises/{S}.py")(root)
    done = oplab(root, "author", "c05.double")
    assert done.returncode == 0, done.stdout
    assert f"1. Stubs: {S}.py written." in done.stdout and "3. Answers: 7 graded, 0 findings." in done.stdout


def test_of_one_exercise_no_other_is_read(monkeypatch):
    """All others take ten seconds, each time that an author looks."""
    read, seen = mutants.read, set()
    monkeypatch.setattr(
        mutants, "read", lambda course, exercise, *rest: seen.add(exercise.id) or read(course, exercise, *rest)
    )
    assert lint.lint(load(ROOT), ["c05.clip"]) == [] and seen == {"c05.clip"}


@pytest.mark.nightly
def test_repeat_finds_what_fails_now_and_then_and_says_how_to_see_it_again(root):
    alternative("x + x", "x + x if x.flatten()[0] > 0 else x")(root)
    done = oplab(root, "lint-course", "--repeat", "20")
    assert done.returncode == 1
    count = done.stdout.count("c05.double: alternative sum: expected passed, got failed")
    assert 0 < count < 20 and "c05.double: solution" not in done.stdout
    assert f"2 answers graded 20 times: {count} findings." in done.stdout
    assert "40 of 40 runs" in done.stderr
    command = re.search(r"oplab (lint-course c05\.double --answers sum --seed \d+)", done.stdout)[1]
    again = oplab(root, *command.split())
    assert again.returncode == 1 and "alternative sum: expected passed, got failed" in again.stdout


def test_a_known_answer_that_its_check_cannot_read_is_a_finding(finished):
    """Otherwise a faulty judge would go on rejecting answers that it was never written for."""
    trial = next(trial for trial in lint.trials(load(finished)) if trial.name == "none")
    outcome = Outcome("c05.double", S, "failed", 0, 1, 0.0, f"got nothing: {UNREADABLE}, a list of 2")
    assert trial.problem(outcome).startswith("its check has no sentence for this type of result")
    assert trial.problem(replace(outcome, message="got nothing")) == ""
