"""What a notebook of the course uses: its chapter's exercises, the grader, hints and graphs."""

from oplab.lessons.chapter import Interrupted, Lesson
from oplab.lessons.failures import raises
from oplab.lessons.saved import Answers

__all__ = ["Answers", "Interrupted", "Lesson", "lesson", "raises"]


def lesson(stem: str) -> Lesson:
    """Open a chapter in its notebook: prints the versions in use and the chapter's exercises.

    In IPython it also registers the cell magic ``%%exercise``, see :mod:`oplab.lessons.magic`.

    Args:
        stem: the notebook's name without its ending, for example ``"04_aten_symbolic"``.

    Raises:
        OplabError: there is no such chapter, or the manifest is broken.
    """
    from oplab.lessons import magic

    opened = Lesson(stem)
    magic.register(opened)
    return opened
