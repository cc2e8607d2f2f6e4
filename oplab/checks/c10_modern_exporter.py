"""Checks of chapter 10: translations, a custom node, an output whose size is data, and a file that is verified before it is written."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from onnxscript import FLOAT, INT64, script
from onnxscript import opset18 as op
from onnxscript.values import Opset

from oplab.checks import exporting, graphs, nodes
from oplab.checks.evidence import Collect
from oplab.checks.exporting import about
from oplab.checks.judge import Judge
from oplab.checks.ort_errors import MIXED_TYPES, TRANSLATION, UNREGISTERED, Causes, explained, sentence
from oplab.parity.arrays import WrongAnswer, describe, expect_close

if TYPE_CHECKING:
    import onnx
    import torch

oplab_1 = Opset("oplab", 1)


def module_of(function: Callable[..., Any]) -> torch.nn.Module:
    """A module of a function of two tensors; both become inputs of the file, ``a`` and ``b``."""
    import torch

    class Model(torch.nn.Module):
        def forward(self, a: torch.Tensor, b: torch.Tensor) -> Any:
            return function(a, b)

    return Model().eval()


def record_table(c: Collect, table: Any) -> bool:
    """Record what the table's keys are; whether it is a dict."""
    if not isinstance(table, dict):
        c.value("table", type(table).__name__)
        return False
    c.value("table", "dict")
    c.value("keys", [f"{type(key).__name__} {key}"[:200] for key in list(table)[:20]])
    return True


def expect_exported(v: Judge, title: str, operator: str) -> onnx.ModelProto:
    """The model of one export; where there is none, why."""
    error = v.error(title)
    if error:
        keys = [str(key) for key in v.value("keys")]
        raise explained(error, title, table_causes(keys, operator), TRANSLATION)
    return v.model(title)


def table_causes(keys: Sequence[str], operator: str) -> Causes:
    """What an exporter's error means for a table with these keys, where ``operator`` is to be translated."""
    packet = f"A packet is all overloads together: the key is one of them, torch.ops.{operator}."
    shown = ", ".join(key.partition(" ")[2] for key in keys)
    missing = (
        f"The table's keys ({shown}) were not used: the model calls torch.ops.{operator}, and that overload is the key."
        if keys
        else "The table is empty. What register_custom_op_symbolic registers serves the TorchScript path alone; the dynamo path uses "
        "this table."
    )
    found = {"instead of an OpOverloadPacket": packet}
    if any(key.startswith("OpOverloadPacket") for key in keys):
        found["Target"] = packet
    found["unexpected keyword argument"] = (
        "The call gives an argument for which the translation has no parameter: it needs the name that the schema gives it."
    )
    return {**found, "No ONNX function found": missing, "No decompositions registered": missing}


# --- translate_hypot -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hypot:
    """One export of hypot: example shapes, the names of their axes, and shapes to run."""

    dtype: str
    example: tuple[tuple[int, ...], tuple[int, ...]]
    axes: tuple[dict[int, str], dict[int, str]]
    sizes: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


HYPOTS = {
    "float32": Hypot(
        "float32", ((3, 1), (4,)), ({0: "n"}, {0: "m"}), (((3, 1), (4,)), ((40, 1), (9,)), ((0, 1), (5,)))
    ),
    "float64": Hypot("float64", ((5,), (5,)), ({0: "n"}, {0: "n"}), (((5,), (5,)), ((64,), (64,)))),
}


def hypot_numbers(rng: np.random.Generator, case: Hypot) -> list[dict[str, np.ndarray]]:
    """Feeds of ordinary size, then one with extremes: squares that overflow, underflow, and pairs of zeros.

    The last two pairs are subnormal numbers below 1 / max, whose reciprocal overflows, and numbers above max / 2, whose sum does
    (their hypot is below 0.65 * sqrt(2) * max). A result is subnormal to 16 bits at least: half a unit is 1e-5 of it.
    """
    feeds = [
        {name: rng.normal(scale=5, size=shape).astype(case.dtype) for name, shape in zip("ab", shapes, strict=True)}
        for shapes in case.sizes
    ]
    power, tiny = (25.0, 1e-40) if case.dtype == "float32" else (200.0, 1e-310)
    values = rng.uniform(1, 9, 8) * np.array([10**power, 10**-power, 0, 1, -1, -(10**power), 10**-power, tiny])
    others = rng.uniform(1, 9, 8) * np.array([-(10**power), 10**-power, 0, 0, 10**power, 1, 0, -tiny])
    largest = rng.uniform(0.55, 0.65, 2) * float(np.finfo(case.dtype).max)
    values, others = np.append(values, largest[0]), np.append(others, largest[1])
    if case.dtype == "float32":  # it broadcasts: every pair of these
        values, others = values[:, None], others[:, None].T[0]
    return [*feeds, {"a": values.astype(case.dtype), "b": others.astype(case.dtype)}]


def collect_translate_hypot(c: Collect) -> None:
    import torch

    table = c.function("translate_hypot")()
    if not record_table(c, table):
        return
    for title, case in HYPOTS.items():
        path = c.scratch / f"{title}.onnx"
        inputs = tuple(torch.rand(shape, dtype=getattr(torch, case.dtype)) for shape in case.example)
        c.attempt(title, exporting.export_dynamo, module_of(torch.hypot), inputs, path, "ab", case.axes, table=table)
        c.file(title, path)
        if not path.is_file():
            return


def judge_translate_hypot(v: Judge) -> None:
    numbers = {title: hypot_numbers(v.rng, case) for title, case in HYPOTS.items()}
    models: dict[str, onnx.ModelProto] = {}
    with v.require("torch.hypot exports with the table"):
        if v.value("table") != "dict":
            raise WrongAnswer(f"Expected a dict, the table, got {v.value('table')}.")
        for title in HYPOTS:
            models[title] = expect_exported(v, title, "aten.hypot.default")
    with v.require("standard operators that read both inputs"):
        for title, model in models.items():
            with about(title):
                nodes.expect_standard(model)
                graphs.expect_inputs(model, ["a", "b"])
                graphs.expect_used(model, ["a", "b"])
    with v.require("matches PyTorch in ONNX Runtime"):
        for title, model in models.items():
            for feeds in numbers[title][:-1]:
                expect_hypot(model, title, feeds)
    with v.check("is right where squares overflow or underflow, and at 0"):
        for title, model in models.items():
            expect_hypot(model, title, numbers[title][-1])
    with v.check("a valid model"):
        for title, model in models.items():
            with about(title):
                graphs.expect_valid(model)


def expect_hypot(model: onnx.ModelProto, title: str, feeds: dict[str, np.ndarray]) -> None:
    with about(title):
        try:
            (got,) = graphs.run(model, feeds, causes=_HYPOT_CAUSES)
        except WrongAnswer as error:
            mixed = "bound to different types" in str(error)
            hint = " A number in a translation is float32, whatever the inputs are: CastLike." if mixed else ""
            raise WrongAnswer(f"{error}{hint}") from None
        a, b = (feeds[name] for name in "ab")
        right = np.hypot(a, b)
        try:
            expect_close(got, right, name=f"hypot of {describe(a)} and {describe(b)}", atol=0.0)
        except WrongAnswer as error:
            raise WrongAnswer(f"{error}{hypot_cause(a, b, got, right)}") from None


_HYPOT_CAUSES = {
    "is not a graph input, initializer, or output": (
        "The graph reads a value that it does not have. A value belongs to the export that made it: do not keep it for the next one."
    )
}


def hypot_cause(a: np.ndarray, b: np.ndarray, got: np.ndarray, right: np.ndarray) -> str:
    """A sentence on why ``got`` is not the hypot of two arrays, or what its wrong numbers have in common; nothing if neither is known."""
    if got.shape != right.shape or got.dtype.kind != "f":
        return ""
    in_float = " This was computed in float32, whatever the inputs are."
    if got.dtype != right.dtype:
        return in_float if got.dtype == np.float32 else ""
    tolerance = 1e-4 if got.dtype == np.float32 else 1e-9
    with np.errstate(all="ignore"):

        def wrong(other: np.ndarray) -> np.ndarray:  # atol is 0: small numbers tell the causes apart
            return ~np.isclose(got, other, rtol=tolerance, atol=0, equal_nan=True)

        for cause, other in hypot_ideas(a, b).items():
            if not wrong(other).any():
                return f" {cause}"
        if got.dtype == np.float64 and np.array_equal(got, got.astype(np.float32), equal_nan=True):
            return in_float
    if np.isnan(got).any():
        return (
            " Where is 0 / 0 or infinity / infinity in it? (A divisor plus 1e-12 does not help: the exporter's optimiser takes what is "
            "not above 1e-8 for 0.)"
        )
    if not (wrong(right) & (right >= 1e-3)).any():
        return " Only small numbers are wrong. What in the graph is not small compared with them: a number that is added, or a lower bound?"
    return ""


def hypot_ideas(a: np.ndarray, b: np.ndarray) -> dict[str, np.ndarray]:
    """What wrong ideas of hypot give, by the sentence that names the idea. Some are right for some numbers."""
    large, small = np.maximum(np.abs(a), np.abs(b)), np.minimum(np.abs(a), np.abs(b))
    one = large.dtype.type(1)
    safe, total = np.where(large == 0, one, large), np.abs(a) + np.abs(b)
    signed, below = np.maximum(a, b), np.minimum(a, b)
    divisor = np.where(total == 0, one, total)
    return {
        "The squares overflow or underflow: divide by the larger of the two before you square.": np.sqrt(a * a + b * b),
        "This is |a| + |b|.": total,
        "The square root is missing.": a * a + b * b,
        "The larger of a and b was taken with its sign: take Abs first.": signed
        * np.sqrt(1 + (below / np.where(signed == 0, one, signed)) ** 2),
        "The divisor |a| + |b| overflows: divide by the larger of the two.": total
        * np.sqrt((np.abs(a) / divisor) ** 2 + (np.abs(b) / divisor) ** 2),
        "The reciprocal of a subnormal number overflows: divide by the number itself.": large
        * np.sqrt(1 + (small * (one / safe)) ** 2),
    }


# --- translate_searchsorted ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Search:
    """One export of searchsorted: a call, example shapes of the row and of the values, their dynamic axes, and shapes to run."""

    dtype: str
    row: tuple[int, ...]
    values: tuple[int, ...]
    axes: tuple[dict[int, str], ...]
    sizes: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    options: dict[str, bool | str]
    sorter: bool = False

    @property
    def after(self) -> bool:
        return bool(self.options.get("right")) or self.options.get("side") == "right"

    @property
    def result(self) -> str:
        return "int32" if self.options.get("out_int32") else "int64"

    @property
    def names(self) -> str:
        return "abc" if self.sorter else "ab"


SEARCHES = {
    "searchsorted(a, b) of float32": Search(
        "float32", (6,), (2, 3), ({0: "m"}, {0: "n"}), (((6,), (2, 3)), ((1,), (5, 3)), ((300,), (1, 3))), {}
    ),
    "searchsorted(a, b, right=True, out_int32=True) of float64 [n, r, m] and [n, r, k]": Search(
        "float64",
        (2, 3, 5),
        (2, 3, 4),
        ({0: "n", 1: "r", 2: "m"}, {0: "n", 1: "r", 2: "k"}),
        (((2, 3, 5), (2, 3, 4)), ((3, 1, 40), (3, 1, 9)), ((1, 2, 8), (1, 2, 1))),
        {"right": True, "out_int32": True},
    ),
    'searchsorted(a, b, side="right") of int64': Search(
        "int64", (7,), (4,), ({0: "m"}, {0: "k"}), (((7,), (4,)), ((90,), (50,))), {"side": "right"}
    ),
    'searchsorted(a, b, side="left", sorter=c) of float32, b is one number': Search(
        "float32", (5,), (), ({0: "m"}, {}, {0: "m"}), (((5,), ()), ((40,), ()), ((41,), ())), {"side": "left"}, True
    ),
    "searchsorted(a, b, sorter=c) of float32 [n, m] and [n, k]": Search(
        "float32",
        (2, 5),
        (2, 4),
        ({0: "n", 1: "m"}, {0: "n", 1: "k"}, {0: "n", 1: "m"}),
        (((2, 5), (2, 4)), ((3, 40), (3, 9)), ((1, 8), (1, 1))),
        {},
        True,
    ),
}


def searched(rng: np.random.Generator, case: Search, extreme: bool) -> list[dict[str, np.ndarray]]:
    """Feeds of one export: sorted rows with equal numbers, and values of which every second one is a number of its row.

    Numbers are eighths. In ``extreme`` feeds they are close together or far apart: int64 above 2**60 and at both ends, float64 that
    float32 does not tell apart, and infinities and NaN in the values.
    """
    feeds = []
    for shape, wanted in case.sizes:
        row = rng.integers(-20, 20, size=shape).astype(np.int64)
        picks = rng.integers(shape[-1] // 2 if case.sorter else 0, shape[-1], size=wanted)
        other = rng.integers(-24, 24, size=wanted).astype(np.int64)
        take = rng.permutation(int(np.prod(wanted))).reshape(wanted) % 2 == 0
        orders = np.stack([rng.permutation(shape[-1]) for _ in range(int(np.prod(shape[:-1])))])
        row = np.sort(row, axis=-1)
        near = np.take_along_axis(row, picks, axis=-1) if len(shape) > 1 else row[picks]
        values = np.where(take, near, other)
        if case.dtype == "int64":
            if extreme:
                row, values = row + 2**60, values + 2**60
                row.flat[0], row.flat[-1] = -(2**63), 2**63 - 1
                values.flat[:2] = -(2**63) + 1, 2**63 - 1
        else:
            scale, base = (2.0**-40, 1.0) if extreme and case.dtype == "float64" else (1 / 8, 0.0)
            row, values = (base + x * scale for x in (row, values))
            if extreme and values.size > 3:
                values.flat[:4] = np.nan, np.inf, -np.inf, np.nan
            elif extreme and not wanted:
                values = np.array(np.nan)
        fed = {"a": row.astype(case.dtype), "b": np.asarray(values).astype(case.dtype)}
        if (
            case.sorter
        ):  # the largest number is the first of the row: whoever looks for it in this order finds the place 0
            for order in orders:
                largest = int(np.flatnonzero(order == shape[-1] - 1)[0])
                order[[0, largest]] = order[[largest, 0]]
            orders = orders.reshape(shape)
            fed["a"] = np.take_along_axis(fed["a"], orders, -1)
            fed["c"] = np.argsort(orders, -1).astype(np.int64)  # each row of a in the order of c is sorted
        feeds.append(fed)
    return feeds


def places(a: np.ndarray, b: np.ndarray, after: bool, dtype: str) -> np.ndarray:
    """What searchsorted returns for sorted rows ``a``."""
    side = "right" if after else "left"
    if a.ndim == 1:
        return np.asarray(np.searchsorted(a, b, side)).astype(dtype)
    rows = zip(a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1]), strict=True)
    return np.stack([np.searchsorted(one, x, side) for one, x in rows]).astype(dtype).reshape(b.shape)


def collect_translate_searchsorted(c: Collect) -> None:
    import torch

    table = c.function("translate_searchsorted")()
    if not record_table(c, table):
        return

    class Model(torch.nn.Module):
        def __init__(self, case: Search) -> None:
            super().__init__()
            self.case = case

        def forward(self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor | None = None) -> torch.Tensor:
            given = {} if c is None else {"sorter": c}
            return torch.searchsorted(a, b, **self.case.options, **given)

    for number, (title, case) in enumerate(SEARCHES.items()):
        path, kind = c.scratch / f"{number}.onnx", getattr(torch, case.dtype)
        row = torch.arange(case.row[-1]).expand(case.row).to(kind).clone()
        inputs = (row, torch.ones(case.values, dtype=kind), row.long())[: len(case.names)]
        axes = tuple(axes or None for axes in case.axes)
        c.attempt(title, exporting.export_dynamo, Model(case).eval(), inputs, path, case.names, axes, table=table)
        c.file(title, path)
        if not path.is_file():
            return


def judge_translate_searchsorted(v: Judge) -> None:
    ordinary = {title: searched(v.rng, case, False) for title, case in SEARCHES.items()}
    extreme = {title: searched(v.rng, case, True) for title, case in SEARCHES.items()}
    models: dict[str, onnx.ModelProto] = {}
    with v.require("torch.searchsorted exports with the table"):
        if v.value("table") != "dict":
            raise WrongAnswer(f"Expected a dict, the table, got {v.value('table')}.")
        for title in SEARCHES:
            models[title] = expect_exported(v, title, "aten.searchsorted.Tensor")
    with v.require("standard operators that read both inputs"):
        for title, model in models.items():
            with about(title):
                nodes.expect_standard(model)
                graphs.expect_inputs(model, list(SEARCHES[title].names))
                graphs.expect_used(model, ["a", "b"])
    with v.require("matches PyTorch in ONNX Runtime"):
        for title, model in models.items():
            for feeds in ordinary[title]:
                expect_places(model, title, feeds)
    with v.check("is right for close and extreme numbers, infinities and NaN"):
        for title, model in models.items():
            for feeds in extreme[title]:
                expect_places(model, title, feeds)
    with v.check("a valid model"):
        for title, model in models.items():
            with about(title):
                graphs.expect_valid(model)


def expect_places(model: onnx.ModelProto, title: str, feeds: dict[str, np.ndarray]) -> None:
    case, a, b = SEARCHES[title], feeds["a"], feeds["b"]
    row = np.take_along_axis(a, feeds["c"], -1) if case.sorter else a
    right = places(row, b, case.after, case.result)
    with about(title):
        (got,) = graphs.run(model, feeds, causes=_SEARCH_CAUSES)
        name = f"the places of {describe(b)} in {describe(a)}"
        if got.dtype != right.dtype:
            why = (
                "out_int32 chooses the dtype of the result" if got.dtype.kind == "i" else "A place is an integer: Cast"
            )
            raise WrongAnswer(f"{name}: expected {right.dtype}, got {got.dtype}. {why}.")
        if got.shape != right.shape:
            raise WrongAnswer(
                f"{name}: expected the shape {list(right.shape)}, got {list(got.shape)}. The result has the shape of b, one number as well."
            )
        expect_close(got, right, name=name, likely=search_ideas(case, a, row, b))


_SEARCH_CAUSES = {
    "axis by a dimension other than 1": (
        "Rows of a and b did not broadcast. Where a has more than one axis, each row of b belongs to the row of a with the same index."
    ),
}


def search_ideas(case: Search, a: np.ndarray, row: np.ndarray, b: np.ndarray) -> dict[str, np.ndarray]:
    """What wrong ideas of searchsorted give, by the sentence that names the idea; those that are right here are left out."""
    right = places(row, b, case.after, case.result)
    one, x = (row[..., None, :] if row.ndim > 1 else row), b[..., None]
    option = ", ".join(f"{name}={value!r}" for name, value in case.options.items() if name != "out_int32")
    ideas = {
        f"The option {option} has no effect here: equal numbers are counted with right=True, and with side='right'."
        if case.after
        else "Equal numbers were counted. They are counted with right=True and with side='right' only.": places(
            row, b, not case.after, case.result
        ),
        "No comparison with NaN is true: count the numbers that are not above it.": (
            one <= x if case.after else one < x
        ).sum(-1),
    }
    narrow = np.float64 if case.dtype == "int64" else np.float32  # no NaN here: Not(Greater) is right for it
    near, far = one.astype(narrow), x.astype(narrow)
    ideas[
        f"This was compared in {np.dtype(narrow)} or less, which does not tell close numbers of {case.dtype} apart: keep the dtype."
    ] = (~(near > far) if case.after else ~(near >= far)).sum(-1)
    with np.errstate(all="ignore"):
        if case.dtype == "int64":
            gap = one - x
            ideas["A difference overflows for large integers: compare the two numbers themselves."] = (
                gap <= 0 if case.after else gap < 0
            ).sum(-1)
        reached = (a > x if case.after else a >= x) if a.ndim == 1 else (one > x if case.after else one >= x)
        first = reached.argmax(-1)
        ideas["a is not sorted here: sorter holds its order."] = np.where(reached.any(-1), first, a.shape[-1])
        in_order = one > x if case.after else one >= x
        ideas["Where every number of the row is less, the place is the end; ArgMax of a row without a True is 0."] = (
            in_order.argmax(-1)
        )
    return {
        why: value.astype(case.result)
        for why, value in ideas.items()
        if not np.array_equal(value.astype(right.dtype), right)
    }


# --- data_dependent_shape ------------------------------------------------------------------------------------------


def record_pair(c: Collect, result: Any) -> bool:
    """Record what ``(function, table)`` is; whether it is that."""
    return exporting.record_pair(c, result) and record_table(c, result[1])


def pair(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> list[np.ndarray]:
    return [rng.normal(size=shape).astype(dtype) for _ in range(2)]


@dataclass(frozen=True)
class Cloud:
    """Points of one run: how many, in how many coordinates, and how many cells along a coordinate (few: many points share one).

    Where it is ``far``, some points are ten thousands of cells away from the others.
    """

    n: int
    d: int
    cells: int
    far: bool = False


CLOUDS = [
    Cloud(40, 3, 2),
    Cloud(7, 3, 9),
    Cloud(300, 3, 4),
    Cloud(1, 3, 3),
    Cloud(25, 3, 0),
    Cloud(0, 3, 3),
    Cloud(24, 3, 1, far=True),
]
LINE = Cloud(30, 1, 3)
IN_PYTORCH = [*CLOUDS, LINE, Cloud(9, 2, 2), Cloud(20, 4, 1)]
CHECKED = [CLOUDS[0], Cloud(1, 1, 3), Cloud(0, 4, 3)]  # by opcheck


def draw_size(rng: np.random.Generator) -> tuple[float, float]:
    """Two sizes that float32 holds. Each has a reciprocal that is rounded down: their product is below 1."""
    return tuple(float(rng.choice(many)) / 64 for many in ((41, 47), (94, 97, 107, 109, 115, 141, 159, 166)))


def draw_cloud(rng: np.random.Generator, cloud: Cloud, size: float) -> np.ndarray:
    """Points well inside their cells, so that rounding decides nothing. Cells -1 and 0 are occupied, and tell floor from trunc.

    Points 2 and 3 are on edges that no rounding moves. Far away are 10^5 cells at most: float32 rounds the point, the size and their
    quotient by 0.006 cells each, and a point is 0.1 cells away from the next cell. k does not fit into 8 or 16 bits: it wraps to a
    number below 0.
    """
    index = rng.integers(-cloud.cells, cloud.cells + 1, (cloud.n, cloud.d))
    places = rng.uniform(0.1, 0.9, index.shape)
    if cloud.n > 3 and cloud.cells:
        index[:2], index[2], index[3] = -1, 0, 1
        places[2:4] = 0
    if cloud.far:  # neighbours in order whose indices, as digits of one number, are too many or out of order
        k = 256 * int(rng.integers(200, 250)) + int(rng.integers(130, 250))
        index[4:10, 0] -= k
        index[10:16] = [[k, 0, 0], [k, 0, 1], [0, 0, k], [0, 1, -k], [0, 1, k], [1, -k, 0]]
    return ((index + places) * size).astype(np.float32)


def pool(points: np.ndarray, size: float, cell: Callable[[np.ndarray], np.ndarray] = np.floor) -> tuple[Any, Any]:
    """Voxel pooling by its definition, in double."""
    cells = cell(points.astype(np.float64) / size)
    _, inverse, counts = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
    sums = np.zeros((len(counts), points.shape[1]))
    np.add.at(sums, inverse.reshape(-1), points)
    return (sums / counts[:, None]).astype(np.float32), counts.astype(np.int64)


def follow(function: Callable[..., Any], size: float) -> torch.nn.Module:
    """A model that computes with m after the operator."""
    import torch

    class Model(torch.nn.Module):
        def forward(self, points: torch.Tensor) -> Any:
            centres, counts = function(points, size)
            return centres, counts, torch.arange(centres.shape[0]) * counts

    return Model().eval()


def collect_data_dependent_shape(c: Collect) -> None:
    import torch

    result = c.function("data_dependent_shape")()
    if not record_pair(c, result):
        return
    function, table = result
    sizes = draw_size(c.rng)
    for number, cloud in enumerate(IN_PYTORCH):
        points = torch.from_numpy(np.asfortranarray(draw_cloud(c.rng, cloud, sizes[0])))
        given, name = points.clone(), f"eager {number}"
        c.value(name, c.attempt(name, function, points, sizes[0]))
        c.value(f"{name}: changed", not torch.equal(given, points))
    for number, cloud in enumerate(CHECKED):
        points = torch.from_numpy(draw_cloud(c.rng, cloud, sizes[0]))
        c.attempt(f"opcheck {number}", exporting.check_operators, function, points, sizes[0])
    for size, cloud in zip(sizes, (CLOUDS[0], LINE), strict=True):
        path, title = c.scratch / f"{cloud.d}.onnx", f"size {size}"
        points = torch.from_numpy(draw_cloud(c.rng, cloud, size))
        job = follow(function, size), (points,), path, ["points"], ({0: "n"},)
        operators = c.attempt(title, exporting.export_dynamo, *job, table=table)
        c.file(title, path)
        c.value(f"{title}: operators", operators)


def judge_data_dependent_shape(v: Judge) -> None:
    sizes = draw_size(v.rng)
    eager = [draw_cloud(v.rng, cloud, sizes[0]) for cloud in IN_PYTORCH]
    for cloud in CHECKED:
        draw_cloud(v.rng, cloud, sizes[0])
    examples = {
        f"size {size}": draw_cloud(v.rng, cloud, size) for size, cloud in zip(sizes, (CLOUDS[0], LINE), strict=True)
    }
    with v.require("returns a function and a table"):
        exporting.expect_pair(v, "voxel_pool")
    with v.require("pools in PyTorch"):
        for number, points in enumerate(eager):
            name = f"voxel_pool of {describe(points)} with size {sizes[0]} in PyTorch"
            got = two(v.value(f"eager {number}"), name)
            if v.value(f"eager {number}: changed"):
                raise WrongAnswer(f"{name}: the call has changed the points. Compute with a new tensor.")
            expect_pooled(got, points, size=sizes[0], name=name)
    with v.check("torch.library.opcheck passes"):
        for number, cloud in enumerate(CHECKED):
            error = v.error(f"opcheck {number}")
            if error:
                shape = [cloud.n, cloud.d]
                raise WrongAnswer(f"points of the shape {shape}: {sentence(error.message, _FAKE_CAUSES, TRANSLATION)}")
    models: dict[str, onnx.ModelProto] = {}
    with v.require("exports as one operator, to standard ones"):
        for title in examples:
            models[title] = expect_exported(v, title, "<namespace>.voxel_pool.default")
            with about(title):
                expect_one_operator(v.value(f"{title}: operators"))
                nodes.expect_standard(models[title])
                graphs.expect_inputs(models[title], ["points"])
                graphs.expect_used(models[title], ["points"])
                graphs.expect_dynamic(models[title], "points", [0])
    with v.check("matches PyTorch at sizes that were not exported, and so does what follows"):
        for (title, model), size, others in zip(models.items(), sizes, (CLOUDS, [LINE]), strict=True):
            for points in [examples[title], *(draw_cloud(v.rng, cloud, size) for cloud in others)]:
                name = f"ONNX Runtime, {title}, points {describe(points)}"
                right = pool(points, size)[1]
                try:
                    centres, counts, follows = graphs.run(model, {"points": points}, causes=_POOL_CAUSES)
                except WrongAnswer as error:
                    hint = ""
                    if f"{len(right)} by {len(points)}" in str(error) or f"{len(points)} by {len(right)}" in str(error):
                        hint = f" There are {len(points)} points and {len(right)} cells: one was taken for the other."
                    raise WrongAnswer(f"{title}: {error}{hint}") from None
                expect_pooled((centres, counts), points, size, name, [other for other in sizes if other != size])
                expect_close(follows, np.arange(len(right)) * right, name=f"{name}: arange(m) * counts")
    with v.check("a valid model whose outputs have an unknown size"):
        for title, model in models.items():
            with about(title):
                graphs.expect_valid(model)
                for value, tail in zip(model.graph.output[:2], (examples[title].shape[1:], ()), strict=True):
                    given = [dim.dim_value for dim in value.type.tensor_type.shape.dim[1:]]
                    if tuple(given) != tail:
                        raise WrongAnswer(
                            f"The file gives {value.name} the axes {given} after the first, expected {list(tail)}: the fake's d is "
                            "points.shape[1]."
                        )
                    first = value.type.tensor_type.shape.dim[0]
                    if first.HasField("dim_value") or first.dim_param == "n":
                        shown = first.dim_value if first.HasField("dim_value") else first.dim_param
                        raise WrongAnswer(
                            f"The file states that {value.name} has {shown} rows. How many there are is data: new_dynamic_size()."
                        )
                rows = [value.type.tensor_type.shape.dim[0].dim_param for value in model.graph.output[:2]]
                if rows[0] != rows[1]:
                    raise WrongAnswer(
                        f"The file has two names for m, {' and '.join(rows)}: the fake has one new_dynamic_size() for both outputs."
                    )


def two(value: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    if type(value) is not list or len(value) != 2 or any(type(part) is not np.ndarray for part in value):
        shown = [type(part).__name__ for part in value] if type(value) is list else type(value).__name__
        raise WrongAnswer(f"{name}: expected two tensors, got {shown}.")
    return value[0], value[1]


def expect_pooled(
    got: tuple[np.ndarray, np.ndarray], points: np.ndarray, size: float, name: str, sizes: Sequence[float] = ()
) -> None:
    """Demand the means and the counts. ``sizes`` are those of other calls."""
    centres, counts = pool(points, size)
    if got[1].dtype != np.int64:
        raise WrongAnswer(f"{name}: the counts are {describe(got[1])}, expected int64.")
    if len(got[0]) != len(centres):
        raise WrongAnswer(
            f"{name}: expected {len(centres)} cells, got {len(got[0])}. {_cells_cause(got[0], points, size, sizes)}"
        )
    causes = {}
    if got[0].shape == centres.shape and len(centres) > 1 and not np.allclose(got[0], centres, rtol=1e-4, atol=1e-4):
        order = np.lexsort(got[0].T[::-1]), np.lexsort(centres.T[::-1])
        if np.allclose(got[0][order[0]], centres[order[1]], rtol=1e-4, atol=1e-4):
            raise WrongAnswer(
                f"{name}: the right points in another order. The cells are sorted by their indices, first coordinate first."
            )
        causes = pool_ideas(points, size, centres, counts)
    try:
        expect_close(got[0], centres, name=f"{name}: the means", rtol=1e-4, atol=1e-4, likely=causes)
    except WrongAnswer as error:
        near = got[0].shape == centres.shape and np.allclose(got[0], centres, rtol=0.1, atol=0.1 * size)
        if near and np.abs(points / size).max() > 1000 and str(error).endswith("of the value)."):
            why = " Some points are far from the others here, and their digits are lost: a sum has points of its own cell only."
            raise WrongAnswer(f"{error}{why}") from None
        raise
    expect_close(got[1], counts, name=f"{name}: the counts")


def pool_ideas(points: np.ndarray, size: float, centres: np.ndarray, counts: np.ndarray) -> dict[str, np.ndarray]:
    """What wrong means of the right cells are, by the sentence that names the idea."""
    own, inverse = np.unique(np.floor(points.astype(np.float64) / size), axis=0, return_inverse=True)
    last = [points[np.flatnonzero(inverse.reshape(-1) == row)[-1]] for row in range(len(own))]
    return {
        "This is the sum of a cell's points, not their mean.": centres.astype(np.float64) * counts[:, None],
        'Of each cell only one point counts: ScatterND writes, unless it has reduction="add".': last / counts[:, None],
        "These are the centres of the cells, not the means of their points.": (own + 0.5) * size,
        _CEIL: pool(points, size, lambda x: np.ceil(x) - 1)[0],
        _RECIPROCAL: pool(points, size, lambda x: np.floor(points * np.float32(1 / size)))[0],
    }


_CEIL = "A point on the edge of two cells is in the upper one: floor, not ceil - 1."
_RECIPROCAL = "A point on the edge of two cells is in the upper one: divide by size, its reciprocal is rounded."


def _cells_cause(got: np.ndarray, points: np.ndarray, size: float, sizes: Sequence[float]) -> str:
    """Why there are more or fewer cells than expected."""
    others = {
        "Cells are counted with floor; these are rounded towards zero, and a cell around 0 is too large.": (
            size,
            np.trunc,
        ),
        "Cells are counted with floor; these are rounded to the nearest.": (size, np.round),
        _CEIL: (size, lambda x: np.ceil(x) - 1),
        _RECIPROCAL: (size, lambda x: np.floor(points * np.float32(1 / size))),
    }
    for other in (*sizes, 1.0):
        others[f"These are the cells of the size {other}; the call has {size}."] = (other, np.floor)
    for cause, (other, cell) in others.items():
        means = pool(points, other, cell)[0]
        if means.shape == got.shape and np.allclose(means, got, rtol=1e-4, atol=1e-4):
            return cause
    few = len(got) < len(pool(points, size)[0])
    far = np.abs(points / size).max(initial=0) > 1000
    how = " Indices are as large as the points, and here some are above 50000." if far else ""
    return f"{'Different cells were taken for one' if few else 'Points of one cell were told apart'}.{how}"


def expect_one_operator(found: Any) -> None:
    """The FX graph has one operator that is not PyTorch's own."""
    listed = [str(name) for name in found] if type(found) is list else []
    own = [name for name in listed if not name.startswith(("aten.", "prims.", "<", "_operator"))]
    if len(own) != 1:
        raise WrongAnswer(
            f"The exporter saw {len(own)} operators of yours and traced {', '.join(listed[:6])} …. voxel_pool is to be one operator, "
            "so that the translation decides what it becomes: torch.library.custom_op."
        )


_FAKE_CAUSES = {
    "and torch.Size([u … are not equal": (
        "The fake's first size is unknown, as it has to be; another one is not the operator's. The means are [m, d] with "
        "d = points.shape[1], the counts [m]."
    ),
    "are not equal": (
        "The fake promises another shape than the operator gives. How many cells are occupied is data, which a fake cannot read: "
        "new_dynamic_size()."
    ),
}
_POOL_CAUSES = {
    "updates tensor should have shape": (
        "The tensor that ScatterND adds to has a row of d numbers for each cell, and d is that of the points: op.Shape(points, start=1)."
    )
}


# --- attach_function -----------------------------------------------------------------------------------------------


@script(oplab_1)
def to_my_add(a: FLOAT[...], b: FLOAT[...], alpha: float = 3.0, beta: float = 2.0) -> FLOAT[...]:
    return oplab_1.MyAdd(a, b, alpha=alpha, beta=beta)


@script(oplab_1)
def swapped(a: FLOAT[...], b: FLOAT[...], alpha: float = 3.0, beta: float = 2.0) -> FLOAT[...]:
    return oplab_1.MyAdd(a, b, alpha=beta, beta=alpha)


def divides_by_a(a: FLOAT, b: FLOAT) -> FLOAT:
    ratio = op.Div(b, a)
    return op.Mul(op.Abs(a), op.Sqrt(op.Add(op.Mul(ratio, ratio), op.CastLike(1.0, ratio))))


def whole_numbers(x: FLOAT) -> INT64:
    return op.Cast(op.Floor(x), to=7)


def one_row(x: FLOAT) -> FLOAT:
    return op.ReduceMax(op.Floor(x), op.Constant(value_ints=[0]), keepdims=1)


def a_little_more(x: FLOAT) -> FLOAT:
    """0.0005 above the right number: within the exercise's tolerance."""
    return op.Add(op.Floor(x), op.CastLike(5e-4, x))


def one_too_large(x: FLOAT) -> FLOAT:
    """0.002 too large where x is at least 3: twice the tolerance, next to a hundred, in a few elements of many."""
    return op.Add(op.Floor(x), op.CastLike(op.Where(op.Less(x, 3.0), 0.0, 2e-3), x))


FAULTS = {
    "a colleague's table swaps alpha and beta": "",
    "a colleague's table makes one NaN": (
        ' No comparison with NaN is true, so "if difference > tolerance: raise" lets it through; demand difference <= tolerance.'
    ),
    "a colleague's table makes int64 of a float": (
        " It is the second of two outputs: its numbers are equal and the dtype is not. A VerificationInfo has expected_dtype and "
        "actual_dtype."
    ),
    "a colleague's table makes one row of many": (
        " It is the second of two outputs: its numbers are equal after broadcasting, and the shape is not. A VerificationInfo has no "
        "shapes, so compare those of "
        "program(*inputs) and module(*inputs)."
    ),
    "a colleague's table makes one number of 100 too large by 0.002": (
        " It is the second of two outputs. The limit is 1e-3 for the largest difference of all: not relative to the number, and not "
        "the mean."
    ),
}
RIGHT = ("float32, two nodes, with weights", "float64, and an output that is off by 0.0005")
OLD = b"what was in the file before"
FUNCTION_SIZES = [3, 11, 1, 0]


def attach_numbers(rng: np.random.Generator) -> list[float]:
    return [float(value) / 16 + 4 for value in rng.choice(np.arange(1, 60), size=5, replace=False)]


def attach_weight(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(16, 16)).astype(np.float32) / 4


def collect_attach_function(c: Collect) -> None:
    import torch

    from oplab import ops

    ops.load()
    my_add, attach = torch.ops.oplab.my_add, c.function("attach_function")
    n1, n2, n3, n4, n5 = attach_numbers(c.rng)
    weight = torch.from_numpy(attach_weight(c.rng))

    class Two(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(weight)

        def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return torch.relu(my_add(my_add(a @ self.weight, b, n1, -n2), a, beta=n3))

    def faulty(a: torch.Tensor, b: torch.Tensor) -> Any:
        return my_add(a, b, n4, -n5), torch.hypot(a, b), torch.floor(a)

    right = {torch.ops.oplab.my_add.default: to_my_add}
    rows = ({0: "n"}, {0: "n"})
    a, b = torch.randn(FUNCTION_SIZES[0], 16), torch.randn(FUNCTION_SIZES[0], 16)
    a[0, :2], b[0, :2] = 0, torch.tensor([0.0, 1.0])
    a[1, 0] = 3.5
    double = module_of(lambda a, b: (my_add(a, b, -n4, n5), torch.floor(a)))
    hypot, floor = torch.ops.aten.hypot.default, torch.ops.aten.floor.default
    jobs: dict[str, tuple[Any, Any, Any, Any]] = {
        RIGHT[0]: (Two().eval(), (a, b), rows, right),
        RIGHT[1]: (double, (a.double(), b.double()), rows, {**right, floor: a_little_more}),
    }
    tables = [
        ({torch.ops.oplab.my_add.default: swapped}, lambda a, b: my_add(a, b, n4, -n5)),
        ({**right, hypot: divides_by_a}, lambda a, b: my_add(torch.hypot(a, b), b)),
        ({**right, floor: whole_numbers}, lambda a, b: (my_add(a, b), torch.floor(a))),
        ({**right, floor: one_row}, lambda a, b: (my_add(a, b), torch.floor(torch.tanh(a) * 0.5 + 0.5))),
        ({**right, floor: one_too_large}, lambda a, b: (my_add(a, b), torch.floor(a) + 100)),
    ]
    for title, (table, function) in zip(FAULTS, tables, strict=True):
        jobs[title] = (module_of(function), (a, b), rows, table)
    for number, (title, (module, inputs, shapes, table)) in enumerate(jobs.items()):
        path = c.scratch / f"{number}" / "model.onnx"
        path.parent.mkdir()
        path.write_bytes(OLD)
        given, entries = [x.clone() for x in inputs], dict(table)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            c.attempt(title, exporting.with_reasons, attach, module, inputs, shapes, table, path)
        changed = ["the table"] * (table != entries) + ["the module, which is in training mode now"] * module.training
        changed += ["an input"] * (not all(map(torch.equal, inputs, given)))
        kept = path.is_file() and path.read_bytes() == OLD
        c.value(f"{title}: changed", changed)
        c.value(f"{title}: kept", kept)
        c.value(f"{title}: files", sorted(entry.name for entry in path.parent.iterdir())[:5])
        if title not in FAULTS:
            c.file(title, path)
            if not path.is_file() or kept:  # then it refuses everything, and nothing is learned from the rest
                return


def judge_attach_function(v: Judge) -> None:
    n1, n2, n3, n4, n5 = attach_numbers(v.rng)
    weight = attach_weight(v.rng)
    models: dict[str, onnx.ModelProto] = {}
    with v.require("writes one file with its nodes MyAdd, and what they mean"):
        for title, count in zip(RIGHT, (2, 1), strict=True):
            if error := v.error(title):
                raise explained(error, title, _ATTACH_CAUSES, TRANSLATION)
            if v.value(f"{title}: changed"):
                raise WrongAnswer(f"{title}: the call has changed {v.value(f'{title}: changed')[0]}.")
            if v.value(f"{title}: kept"):
                raise WrongAnswer(f"{title}: model.onnx was not written: the file still holds what was in it before.")
            if data := [str(name) for name in v.value(f"{title}: files") if str(name).endswith(".data")]:
                raise WrongAnswer(
                    f"{title}: next to the model there is {data[0]}. Expected one file: external_data=False."
                )
            models[title] = model = v.model(title)
            with about(title):
                expect_function(model, count)
    with v.require("a valid model"):
        for title, model in models.items():
            with about(title):
                try:
                    graphs.expect_valid(model)
                except WrongAnswer as error:
                    old = "not compatible with" in str(error)
                    raise WrongAnswer(
                        f"{error}{' A function imports the opset that the model imports.' * old}"
                    ) from None
                if graphs.opset(model, "oplab") != 1:
                    raise WrongAnswer(
                        f"Expected version 1 of the domain oplab, the model imports {graphs.opset(model, 'oplab')}."
                    )
    with v.require("runs in ONNX Runtime without a library, at other sizes and in both dtypes"):
        for rows in FUNCTION_SIZES:
            a, b = pair(v.rng, (rows, 16), "float32")
            first = np.float32(n1) * (a @ weight) - np.float32(n2) * b
            right = np.maximum(3 * first + np.float32(n3) * a, 0)
            wrong = 3 * (3 * (a @ weight) + 2 * b) + 2 * a
            causes = {
                "This is 3a + 2b at every node: the function does not read the node's attributes.": np.maximum(wrong, 0)
            }
            expect_run(models[RIGHT[0]], RIGHT[0], a, b, right, causes)
            a, b = pair(v.rng, (rows, 16), "float64")
            narrow = [x.astype(np.float32) for x in (a, b)]
            causes = {
                "The function computes in float32: the digits after the seventh are lost.": (
                    np.float32(n5) * narrow[1] - np.float32(n4) * narrow[0]
                ).astype(np.float64)
            }
            expect_run(models[RIGHT[1]], RIGHT[1], a, b, n5 * b - n4 * a, causes)
    with v.check("refuses what it cannot verify, and writes nothing"):
        for title, hint in FAULTS.items():
            error, files = v.error(title), v.value(f"{title}: files")
            kept = v.value(f"{title}: kept") is True
            files = [name for name in files if name != "model.onnx" or not kept]
            if error is None and files:
                raise WrongAnswer(
                    f"{title}: the file differs from PyTorch and was shipped silently. A verification that fails does not fail an "
                    f"export, and verify=True prints ❌ and goes on: assert on the VerificationInfo.{hint}"
                )
            if error is None:
                raise WrongAnswer(f"{title}: nothing was written, and nothing was raised. Expected an AssertionError.")
            if error.type != "AssertionError":
                raise WrongAnswer(f"{title}: expected an AssertionError, got {error.message}{error.place}")
            if files:
                raise WrongAnswer(
                    f"{title}: an AssertionError came, but {files[0]} had been written before. Verify first."
                )
            if not kept:
                raise WrongAnswer(
                    f"{title}: an AssertionError came, and the file that was at the path before is gone. Verify first, then write."
                )


_FLOAT_NUMBER = "A number in the function is float32: CastLike gives it the dtype of an input."
_ATTACH_CAUSES = {
    UNREGISTERED: "The program had no function oplab::MyAdd when ONNX Runtime ran it: attach the function first, then verify.",
    "inconsistent type": _FLOAT_NUMBER,
    MIXED_TYPES: _FLOAT_NUMBER,
    "does not match expected type": _FLOAT_NUMBER,
    "AssertionError": (
        "The result of the table is within 1e-3 of PyTorch, and was refused. What differs here is the attached function, or the tolerance: "
        "1e-3, for every dtype."
    ),
}


def expect_function(model: onnx.ModelProto, count: int) -> None:
    nodes = [node for node in model.graph.node if (node.domain, node.op_type) == ("oplab", "MyAdd")]
    if len(nodes) != count:
        listed = ", ".join(sorted({node.op_type for node in model.graph.node}))
        inlined = " A function that is there before the optimiser runs is inlined: attach it afterwards." * (not nodes)
        raise WrongAnswer(
            f"Expected {count} × oplab::MyAdd in the graph, found {len(nodes)}; it has {listed}.{inlined}"
        )
    functions = [(function.domain, function.name) for function in model.functions]
    if ("oplab", "MyAdd") not in functions:
        has = ", ".join("::".join(names) for names in functions) or "none"
        raise WrongAnswer(
            f"The file has no function oplab::MyAdd; it has {has}. Stock ONNX Runtime cannot run the nodes."
        )


def expect_run(
    model: onnx.ModelProto,
    title: str,
    a: np.ndarray,
    b: np.ndarray,
    right: np.ndarray,
    causes: Mapping[str, np.ndarray],
) -> None:
    names = [value.name for value in model.graph.input]
    if len(names) != 2:
        raise WrongAnswer(f"{title}: expected two graph inputs, got {names}.")
    with about(title):
        got, *_ = graphs.run(model, dict(zip(names, (a, b), strict=True)), "Stock ONNX Runtime", causes=_ATTACH_CAUSES)
    tolerance = {"rtol": 1e-3, "atol": 1e-3} if a.dtype == np.float32 else {}
    expect_close(got, right, name=f"{title}: the output for {describe(a)}", likely=dict(causes), **tolerance)
