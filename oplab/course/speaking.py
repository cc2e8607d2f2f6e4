"""A change of the language: the choice, the stubs and the copies of the lessons. Nothing that the learner wrote is lost."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from oplab.course import copies, language, translated
from oplab.course.manifest import Course, load


def switch(course: Course, name: str) -> str:
    """Use a language from now on; its name.

    Raises:
        OplabError: there is no such language, or a file cannot be written. A second call goes on where the first one stopped.
    """
    chosen = language.choose(course.root, name)
    translated.use(course, chosen)
    copies.speak(course, chosen)
    return chosen


def follow_environment(course: Course) -> bool:
    """What ``OPLAB_LANGUAGE`` asks for is remembered, as a choice is. Whether it is another language than before."""
    asked, before = os.environ.pop(language.VARIABLE, ""), language.chosen(course.root)
    if asked and asked != before:
        switch(course, asked)
        return True
    translated.use(course, before)  # stubs that came since
    return False


@contextlib.contextmanager
def in_english(root: Path) -> Iterator[None]:
    """The learner's files in English while git or an update compares them, and in the learner's language again at the end."""
    spoken = language.chosen(root)
    if spoken == "en":
        yield
        return
    translated.use(load(root), "en")
    try:
        yield
    finally:
        translated.use(load(root), spoken)
