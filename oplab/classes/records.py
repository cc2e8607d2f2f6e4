"""What is known about a class, as frozen objects, and the folder GRADES in which it is kept.

docs/class_grades.md lists its files. Each of them is written whole or not at all, and a verdict before its task counts as done. What writes
them raises OSError where it cannot.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from oplab.errors import OplabError, clean
from oplab.files import write_atomically
from oplab.grading.results import Check, Outcome

VERSION = 1


@dataclass(frozen=True)
class Learner:
    """One row of the roster.

    Attributes:
        login: the name that identifies the learner, in submissions and in grade books.
        name: for people.
        email: may be empty.
        section: of the course; may be empty.
        group: those who hand in together have the same one; empty: alone.
    """

    login: str
    name: str = ""
    email: str = ""
    section: str = ""
    group: str = ""


@dataclass(frozen=True)
class Task:
    """One answer to one exercise, the unit of grading.

    Attributes:
        exercise: its id.
        key: SHA-256, as 64 hexadecimal digits, over the exercise, the grader's version and the answer: equal keys, equal verdicts.
        answer: SHA-256 of the answer's normalised source.
    """

    exercise: str
    key: str
    answer: str


@dataclass(frozen=True)
class Submission:
    """What one learner handed in at one time.

    Attributes:
        learner: the login.
        label: tells the submissions of one learner apart: what follows the login in the entry's name; may be empty.
        submitted_at: when, with a time zone; None where the submission does not tell.
        source: the entry of the folder of submissions.
        tasks: one for each graded exercise, by exercise id.
        problems: a sentence for whatever could not be read as it was handed in.
    """

    learner: str
    label: str = ""
    submitted_at: datetime | None = None
    source: str = ""
    tasks: Mapping[str, Task] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """How one task was graded.

    Attributes:
        key: the task's.
        exercise: its id.
        outcome: what the grader found. It has no pictures.
        seed: what the inputs were made from.
        versions: of the checks of this exercise and of the packages: ``grader``, ``torch``, ``onnx``, ``onnxruntime``, ``python``.
        answer: SHA-256 of the answer's normalised source, which is in ``answers/``.
        seconds: how long grading took, on the clock.
        machine: the name of the computer that graded it; empty where nothing had to run.
        graded_at: when, with a time zone.
    """

    key: str
    exercise: str
    outcome: Outcome
    seed: int
    versions: Mapping[str, str]
    answer: str
    seconds: float
    machine: str
    graded_at: datetime


@dataclass(frozen=True)
class Grades:
    """All that a folder GRADES holds.

    Attributes:
        folder: GRADES.
        learners: the roster, by login, in its order.
        submissions: by login; a learner of the roster without one has an empty tuple. In the order of time, then of the label.
        verdicts: by key. One whose key no submission names belongs to an earlier version of an answer or of a check.
        run: the content of ``run.json``.
        problems: a sentence for each entry of the submissions that belongs to no learner.
    """

    folder: Path
    learners: Mapping[str, Learner]
    submissions: Mapping[str, tuple[Submission, ...]]
    verdicts: Mapping[str, Verdict]
    run: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def verdict(self, submission: Submission, exercise: str) -> Verdict | None:
        """How an exercise of a submission was graded; None if it is not part of it, or not graded yet."""
        task = submission.tasks.get(exercise)
        return None if task is None else self.verdicts.get(task.key)


def sha256(text: str) -> str:
    """The hash of a text as UTF-8, in 64 hexadecimal digits. Lone surrogates count too."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def task_key(exercise: str, grader: str, answer: str, settled: Outcome | None = None) -> str:
    """The key of a task: exercise id, grader's version (:mod:`oplab.classes.versions`) and hash of the answer decide a verdict.

    What is ``settled`` without a run has its own keys: a file with the text of a stub's function only is another answer.
    """
    answer = answer if settled is None else sha256(f"{settled.status}: {settled.message}")
    return sha256("\0".join((exercise, grader, answer)))


def verdict_to_dict(verdict: Verdict) -> dict[str, Any]:
    """The verdict as plain values for JSON."""
    data = asdict(verdict)
    data["graded_at"] = verdict.graded_at.isoformat()
    data["versions"] = dict(verdict.versions)
    outcome = data["outcome"]
    outcome.pop("graphs")
    outcome["checks"] = [{**check, "message": clean(check["message"])} for check in outcome["checks"]]
    outcome["message"], outcome["output"] = clean(outcome["message"]), clean(outcome["output"])
    return data


def verdict_from_dict(data: Mapping[str, Any]) -> Verdict:
    """The verdict that :func:`verdict_to_dict` has written.

    Raises:
        KeyError, TypeError, ValueError: it was not.
    """
    outcome = dict(data["outcome"])
    outcome["checks"] = tuple(Check(**check) for check in outcome["checks"])
    given = {**data, "outcome": Outcome(**outcome), "graded_at": datetime.fromisoformat(data["graded_at"])}
    return Verdict(**given)


def _submission_to_dict(submission: Submission) -> dict[str, Any]:
    at = submission.submitted_at
    return {
        "label": submission.label,
        "submitted_at": None if at is None else at.isoformat(),
        "source": submission.source,
        "tasks": {id: {"key": task.key, "answer": task.answer} for id, task in submission.tasks.items()},
        "problems": list(submission.problems),
    }


def _submission_from_dict(login: str, data: Mapping[str, Any]) -> Submission:
    at = data["submitted_at"]
    tasks = {id: Task(id, task["key"], task["answer"]) for id, task in data["tasks"].items()}
    at = None if at is None else datetime.fromisoformat(at)
    return Submission(login, data["label"], at, data["source"], tasks, tuple(data["problems"]))


def verdict_file(folder: Path, key: str) -> Path:
    """Where a verdict is in GRADES."""
    return folder / "verdicts" / key[:2] / f"{key}.json"


def answer_file(folder: Path, sha: str) -> Path:
    """Where the source of an answer is in GRADES."""
    return folder / "answers" / sha[:2] / sha


def save_verdict(folder: Path, verdict: Verdict) -> None:
    """Write a verdict to GRADES."""
    _write(verdict_file(folder, verdict.key), verdict_to_dict(verdict))


def save_answer(folder: Path, sha: str, text: str) -> None:
    """Keep the source of an answer in GRADES, if it is not there yet."""
    path = answer_file(folder, sha)
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode("utf-8", "surrogatepass"), sync=False)


def load_answer(folder: Path, sha: str) -> str:
    """The source of an answer that is kept in GRADES."""
    path = answer_file(folder, sha)
    try:
        text = path.read_bytes().decode("utf-8", "surrogatepass")
    except (OSError, UnicodeDecodeError):
        raise OplabError(
            f"{path} cannot be read.", "`oplab class grade` writes it again from the submissions."
        ) from None
    if sha256(text) != sha:
        raise OplabError(
            f"{path} was changed: its content does not have the hash that it is named after.",
            "Delete it; `oplab class grade` writes it again from the submissions.",
        )
    return text


def save_submissions(
    folder: Path,
    learners: Mapping[str, Learner],
    submissions: Mapping[str, tuple[Submission, ...]],
    problems: tuple[str, ...],
) -> None:
    """Write ``submissions.json``."""
    data = {
        "version": VERSION,
        "learners": [asdict(learner) for learner in learners.values()],
        "submissions": {
            login: [_submission_to_dict(submission) for submission in submissions.get(login, ())] for login in learners
        },
        "problems": list(problems),
    }
    _write(folder / "submissions.json", data)


def save_run(folder: Path, run: Mapping[str, Any]) -> None:
    """Write ``run.json``."""
    _write(folder / "run.json", {"version": VERSION, **run})


def load_run(folder: Path) -> dict[str, Any]:
    """The content of ``run.json``; empty where there is none yet."""
    return read_json(folder / "run.json") if (folder / "run.json").exists() else {}


def load_verdict(folder: Path, key: str) -> Verdict | None:
    """The verdict of a task; None where it is not graded yet, or where its file cannot be understood: it is graded again then."""
    try:
        verdict = verdict_from_dict(json.loads(verdict_file(folder, key).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return verdict if verdict.key == key else None


def load(folder: Path) -> Grades:
    """All that GRADES holds."""
    if not (folder / "submissions.json").is_file():
        raise OplabError(
            f"{folder} holds no grades.", "`oplab class grade SUBMISSIONS --roster roster.csv -o GRADES` creates them."
        )
    data = read_json(folder / "submissions.json")
    try:
        learners = {row["login"]: Learner(**row) for row in data["learners"]}
        submissions = {
            login: tuple(_submission_from_dict(login, item) for item in data["submissions"].get(login, ()))
            for login in learners
        }
        problems = tuple(data["problems"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _unreadable(folder / "submissions.json", f"{type(error).__name__}: {error}") from None
    keys = {path.stem for path in (folder / "verdicts").glob("??/*.json") if not path.name.startswith(".")}
    verdicts = {key: verdict for key in sorted(keys) if (verdict := load_verdict(folder, key)) is not None}
    return Grades(folder, learners, submissions, verdicts, load_run(folder), problems)


def _write(path: Path, data: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(data, indent=1) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """A file of GRADES as it was written."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _unreadable(path, error.strerror or str(error)) from None
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, f"it is not JSON: {error}") from None
    if not isinstance(data, dict) or data.get("version") != VERSION:
        raise _unreadable(path, "it was written by another version of oplab")
    return data


def _unreadable(path: Path, why: str) -> OplabError:
    return OplabError(
        f"{path} cannot be read: {why}.", "Move it away and run `oplab class grade` again: verdicts are kept."
    )
