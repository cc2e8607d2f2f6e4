"""Which grader a verdict comes from: a change of what decides a grade is another version, and so another key."""

from __future__ import annotations

import functools
import hashlib
import platform
from importlib import metadata
from pathlib import Path

from oplab.course.manifest import Course, Exercise
from oplab.grading.imports import reachable
from oplab.grading.integrity import CourseFiles, Watch

PACKAGES = ("torch", "onnx", "onnxruntime")


@functools.cache
def here() -> dict[str, str]:
    """The versions of Python and of the packages that decide grades, on this machine."""
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in PACKAGES}}


@functools.cache
def grader_version(course: Course, exercise: Exercise) -> str:
    """A digest, in 64 hexadecimal digits, of what decides the grade of an exercise.

    It covers the modules that the chapter's checks can import, the exercise's entry in course.toml without its texts for people, for
    C++ also ``csrc/``, and the versions of :data:`PACKAGES`. A change to the checks of another chapter does not change it.
    """
    entry = [exercise.id, exercise.kind, exercise.points, exercise.preload, exercise.limits]
    entry += [exercise.speed, exercise.pieces, exercise.not_allowed]
    digest = hashlib.sha256(repr(entry).encode())
    digest.update(repr([here()[name] for name in PACKAGES]).encode())
    digest.update(_checks(course.root, course.checks_file(exercise).stem))
    if exercise.kind != "python":
        digest.update(_cpp(course.root))
    return digest.hexdigest()


def watch(course: Course) -> Watch:
    """Notices a change of the files that decide grades: the course's manifest, checks, solutions and C++ sources, and the package."""
    files = CourseFiles(course.root, {chapter.stem for chapter in course.chapters}).paths
    return Watch([*files, *filter(Path.is_file, (course.root / "csrc").rglob("*"))])


@functools.cache
def _checks(root: Path, chapter: str) -> bytes:
    """A digest of the modules that a chapter's checks can import, and of the C++ sources next to them."""
    sources = _sources(root)
    digest = hashlib.sha256()
    for module in sorted(reachable([f"oplab.checks.{chapter}"], sources)):
        digest.update(_part(module, sources[module]))
    for path in sorted([*(root / "oplab" / "checks").glob("*.cpp"), *(root / "oplab" / "checks").glob("*.map")]):
        digest.update(_part(path.name, path.read_bytes()))
    return digest.digest()


@functools.cache
def _cpp(root: Path) -> bytes:
    """A digest of the headers and sources that an answer in C++ can include."""
    digest = hashlib.sha256()
    for path in sorted((root / "csrc").rglob("*")):
        if path.suffix in (".h", ".hpp", ".cpp") and path.is_file():
            digest.update(_part(str(path.relative_to(root)), path.read_bytes()))
    return digest.digest()


@functools.cache
def _sources(root: Path) -> dict[str, bytes]:
    """Module name to source: the installed package, with the chapters' checks of this course."""
    package = Path(__file__).resolve().parents[1]
    found = {}
    for folder in (package, root / "oplab" / "checks"):
        base = folder.parent if folder == package else root
        for path in folder.rglob("*.py"):
            name = ".".join(path.relative_to(base).with_suffix("").parts).removesuffix(".__init__")
            found[name] = path.read_bytes()
    return found


def _part(name: str, content: bytes) -> bytes:
    return name.encode() + b"\0" + hashlib.sha256(content).digest()
