"""``make executorch``. Nothing is installed here: that takes minutes. Where it has been run, its steps run again."""

from __future__ import annotations

import sys
import tomllib

import pytest
import run_executorch
import setup_packages as packages

from tests.support import ROOT

EXTRA = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["executorch"]


def test_the_pins_are_exact_and_not_in_the_lock():
    lock = {name for name, _, _ in packages.parse_lock((ROOT / "requirements.lock").read_text())}
    for requirement in EXTRA:
        name, _, version = requirement.partition("==")
        assert version and packages.normalize(name) not in lock


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
