"""``make test`` itself: a skip that is not allowed fails, a failed step fails the run, the last line is pytest's."""

from __future__ import annotations

import os
import re
import signal
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


LAST_WORDS = """
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    print("ready", flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    time.sleep(1)  # longer than subprocess.run would wait
    print("= 1 passed in 9s =")
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


@pytest.mark.parametrize(
    "cache, runs", [('{"tests/a.py::b": true}', ["tests"]), ("{}", []), ("broken", []), (None, [])]
)
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
    assert run_tests.part_of_today() == "0/8" and "shallow or missing" in capsys.readouterr().out
    git(tmp_path / "course", "init", "-q")
    for number in range(1, 10):
        git(tmp_path / "course", "commit", "-q", "--allow-empty", "-m", "x")
        assert run_tests.part_of_today() == f"{number % 8}/8" and "number of commits" in capsys.readouterr().out
    git(tmp_path, "clone", "-q", "--depth", "2", f"file://{tmp_path}/course", "shallow")
    monkeypatch.setattr(run_tests, "ROOT", tmp_path / "shallow")
    assert run_tests.part_of_today() == "0/8" and "shallow or missing" in capsys.readouterr().out


@pytest.mark.nightly
def test_the_parts_are_all_of_the_wrong_answers() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "tests/grading/test_answers.py"]

    def wrong(**variables: str) -> list[str]:
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, **variables}, capture_output=True, text=True)
        return sorted(line for line in done.stdout.splitlines() if "-mutant_" in line)

    parts = [wrong(OPLAB_PART=f"{part}/2") for part in range(2)]
    assert all(parts) and sorted(parts[0] + parts[1]) == wrong(OPLAB_PART="0/1")


SEEDED = """\
import random

def test_draws(seed):
    assert random.Random(seed).random() < 0, seed
"""


def test_a_failed_run_ends_with_the_command_that_repeats_it(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SEEDED)
    (tmp_path / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())

    def seeds(value: str) -> list[str]:
        env = {
            "PYTHONPATH": f"{TOOLS}:{ROOT}",
            "PATH": "/usr/bin:/bin",
            "OPLAB_SEED": value,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        }
        command = [sys.executable, "-m", "pytest", "-p", "pytest_again", "-p", "no:cacheprovider", "test_it.py"]
        done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True)
        assert f"OPLAB_SEED={value} make test TEST_ARGS=--failed" in done.stdout.splitlines()
        return re.findall(r"AssertionError: (\d+)", done.stdout)

    assert seeds("5") == seeds("5") != seeds("6")


def test_ctrl_c_leaves_pytest_its_last_words() -> None:
    code = f"""
import run_tests, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
run_tests.lint = lambda: run_tests.run([sys.executable, "-c", {LAST_WORDS!r}])
sys.argv = ["run_tests.py", "lint"]
sys.exit(run_tests.main())
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=TOOLS, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    for line in process.stdout:
        if line == "ready\n":
            break
    os.killpg(process.pid, signal.SIGINT)
    assert "= 1 passed in 9s =" in process.communicate(timeout=300)[0] and process.returncode == 130


def test_chapters_without_a_notebook_are_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "notebooks").mkdir()
    (tmp_path / "course.toml").write_text((run_tests.ROOT / "course.toml").read_text())
    monkeypatch.setattr(run_tests, "ROOT", tmp_path)
    with pytest.raises(run_tests.StepError, match="chapters without a notebook: 00_first_round_trip"):
        run_tests.notebooks()


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
