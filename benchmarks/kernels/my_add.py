"""MyAdd next to ONNX Runtime's graph of three nodes, torch.add, and the triad of STREAM, which only moves memory.

On both sides the results lie in memory that is used again from call to call: no fresh page is touched while it is measured.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import torch
from onnx import helper

from .deform_conv2d import with_constants
from .harness import Case, Peer, Run, close
from .limits import triad
from .runners import bound, model, one_node

KERNEL = "MyAdd"


def case(n: int, *, targets: bool = False, threads: bool = False) -> Case:
    @functools.cache
    def feed() -> dict[str, np.ndarray]:
        random = np.random.default_rng(n)
        return {name: random.standard_normal(n, np.float32) for name in "ab"}

    def ours(threads: int) -> Run:
        return bound(one_node(KERNEL, feed(), {"y": np.float32}), feed(), threads)

    def three_nodes(threads: int) -> Run:
        nodes = [
            helper.make_node("Mul", ["a", "alpha"], ["p"]),
            helper.make_node("Mul", ["b", "beta"], ["q"]),
            helper.make_node("Add", ["p", "q"], ["y"]),
        ]
        factors = {"alpha": np.array(3, np.float32), "beta": np.array(2, np.float32)}
        made = model(nodes, feed() | factors, {"y": np.float32})
        return bound(with_constants(made, factors), feed(), threads)

    def in_torch(threads: int) -> Run:
        a, b = (torch.from_numpy(value) for value in feed().values())
        y = torch.empty_like(a)  # one multiplication less than ours: a + 2b
        return lambda: torch.add(a, b, alpha=2, out=y)

    def check_torch(_: Sequence[np.ndarray], theirs: Sequence[np.ndarray]) -> None:
        close()([feed()["a"] + 2 * feed()["b"]], theirs)

    def stream(threads: int) -> Run:
        return triad(feed()["a"], feed()["b"], 2.0, threads)

    return Case(
        KERNEL,
        f"{n:,} floats",
        ours,
        (
            Peer("ORT Mul, Mul, Add", three_nodes, 2.3 if targets else None),
            Peer("torch.add(a, b, alpha=2)", in_torch, None, check_torch),
            Peer("STREAM triad", stream, 0.9 if targets else None, check_torch),
        ),
        threads=threads,
    )


def cases(quick: bool) -> list[Case]:
    if quick:
        return [case(1000), case(40_000, threads=True)]
    most = 1 << 24
    return [case(n) for n in (1000, 1 << 17, 1 << 20, 1 << 22)] + [case(most, targets=True, threads=True)]
