"""The image, the dev container, Binder and the workflow agree with the project: the range of Python, versions, targets and commands.

Nothing is built: docs/images.md tells what was.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib

import pytest
import typer
import yaml
from packaging.specifiers import SpecifierSet

from oplab.cli.main import app
from tests.support import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = SpecifierSet(PROJECT["requires-python"])
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
START = (ROOT / "docker" / "start").read_text(encoding="utf-8")
CONTAINER = json.loads(re.sub(r"^\s*//.*$", "", (ROOT / ".devcontainer/devcontainer.json").read_text(), flags=re.M))
BINDER = yaml.safe_load((ROOT / "binder" / "environment.yml").read_text(encoding="utf-8"))
PUSH, NIGHT = (
    yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8"))
    for name in ("test.yml", "nightly.yml")
)
STEPS = [step for workflow in (PUSH, NIGHT) for job in workflow["jobs"].values() for step in job["steps"]]
FILES = """Dockerfile .dockerignore docker/start .devcontainer/devcontainer.json .github/workflows/test.yml
    .github/workflows/nightly.yml binder/environment.yml binder/postBuild binder/start tools/matrix.py docs/images.md
    docs/matrix.md""".split()
# One line of a Dockerfile with its continuation lines.
INSTRUCTIONS = re.findall(r"^([A-Z]+) ((?:.*\\\n)*.*)$", DOCKERFILE, re.M)
COMMANDS = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]


def lock() -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9-]+)==([^\s;]+)", (ROOT / "requirements.lock").read_text(), re.M))


def make_knows(target: str) -> bool:
    return subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True).returncode == 0


@pytest.mark.parametrize("name", FILES)
def test_no_file_names_the_host_of_an_index(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    hosts = re.findall(r"\b(?:[\w-]+\.)+(?:org|io|com|net|dev)\b", text)
    local = {"jupyterhub.io"}
    assert not set(hosts) - local, hosts
    assert not re.findall(r"https?://(?!127\.0\.0\.1|localhost|HOST)\S+", text)


def test_the_image_has_a_python_that_the_project_supports():
    base = re.search(r"^ARG BASE=python:(\d+\.\d+)\.\d+-slim-\w+$", DOCKERFILE, re.M)
    assert base and base[1] in PYTHONS


def test_the_image_gets_pytorch_from_the_lock_and_never_by_chance_with_cuda():
    line = next(body for word, body in INSTRUCTIONS if word == "RUN" and "torch.txt" in body)
    pattern = re.search(r"sed -n -E 's/(.*)/\\1\\2/p'", line)
    assert pattern
    found = [re.sub(pattern[1], r"\1\2", text) for text in lock_lines() if re.match(pattern[1], text)]
    assert found == [f"{name}=={lock()[name]}" for name in ("torch", "torchvision")]
    assert lock()["uv"]  # what installs it

    def words(index: str) -> str:
        case = re.search(r"case .*? esac", line.replace("\\\n", ""))[0]
        done = subprocess.run(
            ["sh", "-c", f'{case}; echo "$@"'], env={"TORCH_INDEX": index}, capture_output=True, text=True
        )
        return done.stdout.strip()

    assert [words(index) for index in ("", "default", "ADDRESS")] == [
        "--torch-backend cpu",
        "",
        "--default-index ADDRESS",
    ]


def lock_lines() -> list[str]:
    return (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()


def test_the_image_runs_as_an_ordinary_user_who_cannot_change_the_grader():
    assert [body for word, body in INSTRUCTIONS if word == "USER"][-1] == "1000:1000"
    final = DOCKERFILE[DOCKERFILE.rindex("\nFROM ") :]
    by_root, by_learner = final.split("\nUSER 1000:1000\n")
    assert "pip install" in by_root and "--chown" not in by_root and "pip install" not in by_learner
    assert re.findall(r"--owner learner --group learner (\S+)", by_root) == ["/opt/oplab/build"]
    assert {"VOLUME", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT"} <= {word for word, _ in INSTRUCTIONS}


def test_what_the_image_installs_is_pinned():
    """And the compiler stays, which learners need."""
    packages = re.findall(r"apt-get install --yes --no-install-recommends((?:\s+\\\n|\s+'[^']+')+)", DOCKERFILE)
    names = [word for line in packages for word in re.findall(r"'([^']+)'", line)]
    assert len(packages) == DOCKERFILE.count("apt-get install") and all("=" in name for name in names)
    assert {"g++", "make", "bubblewrap", "git"} <= {name.split("=")[0] for name in names}
    assert "apt-get remove" not in DOCKERFILE and "purge" not in DOCKERFILE
    for line in re.findall(r"pip install [^&]*", DOCKERFILE):
        assert "requirements.lock" in line or "torch.txt" in line, line


def test_what_the_image_copies_is_not_ignored():
    """What the wheel is built from goes to the builder, and nothing else."""
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    built = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"][
        "wheel"
    ]
    needed = {*built["packages"], *built["force-include"], PROJECT["readme"].split("/")[0], "pyproject.toml"}
    assert needed <= kept
    for word, body in INSTRUCTIONS:
        if word == "COPY" and "--from" not in body and body != ". .":
            assert set(body.split()[-2:-1]) <= kept


@pytest.mark.parametrize("name", ["docker/start", "binder/postBuild", "binder/start"])
def test_scripts_are_executable_and_call_commands_that_exist(name):
    path = ROOT / name
    assert os.access(path, os.X_OK)
    shell = path.read_text().splitlines()[0].removeprefix("#!").strip()
    assert subprocess.run([shell, "-n", str(path)]).returncode == 0
    code = "\n".join(line for line in path.read_text().splitlines() if not line.lstrip().startswith("#"))
    called = set(re.findall(r"(?:^|\s)oplab ([a-z]+)", code))
    assert called <= COMMANDS


@pytest.fixture
def container(tmp_path):
    """A folder in place of the volume, and programs that print how they are called in place of ``oplab`` and the hub's server."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "oplab").write_text(
        '#!/bin/sh\necho "oplab $*" >> "$LOG"\n[ "$1" = init ] && mkdir -p "$3" && touch "$3/course.toml"\nexit 0\n'
    )
    (programs / "jupyterhub-singleuser").write_text('#!/bin/sh\necho "hub $OPLAB_ROOT $*" >> "$LOG"\n')
    for program in programs.iterdir():
        program.chmod(0o755)
    lab = tmp_path / "lab"
    lab.mkdir()
    compiled = tmp_path / "compiled"
    (compiled / "lib").mkdir(parents=True)
    (compiled / "lib" / "ops.so").touch()
    script = tmp_path / "start"
    script.write_text(START.replace("/opt/oplab/build", str(compiled)))

    def run(*words):
        log = tmp_path / "log"
        log.unlink(missing_ok=True)
        env = {"PATH": f"{programs}:{os.environ['PATH']}", "LOG": str(log), "OPLAB_LAB": str(lab)}
        done = subprocess.run(["sh", str(script), *words], env=env, capture_output=True, text=True)
        return done, log.read_text().splitlines() if log.exists() else []

    return lab, run


def test_the_first_start_makes_the_folder_and_the_next_ones_keep_it(container):
    lab, run = container
    done, calls = run()
    opened = f"oplab lab {lab}/course -- --ip=0.0.0.0 --port=8888 --no-browser"
    assert done.returncode == 0 and calls == [f"oplab init --no-setup {lab}/course", opened]
    assert (lab / "course" / "build" / "lib" / "ops.so").exists()
    assert run("--debug")[1] == [f"{opened} --debug"]


def test_a_hub_gets_its_own_server(container):
    lab, run = container
    _, calls = run("jupyterhub-singleuser", "--debug")
    assert calls[1] == "oplab setup" and calls[2].startswith(f"hub {lab}/course --ServerApp.root_dir={lab}/course ")
    assert calls[2].endswith(" --debug") and "jupyterhub-singleuser" not in calls[2]


def test_a_folder_that_cannot_be_written_is_refused(container):
    lab, run = container
    lab.rmdir()
    done, calls = run()
    assert done.returncode == 2 and "chown -R" in done.stderr and not calls


def test_the_dev_container_builds_a_stage_that_exists_and_sets_the_clone_up():
    build = CONTAINER["build"]
    assert (ROOT / ".devcontainer" / build["dockerfile"]).resolve() == ROOT / "Dockerfile"
    assert f" AS {build['target']}\n" in DOCKERFILE
    assert f"useradd --create-home --uid 1000 --shell /bin/bash {CONTAINER['remoteUser']}" in DOCKERFILE
    program, target = CONTAINER["postCreateCommand"].split()
    assert program == "make" and make_knows(target)
    assert CONTAINER["forwardPorts"] == [8888] and "8888" in CONTAINER["portsAttributes"]


def test_binder_has_a_python_and_a_pytorch_of_the_project():
    pins = dict(re.match(r"([\w-]+) ?(.*)", line).groups() for line in BINDER["dependencies"])
    assert pins["python"].lstrip("=") in PYTHONS
    version, _, build = pins["pytorch"].removeprefix("=").partition("=")
    assert (version, build) == (lock()["torch"], "cpu*")
    assert pins["torchvision"].removeprefix("=") == lock()["torchvision"]
    clone = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))["dependencies"]
    assert f"onnxruntime-cpp {pins['onnxruntime-cpp']}" in clone


def test_the_workflows_run_pythons_of_the_project_and_targets_that_exist():
    pythons = NIGHT["jobs"]["linux"]["strategy"]["matrix"]["python"]
    used = {step["with"]["python-version"] for step in STEPS if step.get("uses", "").startswith("actions/setup-python")}
    assert all(isinstance(python, str) and python in PYTHONS for python in pythons)
    assert used <= {*pythons, "${{ matrix.python }}"}
    assert min(PYTHONS, key=lambda each: each.operator == "<").version == pythons[0]
    targets = {words[1] for step in STEPS if (words := step.get("run", "").split())[:1] == ["make"]}
    assert {"setup", "test", "test-all"} <= targets and all(make_knows(target) for target in targets)
    assert PUSH["permissions"] == NIGHT["permissions"] == {"contents": "read"}
