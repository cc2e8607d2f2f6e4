"""What a machine has to grade with, found by a process that starts fresh: ``python -m oplab.classes.probe ID …`` prints it as JSON.

A Dask worker may have been started before the course's files were changed, so it does not answer for itself.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterable
from importlib import metadata
from typing import Any

from oplab import paths
from oplab.classes import versions
from oplab.classes.records import sha256
from oplab.course.manifest import load
from oplab.errors import OplabError
from oplab.toolchain.compiler import find_compiler

ENGINE = ("dask", "distributed")  # both ends have to speak the same protocol


def probe(exercises: Iterable[str]) -> dict[str, Any]:
    """What this machine has to grade with.

    Args:
        exercises: what will be graded; ``grader`` among the versions is a digest of their checks.

    Returns:
        ``versions``, a mapping of names to what must be the same on all machines; ``compiler``, its name, empty without one; and
        ``machine``, the computer's name.

    Raises:
        OplabError: there is no course here, or it has no such exercise.
    """
    course = load(paths.root())
    graders = sha256("".join(versions.grader_version(course, course.exercise(id)) for id in sorted(exercises)))
    engine = {name: metadata.version(name) for name in ENGINE}
    try:
        compiler = str(find_compiler())
    except OplabError:
        compiler = ""
    found = {"grader": graders[:12], **versions.here(), **engine}
    return {"versions": found, "compiler": compiler, "machine": platform.node()}


def main() -> None:
    """Print :func:`probe` of the exercises on the command line, or ``{"error": …}``."""
    try:
        found = probe(sys.argv[1:])
    except OplabError as error:
        found = {"error": error.message}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
