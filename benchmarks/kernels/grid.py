"""Grid next to the same numbers computed by standard operators of ONNX, in ONNX Runtime."""

from __future__ import annotations

import functools

import numpy as np
from onnx import NodeProto, helper

from .deform_conv2d import with_constants
from .harness import Case, Peer, Run, close
from .runners import bound, model, one_node

KERNEL = "Grid"


def standard(d: int, bounds: bool) -> tuple[list[NodeProto], dict[str, np.ndarray]]:
    """The nodes that number the voxels of d coordinates, and their constants."""
    node = helper.make_node
    nodes = []
    if not bounds:
        nodes += [node("ReduceMin", ["pos", "first"], ["start"], keepdims=0)]
        nodes += [node("ReduceMax", ["pos", "first"], ["end"], keepdims=0)]
    nodes += [
        node("Sub", ["pos", "start"], ["from_start"]),
        node("Div", ["from_start", "size"], ["quotient"]),
        node("Cast", ["quotient"], ["cell"], to=7),  # int64; towards zero
        node("Sub", ["end", "start"], ["length"]),
        node("Div", ["length", "size"], ["sizes"]),
        node("Cast", ["sizes"], ["last"], to=7),
        node("Add", ["last", "one"], ["count"]),
    ]
    strides = ["one"]  # the product of the counts before
    for k in range(d - 1):
        nodes += [node("Slice", ["count", f"at_{k}", f"at_{k + 1}"], [f"count_{k}"])]
        nodes += [node("Mul", [strides[-1], f"count_{k}"], [f"stride_{k}"])]
        strides.append(f"stride_{k}")
    nodes += [
        node("Concat", strides, ["strides"], axis=0),
        node("Mul", ["cell", "strides"], ["terms"]),
        node("ReduceSum", ["terms", "last_axis"], ["cluster"], keepdims=0),
    ]
    constants = {"first": np.array([0]), "one": np.array([1]), "last_axis": np.array([1])}
    constants |= {f"at_{k}": np.array([k]) for k in range(d)}
    if bounds:
        del constants["first"]
    return nodes, constants


def case(n: int, d: int, *, bounds: bool = False, target: float | None = None, threads: bool = False) -> Case:
    @functools.cache
    def feed() -> dict[str, np.ndarray]:
        random = np.random.default_rng(0)
        made = {"pos": random.uniform(-5, 5, (n, d)).astype(np.float32), "size": np.full(d, 0.3, np.float32)}
        if bounds:
            made |= {"start": np.full(d, -6, np.float32), "end": np.full(d, 6, np.float32)}
        return made

    def ours(threads: int) -> Run:
        return bound(one_node(KERNEL, feed(), {"cluster": np.int64}), feed(), threads)

    def composition(threads: int) -> Run:
        nodes, constants = standard(d, bounds)
        made = model(nodes, feed() | constants, {"cluster": np.int64})
        return bound(with_constants(made, constants), feed(), threads)

    words = f"{n:,} points in {d} dimensions" + (", start and end given" if bounds else "")
    return Case(
        KERNEL,
        words,
        ours,
        (Peer("standard operators", composition, target),),
        close(0, 0),
        threads,
    )


def cases(quick: bool) -> list[Case]:
    if quick:
        return [case(1000, 3, threads=True), case(500, 1), case(500, 4, bounds=True)]
    made = [
        case(n, 3, threads=n == 1_000_000, target=5.0 if n == 1_000_000 else None)
        for n in (1000, 10_000, 100_000, 1_000_000, 4_000_000)
    ]
    return made + [
        case(1_000_000, d, bounds=bounds, target=5.0) for d, bounds in ((3, True), (1, False), (2, False), (4, False))
    ]
