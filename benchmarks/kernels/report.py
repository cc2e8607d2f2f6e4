"""Results as the rows of a table, and as JSON."""

from __future__ import annotations

import json
import platform
import statistics
from collections.abc import Sequence

from .harness import Peer, Result
from .limits import Peak
from .processor import BASELINE, describe

HEAD = ("kernel", "size", "threads", "set", "peer", "ours, ms", "peer, ms", "ratio", "quartiles", "at least", "")
SUMMARY_HEAD = ("kernel", "peer", "threads", "median", "all sizes", "at least", "reached")
ALONE_HEAD = ("kernel", "size", "threads", "set", "ms")
LIMITS_HEAD = (
    "set",
    "threads",
    "clock, GHz",
    "multiply-adds in a cycle",
    "theory, GFLOP/s",
    "measured, GFLOP/s",
    "ratio",
)


def rows(results: Sequence[Result], judged: bool = True) -> list[tuple[str, ...]]:
    """A row for each peer, as many words as HEAD has. Rungs are in a picture."""
    return [
        (*_words(result), peer.name, *_numbers(result, peer, judged))
        for result in results
        for peer in result.case.peers
        if not peer.rung
    ]


def summary(table: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """A row for each kernel, peer and number of threads, as many words as SUMMARY_HEAD has, from what :func:`rows` returns."""
    groups: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for words in table:
        row = dict(zip(HEAD, words, strict=True))
        if row["ratio"]:
            groups.setdefault((row["kernel"], row["peer"], row["threads"]), []).append(row)
    found = []
    for words, group in groups.items():
        ratios = [float(row["ratio"]) for row in group]
        verdicts = [row[""] for row in group if row[""]]
        found.append(
            (
                *words,
                f"{statistics.median(ratios):.2f}",
                f"{min(ratios):.2f} – {max(ratios):.2f}" if len(ratios) > 1 else "",
                ", ".join(sorted({row["at least"] for row in group if row["at least"]}, key=float)),
                f"{verdicts.count('reached')} of {len(verdicts)}" if verdicts else "",
            )
        )
    return found


def alone(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """Rows for ALONE_HEAD of the cases without a peer."""
    return [(*_words(each), f"{1e3 * each.median():.3g}") for each in results if not each.case.peers]


def by_set(results: Sequence[Result]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """Rows and their head: each case's milliseconds with every set, and how many times as long its first peer takes."""
    shown = [each for each in results if each.lesser]
    found = []
    for result in shown:
        first = next((peer.name for peer in result.case.peers if peer.name in result.seconds), None)
        words = [result.case.kernel, result.case.size, str(result.threads)]
        words += [first, f"{1e3 * result.median(first):.3g}"] if first else ["", ""]
        for name in ("ours", *(f"ours, {simd}" for simd in result.lesser)):
            words.append(
                f"{1e3 * result.median(name):.3g}" + (f" ({result.ratios(first, name)[1]:.2f}×)" if first else "")
            )
        found.append(tuple(words))
    sets = (shown[0].simd, *shown[0].lesser) if shown else ()
    return found, ("kernel", "size", "threads", "peer", "peer, ms", *(f"{simd}, ms" for simd in sets))


def limit_rows(peaks: Sequence[Peak]) -> list[tuple[str, ...]]:
    """Rows for LIMITS_HEAD."""
    return [
        (
            each.simd,
            str(each.threads),
            f"{each.cycles / each.threads / 1e9:.2f}",
            f"{each.starts:g} of {each.lanes} floats" + ("" if each.known else " (what fits best)"),
            f"{each.theoretical / 1e9:.1f}",
            f"{each.flops / 1e9:.1f}",
            f"{each.ratio:.2f}",
        )
        for each in peaks
    ]


def _words(result: Result) -> tuple[str, ...]:
    return result.case.kernel, result.case.size, str(result.threads), result.simd or BASELINE


def _numbers(result: Result, peer: Peer, judged: bool) -> tuple[str, ...]:
    target = result.target(peer)
    least = f"{target:.3g}" if target is not None and judged else ""
    ours = f"{1e3 * result.median():.3g}"
    if peer.name not in result.seconds:
        return ours, "", "", "", least, "not here"
    low, middle, high = result.ratios(peer.name)
    verdict = {None: "", True: "reached", False: "not reached"}[result.reached(peer) if judged else None]
    return (
        ours,
        f"{1e3 * result.median(peer.name):.3g}",
        f"{middle:.2f}",
        f"{low:.2f} – {high:.2f}",
        least,
        verdict,
    )


def machine() -> dict[str, object]:
    """What the figures depend on."""
    import os

    import onnxruntime
    import torch
    import torchvision

    names = {"torch": torch, "torchvision": torchvision, "onnxruntime": onnxruntime}
    return {
        "processor": describe(),
        "cores": os.cpu_count(),
        "load": [round(value, 2) for value in os.getloadavg()],
        "python": platform.python_version(),
        **{name: module.__version__ for name, module in names.items()},
    }


def caption(about: dict[str, object]) -> str:
    """One line for each table: what its figures depend on."""
    sets = ", ".join(about["sets"])
    masked = (
        f" (as one whose best set is {about['as']}: the others are hidden from all libraries)"
        if about.get("as")
        else ""
    )
    versions = ", ".join(f"{name} {about[name]}" for name in ("torch", "torchvision", "onnxruntime"))
    return f"{about['processor']}{masked}; {about['cores']} processors; measured sets: {sets}; {versions}."


def to_json(results: Sequence[Result], limits: dict[str, object], about: dict[str, object]) -> str:
    """All that was measured, each round of each contestant in seconds."""
    found = [
        {
            "kernel": each.case.kernel,
            "size": each.case.size,
            "threads": each.threads,
            "set": each.simd or BASELINE,
            "other_sets": each.lesser,
            "seconds": {name: values[: each.rounds] for name, values in each.seconds.items()},
            "missing": each.missing,
            "peers": [
                {
                    "name": peer.name,
                    "at_least": each.target(peer),
                    "ratio": each.ratios(peer.name) if peer.name in each.seconds else None,
                    "reached": each.reached(peer),
                }
                for peer in each.case.peers
            ],
        }
        for each in results
    ]
    return (
        json.dumps({"version": 2, "machine": about, "limits": limits, "cases": found}, indent=1, ensure_ascii=False)
        + "\n"
    )
