"""make bench: it refuses unequal results, says what is not reached, and Ctrl-C keeps what was measured."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import suite, tables
from benchmarks.kernels import __main__ as command
from benchmarks.kernels import harness, peers, processor, report
from benchmarks.kernels.harness import Case, Missing, Peer, Result, Unequal
from tests.support import ROOT


def gives(value: object):
    return lambda threads: lambda: np.asarray(value)


def absent(threads: int):
    raise Missing("it lives on another machine")


def quiet(line: str) -> None:
    pass


@pytest.mark.parametrize(
    ("theirs", "says"),
    [
        ([1.0, 2.5], r"1 of 2 values differ, first at \(1,\): 2.0, 2.5"),
        ([1.0, 2.0, 3.0], r"shapes \(2,\) and \(3,\)"),
        ([1.0, float("nan")], "1 of 2 values differ"),
    ],
)
def test_unequal_results_are_not_measured(theirs: list[float], says: str) -> None:
    case = Case("Op", "two", gives([1.0, 2.0]), (Peer("other", gives(theirs)),))
    results: list[Result] = []
    with pytest.raises(Unequal, match=f"Op: two: ours and other are not equal: {says}"):
        harness.measure([(case, 1)], 0.01, results, quiet)
    assert results == []


def test_all_take_turns_and_a_peer_that_is_missing_is_named() -> None:
    said: list[str] = []
    case = Case("Op", "two", gives([1.0]), (Peer("other", gives([1.0]), 1.0), Peer("rare", absent, 2.0)))
    results: list[Result] = []
    harness.measure([(case, 1)], 0.01, results, said.append)
    (result,) = results
    assert result.rounds >= harness.FEWEST_ROUNDS and set(result.seconds) == {"ours", "other"}
    assert "  rare is not here: it lives on another machine" in said
    assert [row["peer"] for row in report.rows(results)] == ["other"]


def measured(ours: float, theirs: float) -> Result:
    case = Case("Op", "big", gives(0), (Peer("other", gives(0), 3.0), Peer("slow", gives(0))))
    return Result(case, 2, {"ours": [ours] * 5, "other": [theirs] * 4 + [99.0], "slow": [9.0] * 5})


def test_what_is_not_reached_is_named_and_all_rows_are_kept(monkeypatch, tmp_path: Path, capsys) -> None:
    monkeypatch.setattr(report, "bench_dir", lambda: tmp_path)
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    found = report.rows([measured(1, 4), measured(1, 2)])
    assert [row["at least"] for row in found] == ["3", "", "3", ""]
    assert report.publish(found, ["a processor"], docs=False) is True
    said = capsys.readouterr().out
    assert said.count("not reached: ") == 1 and "not reached: Op: big, threads: 2: 2.00 times other, not 3" in said
    assert report.read(tmp_path / "kernels.csv") == (["a processor"], found)
    assert report.medians(found)[0] == ("Op", "other", "", "3.00 (2.00 – 4.00)", "3", "1 of 2")
    assert report.publish(report.rows([measured(1, 2)], judged=False), [], docs=False) is False


def test_the_page_s_tables_are_those_of_the_committed_results() -> None:
    page = tables.PAGE.read_text(encoding="utf-8")
    assert tables.between(page, "medians", report.page(tables.RESULTS)) == page
    for name in suite.PARTS:
        tables.between(page, name, "")
    with pytest.raises(ValueError, match="there is no"):
        tables.between("a", "medians", "new")


def bench(*arguments: str, **options) -> subprocess.Popen:
    program = [sys.executable, "-m", "benchmarks.kernels", *arguments]
    return subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


@pytest.mark.nightly
def test_each_case_runs_at_a_tiny_size_and_is_equal() -> None:
    # pip must not be asked: a peer that would have to be fetched is missing then
    running = bench("--quick", "--seconds", "0.001", env={**os.environ, "PIP_NO_INDEX": "1"})
    out, err = running.communicate(timeout=600)
    assert running.returncode == 0, err[-3000:]
    assert "All results are equal." in out
    _, found = report.read(peers.bench_dir() / "kernels.csv")
    assert len({row["kernel"] for row in found}) == len(command.modules())
    deform = [row for row in found if row["kernel"] == "DeformConv2d"]
    assert {row["set"] for row in deform} == set(processor.sets())  # of the product alone each set has a case


@pytest.mark.nightly
def test_ctrl_c_keeps_what_was_measured() -> None:
    running = bench("--quick", "--seconds", "2", "--only", "KNN")
    for line in running.stderr:
        if line.startswith("[2/"):  # the first case is measured, the second is not
            break
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=300)
    assert running.returncode == 130, err[-3000:]
    assert "Interrupted." in err and "scipy cKDTree" in out
