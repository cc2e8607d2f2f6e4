"""Checks of chapter 13: kernels with optional inputs, several outputs of several dtypes, and rows on several threads.

Each learner's library registers the domain ``lab``, so that none of the course's own kernels can answer in its place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from oplab.checks.evidence import Collect
from oplab.checks.exporting import about
from oplab.checks.judge import Judge
from oplab.checks.kernels import expect_refusal, one_node, outputs, record, session, without_shapes
from oplab.checks.ort_errors import INPUT_TYPE, OUTPUT_TYPE, UNREGISTERED
from oplab.checks.references.points import expect_idx, neighbours
from oplab.checks.stress import Stress, collect_stress, expect_part, judge_stress
from oplab.parity.arrays import WrongAnswer, describe, expect_close

if TYPE_CHECKING:
    import onnx

_CAUSES = {
    UNREGISTERED: "The library has no such operator in the domain lab: compare the name that it registers with the one in the stub.",
    OUTPUT_TYPE: "The operator declares another type for this output: see GetOutputType, or the type of the Tensor<…>&.",
    INPUT_TYPE: "The operator declares another type for this input: GetInputType is asked once for each index.",
    "not in range [min=": (
        "Each input that a model may leave out has to be declared optional, by its index; the others are required."
    ),
    "nput … is missing": "The index is beyond the last input: ask GetInputCount() before GetInput().",
    "bad optional access": "An optional input was read that this model does not have: ask has_value() first.",
}


# --- grid ----------------------------------------------------------------------------------------------------------

GRID_DIMS = {"pos": ["n", "d"], "size": ["s"], "start": ["a"], "end": ["b"]}
# Which optional inputs are given, and how the node names its inputs.
GRID_WIRES = {
    "start and end": ["pos", "size", "start", "end"],
    "both left out at the end": ["pos", "size"],
    'both with the name ""': ["pos", "size", "", ""],
    "start alone, end left out": ["pos", "size", "start"],
    'start alone, end with the name ""': ["pos", "size", "start", ""],
    'end alone, start with the name ""': ["pos", "size", "", "end"],
}
GRID_COUNTS = (40, 1, 0)


def grid_model(wired: Sequence[str]) -> onnx.ModelProto:
    given = {name: ("float32", GRID_DIMS[name]) for name in wired if name}
    return one_node("Grid", given, {"cluster": ("int64", ["n"])}, wired)


def grid_inputs(rng: np.random.Generator, wired: Iterable[str], count: int, d: int) -> dict[str, np.ndarray]:
    """Multiples of 1/64, so that no point is within a rounding error of a voxel's border. The box is larger than the points."""
    made = {
        "pos": rng.integers(-128, 192, size=(count, d)),
        "size": rng.choice(np.arange(19, 60), size=d, replace=False),
        "start": rng.integers(-260, -160, size=d),
        "end": rng.integers(260, 400, size=d),
    }
    return {name: (made[name] / 64).astype(np.float32) for name in wired if name}


def far_grids() -> dict[str, dict[str, np.ndarray]]:
    """Coordinates of 1e15, all of them powers of two, so that their voxels are exact."""
    far = np.float32(2.0**50)
    pos = np.array([[0, far], [far, 0], [far / 4, far / 2]], np.float32)
    return {
        "pos reaches from 0 to 1e15, in voxels of 1e12": {"pos": pos, "size": np.float32([2.0**40, 2.0**40])},
        "pos reaches from 0 to 1e15, in voxels of 1e9": {"pos": pos, "size": np.float32([2.0**30, 2.0**31])},
        "pos begins at 1e15, in voxels of 1e9": {"pos": far + pos / 2**10, "size": np.float32([2.0**30, 2.0**31])},
    }


def grid_refusals(rng: np.random.Generator) -> dict[str, dict[str, np.ndarray]]:
    """Inputs that no voxel can be computed from, by what is wrong with them; the lengths come first."""
    cases = {}
    for name, change in (("size", -1), ("start", 1), ("end", -1)):
        feeds = grid_inputs(rng, GRID_WIRES["start and end"], 6, 3)
        feeds[name] = np.resize(feeds[name], 3 + change)
        cases[f"{name} has {3 + change} values, pos has 3 coordinates"] = feeds
    right = grid_inputs(rng, GRID_WIRES["start and end"], 6, 3)
    for name in ("pos", "size", "start"):
        cases[f"{name} is a scalar"] = {**right, name: np.array(0.5, np.float32)}
    rows = {"size": (1, 3), "start": (3, 1), "end": (1, 1, 3)}  # as many values, in another shape
    for name, shape in rows.items():
        cases[f"{name} has its 3 values in the shape {list(shape)}"] = {**right, name: right[name].reshape(shape)}
    cases["pos is [18], 18 values without rows"] = {**right, "pos": right["pos"].reshape(18)}
    cases["pos is [2, 3, 3], 18 values in three dimensions"] = {**right, "pos": right["pos"].reshape(2, 3, 3)}
    cases["size is 0 along the second dimension"] = {**right, "size": np.float32([0.5, 0, 0.5])}
    below = {"pos": right["pos"][:0], "size": np.float32([0.5, 0.5, -0.5])}
    cases["size is -0.5 along the last dimension, and there are no points"] = {**right, **below}
    for word, value in (("NaN", np.nan), ("infinite", np.inf)):
        for name in right:
            spoilt = right[name].copy()
            spoilt.flat[-1] = value
            cases[f"the last value of {name} is {word}"] = {**right, name: spoilt}
    wide = np.float32([[0, 0, 0], [1e15, 1e15, 1e15]])
    box = {"start": wide[0], "end": wide[1]}
    cases["pos reaches from 0 to 1e15 along three dimensions, in voxels of 1"] = {
        "pos": wide, "size": np.ones(3, np.float32), **box,
    }  # fmt: skip
    return cases


GRID_NODES = {"start and end left out": ["pos", "size"], "start and end given": [*GRID_DIMS]}


def grid_stress(rng: np.random.Generator) -> Stress:
    wired = GRID_WIRES["start and end"]
    sizes = [(50_000, 3), (40_000, 4), (7, 3), (5, 2), (0, 3)]
    runs = {f"{count} points in {d}-D": grid_inputs(rng, wired, count, d) for count, d in sizes}
    for number, feeds in enumerate(runs.values()):  # other boxes
        feeds["pos"] += np.float32(0.75 * number)
    short = dict(list(grid_refusals(rng).values())[0])
    return Stress(
        {title: grid_model(names) for title, names in GRID_NODES.items()},
        runs,
        {"size has 2 values, pos has 3 coordinates": (without_shapes(grid_model(wired)), short)},
    )


def odd_grids(rng: np.random.Generator) -> dict[str, dict[str, np.ndarray]]:
    """All that is not refused: points outside of the box, a box that ends before it begins, points far from 0, other dimensions."""
    wired = GRID_WIRES["start and end"]
    outside = grid_inputs(rng, wired, 30, 3)
    outside |= {"start": np.float32([-0.5, 0, -1]), "end": np.float32([0.5, 1, 0.25])}
    turned = grid_inputs(rng, wired, 20, 2)
    turned |= {"start": turned["end"], "end": turned["start"]}
    far = grid_inputs(rng, ["pos", "size"], 40, 3)
    one, four = grid_inputs(rng, wired, 20, 1), grid_inputs(rng, wired, 30, 4)
    return {
        "points outside of start and end": outside,
        "end below start": turned,
        "coordinates below 0": {"pos": far["pos"] - 10, "size": far["size"]},
        "coordinates above 0": {"pos": far["pos"] + 10, "size": far["size"]},
        "coordinates around 200000": {"pos": far["pos"] + np.float32(2e5), "size": far["size"]},
        "1 coordinate": one,
        "4 coordinates": four,
    }


def collect_grid(c: Collect) -> None:
    for title, wired in GRID_WIRES.items():
        for count in GRID_COUNTS:
            for d in (3, 2):
                run = session(c, title, grid_model(wired))  # a new one: what a run leaves over is another check's
                record(c, f"{title}, {count}, {d}", run, grid_inputs(c.rng, wired, count, d))
    for title, feeds in far_grids().items():
        record(c, title, session(c, title, grid_model(["pos", "size"])), feeds)
    run = session(c, "refusals", without_shapes(grid_model(GRID_WIRES["start and end"])))
    for title, feeds in grid_refusals(c.rng).items():
        record(c, title, run, feeds)
    record(c, "afterwards", run, grid_inputs(c.rng, GRID_WIRES["start and end"], 7, 3))
    for title, feeds in odd_grids(c.rng).items():
        record(c, title, session(c, title, grid_model([*feeds])), feeds)
    collect_stress(c, grid_stress(c.rng))


def judge_grid(v: Judge) -> None:
    with v.require("ONNX Runtime takes the operator, whichever optional inputs a model leaves out"):
        for title in GRID_WIRES:
            with about(title):
                if v.error(title):
                    outputs(v, title, 1, _CAUSES)
    cases = {
        (title, count, d): grid_inputs(v.rng, wired, count, d)
        for title, wired in GRID_WIRES.items()
        for count in GRID_COUNTS
        for d in (3, 2)
    }
    for name, counts in (("gives the number of each point's voxel", (40, 1)), ("gives no numbers for no points", (0,))):
        with v.check(name):
            for (title, count, d), feeds in cases.items():
                if count in counts:
                    with about(f"{title}, {count} point{'s' * (count != 1)} in {d}-D"):
                        got = outputs(v, f"{title}, {count}, {d}", 1, _CAUSES)[0]
                        expect_voxels(got, feeds, [other for other in cases.values() if other is not feeds])
    refusals = list(grid_refusals(v.rng))
    with v.check("counts as far as int64 can"):
        for title, feeds in far_grids().items():
            with about(title):
                expect_voxels(outputs(v, title, 1, _CAUSES)[0], feeds, cases.values())
    with v.check("answers a size, start or end of the wrong length with a status"):
        for title in refusals:
            if "values" in title or "scalar" in title:
                expect_refusal(v, title, likely="Compare each shape with pos's before you read.")
    with v.check("answers a size, a coordinate or a number of voxels that cannot be with a status"):
        for title in refusals:
            if "values" not in title and "scalar" not in title:
                expect_refusal(v, title)
    with v.check("goes on after a refusal"):
        feeds = grid_inputs(v.rng, GRID_WIRES["start and end"], 7, 3)
        expect_voxels(outputs(v, "afterwards", 1, _CAUSES)[0], feeds)
    odd = odd_grids(v.rng)
    with v.check("counts the voxels of any box and of points anywhere"):
        for title, feeds in odd.items():
            with about(title):
                expect_voxels(outputs(v, title, 1, _CAUSES)[0], feeds)
    s = grid_stress(v.rng)
    if v.ok:
        judge_stress(v, s, lambda node, run, arrays: expect_voxels(arrays[0], s.feeds(node, run)))


def expect_voxels(got: np.ndarray, feeds: dict[str, np.ndarray], earlier: Iterable[dict[str, np.ndarray]] = ()) -> None:
    """Demand the voxels of these inputs; known mistakes are named.

    Args:
        earlier: inputs of runs before this one, whose box may have been kept.
    """
    pos, size, start, end = (feeds.get(name) for name in GRID_DIMS)
    zeros = np.zeros_like(size)
    expected = voxels(pos, size, start, end)
    likely: dict[str, np.ndarray] = {}
    likely["The number passes through an int, which has 32 bits and ends at 2147483647."] = expected.astype(
        np.int32
    ).astype(np.int64)
    for other in () if np.array_equal(got, expected) else earlier:
        if len(pos) > 2 and len(other["pos"]) and other["pos"].shape[1:] == pos.shape[1:]:
            kept = other["pos"].min(0) if start is None else start, other["pos"].max(0) if end is None else end
            if np.array_equal(voxels(pos, size, *kept), got):
                why = "This is the box of an earlier run: least and greatest are kept in a member, a static or a global variable."
                likely[why] = got
    if len(pos):
        low = np.minimum(pos.min(0), 0) if start is None else start
        high = np.maximum(pos.max(0), 0) if end is None else end
        begins = (
            "The search for the least and greatest coordinates begins at 0 here, or at numeric_limits<float>::min(), which is above 0; "
            "begin it at the first point."
        )
        likely[begins] = voxels(pos, size, low, high)
    if start is None and len(pos):
        likely["Without start the voxels begin at 0 here; they begin at the least coordinates of pos."] = voxels(
            pos, size, zeros, end
        )
    if start is not None and end is not None:
        likely["start and end are confused: start is input 2, end is input 3."] = voxels(pos, size, end, start)
    if start is not None:
        likely["start is not read: the voxels begin at the least coordinates of pos."] = voxels(pos, size, None, end)
    if end is not None:
        likely["end is not read: the voxels end at the greatest coordinates of pos."] = voxels(pos, size, start, None)
        if start is None:
            likely["end is read as start: it is input 3, also where input 2 has the empty name."] = voxels(
                pos, size, end, None
            )
    elif start is not None:
        likely["start is read as end: they are input 2 and input 3."] = voxels(pos, size, None, start)
    elif len(pos):
        likely["The voxels end at 0 here; without end they end at the greatest coordinates of pos."] = voxels(
            pos, size, None, zeros
        )
    expect_close(got, expected, name="cluster", likely=likely)


def voxels(pos: np.ndarray, size: np.ndarray, start: np.ndarray | None, end: np.ndarray | None) -> np.ndarray:
    """The voxel of each point, as torch_cluster::grid counts: the first dimension runs fastest."""
    if not len(pos):
        return np.zeros(0, np.int64)
    low = pos.min(0) if start is None else start
    high = pos.max(0) if end is None else end
    cells = np.trunc((high - low) / size).astype(np.int64) + 1
    strides = np.concatenate([[1], np.cumprod(cells)[:-1]])
    return (np.trunc((pos - low) / size).astype(np.int64) * strides).sum(1)


# --- knn_query -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cloud:
    """One run of ``knn_query``: how many points and queries each batch has; no queries means the points themselves."""

    nsample: int
    points: tuple[int, ...]
    queries: tuple[int, ...] | None = None
    empty_names: bool = False
    scale: float = 1.0
    shift: float = 0.0
    near: bool = False  # different squares of one root in float

    @property
    def wired(self) -> list[str]:
        if self.queries is not None:
            return ["xyz", "offset", "new_xyz", "new_offset"]
        return ["xyz", "offset", *([""] * 2 if self.empty_names else [])]

    @property
    def title(self) -> str:
        form = ', new_xyz and new_offset with the name ""' if self.empty_names else ""
        queries = "" if self.queries is None else f", queries {list(self.queries)}"
        scale = "" if self.scale == 1 else f", coordinates of {self.scale:.0e}"
        scale += f", coordinates around {self.shift:.0f}" if self.shift else ""
        scale += ", distances that are equal in float although their squares differ" if self.near else ""
        return f"nsample {self.nsample}, points in each batch {list(self.points)}{queries}{form}{scale}"


CLOUDS = [
    Cloud(3, (40, 25)),
    Cloud(4, (31,), empty_names=True),
    Cloud(5, (30, 1, 24), (7, 3, 11)),
    Cloud(1, (20, 20), (0, 9)),
    Cloud(16, (6, 20, 0), (4, 5, 2)),
    Cloud(3, (0,)),
    Cloud(2, (5,), (0,)),
    Cloud(3, (14, 9), scale=2.0**50),
    Cloud(4, (30, 20), (9, 8), shift=2e5),
    Cloud(120, (170, 40), (3, 2)),
    Cloud(4, (6,), (1,), near=True),
]
KNN_DIMS = {"xyz": ["n", "c"], "offset": ["b"], "new_xyz": ["m", "e"], "new_offset": ["f"]}


def knn_model(wired: Sequence[str], nsample: int | float | str | None) -> onnx.ModelProto:
    given = {name: ("int64" if "offset" in name else "float32", KNN_DIMS[name]) for name in wired if name}
    made = {"idx": ("int32", ["q", "k"]), "dist": ("float32", ["q", "k"])}
    return one_node("KNNQuery", given, made, wired, nsample=nsample)


def knn_inputs(rng: np.random.Generator, cloud: Cloud) -> dict[str, np.ndarray]:
    """Points with whole coordinates, times a power of two: their squared distances are exact, and many are equal.

    Around 200000 the differences are exact, too; the squares of the coordinates are not, in float.
    """
    made: dict[str, np.ndarray] = {}
    if cloud.near:
        # The squared distances 16 000 001 and 16 000 002 are exact in float, and their roots are one float; the farther point comes first.
        rest = rng.permutation([[2, 0], [2, 1], [2, 2], [0, 3]])
        places = np.insert(rest, np.sort(rng.integers(0, 5, 2)), [[1, 1], [1, 0]], axis=0)
        xyz = np.concatenate([np.full((6, 1), 4000), places], axis=1).astype(np.float32)
        return {
            "xyz": xyz,
            "offset": np.array([6], np.int64),
            "new_xyz": np.zeros((1, 3), np.float32),
            "new_offset": np.array([1], np.int64),
        }
    for prefix, counts in (("", cloud.points), ("new_", cloud.queries)):
        if counts is not None:
            made[f"{prefix}xyz"] = rng.integers(-3, 4, size=(sum(counts), 3)).astype(np.float32) * np.float32(
                cloud.scale
            ) + np.float32(cloud.shift)
            made[f"{prefix}offset"] = np.cumsum(counts).astype(np.int64)
    return made


# What is wrong: (the node's inputs, offset, new_offset) for 12 points and 5 queries.
KNN_REFUSALS: dict[str, tuple[list[str], list[int], list[int]]] = {
    "offset [7, 4, 12] falls": (["xyz", "offset"], [7, 4, 12], []),
    "offset [4, 9] ends before the 12 points do": (["xyz", "offset"], [4, 9], []),
    "offset [4, 13] ends beyond the 12 points": (["xyz", "offset"], [4, 13], []),
    "offset [] has no batch for the 12 points": (["xyz", "offset"], [], []),
    "new_offset [3, 2, 5] falls": (["xyz", "offset", "new_xyz", "new_offset"], [4, 8, 12], [3, 2, 5]),
    "offset [-2, 12] begins below 0": (["xyz", "offset"], [-2, 12], []),
    "new_offset [-2, 5] begins below 0": (["xyz", "offset", "new_xyz", "new_offset"], [4, 12], [-2, 5]),
    "new_offset [2, 4] ends before the 5 queries do": (["xyz", "offset", "new_xyz", "new_offset"], [4, 12], [2, 4]),
    "new_offset [2, 6] ends beyond the 5 queries": (["xyz", "offset", "new_xyz", "new_offset"], [4, 12], [2, 6]),
    "new_offset [5] has another length than offset [4, 12]": (
        ["xyz", "offset", "new_xyz", "new_offset"],
        [4, 12],
        [5],
    ),
    "new_xyz is given without new_offset": (["xyz", "offset", "new_xyz"], [4, 12], []),
    "new_offset is given without new_xyz": (["xyz", "offset", "", "new_offset"], [4, 12], [2, 5]),
    # With the sizes of what is left out, so that no other rule refuses them.
    "12 points in new_xyz are given without new_offset": (["xyz", "offset", "new_xyz"], [4, 12], []),
    "new_offset [3, 12] is given without new_xyz": (["xyz", "offset", "", "new_offset"], [4, 12], [3, 12]),
}


# What is wrong: (which points, the value of one coordinate).
KNN_NOT_FINITE = {
    "a NaN in xyz": ("xyz", np.nan),
    "a NaN in new_xyz": ("new_xyz", np.nan),
    "an infinity in xyz": ("xyz", np.inf),
    "an infinity in new_xyz": ("new_xyz", -np.inf),
}
# What is wrong: (which input, its shape).
KNN_SHAPES: dict[str, tuple[str, tuple[int, ...]]] = {
    "xyz is a scalar": ("xyz", ()),
    "xyz has the shape [12, 2]": ("xyz", (12, 2)),
    "new_xyz has the shape [5, 3, 1]": ("new_xyz", (5, 3, 1)),
    "new_xyz is a scalar": ("new_xyz", ()),
    "new_xyz has the shape [5, 2]": ("new_xyz", (5, 2)),
    "offset is a scalar": ("offset", ()),
    "new_offset is a scalar": ("new_offset", ()),
    "offset and new_offset have the shape [1, 3]": ("offset", (1, 3)),
}


def knn_spoilt(rng: np.random.Generator, title: str) -> dict[str, np.ndarray]:
    """Inputs for 12 points and 5 queries, none in the same batch, of which one is not finite, or has another shape."""
    made = knn_inputs(rng, Cloud(3, (4, 8, 0), (0, 0, 5)))
    place = int(rng.integers(15))  # drawn in each case, so that all draw alike
    if title in KNN_NOT_FINITE:
        name, value = KNN_NOT_FINITE[title]
        made[name].flat[place] = value
    else:
        name, shape = KNN_SHAPES[title]
        if shape == (1, 3):  # both, so that they have the same length
            made |= {name: made[name].reshape(shape) for name in ("offset", "new_offset")}
        else:
            made[name] = np.full(shape, 5, made[name].dtype)
    return made


def knn_refusal(rng: np.random.Generator, title: str) -> dict[str, np.ndarray]:
    wired, offset, new_offset = KNN_REFUSALS[title]
    made = {
        "xyz": rng.integers(-3, 4, size=(12, 3)).astype(np.float32),
        "offset": np.array(offset, np.int64),
        "new_xyz": rng.integers(-3, 4, size=(12 if "12 points in new_xyz" in title else 5, 3)).astype(np.float32),
        "new_offset": np.array(new_offset, np.int64),
    }
    return {name: made[name] for name in wired if name}


# Which inputs a node has, and its attribute.
KNN_NODES = {
    "nsample = 3": ([*KNN_DIMS], Cloud(3, ())),
    "nsample = 5, no new_xyz": (["xyz", "offset"], Cloud(5, ())),
}


def knn_stress(rng: np.random.Generator) -> Stress:
    sizes = [((1100, 150), (90, 60)), ((90, 1300), (60, 90)), ((4, 9), (2, 3)), ((0, 2), (1, 0)), ((0,), (0,))]
    runs = {
        f"points in each batch {list(points)}, queries {list(queries)}": knn_inputs(rng, Cloud(3, points, queries))
        for points, queries in sizes
    }
    offset = {**runs["points in each batch [4, 9], queries [2, 3]"], "offset": np.array([9, 4], np.int64)}
    return Stress(
        {title: knn_model(wired, cloud.nsample) for title, (wired, cloud) in KNN_NODES.items()},
        runs,
        {
            "offset [9, 4] falls": (knn_model([*KNN_DIMS], 3), offset),
            "nsample = 0": (knn_model([*KNN_DIMS], 0), None),
        },
    )


def collect_knn_query(c: Collect) -> None:
    for cloud in CLOUDS:
        run = session(c, cloud.title, knn_model(cloud.wired, cloud.nsample))
        record(c, cloud.title, run, knn_inputs(c.rng, cloud))
    for title, (wired, _, _) in KNN_REFUSALS.items():
        record(c, title, session(c, title, knn_model(wired, 3)), knn_refusal(c.rng, title))
    run = session(c, "spoilt", without_shapes(knn_model([*KNN_DIMS], 3)))
    for title in (*KNN_NOT_FINITE, *KNN_SHAPES):
        record(c, title, run, knn_spoilt(c.rng, title))
    for nsample in (0, -1, None, 2.0, "three"):
        session(c, f"nsample {nsample}", knn_model(["xyz", "offset"], nsample))
    collect_stress(c, knn_stress(c.rng))


def judge_knn_query(v: Judge) -> None:
    cases = [(cloud, knn_inputs(v.rng, cloud)) for cloud in CLOUDS]
    for title in KNN_REFUSALS:
        knn_refusal(v.rng, title)
    for title in (*KNN_NOT_FINITE, *KNN_SHAPES):
        knn_spoilt(v.rng, title)
    s = knn_stress(v.rng)
    found: dict[Cloud, list[np.ndarray]] = {}
    with v.require("ONNX Runtime takes the operator and runs it"):
        for cloud, _ in cases:
            with about(cloud.title):
                found[cloud] = outputs(v, cloud.title, 2, _CAUSES)
    with v.check("idx holds the nearest points of the same batch, nearest first"):
        for cloud, feeds in cases:
            with about(cloud.title):
                expect_neighbours(found[cloud][0], cloud, feeds)
    with v.check("dist holds their distances"):
        for cloud, feeds in cases:
            with about(cloud.title):
                expect_distances(found[cloud][1], cloud, feeds)
    with v.check("offsets that do not fit the points get a status"):
        for title in KNN_REFUSALS:
            if "without" not in title:
                expect_refusal(v, title, likely="Check the offsets before you use them as indices.")
    with v.check("one of new_xyz and new_offset alone gets a status"):
        for title in KNN_REFUSALS:
            if "without" in title:
                expect_refusal(v, title)
    with v.check("points that are not finite get a status"):
        for title in KNN_NOT_FINITE:
            likely = "Check every point before the search: one batch has points and no queries here, another has queries and no points."
            expect_refusal(v, title, likely=likely)
    with v.check("inputs of another shape get a status"):
        for title in KNN_SHAPES:
            expect_refusal(v, title, likely="Ask for the number of dimensions before you read one.")
    with v.require("nsample is required, an int and positive"):
        expect_refusal(v, "nsample 0", "The attribute nsample is 0", "Check it in the constructor.")
        expect_refusal(v, "nsample -1", "The attribute nsample is -1", "Check it in the constructor.")
        expect_refusal(v, "nsample None", "The attribute nsample is missing", "It has no default.")
        expect_refusal(v, "nsample 2.0", "The attribute nsample is a float", "A default would hide it.")
        expect_refusal(v, "nsample three", "The attribute nsample is a text", "A default would hide it.")

    def expect(node: str, run: str, arrays: list[np.ndarray]) -> None:
        cloud, feeds = KNN_NODES[node][1], s.feeds(node, run)
        expect_neighbours(arrays[0], cloud, feeds)
        expect_distances(arrays[1], cloud, feeds)

    judge_stress(v, s, expect)


def expect_neighbours(got: np.ndarray, cloud: Cloud, feeds: dict[str, np.ndarray]) -> None:
    likely: dict[str, np.ndarray] = {}
    if cloud.near:
        roots = np.sqrt(((feeds["xyz"] - feeds["new_xyz"]) ** 2).sum(1))
        order = np.argsort(roots, kind="stable")[None, : cloud.nsample].astype(np.int32)
        likely["The roots are compared: different squares may have one root in float."] = order
    expect_idx(got, feeds, cloud.nsample, likely=likely)


def expect_distances(got: np.ndarray, cloud: Cloud, feeds: dict[str, np.ndarray]) -> None:
    idx, dist = neighbours(feeds, cloud.nsample)
    likely = {
        "These are squared distances: the square root is missing.": dist**2,
        "Where there are too few points, dist is 0.": np.where(idx < 0, np.float32(np.inf), dist),
    }
    expect_close(got, dist, name="dist", likely=likely)


# --- parallel ------------------------------------------------------------------------------------------------------

CENTRE_SHAPES = [(5, 4), (37, 40), (2, 33), (6, 1), (4, 0), (0, 3)]
LARGE = (300, 128)
THREADS = (1, 2, 4)


def centre_model() -> onnx.ModelProto:
    made = {"y": ("float32", ["h", "w"]), "mean": ("float64", ["w"])}
    return one_node("Centre", {"x": ("float32", ["h", "w"])}, made)


def mountain(rng: np.random.Generator) -> np.ndarray:
    """A table whose columns' sums depend on the order and on the grouping of the rows.

    64 rows of 2**50 add up to 2**56, where doubles are 16 apart. Each row below adds 5 or 6: alone it is lost, two together are not,
    and all of them together, added first, are not either.
    """
    x = rng.integers(5, 7, size=LARGE).astype(np.float32)
    x[:64] = 2.0**50
    return x


def table(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Columns of different means."""
    return (rng.normal(size=shape) + rng.integers(-9, 10, size=shape[1])).astype(np.float32)


def centre_stress(rng: np.random.Generator) -> Stress:
    sizes = [(600, 500), (400, 600), (5, 4), (33, 2), (6, 1), (0, 4), (3, 0)]
    return Stress(
        {"": centre_model()},
        {f"x float32[{h}, {w}]": {"x": table(rng, (h, w))} for h, w in sizes},
        without={"refusals": "the lines around the answer refuse"},
    )


def collect_parallel(c: Collect) -> None:
    from oplab.checks.schedules import ORDERS, SHARES, ScheduledSession, WatchedSession

    s = centre_stress(c.rng)
    model = centre_model()
    run = session(c, "session", model)
    for shape in CENTRE_SHAPES:  # in new sessions: what a run leaves over is another check's
        record(c, f"{shape}", run, {"x": table(c.rng, shape)})
        run = session(c, "session", model)
    record(c, "large", run, {"x": table(c.rng, LARGE)})
    x = mountain(c.rng)
    record(c, "serial", session(c, "session", model), {"x": x})
    for threads in THREADS:
        run = session(c, "session", model, threads)
        for repetition in range(4):
            record(c, f"{threads} threads, {repetition}", run, {"x": x})
    scheduled = c.attempt("scheduler", ScheduledSession, model.SerializeToString(), c.library, c.scratch)
    if scheduled is None:
        return
    made = {"y": (LARGE, "float32"), "mean": ((LARGE[1],), "float64")}
    for label, order in ORDERS.items():
        results = c.attempt(label, scheduled.run, {"x": x.copy()}, made, order)
        if results is not None:
            c.value(label, [results["y"], results["mean"]])
            c.value(f"{label}: pieces", max(scheduled.pieces, default=0))
    watched = c.attempt("watched", WatchedSession, model.SerializeToString(), c.scratch / "pieces.so", c.scratch)
    for label, share in SHARES.items() if watched else ():
        title = f"watched, {label}"
        found = c.attempt(title, watched.watch, {"x": x}, made, share)
        c.value(title, [*found.pieces, *found.writes, found.where] if found else None)
    collect_stress(c, s)


def judge_parallel(v: Judge) -> None:
    from oplab.checks.schedules import ORDERS, SHARES

    s = centre_stress(v.rng)
    tables = {f"{shape}": table(v.rng, shape) for shape in CENTRE_SHAPES}
    tables["large"] = table(v.rng, LARGE)
    x = mountain(v.rng)
    found: dict[str, list[np.ndarray]] = {}
    with v.require("ONNX Runtime takes the operator and runs it"):
        for title in tables:
            with about(f"x {describe(tables[title])}"):
                found[title] = outputs(v, title, 2, _CAUSES)
        found["serial"] = outputs(v, "serial", 2, _CAUSES)
    with v.check("mean is the mean of each column, in double"):
        for label in ORDERS:  # where an output's memory is NaN before the run; elsewhere it may be 0 by luck
            if v.error("scheduler") or v.error(label):
                break
            if np.isnan(outputs(v, label, 2, _CAUSES)[1]).any():
                raise WrongAnswer(
                    "mean is added to what its memory held before: an output is not 0 at first, so set it."
                )
        for title in tables:
            with about(f"x {describe(tables[title])}"):
                expect_mean(found[title][1], tables[title])
        expect_mean(found["serial"][1], x)
    with v.require("y is x without the means of its columns"):
        for title, each in tables.items():
            with about(f"x {describe(each)}"):
                expect_centred(found[title][0], each)
    with v.require("the work goes through ParallelFor"):
        error = v.error("scheduler")
        if error:
            raise WrongAnswer(f"In ONNX Runtime's C library the kernel fails: {error.message}")
        for label in ORDERS:
            if v.error(label):
                raise WrongAnswer(f"Pieces {label}: {v.error(label).message}")
        expect_pieces(v.value(f"{next(iter(ORDERS))}: pieces"))

    def expect(node: str, run: str, arrays: list[np.ndarray]) -> None:
        expect_mean(arrays[1], s.runs[run]["x"])
        expect_centred(arrays[0], s.runs[run]["x"])

    with v.require("every order of the pieces gives the same bits"):
        expect_part(v, s, expect, "sizes")  # the orders are runs of one session: what one leaves over is not a race
        for label in ORDERS:
            expect_same(outputs(v, label, 2, _CAUSES), found["serial"], f"With the pieces called {label}")
    with v.require("no two pieces use the same memory"):
        for label in SHARES:
            expect_apart(v.value(f"watched, {label}"))
    with v.check("1, 2 and 4 threads give the same bits"):
        for threads in THREADS:
            for repetition in range(4):
                got = outputs(v, f"{threads} threads, {repetition}", 2, _CAUSES)
                expect_same(got, found["serial"], f"With {threads} thread{'s' * (threads != 1)}")
    if v.ok:
        judge_stress(v, s, expect)


def expect_pieces(pieces: object) -> None:
    """Demand that work was handed over, in more than one piece."""
    what = f"a table of {LARGE[0]} rows and {LARGE[1]} columns"
    if type(pieces) is not int or pieces == 0:
        raise WrongAnswer(
            f"ParallelFor was never called for {what}: all of the work is done by one thread. (Threads of your own would compete "
            "with ONNX Runtime's, and ignore intra_op_num_threads.)"
        )
    if pieces < 2:
        raise WrongAnswer(f"ParallelFor got 1 piece for {what}, so only one thread has work. Cut it finer.")


def expect_apart(conflict: object) -> None:
    """Demand that no piece writes what another piece uses."""
    if conflict is None:
        return
    if type(conflict) is not list or len(conflict) != 5:
        raise WrongAnswer("Expected what two pieces share, got something else.")
    first, second, first_writes, second_writes, where = conflict
    what = f"the same element of {where}" if where else "the same memory, a variable or a buffer that all pieces share"
    both = "both write" if first_writes and second_writes else "one of them writes it, the other reads it"
    raise WrongAnswer(
        f"Pieces {first} and {second} use {what}: {both}. One after the other they give the right result; on two threads at once each "
        "overwrites what the other has not read yet. Give each piece its own, inside of the function that ParallelFor calls."
    )


def means_of(x: np.ndarray) -> np.ndarray:
    """The means in the order that the exercise asks for; cumsum adds one after the other, sum does not."""
    if not x.size:
        return np.zeros(x.shape[1])
    return np.cumsum(x.astype(np.float64), axis=0)[-1] / len(x)


def expect_mean(got: np.ndarray, x: np.ndarray) -> None:
    expected = means_of(x)
    likely: dict[str, np.ndarray] = {}
    if x.size:
        likely["These are the sums: the division by the number of rows is missing."] = expected * len(x)
        likely["The sums are divided by the number of columns; a column has h elements."] = (
            expected * len(x) / x.shape[1]
        )
    elif x.shape[1]:
        likely["Without rows, mean is 0; 0 / 0 is NaN."] = np.full(x.shape[1], np.nan)
    expect_close(got, expected, name="mean", rtol=1e-5, atol=1e-4, likely=likely)
    if not np.array_equal(got, expected):
        column = int(np.argmax(got != expected))
        raise WrongAnswer(
            f"mean[{column}] is {float(got[column])!r}, expected {float(expected[column])!r}: near, but not the same bits. A column is "
            "summed in double from top to bottom. A float in between rounds, and a sum of partial sums rounds elsewhere."
        )


def expect_centred(got: np.ndarray, x: np.ndarray) -> None:
    wide = x.astype(np.float64)
    means = means_of(x)
    expected = wide - means
    likely: dict[str, np.ndarray] = {}
    if x.size:
        so_far = np.cumsum(wide, axis=0) / np.arange(1, len(x) + 1)[:, None]
        likely["Each row is compared with the mean of the rows up to it: a mean is known after the last row."] = (
            wide - so_far
        )
        likely["The mean of each row is subtracted; the means of the columns are asked for."] = wide - wide.mean(
            axis=1, keepdims=True
        )
        likely["One mean of all elements is subtracted; each column has its own."] = wide - wide.mean()
    right = expected.astype(np.float32)
    expect_close(got, right, name="y", rtol=1e-5, atol=1e-5, likely=likely)
    # The nearest float, up to the last digits of a double: the order of a sum is the learner's own.
    off = np.abs(got.astype(np.float64) - expected)
    twice = off > np.spacing(np.abs(right)).astype(np.float64) / 2 + 1e-10 * np.abs(wide).max(initial=0)
    if twice.any():
        row, column = (int(place) for place in np.argwhere(twice)[0])
        raise WrongAnswer(
            f"y[{row}, {column}] is {got[row, column]:.9g}, expected {right[row, column]:.9g}: near, but rounded twice. Subtract in "
            "double, and round the difference: a mean that is rounded to float first is another number."
        )


def expect_same(got: list[np.ndarray], serial: list[np.ndarray], what: str) -> None:
    """Demand the same bits as one thread gives."""
    (y, mean), (y_serial, mean_serial) = got, serial
    if not np.array_equal(mean, mean_serial):
        column = int(np.argmax(mean != mean_serial))
        raise WrongAnswer(
            f"{what}, mean[{column}] is {mean[column]:.17g}, with one thread it is {mean_serial[column]:.17g}. Several pieces add to the "
            "sum of one column: a data race, and with a lock or an atomic still a sum in another order, which a double rounds "
            "differently. Cut the table so that only one piece adds to each sum."
        )
    if not np.array_equal(y, y_serial):
        row, column = (int(place) for place in np.argwhere(y != y_serial)[0])
        raise WrongAnswer(
            f"{what}, y[{row}, {column}] differs from the result with one thread. Its piece reads or writes what belongs to another piece."
        )
