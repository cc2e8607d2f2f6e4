"""A pytest plugin: a skip or an expected failure that ``tests/allowed_skips.toml`` does not list fails the run.

A test that is skipped by accident (a browser that is missing, a package that does not import) proves nothing and is
easily overlooked. nbval marks all cells after a timeout as expected failures; those are caught here too.
"""

from __future__ import annotations

import fnmatch
import tomllib
from pathlib import Path

import pytest

LIST = Path(__file__).resolve().parent.parent / "tests" / "allowed_skips.toml"


def read_list(path: Path) -> list[tuple[str, str]]:
    """(glob over test ids, reason) of each allowed skip; ValueError when a reason is missing."""
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("skip", [])
    for entry in entries:
        if not entry.get("test") or not entry.get("reason"):
            raise ValueError(f"{path}: each [[skip]] needs `test` and `reason`, not {entry}")
    return [(entry["test"], entry["reason"]) for entry in entries]


class NoSilentSkips:
    """Collects skips on the process that reports (with xdist: the controller) and judges them at the end."""

    def __init__(self, allowed: list[tuple[str, str]]):
        self.allowed = allowed
        self.listed: dict[str, str] = {}
        self.unexpected: dict[str, str] = {}

    def _note(self, nodeid: str, why: object) -> None:
        for pattern, reason in self.allowed:
            if fnmatch.fnmatchcase(nodeid, pattern):
                self.listed[nodeid] = reason
                return
        self.unexpected[nodeid] = str(why[2] if isinstance(why, tuple) and len(why) == 3 else why)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped:
            self._note(report.nodeid, getattr(report, "wasxfail", None) or report.longrepr)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._note(report.nodeid, report.longrepr)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.unexpected and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.listed:
            terminalreporter.section("allowed skips (tests/allowed_skips.toml)")
            for nodeid, reason in sorted(self.listed.items()):
                terminalreporter.line(f"{nodeid}: {reason}")
        if self.unexpected:
            terminalreporter.section("UNEXPECTED SKIPS: the run fails", red=True)
            for nodeid, why in sorted(self.unexpected.items()):
                terminalreporter.line(f"{nodeid}: {why}")
            terminalreporter.line("Run what is missing, or list the test with its reason in tests/allowed_skips.toml.")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--allowed-skips", type=Path, default=LIST, help="the list of tests that may be skipped")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # not in an xdist worker
        try:
            allowed = read_list(config.getoption("--allowed-skips"))
        except (OSError, ValueError) as error:
            raise pytest.UsageError(f"the list of allowed skips cannot be read: {error}") from None
        config.pluginmanager.register(NoSilentSkips(allowed), "no-silent-skips")
