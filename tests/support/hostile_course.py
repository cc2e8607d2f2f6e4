"""A course whose exercises are hostile submissions with honest ones between them, and one run of ``oplab check`` over it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path

from oplab.course.manifest import load
from oplab.grading import isolation
from tests.support import ROOT

HOSTILE = ROOT / "tests" / "hostile"
HONEST_EVERY = 9  # a course has at most 100 chapters
LANDLOCK = isolation.landlock_abi() > 0
WALL = 30.0  # seconds: ten times what an attack takes that ends by itself
LIMITS = f"[limits]\nwall = {WALL}\ncpu = 10.0\nmemory_mb = 1024\noutput_kb = 512\nfiles = 128\n"
SLOW = "limits = { wall = 60.0, cpu = 20.0 }\n"  # another limit is the one to speak
ENDLESS = "limits = { wall = 6.0 }\n"  # nothing else ends it


@dataclass(frozen=True)
class Attack:
    """One file of ``submissions/`` and what its head says about it."""

    name: str
    path: Path
    head: dict[str, str]

    @property
    def kind(self) -> str:
        return self.name.split("__")[0]

    def status(self, isolated: bool) -> str:
        return self.head.get("isolated", self.head["status"]) if isolated else self.head["status"]

    def says(self, isolated: bool) -> str:
        """Words of its message. A reason that differs under isolation is named for itself."""
        if isolated and "isolated says" in self.head:
            return self.head["isolated says"]
        if self.head.get("isolated", self.head["status"]) != self.head["status"]:
            return self.head.get("says", "") if (self.status(isolated) == "error") else ""
        return self.head.get("says", "")


def attacks() -> list[Attack]:
    found = []
    for path in sorted((HOSTILE / "submissions").glob("*.*")):
        head = dict(re.findall(r"^(?:#|//) ([a-z ]+): (.+)$", path.read_text(), flags=re.M))
        found.append(Attack(path.stem, path, head))
    return found


class HostileCourse:
    """The course in ``folder``. The grader itself is a copy in it: what attacks it must not reach the real one.

    Without ``landlock`` it is the grader of a kernel that has none.
    """

    def __init__(self, folder: Path, chosen: list[Attack], landlock: bool = True):
        self.folder = folder
        ignored = shutil.ignore_patterns("c[0-9A][0-9]_*", "__pycache__", "data", "static")
        shutil.copytree(ROOT / "oplab", folder / "oplab", ignore=ignored)
        if not landlock:
            file = folder / "oplab" / "toolchain" / "landlock.py"
            text = file.read_text()
            assert text.count("def abi() -> int:\n") == 1
            file.write_text(text.replace("def abi() -> int:\n", "def abi() -> int:\n    return 0\n"))
        parts = (
            "exercises/csrc",
            "solutions/csrc",
            "build/lib",
            ".git/hooks",
            "tests",
            "csrc/torch_ops",
            "csrc/common",
        )
        for part in parts:
            (folder / part).mkdir(parents=True)
        shutil.copy(ROOT / "csrc" / "torch_ops" / "compile_flags.txt", folder / "csrc" / "torch_ops")
        (folder / "csrc" / "common" / "answer.h").write_text("inline float answer(float x) { return 3 * x + 2; }\n")
        (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
        (folder / ".git" / "config").write_text("[core]\n")
        (folder / "build" / "lib" / "answers.txt").write_text("3 2\n")
        (folder / ".git" / "answers.txt").write_text("return 3 * x + 2\n")
        self.ids: dict[str, str] = {}
        self.honest: list[str] = []
        manifest = [f'title = "Hostile submissions"\n\n{LIMITS}']
        number = 0
        for place, attack in enumerate(chosen):
            if place % HONEST_EVERY == 0:
                kind = ("array", "onnx", "array", "cpp")[place // HONEST_EVERY % 4]
                self.honest.append(self._add(manifest, number, kind, None))
                number += 1
            self.ids[attack.name] = self._add(manifest, number, attack.kind, attack)
            number += 1
        for kind in ("array", "onnx"):  # the last ones stand behind all attacks
            self.honest.append(self._add(manifest, number, kind, None))
            number += 1
        (folder / "course.toml").write_text("".join(manifest))

    def _add(self, manifest: list[str], number: int, kind: str, attack: Attack | None) -> str:
        """One exercise: the attack, or an honest answer where there is none."""
        what = attack.name if attack else f"honest_{kind}"
        stem, name = f"{number:02d}_{what}", {"array": "mix", "onnx": "net", "cpp": "mix"}[kind]
        id, suffix = f"c{number:02d}.{name}", ".cpp" if kind == "cpp" else ".py"
        file = f"csrc/c{number:02d}_{name}.cpp" if kind == "cpp" else f"c{stem}.py"
        solution = self.folder / "solutions" / file
        text = (HOSTILE / "templates" / f"honest_{kind}{suffix}").read_text().replace("c00.", f"c{number:02d}.")
        solution.write_text(text)
        answer = self.folder / "exercises" / file
        head = attack.head if attack else {}
        match head.get("submitted as"):
            case "a link to the solution":
                answer.symlink_to(solution)
            case "a pipe":
                os.mkfifo(answer)
            case "a large file":
                answer.write_text(attack.path.read_text() + "#" * (2 << 20))
            case _ if attack:
                answer.write_text(attack.path.read_text().replace("c00_", f"c{number:02d}_"))
            case _:
                answer.write_text(re.sub(r" *(?:#|//) (?:ANSWER|END).*\n", "", text))
        if "neighbour" in head:
            (answer.parent / head["neighbour"]).symlink_to(solution)
        shutil.copy(HOSTILE / "templates" / f"{kind}.py", self.folder / "oplab" / "checks" / f"c{stem}.py")
        limits = SLOW if re.search("bomb|memory|disk|many_files|nests|nodes|honest", what) else ""
        if "longer" in head.get("says", ""):
            limits = ENDLESS
        more = (
            'kind = "torch"\nnot_allowed = ["csrc/common/answer.h"]\n'
            if kind == "cpp"
            else 'not_allowed = ["oplab.ops.reference"]\n'
        )
        manifest.append(
            f'\n[[chapter]]\nstem = "{stem}"\ntitle = "{stem}"\nminutes = 1\n\n[[chapter.exercise]]\nname = "{name}"\n'
            f'goal = "3x + 2"\npoints = 1\ndifficulty = 1\nminutes = 1\nhints = ["Three.", "Two."]\n{more}{limits}'
        )
        return id

    def check(
        self, *options: str, ids: tuple[str, ...] = (), path: str | None = None, first: str = "", patience: float = 120
    ) -> Run:
        """``oplab check`` on all exercises, two at a time, with everything that could be left behind marked.

        Args:
            ids: these exercises only.
            path: another ``PATH``.
            first: Python that the command runs before anything else.
            patience: seconds that what it started may take to end.
        """
        results = self.folder.parent / f"{uuid.uuid4().hex}.json"
        reports = ("--json", str(results), "--html", str(results.with_suffix(".html")))
        run = self.run("check", *ids, *reports, *options, path=path, first=first, patience=patience)
        found = json.loads(results.read_text()) if results.is_file() else {"exercises": []}
        return replace(run, outcomes={entry["id"]: entry for entry in found["exercises"]})

    def grade_class(self, learners: dict[str, set[str]], grades: Path, jobs: int = 2) -> Run:
        """``oplab class grade`` on learners who hand in these exercises; the outcomes of all of them, by exercise.

        Args:
            learners: login to the ids of the exercises that the learner hands in; no exercise twice.
            grades: the folder of the grades.
        """
        submitted = grades.with_name(f"{grades.name}-submissions")
        files = {exercise.id: exercise.file for exercise in load(self.folder).exercises}
        for login, ids in learners.items():
            for id in ids:
                answer, copy = self.folder / "exercises" / files[id], submitted / login / files[id]
                copy.parent.mkdir(parents=True, exist_ok=True)
                # A pipe or a link stays what it is.
                subprocess.run(["cp", "-a", str(answer), str(copy)], check=True)
        roster = grades.with_name(f"{grades.name}.csv")
        roster.write_text("\n".join(["login", *learners]) + "\n")
        words = ("class", "grade", str(submitted), "--roster", str(roster), "-o", str(grades), "--jobs", str(jobs))
        run = self.run(*words)
        found = {}
        for login, ids in learners.items():
            results = grades / "learners" / login / "results.json"
            if results.is_file():
                found |= {
                    entry["id"]: entry for entry in json.loads(results.read_text())["exercises"] if entry["id"] in ids
                }
        return replace(run, outcomes=found)

    def run(self, *words: str, path: str | None = None, first: str = "", patience: float = 120) -> Run:
        """An ``oplab`` command in this course, with everything that could be left behind marked."""
        mark, temporary = uuid.uuid4().hex, self.folder.parent / f"tmp-{uuid.uuid4().hex[:6]}"
        temporary.mkdir()
        before = self.hashes()
        with _Answers(Path(tempfile.mkdtemp()) / "answers") as (port, path_of_socket):  # 108 characters are the limit
            env = {
                **os.environ,
                "OPLAB_ROOT": str(self.folder),
                "PYTHONPATH": str(self.folder),
                "TMPDIR": str(temporary),
                "OPLAB_HOSTILE_MARK": mark,
                "OPLAB_HOSTILE_PORT": str(port),
                "OPLAB_HOSTILE_SOCKET": str(path_of_socket),
                "SECRET_TOKEN": "3 2",
                "COLUMNS": "200",
                "PYTHONDONTWRITEBYTECODE": "1",
            }
            env.pop("OPLAB_TRACK", None)
            env["PATH"] = path or env["PATH"]
            done = subprocess.run(
                [sys.executable, "-P", "-c", f"{first}\nfrom oplab.cli.main import main; main()", *words],
                env=env,
                cwd=self.folder,
                capture_output=True,
                text=True,
                timeout=900,
                start_new_session=True,
            )
        survivors = _marked(mark, patience)
        for pid in survivors:
            os.kill(pid, signal.SIGKILL)
        after = self.hashes()
        changed = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
        litter = sorted(path.name for path in temporary.iterdir() if path.name.startswith("oplab"))
        return Run(done, {}, survivors, changed, litter)

    def hashes(self) -> dict[str, str]:
        """Every file of the course but those that a run may write."""
        found = {}
        for path in self.folder.rglob("*"):
            name = path.relative_to(self.folder).as_posix()
            if path.is_file() and not name.startswith(("build/progress", "build/outcomes", "build/cache")):
                found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        return found


@dataclass(frozen=True)
class Run:
    """What one run gave, and what it left behind."""

    process: subprocess.CompletedProcess[str]
    outcomes: dict[str, dict]
    survivors: list[int]
    changed: list[str]
    litter: list[str]


class _Answers:
    """Servers on this machine that tell everyone the coefficients: what the network or a daemon would be to a cheater."""

    def __init__(self, path: Path):
        self._path = path

    def __enter__(self) -> tuple[int, Path]:
        self._sockets = [socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)]
        self._sockets[1].bind(str(self._path))
        self._sockets[1].listen()
        for listening in self._sockets:
            threading.Thread(target=self._serve, args=(listening,), daemon=True).start()
        return self._sockets[0].getsockname()[1], self._path

    def __exit__(self, *_: object) -> None:
        for listening in self._sockets:
            listening.close()
        shutil.rmtree(self._path.parent)

    def _serve(self, listening: socket.socket) -> None:
        while True:
            try:
                conn, _ = listening.accept()
                with conn:
                    conn.sendall(b"3 2")
            except OSError:
                return


def _marked(mark: str, patience: float) -> list[int]:
    """Living processes that a run has started: they carry its mark in their environment."""
    deadline = time.monotonic() + patience
    while True:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    if mark.encode() in (entry / "environ").read_bytes():
                        found.append(int(entry.name))
                except OSError:
                    continue
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def judge(run: Run, id: str, attack, *, isolated: bool, landlock: bool = LANDLOCK) -> None:
    isolated = isolated or (landlock and "changes" in attack.head)  # it finds the same: nothing that it can write to
    assert run.outcomes, run.process.stdout[-2000:] + run.process.stderr[-2000:]
    outcome, status = run.outcomes[id], attack.status(isolated)
    assert outcome["status"] == status, outcome["message"]
    assert attack.says(isolated) in outcome["message"]
    harmless = isolated and attack.head["stopped by"] == "grader" and status == "passed"  # nothing was left to punish
    unstopped = not isolated and attack.head["stopped by"] == "isolation"  # docs/grader.md says so
    assert outcome["points"] == (1 if harmless or unstopped else 0)
    if attack.head.get("fast"):
        assert outcome["seconds"] < WALL / 3  # a grader that waits for it does so for minutes
