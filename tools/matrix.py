"""``make matrix``: the reference answers, and with ``--lessons`` the lessons, with several versions of PyTorch and ONNX Runtime.

A combination is a folder in ``build/matrix`` with an environment, which uv fills from its cache in seconds, and with a copy of the
course, because operators are compiled for one version. Its ``results.json`` holds what has run.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # the oplab next to this file, where the environment has another one

from notebooks import CELL_LIMIT  # noqa: E402
from oplab import files  # noqa: E402
from oplab.course.manifest import Chapter, load  # noqa: E402
from oplab.errors import OplabError  # noqa: E402

# The oldest and the newest; each PyTorch with its torchvision. Every other package is the lock's.
TORCH = {"2.13.0": "0.28.0", "2.15.0": "0.29.2"}
VERSIONS = {"torch": tuple(TORCH), "onnxruntime": ("1.24.4", "1.31.1")}
THEIRS = re.compile(r"(?:torch|torchvision|onnxruntime|triton|nvidia-[\w-]+|cuda-[\w-]+)==")  # what follows from them
OPENVINO = re.compile(r'"(openvino==[\d.]+)"')  # an extra in pyproject.toml that two exercises of chapter 18 need
COPIED = ("course.toml", "oplab", "solutions", "exercises", "csrc", "notebooks", "docs", "build/cache/ort-headers")
UNWANTED = re.compile(
    r"(?:\x1b|#x1B)\[[0-9;]*m|/[^\s\[\]'\"]*/build/matrix/[^/\s]+/"
)  # colours; where a combination is
SANITIZED = "[versions]\nregex: \\d+\\.\\d+\\.\\d+\\S*\nreplace: VERSION\n"  # a lesson's first cell prints them


def folder() -> Path:
    return ROOT / "build" / "matrix"


@dataclass(frozen=True)
class Combination:
    """One version of each library, and where it runs."""

    torch: str
    onnxruntime: str
    python: str  # "3.11"

    @property
    def home(self) -> Path:
        return folder() / f"py{self.python}_torch-{self.torch}_onnxruntime-{self.onnxruntime}"

    def __str__(self) -> str:
        return f"torch {self.torch}, ONNX Runtime {self.onnxruntime}, Python {self.python}"

    def run(self, *arguments: object) -> int:
        """Runs its Python in its copy of the course, and returns the exit status."""
        course, programs = self.home / "course", self.home / "env" / "bin"
        env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "OPLAB_SIMD", "CI")}
        env |= {"PATH": f"{programs}{os.pathsep}{env.get('PATH', os.defpath)}", "OPLAB_ROOT": str(course)}
        env |= {"OPLAB_TRACK": "solutions", "OMP_NUM_THREADS": "2"}
        return subprocess.run([str(programs / "python"), *map(str, arguments)], cwd=course, env=env).returncode


def plan(only: Sequence[str], python: str) -> list[Combination]:
    """The combinations, or those with ``only`` alone: ``["torch=2.13", "ort=1.31"]``.

    Raises:
        OplabError: ``only`` names no library or no version that is tried.
    """
    chosen = dict(VERSIONS)
    for word in only:
        library, _, version = word.replace("ort=", "onnxruntime=").partition("=")
        found = tuple(each for each in chosen.get(library, ()) if version and f"{each}.".startswith(f"{version}."))
        if not found:
            known = ", ".join(f"{library}={each}" for library, versions in VERSIONS.items() for each in versions)
            raise OplabError(f"--only {word} names nothing that is tried.", f"There are {known}.")
        chosen[library] = found
    return [Combination(*pair, python) for pair in itertools.product(chosen["torch"], chosen["onnxruntime"])]


def uv(*arguments: object) -> None:
    """Runs uv, which shows its progress itself.

    Raises:
        OplabError: it is not installed, or it failed.
    """
    program = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if program is None:
        raise OplabError("`make matrix` needs uv.", "Install it: .venv/bin/python -m pip install uv")
    if subprocess.run([program, *map(str, arguments)]).returncode != 0:
        raise OplabError("uv could not make the environment.", "Its lines above say why; the same command resumes.")


def requirements(combination: Combination) -> str:
    """The lock with other versions of PyTorch and ONNX Runtime, and without the CUDA libraries that belong to its own."""
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    lines = [line for line in lock if not THEIRS.match(line)]
    lines += [f"torch=={combination.torch}", f"torchvision=={TORCH[combination.torch]}"]
    lines += [f"onnxruntime=={combination.onnxruntime}"]
    return "\n".join(lines + OPENVINO.findall((ROOT / "pyproject.toml").read_text(encoding="utf-8"))) + "\n"


def prepare(combination: Combination) -> None:
    """Makes the environment, copies the course as it is now, and compiles its operators.

    Raises:
        OplabError: one of these fails.
    """
    home, env, course = combination.home, combination.home / "env", combination.home / "course"
    course.mkdir(parents=True, exist_ok=True)
    files.write_atomically(home / "requirements.txt", requirements(combination))
    if not (env / "bin" / "python").exists():
        uv("venv", "--quiet", "--clear", "--seed", "--python", combination.python, env)
    uv("pip", "install", "--python", env / "bin" / "python", "-r", home / "requirements.txt")
    (site,) = env.glob("lib/python*/site-packages")
    (site / "course.pth").write_text(f"{course}\n", encoding="utf-8")
    for part in COPIED:
        shutil.rmtree(course / part, ignore_errors=True)
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, course / part, ignore=shutil.ignore_patterns("__pycache__"))
        elif (ROOT / part).exists():
            shutil.copy2(ROOT / part, course / part)
    if combination.run("-m", "oplab.toolchain.build") != 0:
        raise OplabError(f"The operators cannot be compiled with {combination}.", "The lines above say why.")


def first_line(text: str) -> str:
    """The first line that says something, without colours and without the path of a combination."""
    lines = (line.strip() for line in UNWANTED.sub("", text).splitlines() if line.strip(" -"))
    return next(lines, "no reason was given")[:200]


def grade(combination: Combination, chapter: Chapter) -> dict[str, str]:
    """Grades a chapter's reference answers: ``{"c04.asinh": "passed"}``, or a state with its reason."""
    out = combination.home / "course" / "build" / "matrix.json"
    out.unlink(missing_ok=True)
    ids = [exercise.id for exercise in chapter.exercises]
    combination.run("-m", "oplab.cli", "check", *ids, "--track", "solutions", "--json", out)
    if not out.exists():
        return dict.fromkeys(ids, "not graded")
    found = {}
    for each in json.loads(out.read_text(encoding="utf-8"))["exercises"]:
        failed = [check["message"] for check in each.get("checks", ()) if not check["passed"]]
        why = "" if each["status"] == "passed" else f": {first_line(chr(10).join([each['message'], *failed]))}"
        found[each["id"]] = each["status"] + why
    return found


def run_lesson(combination: Combination, chapter: Chapter) -> dict[str, str]:
    """Runs a lesson's notebook with nbval, which compares the outputs with those in the notebook."""
    junit, sanitizer = (combination.home / "course" / "build" / name for name in ("matrix.xml", "sanitize.cfg"))
    junit.unlink(missing_ok=True)
    sanitizer.write_text(SANITIZED, encoding="utf-8")
    words = ["-m", "pytest", "--nbval", "--nbval-current-env", f"--nbval-cell-timeout={CELL_LIMIT}", "-q", "--tb=no"]
    words += ["-p", "no:cacheprovider", f"--nbval-sanitize-with={sanitizer}", f"--junitxml={junit}"]
    combination.run(*words, f"--rootdir={junit.parents[1]}", chapter.notebook)
    return {f"{chapter.id} (lesson)": lesson_outcome(junit) if junit.exists() else "not run"}


def lesson_outcome(junit: Path) -> str:
    """``passed``, or what the first cell comes to that does not pass: ``differs``, if it prints something else, or ``failed``."""
    for cell in ElementTree.parse(junit).getroot().iter("testcase"):
        for failure in (*cell.iter("failure"), *cell.iter("error")):
            lines = [line.strip() for line in UNWANTED.sub("", failure.text or "").splitlines() if line.strip()]
            if any("Cell outputs differ" in line for line in lines):
                why = "; ".join([line for line in lines if re.match(r"[-+] \S", line)][:2])
                return f"differs: {cell.get('name')}: {why[:200]}"
            return f"failed: {cell.get('name')}: {lines[-1][:200] if lines else 'no reason was given'}"
    return "passed"


def table(all_results: dict[str, dict[str, str]]) -> str:
    """Markdown: how many pass in each combination, and a line for each reason why something does not."""
    lines = ["| | reference answers that pass | lessons that pass |", "|---|---|---|"]
    reasons: dict[str, list[str]] = {}
    for name, results in all_results.items():
        kinds = [[each for id, each in results.items() if ("lesson" in id) == lesson] for lesson in (False, True)]
        lines.append(" | ".join([f"| {name}", *(f"{each.count('passed')} of {len(each)}" for each in kinds)]) + " |")
        for id, outcome in results.items():
            if outcome != "passed":
                reasons.setdefault(f"{id}: {outcome}".replace("`", "'"), []).append(name)
    return (
        "\n".join([*lines, "", *(f"- `{why}` ({'; '.join(where)})" for why, where in sorted(reasons.items()))]) + "\n"
    )


def do(combination: Combination, chapters: Sequence[Chapter], lessons: bool) -> bool:
    """Runs one combination, keeps each chapter when it has run, and returns whether all of them pass.

    Raises:
        OplabError: its packages or operators cannot be made.
    """
    start, passes = time.monotonic(), True
    prepare(combination)
    print(f"      environment, copy and operators: {time.monotonic() - start:.0f} s", flush=True)
    path = combination.home / "results.json"
    kept = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    for chapter, run in itertools.product(chapters, (grade, run_lesson) if lessons else (grade,)):
        found = run(combination, chapter)
        kept = {"combination": str(combination), "results": kept.get("results", {}) | found}
        files.write_atomically(path, json.dumps(kept, indent=1, ensure_ascii=False))
        passes = passes and set(found.values()) <= {"passed"}
    return passes


def main(words: Sequence[str]) -> int:
    """0: everything that was asked for passes; 1: something does not; 2: something cannot be run here."""
    parser = argparse.ArgumentParser(prog="make matrix", description=__doc__.splitlines()[0])
    parser.add_argument("chapters", nargs="*", metavar="CHAPTER", help="c04; all by default")
    parser.add_argument("--only", action="append", default=[], metavar="LIBRARY=VERSION", help="torch=2.13, ort=1.31")
    parser.add_argument("--lessons", action="store_true", help="run the lessons, too")
    own = f"{sys.version_info[0]}.{sys.version_info[1]}"
    parser.add_argument("--python", default=own, metavar="3.12", help="another Python, which uv finds or installs")
    given = parser.parse_args(words)
    known = {chapter.id: chapter for chapter in load(ROOT).chapters}
    if unknown := [word for word in given.chapters if word not in known]:
        parser.error(f"there is no chapter {unknown[0]}; there are {', '.join(known)}")
    chapters, status = [known[id] for id in given.chapters or known], 0
    try:
        for combination in plan(given.only, given.python):
            print(f"\n{combination}", flush=True)
            try:
                status = max(status, int(not do(combination, chapters, given.lessons)))
            except OplabError as error:  # the other combinations may still run
                print(error, file=sys.stderr, flush=True)
                status = 2
    except OplabError as error:
        print(error, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nInterrupted. The chapters that have run are kept.", file=sys.stderr)
        status = 130
    kept = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder().glob("*/results.json"))]
    if kept:
        text = table({each["combination"]: each["results"] for each in kept})
        files.write_atomically(folder() / "matrix.md", text)
        print(f"\n{text}\nThis table is in build/matrix/matrix.md.")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
