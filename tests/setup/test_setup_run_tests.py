"""``make test`` itself: a skip that is not allowed fails, a failed step fails the run, the last line is pytest's."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import run_tests

from tests.conftest import scope_of
from tests.support import ROOT

TOOLS = Path(run_tests.__file__).parent

TESTS = """\
import pytest

def test_passes():
    pass

@pytest.mark.skip(reason="no such machine")
def test_skipped():
    pass

@pytest.mark.xfail(reason="known")
def test_expected_failure():
    assert False
"""


FAULTHANDLER = [line for line in (ROOT / "pyproject.toml").read_text().splitlines() if line.startswith("faulthandler_")]
HANGS = f"""\
import os, sys, time
sys.path.insert(0, {str(ROOT)!r})
from tests.support.forks import fork

def test_hangs():
    os.waitpid(fork(lambda: time.sleep(600)), 0)

def test_passes():
    pass
"""


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "pytest_no_silent_skips",
        "-p",
        "no:cacheprovider",
        "-p",
        "xdist",
        *arguments,
    ]
    env = {
        "PYTHONPATH": str(TOOLS),
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)


def allow(folder: Path, *patterns: str) -> str:
    path = folder / "allowed.toml"
    path.write_text("".join(f'[[skip]]\ntest = "{pattern}"\nreason = "because"\n' for pattern in patterns))
    return f"--allowed-skips={path}"


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_an_unexpected_skip_fails_the_run(tmp_path: Path, workers: tuple[str, ...]) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    done = run_pytest(tmp_path, allow(tmp_path), *workers)
    assert done.returncode == 1
    assert "UNEXPECTED SKIPS: the run fails" in done.stdout
    assert "test_it.py::test_skipped: Skipped: no such machine" in done.stdout
    assert "test_it.py::test_expected_failure: known" in done.stdout

    done = run_pytest(tmp_path, allow(tmp_path, "test_it.py::test_sk*", "*::test_expected_failure"), *workers)
    assert done.returncode == 0 and "test_it.py::test_skipped: because" in done.stdout
    assert "1 passed, 1 skipped, 1 xfailed" in done.stdout.splitlines()[-1]


def test_a_module_that_skips_itself_is_caught(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import pytest\npytest.importorskip('no_such_module')\n\ndef test(): pass\n")
    (tmp_path / "test_other.py").write_text("def test(): pass\n")
    done = run_pytest(tmp_path, allow(tmp_path))
    assert done.returncode == 1 and "test_it.py: Skipped: could not import 'no_such_module'" in done.stdout


def test_a_test_that_hangs_fails_the_run_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(HANGS)
    limit = [word for line in FAULTHANDLER for word in ("-o", re.sub(r"\d+", "3", line.replace(" ", "")))]
    done = run_pytest(tmp_path, "-n", "1", *limit)
    assert done.returncode == 1, done.stdout
    assert "worker 'gw0' crashed while running 'test_it.py::test_hangs'" in done.stdout
    assert "1 failed, 1 passed" in done.stdout.splitlines()[-1]


def test_an_allowed_skip_needs_a_reason(tmp_path: Path) -> None:
    (tmp_path / "allowed.toml").write_text('[[skip]]\ntest = "x"\n')
    done = run_pytest(tmp_path, f"--allowed-skips={tmp_path}/allowed.toml")
    assert done.returncode == 4 and "each [[skip]] needs `test` and `reason`" in done.stderr


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    codes = {"lint": 0, "notebooks": 0, "tests": 0}
    for name in ("lint", "notebooks"):
        monkeypatch.setattr(run_tests, name, lambda name=name: codes[name])
    monkeypatch.setattr(run_tests, "tests", lambda browser: print("= 9 passed in 1.00s =") or codes["tests"])
    monkeypatch.setattr(sys, "argv", ["run_tests.py"])
    return codes


def test_the_last_line_is_pytest_s(steps: dict[str, int], capsys: pytest.CaptureFixture[str]) -> None:
    assert run_tests.main() == 0
    assert capsys.readouterr().out.endswith("= 9 passed in 1.00s =\n")


@pytest.mark.parametrize("name", ["lint", "notebooks", "tests"])
def test_every_failed_step_fails_the_run(steps: dict[str, int], capsys: pytest.CaptureFixture[str], name: str) -> None:
    steps[name] = 1
    assert run_tests.main() == 1
    assert f"FAILED: {name}" in capsys.readouterr().err


def test_chapters_without_a_notebook_are_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "course.toml").write_text((run_tests.ROOT / "course.toml").read_text())
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    with pytest.raises(run_tests.StepError, match="chapters without a notebook: 00_first_round_trip"):
        run_tests.notebooks()


def test_a_missing_browser_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_tests, "find_chromium", lambda: None)
    monkeypatch.setattr(run_tests.shutil, "which", lambda name: None)
    with pytest.raises(run_tests.StepError, match="apt-get install chromium"):
        run_tests.get_chromium()
    monkeypatch.setattr(run_tests.shutil, "which", lambda name: "/usr/bin/apt-get")
    monkeypatch.setattr(run_tests.os, "getuid", lambda: 1000)
    with pytest.raises(run_tests.StepError, match="you are not root"):
        run_tests.get_chromium()


def test_missing_packages_for_aarch64_are_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(run_tests.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(run_tests.os, "getuid", lambda: 1000)
    known = ["/usr/bin/apt-get", "aarch64-linux-gnu-g++"]
    monkeypatch.setattr(run_tests.shutil, "which", lambda name: next((each for each in known if name in each), None))
    run_tests.get_aarch64()
    said = capsys.readouterr().out
    assert "not tested for AArch64: you are not root" in said and said.endswith("sudo apt-get install qemu-user.\n")
    monkeypatch.setattr(run_tests.platform, "machine", lambda: "aarch64")
    run_tests.get_aarch64()
    assert not capsys.readouterr().out


def test_a_missing_bubblewrap_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setattr(run_tests.sys, "platform", "linux")
    monkeypatch.setattr(run_tests.os, "getuid", lambda: 1000)
    monkeypatch.setattr(run_tests.shutil, "which", lambda name: f"/usr/bin/{name}" if name == "apt-get" else None)
    run_tests.get_bubblewrap()
    said = capsys.readouterr().out
    assert "not tested with bubblewrap: you are not root" in said and said.endswith(
        "sudo apt-get install bubblewrap.\n"
    )
    monkeypatch.setattr(run_tests.shutil, "which", lambda name: f"/usr/bin/{name}")
    run_tests.get_bubblewrap()
    assert not capsys.readouterr().out


def test_packages_are_installed_as_root(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    log = tmp_path / "log"
    (tmp_path / "apt-get").write_text(f'#!/bin/sh\necho "$@" >> {log}\ntest "$1" = update || test "$4" != no-such\n')
    (tmp_path / "apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")
    monkeypatch.setattr(run_tests.os, "getuid", lambda: 0)
    assert run_tests.apt_install(["one", "two"]) is None
    assert log.read_text().splitlines() == ["update", "install --yes --no-install-recommends one two"]
    with pytest.raises(run_tests.StepError, match="no-such failed"):
        run_tests.apt_install(["no-such"])


def test_the_known_answers_of_an_exercise_are_a_unit_of_work():
    file = "tests/grading/test_answers.py"
    assert scope_of(f"{file}::test_answer[c13.grid-mutant_x]") == scope_of(f"{file}::test_answer[c13.grid-stub]")
    assert scope_of(f"{file}::test_answer[c13.grid-stub]") != scope_of(f"{file}::test_answer[c13.parallel-stub]")
    assert scope_of(f"{file}::test_rule[hints_help]") == file
    assert scope_of("tests/x.py::TestX::test_y[1]") == "tests/x.py::TestX"


def test_workers_share_the_exercises_of_a_file():
    """As `make test` shares them out: with pytest-xdist's own units, one worker would run all of them."""
    chosen = ["tests/grading/test_answers.py", "-k", "is_tried and (c04 or c05 or c06)"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-v",
        "-n",
        "2",
        "--dist",
        "loadscope",
        "--no-loadscope-reorder",
        *chosen,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:]
    assert {line.split("]")[0] for line in done.stdout.splitlines() if line.startswith("[gw")} == {"[gw0", "[gw1"}
