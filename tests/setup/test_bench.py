"""make bench: it refuses unequal results, says what is not reached, and Ctrl-C keeps what was measured."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from setup_engine import clock

from benchmarks import document, suite
from benchmarks.kernels import __main__ as command
from benchmarks.kernels import harness, limits, peers, pictures, processor, report
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
    assert result.reached(case.peers[1]) is None
    assert report.rows(results)[1][-2:] == ("2", "not here")


@pytest.mark.parametrize(
    "spins, rests", [(0.0, 0.02), (0.05, 0.08), (9.0, 0.5)], ids=["idle", "spins for 50 ms", "never idle"]
)
def test_a_turn_begins_when_the_process_is_idle(monkeypatch, spins: float, rests: float) -> None:
    """With a clock that the test sets. The processor's time grows in ticks of 4 ms, as it does here for a thread that goes on running."""
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(harness.time, "perf_counter", lambda: now.seconds)
    monkeypatch.setattr(harness.time, "process_time", lambda: min(now.seconds, spins) // 0.004 * 0.004)
    monkeypatch.setattr(harness.time, "sleep", lambda seconds: setattr(now, "seconds", now.seconds + seconds))
    harness.rest()
    assert now.seconds == pytest.approx(rests)


def measured(ours: float, theirs: float) -> Result:
    case = Case(
        "Op", "big", gives(0), (Peer("other", gives(0), 3.0), Peer("naive", gives(0), rung=True)), flops=1, bytes=1
    )
    return Result(case, 2, {"ours": [ours] * 5, "other": [theirs] * 4 + [9.0], "naive": [9.0] * 5})


def test_the_table_says_what_is_reached_and_what_is_not() -> None:
    row = ("Op", "big", "2", processor.BASELINE, "other", "1e+03", "4e+03", "4.00", "4.00 – 4.00", "3")
    assert report.rows([measured(1, 4)]) == [(*row, "reached")]
    (missed,) = report.rows([measured(1, 2)])
    assert missed[-1] == "not reached"
    assert f"| Op | big | 2 | {processor.BASELINE} | other |" in document.markdown([missed], report.HEAD)
    kept = json.loads(report.to_json([measured(1, 2)], {}, {}))["cases"][0]
    assert kept["peers"][0] == {"name": "other", "at_least": 3.0, "ratio": [2.0, 2.0, 2.0], "reached": False}


def test_the_summary_has_a_row_for_each_peer_and_number_of_threads() -> None:
    table = report.rows([measured(1, 4), measured(1, 2), measured(1, 6)])
    assert report.summary(table) == [("Op", "other", "2", "4.00", "2.00 – 6.00", "3", "2 of 3")]
    assert report.summary(report.rows([measured(1, 4)], judged=False)) == [("Op", "other", "2", "4.00", "", "", "")]


def of_sets(result: Result, best: bool, simd: str = "avx2") -> Result:
    case = dataclasses.replace(result.case, has_sets=True)
    return dataclasses.replace(result, case=case, simd=simd, best=best)


def test_a_ratio_is_judged_for_the_best_set_alone() -> None:
    result = measured(1, 4)
    (peer, _), plain = result.case.peers, Peer("other", gives(0), 3.0, plain=5.0)
    assert of_sets(result, best=True).reached(peer) is True
    assert of_sets(result, best=False).reached(peer) is None  # the peer uses more than ours
    assert of_sets(result, best=True, simd="plain").reached(peer) is None
    assert of_sets(result, best=True, simd="plain").reached(plain) is False
    assert result.reached(plain) is True  # a kernel without sets: the oldest one is all that it has


def reads_the_set(values: dict[str, float]):
    def make(threads: int):
        value = values[os.environ["OPLAB_SIMD"]]
        return lambda: np.asarray([value])

    return make


def test_each_set_is_measured_in_the_same_rounds(monkeypatch) -> None:
    monkeypatch.setenv("OPLAB_SIMD", "mine")
    case = Case("Op", "one", reads_the_set({"wide": 1.0, "narrow": 1.0}), (Peer("other", gives([1.0])),), has_sets=True)
    results: list[Result] = []
    harness.measure([(case, 1)], 0.01, results, quiet, ("wide", "narrow"))
    assert list(results[0].seconds) == ["ours", "ours, narrow", "other"] and results[0].simd == "wide"
    assert os.environ["OPLAB_SIMD"] == "mine"
    (row,), head = report.by_set(results)
    assert head[-2:] == ("wide, ms", "narrow, ms") and all("×)" in word for word in row[-2:])


def test_sets_that_do_not_agree_are_not_measured() -> None:
    case = Case("Op", "one", reads_the_set({"wide": 1.0, "narrow": 2.0}), has_sets=True)
    with pytest.raises(Unequal, match="Op: one: wide and narrow are not equal"):
        harness.measure([(case, 1)], 0.01, [], quiet, ("wide", "narrow"))


def test_a_peak_that_is_not_what_theory_says_has_a_sentence() -> None:
    peak = limits.Peak("avx2", 1, flops=90e9, cycles=3e9, starts=2, known=True)
    assert peak.theoretical == 96e9 and peak.remark() is None
    assert report.limit_rows([peak]) == [("avx2", "1", "3.00", "2 of 8 floats", "96.0", "90.0", "0.94")]
    slow = dataclasses.replace(peak, flops=15e9, known=False)
    assert slow.remark().startswith("avx2, 1 thread: measured is 0.16 of theory: the machine is busy")
    assert report.limit_rows([slow])[0][3] == "2 of 8 floats (what fits best)"
    assert "starts more than 2" in dataclasses.replace(peak, flops=190e9).remark()


@pytest.mark.nightly
def test_an_older_processor_for_all_libraries() -> None:
    code = (
        "from benchmarks.kernels import cpuid\ncpuid.hide('plain')\nfrom benchmarks.kernels import processor\nimport torch\n"
        "print(processor.sets(), torch.backends.cpu.get_cpu_capability())"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300)
    cpuinfo = Path("/proc/cpuinfo")  # only Linux has it
    if cpuinfo.is_file() and "cpuid_fault" in cpuinfo.read_text():
        assert done.stdout.strip() == "('plain',) DEFAULT", done.stderr[-2000:]
    else:
        assert done.returncode and "CPUID cannot be intercepted" in done.stderr


def test_the_document_s_tables_are_written_between_their_marks() -> None:
    first, last = (mark.format(name="ratios") for mark in document.MARKS)
    assert document.replace(f"a\n{first}\nold\n{last}\nb", "ratios", "new") == f"a\n{first}\nnew\n{last}\nb"
    with pytest.raises(ValueError, match="there is no"):
        document.replace("a", "ratios", "new")
    page = document.DOCUMENT.read_text(encoding="utf-8")
    masked = [f"as {simd}" for simd in command.MASKED]
    for name in ("limits", "ratios", "sets", "worst cases", *masked, *suite.TABLES):
        document.replace(page, name, "")


def test_a_ladder_and_a_roofline_are_drawn(tmp_path: Path) -> None:
    made = pictures.draw([measured(1, 4)], {"bandwidth": 1e10, "flops": 1e11}, 2, tmp_path)
    assert [path.name for path in made] == ["ladder.png", "roofline.png"]


@pytest.mark.nightly
def test_a_wheel_that_cannot_be_had_is_one_line(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setattr(peers, "bench_dir", lambda: tmp_path)
    monkeypatch.setattr(peers, "MMDEPLOY", "oplab-no-such-wheel==0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    peers.mmdeploy_library.cache_clear()
    with pytest.raises(Missing, match="pip cannot download oplab-no-such-wheel==0 here") as caught:
        peers.mmdeploy_library()
    assert "\n" not in str(caught.value) and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--threads", "0"], "--threads must be at least 1"),
        (["--seconds", "nan"], "--seconds must be a number"),
        (["--docs", "--quick"], "--docs is for a whole run"),
        (["--docs", "--simd", "avx2"], "--docs is for a whole run"),
        (["--simd", "avx2,sse9"], "'sse9' is not a set of instructions; they are avx512, avx2, neon, plain"),
        (["--as", "avx512"], "invalid choice: 'avx512'"),
    ],
)
def test_a_wrong_call_is_refused(arguments: list[str], says: str, capsys) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(arguments)
    assert caught.value.code == 2 and says in capsys.readouterr().err


def bench(*arguments: str, **options) -> subprocess.Popen:
    program = [sys.executable, "-m", "benchmarks.kernels", *arguments]
    return subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


@pytest.mark.nightly
def test_each_case_runs_at_a_tiny_size_and_is_equal(tmp_path: Path) -> None:
    # pip must not be asked: a peer that would have to be fetched is missing then
    env = {**os.environ, "PIP_NO_INDEX": "1"}
    running = bench("--quick", "--seconds", "0.001", "--json", str(tmp_path / "all.json"), env=env)
    out, err = running.communicate(timeout=600)
    assert running.returncode == 0, err[-3000:]
    assert "All results are equal." in out
    found = json.loads((tmp_path / "all.json").read_text())
    kernels = {case["kernel"] for case in found["cases"]}
    assert {"KNNQuery", "DynamicResize"} <= kernels and len(kernels) == len(command.modules())
    assert all(len(values) >= harness.FEWEST_ROUNDS for case in found["cases"] for values in case["seconds"].values())
    assert set(found["limits"]) == {"bandwidth", "flops", "peaks"}
    sets = found["machine"]["sets"]
    assert [(peak["simd"], peak["threads"]) for peak in found["limits"]["peaks"]] == [
        (s, t) for s in sets for t in (1, 2)
    ]
    deform = [case for case in found["cases"] if case["kernel"] == "DeformConv2d"]
    assert {case["set"] for case in deform} == set(sets)  # of the product alone each set has a case
    assert [case["other_sets"] for case in deform if case["set"] == sets[0]][0] == sets[1:]


@pytest.mark.nightly
def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    file = tmp_path / "some.json"
    running = bench("--quick", "--seconds", "2", "--only", "KNN", "--json", str(file))
    for line in running.stderr:
        if line.startswith("[2/"):  # the first case is measured, the second is not
            break
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=300)
    assert running.returncode == 130, err[-3000:]
    assert "Interrupted." in err
    assert 1 <= len(json.loads(file.read_text())["cases"]) <= 2 and "scipy cKDTree" in out


@pytest.mark.nightly
def test_a_set_that_the_processor_lacks() -> None:
    lacking = "avx2" if platform.machine() == "aarch64" else "neon"
    running = bench("--quick", "--simd", lacking)
    out, err = running.communicate(timeout=300)
    assert running.returncode == 2 and f"This processor cannot run {lacking}; it runs " in err


def test_the_longest_come_first_and_the_rest_is_one_row() -> None:
    table = suite.longest({"a": 1.0, "b": 6.0, "c": 2.0, "d": 1.0}, ("what", "seconds"), most=2)
    assert table.splitlines()[2:] == [
        "| b | 6.00 | 60% |",
        "| c | 2.00 | 20% |",
        "| 2 more | 2.00 | 20% |",
        "| together | 10.00 |  |",
    ]


def test_the_steps_of_a_set_up_are_read_as_it_says_them() -> None:
    said = "".join(
        f"[{number}/2] {name}: done in {clock(took)}\n" for number, name, took in [(1, "A b", 96), (2, "C", 4)]
    )
    steps = suite.STEP.findall(f"[1/2] A b ...\n{said}")
    assert steps == [("A b", "1", "36"), ("C", "", "4.0")]
