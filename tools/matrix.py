"""``make matrix``: the reference answers, and with ``--lessons`` the lessons, with several versions of PyTorch and ONNX Runtime.

Each version is a folder of packages in ``build/matrix/layers``. A combination is an environment that sees two such folders and, after
them, the packages of the course's own environment; so it takes a few kilobytes. It has a copy of the course with its own ``build``,
because operators are compiled for one version. What has run is kept in ``build/matrix/results``, chapter by chapter.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import itertools
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # the oplab next to this file, where the environment has another one

import extras  # noqa: E402
import setup_packages as packages  # noqa: E402
from matrix_results import collect, first_line, lesson_outcome, markdown, number, rows, summary, table  # noqa: E402
from setup_engine import clock, explain_os_error, run_child  # noqa: E402

from notebooks import CELL_LIMIT  # noqa: E402
from oplab import files  # noqa: E402
from oplab.course.manifest import Chapter, Course, load  # noqa: E402
from oplab.errors import OplabError  # noqa: E402
from oplab.toolchain import cache  # noqa: E402

# What is tried: the oldest and the newest. Each with the packages that belong to it; everything else is the course's.
VERSIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "torch": {"2.13.0": ("torchvision==0.28.0",), "2.15.0": ("torchvision==0.29.2",)},
    "onnxruntime": {"1.24.4": (), "1.31.1": ()},
}
SIZES = {"torch": "0.7 GB on disk (4 GB more if it has CUDA libraries)", "onnxruntime": "50 MB on disk"}
REPORTED = ("torch", "torchvision", "onnx", "onnxruntime", "onnxscript", "onnxruntime-extensions", "numpy")
COPIED = ("course.toml", "oplab", "solutions", "exercises", "csrc", "notebooks", "docs")
NEEDED = 8 << 30  # bytes for the packages of another Python
Say = Callable[[str], object]


@dataclass(frozen=True)
class Combination:
    """One version of each library.

    Attributes:
        torch: ``2.13.0``.
        onnxruntime: ``1.24.4``.
        python: ``3.11``.
    """

    torch: str
    onnxruntime: str
    python: str

    @property
    def name(self) -> str:
        """The name of its folder and of its results."""
        return f"py{self.python}_torch-{self.torch}_onnxruntime-{self.onnxruntime}"

    def __str__(self) -> str:
        return f"torch {self.torch}, ONNX Runtime {self.onnxruntime}, Python {self.python}"


def folder() -> Path:
    """Everything that this makes."""
    return ROOT / "build" / "matrix"


# --- what to do ------------------------------------------------------------------------------------------------


def plan(only: Sequence[str], python: str) -> list[Combination]:
    """The combinations, those with ``only`` alone: ``["torch=2.13", "onnxruntime=1.31"]``.

    Raises:
        OplabError: ``only`` names no library or no version that is tried.
    """
    chosen = {library: list(versions) for library, versions in VERSIONS.items()}
    for word in only:
        library, _, version = word.partition("=")
        library = {"ort": "onnxruntime"}.get(library, library)
        found = [each for each in VERSIONS.get(library, ()) if each == version or each.startswith(f"{version}.")]
        if not version or not found:
            known = [f"{library}={each}" for library, versions in VERSIONS.items() for each in versions]
            raise OplabError(f"--only {word} names nothing that is tried.", f"There are {', '.join(known)}.")
        chosen[library] = [each for each in chosen[library] if each in found]
    return [Combination(*pair, python) for pair in itertools.product(chosen["torch"], chosen["onnxruntime"])]


def chapters_of(course: Course, words: Iterable[str]) -> list[Chapter]:
    """The chapters that are meant by ``c04``, ``04`` or ``4``; all of them where there are no words.

    Raises:
        OplabError: there is no such chapter.
    """
    known = {chapter.id: chapter for chapter in course.chapters}
    ids = [f"c{word.removeprefix('c').upper().zfill(2)}" for word in words]
    for word, id in zip(words, ids, strict=True):
        if id not in known:
            raise OplabError(f"There is no chapter {word}.", f"There are {', '.join(known)}.")
    return [chapter for chapter in course.chapters if not ids or chapter.id in ids]


# --- environments ----------------------------------------------------------------------------------------------


def find_python(version: str | None) -> tuple[str, str]:
    """(version, interpreter): this one, or the Python of that version on PATH.

    Raises:
        OplabError: there is none.
    """
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if version in (None, own):
        return own, sys.executable
    found = shutil.which(f"python{version}")
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    if found:
        asked = subprocess.run([found, "-c", code], capture_output=True, text=True, check=False)
        if asked.stdout.strip() == version:
            return str(version), found
    raise OplabError(
        f"There is no python{version} on this machine.", "Install it, or leave --python out to use the course's."
    )


def pip(python: str, arguments: Sequence[str], what: str, size: str) -> None:
    """Runs pip.

    Raises:
        OplabError: it failed; the sentence says why.
    """
    command = [python, "-m", "pip", *arguments, "--quiet", "--disable-pip-version-check", "--no-input"]
    done = run_child(command, env={**os.environ, "PIP_USER": "0"})
    if done.code != 0:
        raise extras.not_installed(what, size, done.output)


def torch_index() -> list[str]:
    """pip's options for the index that TORCH_INDEX names; none where it names no other."""
    named = os.environ.get("TORCH_INDEX", "")
    return ["--index-url", named] if named not in ("", "default") else []


def base(python: str, version: str, say: Say) -> list[Path]:
    """The folders with the course's packages: this environment's, or for another Python its own environment.

    Raises:
        OplabError: the packages could not be installed.
    """
    if version == f"{sys.version_info[0]}.{sys.version_info[1]}":
        return [Path(path) for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    home = folder() / f"base-{version}"
    site = home / "lib" / f"python{version}" / "site-packages"
    pins = packages.parse_lock((ROOT / "requirements.lock").read_text(encoding="utf-8"))
    wanted = {name: pin for name, pin, _ in pins}
    stamp = home / "installed.json"
    if extras.recorded(stamp) == wanted:
        return [site]
    if shutil.disk_usage(folder()).free < NEEDED:
        raise OplabError(
            f"The disk is too full: the packages for Python {version} take 6.3 GiB.",
            "Free 8 GiB, or leave --python out.",
        )
    say(f"      the course's packages for Python {version}: 6.3 GiB on disk ...")
    if subprocess.run([python, "-m", "venv", str(home)], check=False).returncode != 0:
        raise OplabError(f"{python} cannot create an environment.", f"Debian: apt-get install python{version}-venv.")
    pip_python = str(home / "bin" / "python")
    if torch_index():
        own = [f"{name}=={wanted[name]}" for name in packages.TORCH]
        pip(pip_python, ["install", *torch_index(), *own], f"PyTorch for Python {version}", "1 GB")
    left = packages.missing(wanted, packages.installed([site]))
    rest = [f"{name}=={pin}" + (f"; {marker}" if marker else "") for name, pin, marker in pins if name in left]
    pip(pip_python, ["install", *rest], f"The course's packages for Python {version}", "6.3 GiB on disk")
    stamp.write_text(json.dumps(wanted), encoding="utf-8")
    return [site]


def layer(library: str, version: str, python: str, python_version: str, sites: Sequence[Path], say: Say) -> list[Path]:
    """The folders that bring one version of a library: none where the course's packages have it.

    Raises:
        OplabError: it could not be installed.
    """
    if packages.agrees(version, packages.installed(sites).get(library)):
        return []
    wanted = [f"{library}=={version}", *VERSIONS[library][version]]
    made = folder() / "layers" / f"py{python_version}" / f"{library}-{version}"
    stamp = made / "installed.json"
    if extras.recorded(stamp) == wanted:
        return [made]
    say(f"      installing {', '.join(wanted)}: {SIZES[library]} ...")
    made.parent.mkdir(parents=True, exist_ok=True)
    with cache.scratch(made.parent) as scratch:
        target = ["install", "--no-compile", "--only-binary=:all:", "--target", str(scratch / "new")]
        index = torch_index() if library == "torch" else []
        pip(python, [*target, "--no-deps", *index, *wanted], f"{library} {version}", SIZES[library])
        if cuda := cuda_of(scratch / "new"):
            # With dependencies: cuda-toolkit is a package without files, whose extras name the libraries.
            pip(python, [*target, *cuda], f"the CUDA libraries of {library} {version}", "4 GB on disk")
        (scratch / "new" / stamp.name).write_text(json.dumps(wanted), encoding="utf-8")
        shutil.rmtree(made, ignore_errors=True)
        os.replace(scratch / "new", made)
    return [made]


def cuda_of(site: Path) -> list[str]:
    """The CUDA libraries that a build of PyTorch asks for: they belong to its version. None for a build without CUDA."""
    from packaging.requirements import Requirement

    found = []
    for distribution in importlib.metadata.distributions(name="torch", path=[str(site)]):
        for line in distribution.requires or []:
            requirement = Requirement(line)
            ours = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if ours and packages.TORCH_ONLY.match(packages.normalize(requirement.name)):
                requirement.marker = None
                found.append(str(requirement))
    return found


def make_environment(combination: Combination, python: str, paths: Sequence[Path]) -> Path:
    """An environment whose packages are in these folders, the first one first. Returns its Python."""
    home = folder() / "combinations" / combination.name / "env"
    link = home / "lib" / f"python{combination.python}" / "site-packages" / "course.pth"
    content = "".join(f"{path}\n" for path in paths)
    interpreter = home / "bin" / "python"
    if not (interpreter.exists() and link.is_file() and link.read_text(encoding="utf-8") == content):
        subprocess.run([python, "-m", "venv", "--clear", "--without-pip", str(home)], check=True)
        link.write_text(content, encoding="utf-8")
    return interpreter


def copy_course(combination: Combination) -> Path:
    """The course as it is now, in a folder with its own ``build``: others may edit it meanwhile."""
    made = folder() / "combinations" / combination.name / "course"
    made.mkdir(parents=True, exist_ok=True)
    for part in COPIED:
        old = made / part
        if old.is_dir():
            shutil.rmtree(old)
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, old, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
        else:
            shutil.copy2(ROOT / part, old)
    headers = made / "build" / "cache" / "ort-headers"
    headers.parent.mkdir(parents=True, exist_ok=True)
    if (ROOT / "build" / "cache" / "ort-headers").is_dir() and not headers.exists():
        shutil.copytree(ROOT / "build" / "cache" / "ort-headers", headers)
    return made


@dataclass(frozen=True)
class Place:
    """Where a combination runs.

    Attributes:
        python: its interpreter.
        course: its copy of the course.
        programs: the folder of CMake and the other programs of the course's packages.
    """

    python: Path
    course: Path
    programs: Path

    def run(self, *arguments: object) -> tuple[int, str]:
        """Runs its Python in the course. Returns the exit status and what it printed."""
        env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "OPLAB_TRACK", "CI")}
        env["PATH"] = os.pathsep.join([str(self.python.parent), str(self.programs), env.get("PATH", os.defpath)])
        env.update(OPLAB_ROOT=str(self.course), OPLAB_TRACK="solutions", OMP_WAIT_POLICY="passive")
        env.setdefault("OMP_NUM_THREADS", str(min(2, os.cpu_count() or 1)))
        done = run_child([str(self.python), *map(str, arguments)], env=env, cwd=self.course)
        return done.code, done.output


# --- what runs -------------------------------------------------------------------------------------------------


def grade(place: Place, chapter: Chapter, ids: Sequence[str] = ()) -> dict[str, dict[str, str]]:
    """Grades the reference answers of a chapter, or these of them: ``{"c04.asinh": {"status": "passed", "why": ""}}``."""
    out = place.course / "build" / f"matrix-{chapter.id}.json"
    out.unlink(missing_ok=True)
    wanted = list(ids) or [exercise.id for exercise in chapter.exercises]
    _, printed = place.run("-m", "oplab.cli", "check", *wanted, "--track", "solutions", "--json", out)
    return collect(out, wanted, printed)


def run_lesson(place: Place, chapter: Chapter) -> dict[str, str]:
    """Runs a lesson's notebook and compares its outputs with those that it has."""
    junit = place.course / "build" / f"matrix-{chapter.id}.xml"
    junit.unlink(missing_ok=True)
    arguments = ["-m", "pytest", "--nbval", "--nbval-current-env", f"--nbval-cell-timeout={CELL_LIMIT}", "-q"]
    arguments += ["-p", "no:cacheprovider", f"--rootdir={place.course}", f"--junitxml={junit}"]
    _, printed = place.run(*arguments, chapter.notebook)
    return lesson_outcome(junit, printed)


# --- results ---------------------------------------------------------------------------------------------------


def results_file(combination: Combination) -> Path:
    """Where the results of a combination are kept."""
    return folder() / "results" / f"{combination.name}.json"


def read_results(combination: Combination) -> dict[str, Any]:
    """What has run of a combination: nothing where the file is missing or damaged."""
    read = extras.recorded(results_file(combination))
    empty = {"torch": combination.torch, "onnxruntime": combination.onnxruntime, "python": combination.python}
    good = isinstance(read, dict) and {"versions", "chapters", "lessons"} <= set(read)
    return read if good else {**empty, "versions": {}, "chapters": {}, "lessons": {}}  # type: ignore[return-value]


def write(path: Path, text: str) -> None:
    """Writes a file at once, and its folder where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_atomically(path, text)


def source() -> str:
    """The commit of the course, with a plus sign if files of it have changed since; empty where there is no git."""
    if not (ROOT / ".git").exists():
        return ""
    asked = subprocess.run(["git", "describe", "--always", "--dirty=+"], cwd=ROOT, capture_output=True, text=True)
    return asked.stdout.strip() if asked.returncode == 0 else ""


def is_done(results: dict[str, Any], chapter: Chapter, lessons: bool) -> bool:
    """Whether everything that is asked for of a chapter has run."""
    return chapter.id in results["chapters"] and (not lessons or chapter.id in results["lessons"])


def do(
    combination: Combination, python: str, chapters: Sequence[Chapter], lessons: bool, again: bool, say: Say
) -> None:
    """Runs what is missing of one combination, and keeps each chapter when it has run.

    Raises:
        OplabError: its packages or operators cannot be made.
    """
    results = read_results(combination)
    if not again and all(is_done(results, chapter, lessons) for chapter in chapters):
        say("      done before; --again repeats it")
        return
    start = time.monotonic()
    sites = base(python, combination.python, say)
    layers: list[Path] = []
    for library in VERSIONS:
        layers += layer(library, getattr(combination, library), python, combination.python, sites, say)
    course = copy_course(combination)
    programs = sites[0].parent.parent.parent / "bin"
    place = Place(make_environment(combination, python, [course, *layers, *sites]), course, programs)
    results["versions"] = versions(place)
    say(f"      environment: {clock(time.monotonic() - start)}")
    start = time.monotonic()
    code, printed = place.run("-m", "oplab.toolchain.build")
    if code != 0:
        raise OplabError(
            f"The operators cannot be compiled with {combination}: {first_line(printed)}",
            f"The command: OPLAB_ROOT={course} {place.python} -m oplab.toolchain.build",
        )
    say(f"      operators: {clock(time.monotonic() - start)}")
    for chapter in chapters:
        for kind, run, asked in (("chapters", grade, True), ("lessons", run_lesson, lessons)):
            if not asked or (not again and chapter.id in results[kind]):
                continue
            start = time.monotonic()
            outcome = run(place, chapter)
            facts = {"date": datetime.date.today().isoformat(), "source": source()}
            results[kind][chapter.id] = {**facts, "seconds": round(time.monotonic() - start, 1), "outcome": outcome}
            write(results_file(combination), json.dumps(results, indent=1, ensure_ascii=False) + "\n")
            say(f"      {chapter.id} {summary(outcome)}, {clock(time.monotonic() - start)}")


def versions(place: Place) -> dict[str, str]:
    """The versions that a combination really has, by name.

    Raises:
        OplabError: PyTorch or ONNX Runtime cannot be imported.
    """
    code = (
        "import importlib.metadata as m, json, sys, torch, onnxruntime\nfound = {}\n"
        "for name in sys.argv[1:]:\n"
        "    try: found[name] = m.version(name)\n"
        "    except m.PackageNotFoundError: pass\n"
        "try: import torchvision\n"
        "except Exception as error: found['torchvision'] += f' (cannot be imported: {error})'\n"
        "print(json.dumps(found))"
    )
    code, printed = place.run("-c", code, *REPORTED)
    last = next((line for line in reversed(printed.splitlines()) if line.strip()), "")
    if code != 0:
        raise OplabError(
            f"PyTorch or ONNX Runtime cannot be imported: {first_line(last)}", "Remove build/matrix/layers."
        )
    return json.loads(last)


# --- the table -------------------------------------------------------------------------------------------------


def all_results() -> list[dict[str, Any]]:
    """What has run so far, of every combination, in the order of the versions."""
    found = [extras.recorded(file) for file in (folder() / "results").glob("*.json")]
    known = [each for each in found if isinstance(each, dict) and "chapters" in each]
    return sorted(known, key=lambda each: [number(each[name]) for name in ("python", "torch", "onnxruntime")])


def publish(say: Say) -> None:
    """Writes ``matrix.json`` and ``matrix.md``, and prints the table."""
    results = all_results()
    machine = {"system": f"{platform.system()} {platform.machine()}", "cores": os.cpu_count()}
    whole = {"version": 1, "machine": machine, "combinations": results}
    write(folder() / "matrix.json", json.dumps(whole, indent=1, ensure_ascii=False) + "\n")
    write(folder() / "matrix.md", markdown(results))
    if results:
        say(table(results))
        say("build/matrix/matrix.md and matrix.json have the whole table.")


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make matrix", description=__doc__.splitlines()[0])
    parser.add_argument("chapters", nargs="*", metavar="CHAPTER", help="c04 or 04; all by default")
    parser.add_argument("--only", action="append", default=[], metavar="LIBRARY=VERSION", help="torch=2.13, ort=1.31")
    parser.add_argument("--lessons", action="store_true", help="run the lessons, too")
    parser.add_argument("--again", action="store_true", help="run again what is done")
    parser.add_argument("--python", metavar="3.12", help="another Python, with the course's packages for it (6.3 GiB)")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> int:
    """0: everything that was asked for has run and passes; 1: something does not pass; 2: it cannot be run here."""
    given = arguments(words)
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def say(line: str) -> None:
        print(line, flush=True)

    status = 0
    try:
        folder().mkdir(parents=True, exist_ok=True)
        version, python = find_python(given.python)
        combinations = plan(given.only, version)
        chapters = chapters_of(load(ROOT), given.chapters)
        with files.lock(folder() / ".lock", lambda owner: say(f"Process {owner} runs the matrix; waiting for it ...")):
            for position, combination in enumerate(combinations, 1):
                say(f"[{position}/{len(combinations)}] {combination}")
                try:
                    do(combination, python, chapters, given.lessons, given.again, say)
                except OplabError as error:  # the other combinations may still run
                    print(error, file=sys.stderr, flush=True)
                    status = 2
            publish(say)
    except KeyboardInterrupt:
        publish(say)
        print("\nInterrupted. The chapters that have run are kept; the same command goes on.", file=sys.stderr)
        return 130
    except OplabError as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print(explain_os_error(error), file=sys.stderr)
        return 2
    asked = [read_results(combination) for combination in combinations]
    bad = any(cell and cell["status"] != "passed" for cells in rows(asked).values() for cell in cells)
    return status or int(bad)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
