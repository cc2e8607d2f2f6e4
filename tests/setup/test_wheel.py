"""The package as others install it: from the source distribution to a folder of the course, a check that passes, and JupyterLab."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from pathlib import Path

import pytest

from oplab import paths
from oplab.course.manifest import load
from oplab.errors import OplabError
from oplab.grading.isolation import detect
from oplab.updates import delivery
from tests.support import ROOT
from tests.support.labdriver import free_port

MB = 1 << 20
READS = """
import pathlib

import oplab

PACKAGE = pathlib.Path(oplab.__file__).parent
HIDDEN = ["shipped/solutions/c00_first_round_trip.py", "checks/c00_first_round_trip.py", "shipped/course.toml"]


def readable(name):
    try:
        return (PACKAGE / name).read_text() is not None
    except OSError:
        return False


def export(*arguments, **options):
    raise RuntimeError(f"readable: {[name for name in HIDDEN if readable(name)]}")
"""


def run(*command, cwd, env=None, code=0) -> str:
    """What a program prints, which ends with this exit status."""
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=env, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == code, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    """A folder with the source distribution, the wheel that is built from it, and in ``direct/`` that of the repository."""
    folder = tmp_path_factory.mktemp("built")
    build = (sys.executable, "-m", "hatchling", "build", "-t")
    run(*build, "sdist", "-d", folder, cwd=ROOT)
    run(*build, "wheel", "-d", folder / "direct", cwd=ROOT)
    [source] = folder.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(folder, filter="data")
    run(*build, "wheel", "-d", folder, cwd=folder / source.name[: -len(".tar.gz")])
    return folder


@pytest.fixture(scope="module")
def wheel(built) -> Path:
    [wheel] = built.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> dict[str, str]:
    """The variables of an empty environment into which the wheel was installed, with the newest versions of what it depends on."""
    env = tmp_path_factory.mktemp("env") / "env"
    run("uv", "venv", "--quiet", "--python", sys.executable, env, cwd=ROOT)
    run("uv", "pip", "install", "--quiet", "--compile-bytecode", "--python", env, wheel, cwd=ROOT)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPLAB", "PYTHON", "PYTEST"))}
    return {
        **kept,
        "PATH": f"{env / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path_factory.mktemp("home")),
    }


@pytest.fixture(scope="module")
def learner(installed, tmp_path_factory) -> Path:
    """A folder that `oplab init` made, with this machine's headers and operators."""
    folder = tmp_path_factory.mktemp("learner") / "my course"
    said = run("oplab", "init", "--no-setup", folder, cwd=folder.parent, env=installed)
    assert "has the course, release" in said and said.endswith(f"Next: oplab lab {folder}\n")
    (folder / "build" / "cache").mkdir(parents=True)
    (folder / "build" / "cache" / "ort-headers").symlink_to(ROOT / "build" / "cache" / "ort-headers")
    return folder


@pytest.mark.nightly
def test_the_wheel_has_the_course_and_is_small(wheel):
    assert wheel.stat().st_size < 15 * MB
    names = zipfile.ZipFile(wheel).namelist()
    shipped = {name.removeprefix("oplab/shipped/") for name in names if name.startswith("oplab/shipped/")}
    course = load(ROOT)
    assert {chapter.notebook for chapter in course.chapters} <= shipped
    assert {f"solutions/{exercise.file}" for exercise in course.exercises} <= shipped
    assert any("labextensions/oplab-lab/package.json" in name for name in names), "the panel"
    assert any(name.endswith("data/etc/ipython/startup/oplab.ipy") for name in names), "the start of a kernel"
    assert not [name for name in names if "__pycache__" in name or ".ipynb_checkpoints" in name]


@pytest.mark.nightly
def test_the_source_distribution_gives_what_the_repository_gives(built, wheel):
    [direct] = (built / "direct").glob("*.whl")
    assert sorted(zipfile.ZipFile(direct).namelist()) == sorted(zipfile.ZipFile(wheel).namelist())


@pytest.mark.nightly
def test_a_learners_folder_has_neither_tests_nor_solutions(learner):
    inside = {path.relative_to(learner).as_posix() for path in learner.rglob("*") if path.is_file()}
    assert not [name for name in inside if re.match(r"(tests|solutions|oplab|\.git|notebooks/src)/", name)]
    told = json.loads((learner / paths.DELIVERED).read_text())
    assert told["version"] == delivery.VERSION and re.fullmatch(r"\d+\.\d+\.\d+", told["release"])
    assert set(told["files"]) <= inside and "exercises/c00_first_round_trip.py" in told["files"]
    for exercise in load(ROOT).exercises:
        stub = (learner / "exercises" / exercise.file).read_text()
        assert f"TODO {exercise.id}" in stub and "ANSWER" not in stub
        assert (learner / delivery.STUBS / exercise.file).read_text() == stub


@pytest.fixture
def answered(learner) -> Path:
    """That folder, with the right answers of the first chapter."""
    shutil.copy(ROOT / "solutions" / "c00_first_round_trip.py", learner / "exercises")
    return learner


@pytest.mark.nightly
def test_the_first_answer_passes(answered, installed):
    learner = answered
    said = run("oplab", "check", "c00.export", cwd=learner, env=installed)
    assert "3 of 3 points" in said, said
    assert "c00.export" in run("oplab", "list", cwd=learner / "exercises", env=installed)
    assert "the same" in run("oplab", "diff", "c00.export", cwd=learner, env=installed)


@pytest.mark.nightly
def test_targets_of_the_makefile_work(answered, installed):
    learner = answered
    assert "3 of 3 points" in run("make", "check", "EX=c00.export", cwd=learner, env=installed)
    without = {**installed, "PATH": "/usr/bin:/bin"}
    assert "activate the environment" in run("make", "list", cwd=learner, env=without, code=2)
    listed = run("make", cwd=learner, env=installed)
    clone = (ROOT / "Makefile").read_text()
    for target in re.findall(r"^  ([a-z-]+) ", listed, re.MULTILINE):
        assert f"\n{target}:" in clone, f"{target} is not a target in a clone"


@pytest.mark.nightly
@pytest.mark.skipif(
    not detect(ROOT, ROOT / "exercises").offered, reason="this machine offers neither bubblewrap nor Landlock"
)
def test_an_isolated_answer_reads_neither_checks_nor_solutions(learner, installed, tmp_path):
    (tmp_path / "c00_first_round_trip.py").write_text(READS)
    command = ("oplab", "check", "c00.export", "--submission", tmp_path)
    open_to_all = run(*command, cwd=learner, env=installed, code=1)
    assert "shipped/solutions" in open_to_all, "the answer does not find what there is to find"
    assert "readable: []" in run(*command, "--isolate", cwd=learner, env=installed, code=1)


@pytest.mark.nightly
def test_cpp_is_compiled_in_a_learners_folder(learner, installed):
    (learner / "exercises" / "csrc").mkdir(exist_ok=True)
    shutil.copy(ROOT / "solutions" / "csrc" / "cA1_mean.cpp", learner / "exercises" / "csrc")
    assert "1 of 1 exercises passed" in run("oplab", "check", "cA1.mean", cwd=learner, env=installed)
    hostile = (ROOT / "solutions" / "csrc" / "cA1_mean.cpp").read_text()
    [site] = Path(installed["PATH"].split(os.pathsep)[0]).parent.glob("lib/python*/site-packages")
    reference = site / "oplab" / "shipped" / "solutions" / "csrc" / "cA1_mean.cpp"
    (learner / "exercises" / "csrc" / "cA1_mean.cpp").write_text(f'#include "{reference}"\n{hostile}')
    assert "build failed" in run("oplab", "check", "cA1.mean", cwd=learner, env=installed, code=1)


@pytest.mark.nightly
def test_jupyterlab_opens_with_the_panel(learner, installed):
    """With its operators compiled at the first start: the whole way of somebody who has only pip."""
    port = free_port()
    log = learner.parent / "log.txt"
    options = ["--chapter=05", "--no-browser", f"--port={port}", "--IdentityProvider.token=t"]
    command = ["oplab", "lab", "my course", *options]
    with log.open("w") as stream:
        server = subprocess.Popen(command, cwd=learner.parent, env=installed, stdout=stream, stderr=stream)
    try:
        while not log.read_text().endswith("ends JupyterLab.\n"):
            assert server.poll() is None, log.read_text()[-3000:]
            try:
                server.wait(0.3)
            except subprocess.TimeoutExpired:
                continue
        said = log.read_text()
        assert "The operators are compiled" in said and "Copying" in said and "Traceback" not in said
        assert f"http://localhost:{port}/lab/tree/work/05_writing_symbolic.ipynb" in said

        def get(path: str) -> str:
            request = urllib.request.Request(f"http://localhost:{port}{path}", headers={"Authorization": "token t"})
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.read().decode()

        assert "oplab-lab" in get("/lab"), "the page loads the panel"
        state = json.loads(get("/oplab/lab/state"))
        assert len(state["chapters"]) == len(load(ROOT).chapters) and not state["problems"]
    finally:
        server.terminate()
        server.wait(60)
    assert "up to date" in run("oplab", "setup", cwd=learner, env=installed)


def test_a_folder_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(delivery, "release", lambda: "9.9.9")
    (tmp_path / "empty").mkdir()
    assert delivery.init(tmp_path / "empty") > 200
    full = Path.write_bytes

    def disk_full(path: Path, text: bytes) -> int:
        if path.suffix == ".ipynb":
            raise OSError(28, "No space left on device")
        return full(path, text)

    monkeypatch.setattr(Path, "write_bytes", disk_full)
    with pytest.raises(OplabError, match="the disk is full"):
        delivery.init(tmp_path / "course")
    assert os.listdir(tmp_path) == ["empty"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.write_text(""), "is a file"),
        (lambda path: (path.mkdir(), (path / "mine.txt").write_text("")), "is not empty: mine.txt"),
        (lambda path: (path.mkdir(), (path / "course.toml").write_text("")), "is already a folder of the course"),
    ],
)
def test_what_is_there_is_not_touched(make, words, tmp_path):
    folder = tmp_path / "course"
    make(folder)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(OplabError, match=words):
        delivery.init(folder)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lab", "nowhere"], "There is no course in nowhere yet.\nCreate it: oplab init nowhere"),
        (["lab", "other"], "other is not a course"),
        (["lab", str(ROOT), "--chapter", "77"], "There is no chapter 77."),
    ],
)
def test_a_wrong_call_is_a_sentence(arguments, words, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x").write_text("")
    said = run(sys.executable, "-m", "oplab.cli", *arguments, cwd=tmp_path, code=2)
    assert words in said and "Traceback" not in said
