"""The questions at the end of a chapter: ``notebooks/quiz/NN.toml``, and how a notebook shows them.

    [[question]]
    text = "Which opset does a model without `opset_import` use?"
    [[question.choice]]
    text = "The newest"
    why = "A checker rejects the model: the list is required."
    [[question.choice]]
    text = "None: the model is invalid"
    why = "`opset_import` is required by the format."
    right = true

Text in backticks is shown as code.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from oplab.course.language import catalogue, gettext
from oplab.errors import OplabError

QUESTIONS = 5
CHOICES = (3, 4)
SAME_PLACE = 3  # how many of a quiz's right choices may be in the same place

# Nothing here needs a script or a style sheet: <details> opens with the mouse and the keyboard, in a page and in a notebook that is
# not trusted yet.
_STYLE = (
    ".oplab-quiz summary{cursor:pointer}"
    ".oplab-quiz>div{margin:0 0 1.1em}.oplab-quiz>div>p{margin:0 0 .35em;font-weight:600}"
    ".oplab-quiz details{margin:.15em 0 .15em 1.2em}"
    ".oplab-quiz details>div{margin:.15em 0 .45em 1.1em;padding:.1em .6em;border-left:3px solid #0064e2}"
    ".oplab-quiz details>div.wrong{border-left:3px dashed #e47400}"
)


@dataclass(frozen=True)
class Choice:
    """One of a question's answers. ``why`` says why it is right or wrong."""

    text: str
    why: str
    right: bool


@dataclass(frozen=True)
class Question:
    """A question and its three or four choices."""

    text: str
    choices: tuple[Choice, ...]


class Quiz:
    """The questions of a chapter. As the last line of a cell it shows itself."""

    def __init__(self, questions: list[Question], language: str | None = None):
        self.questions, self.language = questions, language

    def __repr__(self) -> str:
        return self.text

    @property
    def text(self) -> str:
        """The questions with their choices, and the right answers with their reasons at the end."""
        lines, answers = [], []
        for number, question in enumerate(self.questions, start=1):
            lines.append(f"{number}. {question.text}")
            for letter, choice in zip("abcd", question.choices, strict=False):
                lines.append(f"   {letter}) {choice.text}")
                if choice.right:
                    answers.append(f"{number} {letter}) {choice.why}")
            lines.append("")
        return "\n".join([*lines, gettext("Answers", self.language), *answers])

    @property
    def html(self) -> str:
        """The HTML of the output: each choice opens, and says whether it is right and why."""
        parts = []
        for number, question in enumerate(self.questions, start=1):
            parts.append(f"<div><p>{number}. {_marked(question.text)}</p>")
            for letter, choice in zip("abcd", question.choices, strict=False):
                verdict, kind = (
                    (gettext("✓ Right.", self.language), "right")
                    if choice.right
                    else (gettext("✗ Wrong.", self.language), "wrong")
                )
                parts.append(
                    f"<details><summary>{letter}) {_marked(choice.text)}</summary>"
                    f'<div class="{kind}"><strong>{verdict}</strong> {_marked(choice.why)}</div></details>'
                )
            parts.append("</div>")
        return f'<div class="oplab-quiz"><style>{_STYLE}</style>{"".join(parts)}</div>'

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.html, "text/plain": self.text}


def path(root: Path, stem: str) -> Path:
    """The quiz of the chapter ``stem``."""
    return root / "notebooks" / "quiz" / f"{stem[:2]}.toml"


def read(file: Path, language: str | None = None) -> Quiz:
    """The questions of a file, in a language; in the learner's by default."""
    name = f"notebooks/quiz/{file.name}"
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise OplabError(f"{name} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OplabError(f"{name} is not valid TOML: {error}.") from None
    if set(data) != {"question"} or not isinstance(data["question"], list):
        raise OplabError(f"{name} consists of [[question]] tables, and has {', '.join(sorted(data)) or 'nothing'}.")
    known = catalogue(file.stem, language)
    return Quiz(
        [
            _question(f"{name}, question {number}", entry, known)
            for number, entry in enumerate(data["question"], start=1)
        ],
        language,
    )


def problems(quiz: Quiz) -> list[str]:
    """What a quiz lacks, one sentence each."""
    found = []
    if len(quiz.questions) != QUESTIONS:
        found.append(f"it has {len(quiz.questions)} questions; it has to be exactly {QUESTIONS}.")
    places = []
    for number, question in enumerate(quiz.questions, start=1):
        if len(question.choices) not in CHOICES:
            found.append(f"question {number} has {len(question.choices)} choices; it has to be 3 or 4.")
        right = [place for place, choice in enumerate(question.choices) if choice.right]
        if len(right) != 1:
            found.append(f"question {number} has {len(right)} right choices; it has to be exactly one.")
        if len({choice.text for choice in question.choices}) < len(question.choices):
            found.append(f"question {number} has a choice twice.")
        places += right[:1]
    if places and max(places.count(place) for place in places) > SAME_PLACE:
        found.append(f"the right choice is in the same place in more than {SAME_PLACE} questions; vary it.")
    if len({question.text for question in quiz.questions}) < len(quiz.questions):
        found.append("a question is there twice.")
    return found


def _question(where: str, entry: dict[str, Any], known: Mapping[str, str]) -> Question:
    _keys(where, entry, {"text": str, "choice": list}, set())
    choices = []
    for number, choice in enumerate(entry["choice"], start=1):
        _keys(f"{where}, choice {number}", choice, {"text": str, "why": str}, {"right"})
        if not isinstance(choice.get("right", False), bool):
            raise OplabError(f"{where}, choice {number}: right is true, or is left out.")
        told, why = (_one_line(choice[key]) for key in ("text", "why"))
        choices.append(Choice(known.get(told, told), known.get(why, why), choice.get("right", False)))
    told = _one_line(entry["text"])
    return Question(known.get(told, told), tuple(choices))


def _keys(where: str, entry: Any, required: dict[str, type], more: set[str]) -> None:
    if not isinstance(entry, dict):
        raise OplabError(f"{where}: it has to be a table.")
    for key, kind in required.items():
        if not isinstance(entry.get(key), kind) or not entry[key] or (kind is str and not entry[key].strip()):
            raise OplabError(f"{where}: {key} is missing or empty.")
    unknown = set(entry) - set(required) - more
    if unknown:
        raise OplabError(f"{where}: {sorted(unknown)[0]} is not one of {', '.join([*required, *sorted(more)])}.")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _marked(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))
