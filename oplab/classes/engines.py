"""Where tasks run: the interface of an engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from oplab.classes.records import Verdict

# A task as plain values that any process, and JSON, can carry:
#   exercise  the exercise's id
#   key       the task's key (records.task_key)
#   answer    SHA-256 of the answer's source
#   text      the answer's source; None where the submission has no such file
#   seed      what the inputs are made from
#   versions  of whoever asks: a machine with others has to refuse (oplab.classes.versions.here)
Plain = Mapping[str, Any]


class Engine(Protocol):
    """Runs tasks. Whoever reads the verdicts keeps them: an engine has no memory, and a task may run twice."""

    def submit(self, tasks: Iterable[Plain]) -> Iterator[Verdict]:
        """Run tasks, and yield a verdict for each as it is finished, in any order.

        A verdict with the state ``grader_error`` says that the task could not be graded here, after all attempts. The iterator ends when
        all tasks are done, or, after :meth:`finish`, when those that had begun are.

        Raises:
            OplabError: nothing can run at all.
        """
        ...

    def finish(self) -> None:
        """Begin no further task. It may be called from a signal handler."""
        ...

    def close(self) -> None:
        """End all that runs, at once, and leave no process and no temporary file. It may be called again."""
        ...

    def running(self) -> Mapping[str, float]:
        """What runs now: exercise id, or a part of a task's key where two have the same id, to seconds so far. For the display."""
        ...
