"""Results as the rows of a table, and as JSON."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from pathlib import Path

from .harness import Peer, Result

HEAD = ("kernel", "size", "peer", "ours, ms", "peer, ms", "ratio", "quartiles", "at least", "")


def rows(results: Sequence[Result], threads: int, judged: bool = True) -> list[tuple[str, ...]]:
    """A row for each peer, as many words as HEAD has. Rungs, and measurements with other numbers of threads, are in pictures."""
    found = []
    for result in results:
        if result.threads != threads:
            continue
        case = result.case
        for peer in case.peers:
            if not peer.rung:
                found.append((case.kernel, case.size, peer.name, *_numbers(result, peer, judged)))
    return found


def alone(results: Sequence[Result], threads: int) -> list[tuple[str, ...]]:
    """(kernel, size, milliseconds) of the cases without a peer."""
    return [
        (each.case.kernel, each.case.size, f"{1e3 * each.median():.3g}")
        for each in results
        if each.threads == threads and not each.case.peers
    ]


def _numbers(result: Result, peer: Peer, judged: bool) -> tuple[str, ...]:
    least = f"{peer.target:g}" if peer.target is not None and judged else ""
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
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "load": [round(value, 2) for value in os.getloadavg()],
        "python": platform.python_version(),
        **{name: module.__version__ for name, module in names.items()},
    }


def to_json(results: Sequence[Result], limits: dict[str, float], about: dict[str, object]) -> str:
    """All that was measured, each round of each contestant in seconds."""
    found = [
        {
            "kernel": each.case.kernel,
            "size": each.case.size,
            "threads": each.threads,
            "seconds": {name: values[: each.rounds] for name, values in each.seconds.items()},
            "missing": each.missing,
            "peers": [
                {
                    "name": peer.name,
                    "at_least": peer.target,
                    "ratio": each.ratios(peer.name) if peer.name in each.seconds else None,
                    "reached": each.reached(peer),
                }
                for peer in each.case.peers
            ],
        }
        for each in results
    ]
    return (
        json.dumps({"version": 1, "machine": about, "limits": limits, "cases": found}, indent=1, ensure_ascii=False)
        + "\n"
    )
