"""``make executorch``. Nothing is installed here: that takes minutes. Where it has been run, its steps run again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib

import pytest
import run_executorch
import setup_packages as packages

from oplab.errors import OplabError
from oplab.toolchain.compiler import Outcome
from tests.support import ROOT, environment

EXTRA = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["executorch"]


@pytest.fixture
def elsewhere(monkeypatch, tmp_path):
    """An empty folder in place of ``build``."""
    monkeypatch.setattr(run_executorch.paths, "build_dir", lambda: tmp_path)
    return tmp_path


def test_the_pins_are_what_pip_gets(monkeypatch, elsewhere):
    asked = []
    monkeypatch.setattr(
        run_executorch.extras, "run", lambda command, **_: asked.append(command) or Outcome(1, "ERROR: no\n")
    )
    with pytest.raises(OplabError, match="(?s)ExecuTorch could not be installed: .*ERROR: no$"):
        try:
            run_executorch.install(lambda line: None)
        except OplabError as error:
            raise OplabError(error.message) from None
    assert EXTRA[0].startswith("executorch==") and asked[0][-len(EXTRA) :] == EXTRA and "--no-deps" in asked[0]


def test_the_pins_are_exact_and_not_in_the_lock():
    lock = {name for name, _, _ in packages.parse_lock((ROOT / "requirements.lock").read_text())}
    for requirement in EXTRA:
        name, _, version = requirement.partition("==")
        assert version and packages.normalize(name) not in lock


@pytest.mark.nightly
def test_without_a_wheel(monkeypatch, elsewhere):
    """pip itself, with an empty folder in place of an index."""
    for name, value in {
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(elsewhere),
        "PIP_CONFIG_FILE": os.devnull,
    }.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(
        OplabError, match=r"no wheel of executorch==\S+ for Python 3\.\S+ on .*, or the index cannot be"
    ):
        run_executorch.install(lambda line: None)
    assert not list((elsewhere / "executorch").iterdir())


@pytest.mark.parametrize(
    ("log", "sentence"),
    [
        (
            "ERROR: Could not find a version that satisfies the requirement executorch==1.5.1 (from versions: 0.1.0)\n"
            "ERROR: No matching distribution found for executorch==1.5.1\n",
            r"no wheel of executorch==1\.5\.1 for Python 3\.\S+ on \w+ \w+\.$",
        ),
        ("WARNING: Retrying after connection broken by 'NewConnectionError'\n", "the package index cannot be reached"),
        ("ERROR: [Errno 28] No space left on device\n", "the disk is full"),
        ("", "pip failed"),
    ],
    ids=["wheel", "network", "disk", "nothing"],
)
def test_why_it_could_not_be_installed(log, sentence):
    with pytest.raises(OplabError, match=sentence):
        raise OplabError(run_executorch.extras.not_installed("ExecuTorch", "80 MB", log).message)


def test_without_a_compiler_nothing_is_fetched(monkeypatch, elsewhere, capsys):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert run_executorch.main() == 2
    output = capsys.readouterr()
    assert output.out == "" and "CXX is set to 'no-such-compiler'" in output.err
    assert not list(elsewhere.iterdir())


@pytest.mark.nightly
def test_ctrl_c(tmp_path):
    """While pip installs: nothing is left but the lock, and the exit status is the shell's for Ctrl-C."""
    code = """if True:
        import sys, pathlib, run_executorch
        from oplab.toolchain.compiler import run
        run_executorch.paths.build_dir = lambda: pathlib.Path(sys.argv[1])
        run_executorch.extras.run = lambda *a, **k: print("started", flush=True) or run(["sleep", "60"], timeout=99)
        sys.exit(run_executorch.main())
    """
    process = subprocess.Popen(
        [sys.executable, "-c", code, tmp_path],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert "Installing ExecuTorch (executorch==" in process.stdout.readline()
    assert process.stdout.readline() == "started\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (process.returncode, errors.strip()) == (130, "Interrupted. Run the same command again to resume.")
    assert [file.name for file in (tmp_path / "executorch").iterdir()] == [".lock"]


def program(monkeypatch, tmp_path, code: str) -> None:
    """Python code in place of the steps, run by this Python."""
    file = tmp_path / "steps.py"
    file.write_text(code)
    monkeypatch.setattr(run_executorch, "STEPS", file)
    monkeypatch.setattr(run_executorch, "python", lambda: sys.executable)


def test_a_crash_is_reported_with_the_case_that_caused_it(monkeypatch, tmp_path):
    code = """if True:
        import os, sys
        if len(sys.argv) > 3:
            print('result {"begins": "one input too few"}', flush=True)
            os.abort()
        print('[method.cpp:822] Missing operator: [0] lab::my_add.out')
        print('result {"case": "small", "error": "Failed to load method forward, error: 0x:14"}')
    """
    program(monkeypatch, tmp_path, code)
    said: list[str] = []
    wrong = run_executorch.compare(said.append)
    assert "    on stderr: Missing operator: [0] lab::my_add.out" in said
    assert "  one input too few: the process was ended by SIGABRT" in said
    assert wrong == ["one input too few: not refused", "with the kernel: was ended by SIGABRT"]


def test_what_is_not_refused_and_wrong_numbers_are_noticed(monkeypatch, tmp_path):
    code = """if True:
        case = '{"case": "small", "shape": [1], "alpha": 1, "beta": 1, "dtype": "float32", "equal": false, "close": false}'
        print("result", case)
        print('result {"begins": "one input too few"}')
        print('result {"refused": "one input too few", "error": ""}')
    """
    program(monkeypatch, tmp_path, code)
    assert run_executorch.compare(lambda line: None) == [
        "without the kernel: no error",
        "small: not PyTorch's numbers",
        "one input too few: not refused",
    ]


@pytest.mark.nightly
def test_the_whole(capsys):
    if not (run_executorch.programs() / "exported.json").is_file():
        pytest.skip("needs ExecuTorch, which `make executorch` installs in about 2 minutes")
    assert run_executorch.main() == 0
    output = capsys.readouterr()
    assert output.err == "" and "Installing" not in output.out
    for line in (
        "Failed to load method forward, error: 0x:14 (OperatorMissing)",
        "on stderr: Missing operator: [0] lab::my_add.out",
        "one input too few: method->set_inputs() for method 'forward' failed with error 0x12 (InvalidArgument)",
        "on stderr: a and b must have the same shape, but a is [2, 3] and b is [1, 3].",
    ):
        assert line in output.out
