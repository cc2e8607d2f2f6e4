"""``make test`` itself: a skip that is not allowed fails, a failed step fails the run, the last line is pytest's."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import run_tests

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
    plugins = [word for name in ("pytest_no_silent_skips", "no:cacheprovider", "xdist") for word in ("-p", name)]
    command = [sys.executable, "-m", "pytest", *plugins, *arguments]
    env = {"PYTHONPATH": str(TOOLS), "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    env["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)


def allow(folder: Path, *patterns: str) -> str:
    path = folder / "allowed.toml"
    path.write_text("".join(f'[[skip]]\ntest = "{pattern}"\nreason = "because"\n' for pattern in patterns))
    return f"--allowed-skips={path}"


def test_an_unexpected_skip_fails_the_run(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    (tmp_path / "test_other.py").write_text(
        "import pytest\npytest.importorskip('no_such_module')\n\ndef test(): pass\n"
    )
    done = run_pytest(tmp_path, allow(tmp_path), "-n", "2")
    assert done.returncode == 1
    assert "UNEXPECTED SKIPS: the run fails" in done.stdout
    assert "test_other.py: Skipped: could not import 'no_such_module'" in done.stdout
    assert "test_it.py::test_skipped: Skipped: no such machine" in done.stdout
    assert "test_it.py::test_expected_failure: known" in done.stdout

    (tmp_path / "test_other.py").unlink()
    done = run_pytest(tmp_path, allow(tmp_path, "test_it.py::test_sk*", "*::test_expected_failure"), "-n", "2")
    assert done.returncode == 0 and "test_it.py::test_skipped: because" in done.stdout
    assert "1 passed, 1 skipped, 1 xfailed" in done.stdout.splitlines()[-1]


def test_a_test_that_hangs_fails_the_run_and_the_others_go_on(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(HANGS)
    limit = [word for line in FAULTHANDLER for word in ("-o", re.sub(r"\d+", "3", line.replace(" ", "")))]
    done = run_pytest(tmp_path, "-n", "1", *limit)
    assert done.returncode == 1, done.stdout
    assert "worker 'gw0' crashed while running 'test_it.py::test_hangs'" in done.stdout
    assert "1 failed, 1 passed" in done.stdout.splitlines()[-1]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    codes = {"lint": 0, "notebooks": 0, "tests": 0}
    for name in ("lint", "notebooks"):
        monkeypatch.setattr(run_tests, name, lambda *given, name=name: codes[name])
    monkeypatch.setattr(run_tests, "tests", lambda *given: print("= 9 passed in 1.00s =") or codes["tests"])
    monkeypatch.setattr(sys, "argv", ["run_tests.py"])
    return codes


@pytest.mark.parametrize("name", ["lint", "notebooks", "tests"])
def test_every_failed_step_fails_the_run(steps: dict[str, int], capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert run_tests.main() == 0
    steps[name] = 1
    assert run_tests.main() == 1
    said = capsys.readouterr()
    assert said.out.endswith("= 9 passed in 1.00s =\n")
    assert said.err == ("" if name == "tests" else f"\nFAILED: {name}\n"), (
        "pytest's summary is the last word if it can be"
    )


WORDS = {
    "lint": ([], None),
    "c05": (["notebooks ['05']", "tests/grading/test_answers.py -k c05."], None),
    "c05.clip": (["tests/grading/test_answers.py -k c05.clip-"], None),
    "tests/debug/test_parity.py::test_x": (["tests/debug/test_parity.py::test_x"], None),
    "tests/no_such.py": (None, "tests/no_such.py is neither a step"),
    "lint c05": (None, "name either steps, or files"),
}


@pytest.mark.parametrize("words", WORDS)
def test_what_is_named_is_run(steps, monkeypatch, capsys, words: str) -> None:
    ran = []
    monkeypatch.setattr(run_tests, "notebooks", lambda chapters, *rest: ran.append(f"notebooks {chapters}") or 0)
    monkeypatch.setattr(
        run_tests,
        "run",
        lambda command, **_: ran.append(" ".join(command).split("pytest_again --durations=5 ")[1]) or 0,
    )
    monkeypatch.setattr(sys, "argv", ["run_tests.py", *words.split()])
    expected, refused = WORDS[words]
    if refused:
        with pytest.raises(SystemExit):
            run_tests.main()
        assert refused in capsys.readouterr().err
    else:
        assert run_tests.main() == 0
        assert [re.sub("-n 3 --dist loadscope --no-loadscope-reorder ", "", each) for each in ran] == expected


@pytest.mark.parametrize("cache, runs", [('{"tests/a.py::b": true}', ["tests"]), ("{}", []), (None, [])])
def test_only_the_steps_that_failed_are_run_again(steps, monkeypatch, tmp_path: Path, capsys, cache, runs) -> None:
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    if cache:
        (tmp_path / ".pytest_cache" / "v" / "cache").mkdir(parents=True)
        (tmp_path / ".pytest_cache" / "v" / "cache" / "lastfailed").write_text(cache)
    monkeypatch.setattr(sys, "argv", ["run_tests.py", "--failed"])
    assert run_tests.main() == 0
    said = capsys.readouterr().out
    assert re.findall("==== (.+)", said) == runs and ("No test failed" in said) == (not runs)


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def test_the_number_of_commits_chooses_the_part(monkeypatch, tmp_path: Path, capsys) -> None:
    monkeypatch.setattr(run_tests, "ROOT", tmp_path / "course")
    (tmp_path / "course").mkdir()
    assert run_tests.part_of_today() == f"0/{run_tests.PARTS}" and "shallow or missing" in capsys.readouterr().out
    git(tmp_path / "course", "init", "-q")
    for number in range(1, 2 + run_tests.PARTS):
        git(tmp_path / "course", "commit", "-q", "--allow-empty", "-m", "x")
        assert (
            run_tests.part_of_today() == f"{number % run_tests.PARTS}/{run_tests.PARTS}"
            and "number of commits" in capsys.readouterr().out
        )
    git(tmp_path, "clone", "-q", "--depth", "2", f"file://{tmp_path}/course", "shallow")
    monkeypatch.setattr(run_tests, "ROOT", tmp_path / "shallow")
    assert run_tests.part_of_today() == f"0/{run_tests.PARTS}" and "shallow or missing" in capsys.readouterr().out


MISSING = {
    "chromium": (lambda: run_tests.get_chromium(), "JupyterLab is not tested in Chromium"),
    "g++-aarch64-linux-gnu qemu-user": (lambda: run_tests.get_aarch64(), "not tested for AArch64"),
    "bubblewrap": (lambda: run_tests.get_bubblewrap(), "not tested with bubblewrap"),
}


@pytest.mark.parametrize("packages", MISSING)
def test_what_is_missing_is_named(monkeypatch, capsys: pytest.CaptureFixture[str], packages: str):
    get, untested = MISSING[packages]
    monkeypatch.setattr(run_tests.sys, "platform", "linux")
    monkeypatch.setattr(run_tests.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(run_tests, "find_chromium", lambda: None)
    monkeypatch.setattr(run_tests.os, "getuid", lambda: 1000)
    monkeypatch.setattr(run_tests.shutil, "which", lambda name: f"/usr/bin/{name}" if name == "apt-get" else None)
    monkeypatch.delenv("CI", raising=False)
    get()
    said = capsys.readouterr().out
    assert untested in said and "you are not root" in said and f"sudo apt-get install {packages}" in said
    monkeypatch.setenv("CI", "true")
    with pytest.raises(run_tests.StepError, match=untested):
        get()
    monkeypatch.setattr(run_tests, "find_chromium", lambda: "/usr/bin/chromium")
    monkeypatch.setattr(run_tests.shutil, "which", lambda name: f"/usr/bin/{name}")
    get()
    assert not capsys.readouterr().out
