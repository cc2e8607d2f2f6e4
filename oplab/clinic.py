"""Questions that users of PyTorch's exporters and of ONNX Runtime ask: ``docs/clinic.md``, with an executed case for each.

A case is a file of ``tests/clinic`` with two functions without arguments: ``happens()`` does what the question describes and
returns whether it still happens, and ``way_around()`` raises unless what the page recommends works.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import re
import sys
from pathlib import Path

from oplab import paths
from oplab.errors import OplabError

PAGE = "docs/clinic.md"
PACKAGES = ("torch", "onnx", "onnxruntime")
# What the page says, and whether it happens then.
STATES = {"open": True, "intended": True, "fixed": False}
_SECTION = re.compile(
    r"^### (?P<issue>[\w-]+#\d+): (?P<title>.+)\n"
    r"\*(?P<state>\w+)\* · \[chapter (?P<chapter>\d\d)\]\(\.\./(?P<lesson>notebooks/\S+?)\) · \[case\]\(\.\./(?P<case>\S+?)\)\n"
    r"(?P<text>(?:(?!##).*\n)*)",
    re.MULTILINE,
)


@dataclasses.dataclass(frozen=True)
class Question:
    """One section of the page.

    Attributes:
        issue: repository and number, for example ``pytorch#147374``.
        title: the question in one line.
        state: ``open``: it happens; ``intended``: it happens and will stay; ``fixed``: it happened with older versions.
        chapter: the chapter that explains it, for example ``10``.
        lesson: its notebook, relative to the course's folder.
        case: the Python file that shows it, relative to the course's folder.
        text: what the page says about it, in Markdown.
    """

    issue: str
    title: str
    state: str
    chapter: str
    lesson: str
    case: str
    text: str


@dataclasses.dataclass(frozen=True)
class Answer:
    """What a case did in this environment.

    Attributes:
        happens: whether the question still comes up here.
        failure: why the workaround did not work; empty where it did.
    """

    happens: bool
    failure: str = ""

    def differs(self, question: Question) -> str:
        """What the page says that is not so here, as a sentence; empty where it is right."""
        if self.failure:
            return f"{question.issue}: the workaround no longer works: {self.failure}"
        if self.happens == STATES[question.state]:
            return ""
        now = "happens" if self.happens else "no longer happens"
        return (
            f"{question.issue} {now} with {versions()}, but {PAGE} says “{question.state}”: "
            f"correct the page, {question.case} and, if it mentions this, {question.lesson}."
        )


def questions(root: Path | None = None) -> list[Question]:
    """The sections of the page, in its order."""
    page = (root or paths.root()) / PAGE
    if not page.is_file():
        raise OplabError(f"There is no page {page}.", "Restore it with git, or update the course.")
    text = page.read_text(encoding="utf-8")
    found = [Question(**{**match.groupdict(), "text": match["text"].strip()}) for match in _SECTION.finditer(text)]
    titles = re.findall(r"^### (\S+):", text, re.MULTILINE)
    if unread := [title for title in titles if title not in {question.issue for question in found}]:
        raise OplabError(
            f"{PAGE}: the section {unread[0]} does not begin with *state* · [chapter NN](…) · [case](…).",
            "Write it like the other sections.",
        )
    if wrong := [question for question in found if question.state not in STATES]:
        raise OplabError(
            f"{PAGE}: {wrong[0].issue} has the state {wrong[0].state}.", f"Use one of: {', '.join(STATES)}."
        )
    return found


def find(name: str, among: list[Question]) -> Question:
    """The question with this number: ``pytorch#147374``, or ``147374``."""
    for question in among:
        if name.lower().lstrip("#") in (question.issue, question.issue.partition("#")[2]):
            return question
    raise OplabError(f"The clinic has no question {name}.", "oplab clinic lists them.")


def ask(question: Question, root: Path | None = None) -> Answer:
    """Run a case in this process. What its workaround raises is part of the answer."""
    root = paths.part(root or paths.root(), "tests/clinic").parents[1]
    if not (root / question.case).is_file():
        raise OplabError(f"There is no file {root / question.case}.", "Restore it with git, or update the course.")
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))  # the cases are modules of the course's folder, not of this package
    try:
        case = importlib.import_module(question.case.removesuffix(".py").replace("/", "."))
    except ModuleNotFoundError as error:
        raise OplabError(f"{question.case} needs {error.name}, which is not installed here.") from None
    happens = case.happens()
    try:
        case.way_around()
    except Exception as error:
        return Answer(happens, f"{type(error).__name__}: {error}".strip(": "))
    return Answer(happens)


def versions() -> str:
    """The versions that an answer is of, for example ``torch 2.15.0, onnx 1.23.2, onnxruntime 1.31.1``."""
    return ", ".join(f"{name} {importlib.metadata.version(name).partition('+')[0]}" for name in PACKAGES)
