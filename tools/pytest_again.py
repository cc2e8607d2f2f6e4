"""A pytest plugin: a run that failed ends with the command that repeats the failed tests, on the same inputs."""

from __future__ import annotations

import os

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if terminalreporter.stats.get("failed") or terminalreporter.stats.get("error"):
        seed = os.environ.get("OPLAB_SEED")
        terminalreporter.section("only the failed tests, again")
        terminalreporter.line(f"{f'OPLAB_SEED={seed} ' if seed else ''}make test TEST_ARGS=--failed")
