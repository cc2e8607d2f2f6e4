"""Checks of chapter 11: a class for the reference evaluator, Python kernels in ONNX Runtime, and an operator's definition in the model."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oplab.checks import graphs
from oplab.checks.evidence import Collect
from oplab.checks.exporting import about
from oplab.checks.judge import Judge
from oplab.checks.ort_errors import NO_CAUSES, OUTPUT_TYPE, UNREGISTERED, Causes, explained
from oplab.checks.references.points import neighbours
from oplab.parity.arrays import WrongAnswer, describe, expect_close

if TYPE_CHECKING:
    import onnx

CONTRIB = "ai.onnx.contrib"


def make_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, tuple[int, Sequence[Any]]],
    outputs: Mapping[str, tuple[int, Sequence[Any]]],
    imports: Mapping[str, int],
    functions: Sequence[onnx.FunctionProto] = (),
) -> onnx.ModelProto:
    """A model of these nodes; inputs and outputs are pairs of an element type and a shape, by name."""
    from onnx import helper

    infos = [
        [helper.make_tensor_value_info(name, *kind) for name, kind in group.items()] for group in (inputs, outputs)
    ]
    return helper.make_model(
        helper.make_graph(list(nodes), "graph", *infos),
        ir_version=10,
        opset_imports=[helper.make_opsetid(domain, version) for domain, version in imports.items()],
        functions=list(functions),
    )


def rethrow(v: Judge, name: str, causes: Causes = NO_CAUSES) -> None:
    """Raise what was recorded as an exception under ``name``, with its usual cause."""
    error = v.error(name)
    if error:
        raise explained(error, name, causes, raised=True)


def answer(c: Collect, name: str, function: str, *args: Any) -> tuple[Any] | None:
    """What the learner's function returned, in a tuple; None where it raised, which is then evidence under ``name``."""
    return c.attempt(name, lambda: (c.function(function)(*args),))


# --- reference_knn -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Query:
    """One call of KNNQuery: how many points and new points are in each batch, and how its node is written.

    Attributes:
        grid: coordinates are whole multiples of an eighth, up to this many eighths: a small number makes many ties. Distances of such
            points are exact in float, so every way to compute them agrees on what a tie is.
        names: the node's inputs.
        far: how far from 0 the points are, in each coordinate; sums with eighths are exact in float, too.
    """

    title: str
    batches: tuple[int, ...]
    nsample: int
    new: tuple[int, ...] | None = None
    grid: int = 64
    names: tuple[str, ...] = ("xyz", "offset")
    far: int = 0


ALL_FOUR = ("xyz", "offset", "new_xyz", "new_offset")
QUERIES = [
    Query("one batch", (23,), 4),
    Query("one neighbour", (9,), 1),
    Query("three batches", (12, 7, 15), 3),
    Query("new points", (14, 11), 5, new=(3, 8), names=ALL_FOUR),
    Query("more new points than points", (6, 8), 2, new=(17, 5), names=ALL_FOUR),
    Query("two empty names", (10, 9), 3, names=("xyz", "offset", "", "")),
    Query("one empty name", (10, 9), 3, names=("xyz", "offset", "")),
    Query("points around 200000", (20, 13), 6, far=200_000),
    Query("fewer points than nsample", (2, 9, 1), 5),
    Query("empty batches", (0, 6, 0, 3), 4, new=(2, 5, 0, 0), names=ALL_FOUR),
    Query("no new points", (4, 3), 2, new=(0, 0), names=ALL_FOUR),
    Query("no points", (0,), 3),
    Query("many ties", (40, 30), 6, grid=2),
    Query("many ties, new points", (50,), 9, new=(20,), grid=2, names=ALL_FOUR),
    Query("130 neighbours", (140, 133), 130),
]
POINTS, PADS, TIES = QUERIES[:8], QUERIES[8:12], QUERIES[12:]
# Two runs of one evaluator, whose model has two nodes: the first with the points alone and one neighbour.
TWICE = [
    Query("two nodes in one model, first run", (14, 11), 5, new=(3, 8), names=ALL_FOUR),
    Query("two nodes in one model, second run", (11, 14), 5, new=(6, 5), names=ALL_FOUR),
]


def draw_points(rng: np.random.Generator, query: Query) -> dict[str, np.ndarray]:
    """The feeds of one query, by the names of KNNQuery's inputs. Both halves draw the same."""

    def cloud(counts: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
        points = rng.integers(-query.grid, query.grid + 1, (sum(counts), 3)) / 8 + query.far
        return points.astype(np.float32), np.cumsum(counts, dtype=np.int64)

    feeds = dict(zip(("xyz", "offset"), cloud(query.batches), strict=True))
    if query.new is not None:
        feeds |= dict(zip(("new_xyz", "new_offset"), cloud(query.new), strict=True))
    if len(query.batches) == 1:
        feeds["xyz"] = np.asfortranarray(feeds["xyz"])  # the same numbers, another layout
    return feeds


def alone(query: Query, feeds: Mapping[str, np.ndarray]) -> tuple[Query, dict[str, np.ndarray]]:
    """What the first of two nodes computes: one neighbour, among the points themselves."""
    own = {name: feeds[name] for name in ("xyz", "offset")}
    return replace(query, nsample=1, new=None, names=("xyz", "offset")), own


def knn_model(query: Query, two: bool = False) -> onnx.ModelProto:
    """A model of one KNNQuery, or of two: then the first is what :func:`alone` describes."""
    from onnx import TensorProto, helper

    kinds = {"xyz": (TensorProto.FLOAT, ["n", 3]), "new_xyz": (TensorProto.FLOAT, ["m", 3])}
    kinds |= {"offset": (TensorProto.INT64, ["b"]), "new_offset": (TensorProto.INT64, ["b"])}
    rows = "m" if "new_xyz" in query.names else "n"
    node = helper.make_node("KNNQuery", query.names, ["idx", "dist"], domain="oplab", nsample=query.nsample)
    outputs = {
        "idx": (TensorProto.INT32, [rows, query.nsample]),
        "dist": (TensorProto.FLOAT, [rows, query.nsample]),
    }
    nodes = [node]
    if two:
        first = helper.make_node("KNNQuery", ["xyz", "offset"], ["idx1", "dist1"], domain="oplab", nsample=1)
        nodes.insert(0, first)
        outputs = {"idx1": (TensorProto.INT32, ["n", 1]), "dist1": (TensorProto.FLOAT, ["n", 1]), **outputs}
    return make_model(nodes, {name: kinds[name] for name in query.names if name}, outputs, {"": 18, "oplab": 1})


def collect_reference_knn(c: Collect) -> None:
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

    returned = answer(c, "the class", "reference_knn")
    if returned is None:
        return
    (made,) = returned
    is_class = isinstance(made, type)
    c.value("kind", made.__name__[:100] if is_class else type(made).__name__)
    c.value("is a class", is_class)
    c.value("is an OpRun", is_class and issubclass(made, OpRun))
    if not (is_class and issubclass(made, OpRun)):
        return
    domain = made.op_domain
    c.value("domain", domain if type(domain) is str else type(domain).__name__)

    def run(model: onnx.ModelProto, feeds: dict[str, np.ndarray], kept: list[ReferenceEvaluator]) -> list[Any]:
        if not kept:
            kept.append(ReferenceEvaluator(model, new_ops=[made]))
        try:
            return kept[0].run(None, feeds)
        except TypeError as error:  # the evaluator's own, raised from the learner's
            raise error.__cause__ or error from None

    both: list[ReferenceEvaluator] = []  # one evaluator runs all of TWICE
    for query in [*QUERIES, *TWICE]:
        two = query in TWICE
        feeds = draw_points(c.rng, query)
        given = {name: value.copy() for name, value in feeds.items()}
        c.value(query.title, c.attempt(query.title, run, knn_model(query, two), feeds, both if two else []))
        c.value(f"{query.title}: changed", [name for name in feeds if not np.array_equal(feeds[name], given[name])])


def judge_reference_knn(v: Judge) -> None:
    drawn = {query.title: draw_points(v.rng, query) for query in [*QUERIES, *TWICE]}
    with v.require("a class that the evaluator finds"):
        rethrow(v, "the class")
        expect_found(v)
    for name, queries in (
        ("the nearest points of each batch, in two outputs of the right dtypes", POINTS),
        ("what is missing is -1 and 0; empty batches", PADS),
        ("ties go to the lower index", TIES),
    ):
        with v.require(name):
            for query in queries:
                with about(query.title):
                    expect_neighbours(v, query, drawn[query.title])
            before = None
            for query in TWICE if queries is POINTS else ():
                feeds = drawn[query.title]
                with about(query.title):
                    expect_neighbours(v, query, feeds, first=alone(query, feeds), before=before)
                before = feeds


def expect_found(v: Judge) -> None:
    """The class has the two names by which the evaluator looks it up."""
    kind = v.value("kind")
    if not v.value("is a class"):
        raise WrongAnswer(
            f"Expected a class, got an object of type {kind}. Return the class itself: the evaluator makes one object for each node."
        )
    if not v.value("is an OpRun"):
        raise WrongAnswer(f"The class {kind} has to inherit from onnx.reference.op_run.OpRun.")
    domain = v.value("domain")
    if domain != "oplab":
        shown = repr(domain) if domain else "'' (it was not set)"
        raise WrongAnswer(
            f"The class serves the domain {shown}, the nodes are of the domain 'oplab'. The evaluator looks a class up by its "
            "attribute op_domain and its own name."
        )
    if kind != "KNNQuery":
        raise WrongAnswer(
            f"The class is called {kind}. The evaluator finds it by its name, which is the node's type: KNNQuery."
        )


_REFERENCE_CAUSES = {
    "unexpected keyword argument": "_run gets the node's attributes by name: it needs a parameter nsample.",
    "required positional argument": (
        "Inputs that are left out at the end of the list are not passed at all: give those parameters a default."
    ),
    "does not return a tuple": "_run returns a tuple, also where there is one result.",
    "multiple values for argument": "_run gets the node's inputs in their order, up to four of them, and nsample by its name.",
    "positional arguments but": "_run gets the node's inputs in their order, up to four of them.",
    "'NoneType'": "An input that is not given arrives as None, or not at all.",
    "Unable to find output name": "The node has two outputs, idx and dist.",
}


def expect_neighbours(
    v: Judge,
    query: Query,
    feeds: Mapping[str, np.ndarray],
    first: tuple[Query, Mapping[str, np.ndarray]] | None = None,
    before: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Demand the results of one run.

    Args:
        first: the query of another node before, whose results come first.
        before: the feeds of an earlier run of the same evaluator.
    """
    rethrow(v, query.title, _REFERENCE_CAUSES)
    results = list(v.value(query.title))
    changed = v.value(f"{query.title}: changed")
    if changed:
        raise WrongAnswer(f"_run has changed its input {changed[0]}, which other nodes read, too. Compute with a copy.")
    if first is not None:
        with about("the node with nsample = 1"):
            expect_results(results[:2], *first, before)
        with about(f"the node with nsample = {query.nsample}"):
            expect_results(results[2:], query, feeds, before)
        return
    try:
        expect_results(results, query, feeds)
    except WrongAnswer as error:
        why = (
            f" The points are {query.far} away from 0 and at most {query.grid // 4} apart in each coordinate: subtract them first, in "
            "a² + b² - 2ab the digits of the difference are lost in float32."
        )
        raise WrongAnswer(f"{error}{why if query.far else ''}") from None


def expect_results(
    results: Sequence[Any],
    query: Query,
    feeds: Mapping[str, np.ndarray],
    before: Mapping[str, np.ndarray] | None = None,
) -> None:
    idx, dist = neighbours(feeds, query.nsample)
    for name, got in zip(("idx", "dist"), results, strict=True):
        if type(got) is not np.ndarray:
            raise WrongAnswer(f"{name}: expected an array, got a {type(got).__name__}.")
    if describe(results[0]) == describe(dist) and describe(results[1]) == describe(idx):
        raise WrongAnswer("The two outputs are swapped: idx comes first, then dist.")
    variants = wrong_neighbours(feeds, query.nsample)
    if before is not None:
        old = neighbours(before if "new_xyz" in feeds else alone(query, before)[1], query.nsample)
        variants["These are the results of the run before: an evaluator keeps its objects for all of its runs."] = old
    if results[0].ndim == 2 and len(results[0]) == len(idx) and results[0].shape[1] != query.nsample:
        raise WrongAnswer(
            f"idx: expected {describe(idx)}, got {describe(results[0])}. The node's nsample is {query.nsample}: each node has its own."
        )
    right = "The values are right and the type is not: idx is int32 and dist float32, whatever NumPy computes in."
    known = {cause: pair[0] for cause, pair in variants.items() if not np.array_equal(pair[0], idx)}
    try:
        expect_close(results[0], idx, name="idx", likely={right: idx, **known})
    except WrongAnswer as error:
        ties = str(error).endswith("of the value).") and only_ties(results[0], idx, feeds)
        why = " Each of these points is as far away as the expected one: of two, the lower index comes first. Is the sort stable?"
        raise WrongAnswer(f"{error}{why if ties else ''}") from None
    likely = {right: dist, **{cause: pair[1] for cause, pair in variants.items()}}
    expect_close(results[1], dist, name="dist", rtol=1e-6, atol=1e-6, likely=likely)


def only_ties(got: np.ndarray, idx: np.ndarray, feeds: Mapping[str, np.ndarray]) -> bool:
    """Whether the points of two arrays of indices are equally far from the new points, place by place."""
    xyz, new_xyz = feeds["xyz"], feeds.get("new_xyz", feeds["xyz"])
    if not np.array_equal(got < 0, idx < 0) or (got >= len(xyz)).any():
        return False
    away = [((xyz[at] - new_xyz[:, None]) ** 2).sum(axis=2) for at in (got, idx)]  # exact: multiples of an eighth
    return np.array_equal(*(np.where(idx < 0, 0, square) for square in away))


def wrong_neighbours(feeds: Mapping[str, np.ndarray], nsample: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Known mistakes by their cause, as pairs of idx and dist."""
    idx, dist = neighbours(feeds, nsample)
    starts = np.concatenate([[0], feeds["offset"][:-1]])
    new_offset = feeds.get("new_offset", feeds["offset"])
    first = starts[np.searchsorted(new_offset, np.arange(len(idx)), side="right")][:, None] if len(idx) else 0
    missing = idx < 0
    counts = np.cumsum(feeds["offset"])  # what the batches' ends are if offset is taken for their sizes
    by_size = {**feeds, "offset": counts, **({"new_offset": np.cumsum(new_offset)} if "new_offset" in feeds else {})}
    wrong = {
        "offset was taken for the sizes of the batches. It has their ends: [3, 7] is a batch of 3 and one of 4.": neighbours(
            by_size, nsample
        ),
        "These are squared distances: the square root is missing.": (idx, dist**2),
        "The batches are mixed up: a point looks for neighbours among all points, not only in its own batch.": neighbours(
            feeds, nsample, batches=False
        ),
        # A sort that is not stable does that, too, where no more than two are equal.
        "Ties go to the higher index here, and have to go to the lower one. Is the sort stable?": neighbours(
            feeds, nsample, ties=-1
        ),
        "The point itself is left out here; it is its own nearest neighbour.": neighbours(feeds, nsample, skip=1),
        "These are rows within a batch; idx counts rows of xyz.": (np.where(missing, -1, idx - first), dist),
        "What is missing has to be -1 in idx and 0 in dist.": (
            np.where(missing, 0, idx),
            np.where(missing, np.float32(-1), dist),
        ),
        "What is missing has to be -1 in idx, and 0 (not infinity) in dist.": (
            np.where(missing, len(feeds["xyz"]), idx),
            np.where(missing, np.float32(np.inf), dist),
        ),
    }
    if "new_xyz" in feeds and len(feeds["xyz"]) == len(feeds["new_xyz"]):
        own = {name: feeds[name] for name in ("xyz", "offset")}
        wrong["new_xyz was not used."] = neighbours(own, nsample)
    if "new_offset" in feeds and not np.array_equal(new_offset, feeds["offset"]):
        batch = np.searchsorted(feeds["offset"], np.arange(len(idx)), side="right").clip(max=len(feeds["offset"]) - 1)
        counts = np.bincount(batch, minlength=len(feeds["offset"]))
        by_offset = {**feeds, "new_offset": np.cumsum(counts).astype(new_offset.dtype)}
        wrong["The batch of a new point is looked up in offset here; new_offset has it."] = neighbours(
            by_offset, nsample
        )
    return wrong


# --- pyop_my_add ---------------------------------------------------------------------------------------------------

NO_PACKAGE = (
    "onnxruntime_extensions has no package for Python {python}, so this exercise cannot be graded here: leave it out, or take a "
    "Python from 3.11 to 3.13 (docs/setup.md, Another Python)."
)
SIZES = [(3, 4, 2), (7, 1, 3), (0, 5, 2), (1, 300, 1)]


@dataclass(frozen=True)
class Coefficients:
    """The attributes of one MyAdd node; None where the node leaves it to the default."""

    alpha: float | None
    beta: float | None

    def given(self) -> dict[str, float]:
        return {name: value for name, value in (("alpha", self.alpha), ("beta", self.beta)) if value is not None}

    def apply(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """alpha * a + beta * b in the inputs' dtype; an attribute is a 32-bit float."""
        alpha = np.float32(3.0 if self.alpha is None else self.alpha).astype(a.dtype)
        beta = np.float32(2.0 if self.beta is None else self.beta).astype(a.dtype)
        return alpha * a + beta * b


def draw_coefficients(rng: np.random.Generator, *, short: bool = False) -> dict[str, Coefficients]:
    """What each output's node has: 0, or numbers that differ from the defaults and from each other, with fractions.

    Args:
        short: sixteenths, which have five digits at most. onnxruntime_extensions hands an attribute over with six.
    """
    values = [float(x) for x in rng.permutation(np.array([-2.3, -1.1, 0.3, 0.7, 1.9])) + rng.uniform(0, 0.1, 5)]
    if short:
        values = [round(16 * value) / 16 for value in values]
    return {
        "both": Coefficients(values[0], values[1]),
        "none": Coefficients(None, None),
        "alpha": Coefficients(values[2], None),
        "double_none": Coefficients(None, None),
        "double_beta": Coefficients(None, values[3]),
        "double_both": Coefficients(values[4], 0.0),
    }


def draw_terms(rng: np.random.Generator, shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    feeds = {name: rng.normal(size=shape) for name in "abcd"}
    return {name: value.astype(np.float32 if name in "ab" else np.float64) for name, value in feeds.items()}


def my_add_model(
    coefficients: Mapping[str, Coefficients],
    imports: Mapping[str, int],
    functions: Sequence[onnx.FunctionProto] = (),
    rank: int = 2,
) -> onnx.ModelProto:
    """MyAdd of a and b (float) and of c and d (double), each after its own Abs, one output for each set of coefficients."""
    from onnx import TensorProto, helper

    nodes, outputs = [], {}
    axes = ["n", "m", "k"][:rank]
    for name, attributes in coefficients.items():
        double = name.startswith("double")
        first, second = "cd" if double else "ab"
        nodes += [
            helper.make_node(
                "MyAdd", [first, second], [f"{name}_sum"], name=f"add_{name}", domain="oplab", **attributes.given()
            ),
            helper.make_node("Neg", [f"{name}_sum"], [name], name=f"neg_{name}"),
        ]
        outputs[name] = (TensorProto.DOUBLE if double else TensorProto.FLOAT, axes)
    used = {name for node in nodes for name in node.input}
    kinds = {name: (TensorProto.FLOAT if name in "ab" else TensorProto.DOUBLE, axes) for name in "abcd" if name in used}
    return make_model(nodes, kinds, outputs, imports, functions)


def pyop_model(coefficients: Mapping[str, Coefficients]) -> onnx.ModelProto:
    """The model for :func:`collect_pyop_my_add`, of rank 3, with two nodes that only resemble oplab::MyAdd.

    One has its type, the other its domain; both are model-local functions, for which no kernel is needed.
    """
    from onnx import TensorProto, helper

    domains = {"helpers": "MyAdd", "oplab": "MyMinus"}
    functions = [
        helper.make_function(
            domain, kind, ["x", "y"], ["z"], [helper.make_node("Sub", ["x", "y"], ["z"])], [helper.make_opsetid("", 18)]
        )
        for domain, kind in domains.items()
    ]
    model = my_add_model(coefficients, {"": 18, "oplab": 1, "helpers": 1}, functions, rank=3)
    for domain, kind in domains.items():
        result = f"{domain}_{kind}"
        model.graph.node.append(helper.make_node(kind, ["a", "b"], [result], name=f"only_{result}", domain=domain))
        model.graph.output.append(helper.make_tensor_value_info(result, TensorProto.FLOAT, ["n", "m", "k"]))
    return model


def collect_pyop_my_add(c: Collect) -> None:
    import onnx
    import onnxruntime

    missing = importlib.util.find_spec("onnxruntime_extensions") is None
    c.value("no package for", f"{sys.version_info.major}.{sys.version_info.minor}" if missing else "")
    coefficients = draw_coefficients(c.rng, short=True)
    returned = answer(c, "the answer", "pyop_my_add", pyop_model(coefficients))
    if returned is None or missing:
        return
    (made,) = returned
    c.value("type", type(made).__name__)
    if not isinstance(made, onnx.ModelProto):
        return
    c.file("the model", _written(c, "model.onnx", made))
    import onnxruntime_extensions as extensions

    _watch_kernels(c, extensions)

    def start() -> onnxruntime.InferenceSession:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.register_custom_ops_library(extensions.get_library_path())
        return onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])

    session = c.attempt("the session", start)
    if session is None:
        return
    for shape in SIZES:
        feeds = draw_terms(c.rng, shape)
        names = [value.name for value in session.get_inputs()]
        got = c.attempt(str(list(shape)), session.run, list(coefficients), {name: feeds[name] for name in names})
        c.value(str(list(shape)), got)


def _written(c: Collect, name: str, model: onnx.ModelProto) -> Path:
    path = c.scratch / name
    path.write_bytes(model.SerializeToString())
    return path


def _watch_kernels(c: Collect, extensions: Any) -> None:
    """Put a net around each declared kernel: an exception in one would end the process without a reason."""

    def netted(body: Any) -> Any:
        def call(*arrays: np.ndarray, **attributes: Any) -> Any:
            given = [array.copy() for array in arrays]
            returned = c.attempt("a kernel", lambda: (body(*arrays, **attributes),))
            if not all(map(np.array_equal, arrays, given)):
                c.value("a kernel changed an input", True)
            if returned is None:
                return np.zeros_like(arrays[0])
            (made,) = returned
            if hasattr(made, "shape") and hasattr(made, "flatten"):
                return made
            c.value("a kernel's result", type(made).__name__)
            return np.zeros_like(arrays[0])

        return call

    c.value("a kernel's result", "")
    c.value("a kernel changed an input", False)
    for operator in list(extensions.Opdef._odlist.values()):
        operator.body = netted(operator.body)


_SESSION_CAUSES = {
    "oplab:MyAdd": "A node was left in the domain oplab. Kernels that onnx_op declares live in ai.onnx.contrib only.",
    "has input size": "A kernel is declared with another number of inputs than the node has: `inputs` is a list of one type for each.",
    UNREGISTERED: "No kernel is declared under this name. Its op_type and the node's have to be the same.",
    "name and type don't match": "The attribute is FLOAT in the model and declared as another type: attrs takes a dict with PyOp.dt_float.",
    "Unable to find attribute": (
        "A kernel of onnx_op has no defaults: where the node leaves an attribute out, ONNX Runtime refuses the session. Write "
        "MyAdd's default into the node."
    ),
    "'tensor(double)' of input": "No kernel takes double. One name can be declared several times, once for each type of its inputs.",
    "'tensor(float)' of input": "No kernel takes float. One name can be declared several times, once for each type of its inputs.",
    OUTPUT_TYPE: "A kernel declares another type for its output than for its inputs. MyAdd's are the same.",
    "Conflicting with a registered kernel": "One name was declared twice with the same types of inputs.",
}


def judge_pyop_my_add(v: Judge) -> None:
    with v.require("onnxruntime_extensions is there"):
        python = str(v.value("no package for"))[:10]
        if python:
            raise WrongAnswer(NO_PACKAGE.format(python=python))
    coefficients = draw_coefficients(v.rng, short=True)
    before = pyop_model(coefficients)
    with v.require("every MyAdd is a node of ai.onnx.contrib, all else is as it was"):
        rethrow(v, "the answer")
        model = learners_model(v, "type", "the model")
        expect_renamed(before, model)
    with v.require("ONNX Runtime takes the model and the kernels"):
        rethrow(v, "the session", _SESSION_CAUSES)
        undeclared = ("required positional argument", "required keyword-only argument", "KeyError")
        rethrow(v, "a kernel", dict.fromkeys(undeclared, "An attribute that attrs does not declare is not passed."))
        kind = v.value("a kernel's result")
        if kind:
            raise WrongAnswer(
                f"A kernel returned a {kind}; it has to return an array. In a session this would end the process."
            )
        if v.value("a kernel changed an input"):
            raise WrongAnswer("A kernel has changed its input, which other nodes read, too. It returns a new array.")
    drawn = [(shape, draw_terms(v.rng, shape)) for shape in SIZES]
    for name, outputs in (
        ("float: the numbers of each node's own attributes", ["both"]),
        ("float: the defaults where an attribute is left out", ["none", "alpha"]),
        ("double, to the last digits", ["double_none", "double_beta", "double_both"]),
    ):
        with v.require(name):
            for shape, feeds in drawn:
                rethrow(v, str(list(shape)))
                got = dict(zip(coefficients, v.value(str(list(shape))), strict=True))
                for output in outputs:
                    expect_sum(got[output], coefficients, output, feeds)


def learners_model(v: Judge, kind: str, name: str) -> onnx.ModelProto:
    """The model under ``name``; the type of what the function returned is under ``kind``."""
    if v.value(kind) != "ModelProto":
        raise WrongAnswer(f"Expected a ModelProto, got a {v.value(kind)}. The function returns the model.")
    return v.model(name)


def expect_sum(
    got: np.ndarray, coefficients: Mapping[str, Coefficients], output: str, feeds: Mapping[str, np.ndarray]
) -> None:
    """The negative of one MyAdd, as :func:`my_add_model` has it, with the likely cause of another result."""
    a, b = (feeds[name] for name in ("cd" if output.startswith("double") else "ab"))
    mine = coefficients[output]
    likely = {}
    if mine.given():
        likely["The node's attributes are ignored: this is 3 a + 2 b."] = -Coefficients(None, None).apply(a, b)
    for other, theirs in coefficients.items():
        if other != output and theirs.given() and theirs != mine:
            shown = ", ".join(f"{name}={value:.4g}" for name, value in theirs.given().items())
            likely[f"These are the attributes of another node, {shown}: each node has its own."] = -theirs.apply(a, b)
    if mine.beta == 0:
        likely["An attribute that is 0 has become the default: 0 is a value."] = -Coefficients(mine.alpha, None).apply(
            a, b
        )
    swapped = Coefficients(2.0 if mine.beta is None else mine.beta, 3.0 if mine.alpha is None else mine.alpha)
    likely[
        "alpha and beta are swapped, or a and b are: MyAdd is alpha * a + beta * b, with 3 and 2 as defaults."
    ] = -swapped.apply(a, b)
    if a.dtype == np.float64:
        narrow = -mine.apply(a.astype(np.float32), b.astype(np.float32)).astype(np.float64)
        likely["This was computed in float: the digits after the seventh are lost."] = narrow
    limit = 1e-12 if a.dtype == np.float64 else 1e-5
    expect_close(got, -mine.apply(a, b), name=_titled(mine, output), likely=likely, rtol=limit, atol=limit)


def _titled(mine: Coefficients, output: str) -> str:
    shown = ", ".join(f"{name}={value:.4g}" for name, value in mine.given().items()) or "no attributes"
    return f"-MyAdd({'double' if output.startswith('double') else 'float'}; {shown})"


def expect_renamed(before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    """MyAdd nodes are of ai.onnx.contrib, with what they were given; other nodes, inputs and outputs are untouched."""
    graphs.expect_inputs(after, [value.name for value in before.graph.input])
    graphs.expect_outputs(after, [value.name for value in before.graph.output])
    if len(after.graph.node) != len(before.graph.node):
        raise WrongAnswer(
            f"The graph had {len(before.graph.node)} nodes and has {len(after.graph.node)}: each MyAdd becomes one node of {CONTRIB}."
        )
    for old, new in zip(before.graph.node, after.graph.node, strict=True):
        was, now = (f"{node.domain or 'ai.onnx'}::{node.op_type}" for node in (old, new))
        if list(old.input) != list(new.input) or list(old.output) != list(new.output):
            raise WrongAnswer(
                f"The node {old.name} reads {list(old.input)} and writes {list(old.output)}; now it reads {list(new.input)} and "
                f"writes {list(new.output)}."
            )
        if was != "oplab::MyAdd":
            if was != now:
                raise WrongAnswer(
                    f"The node {old.name} is {was}, and became {now}. Only nodes whose domain is oplab and whose type is MyAdd get "
                    "another one."
                )
            if old != new:
                raise WrongAnswer(f"The node {old.name} is {was}, and was changed. Other nodes stay as they are.")
        elif new.domain == "oplab":
            raise WrongAnswer(
                f"The node {old.name} is still {now}. Kernels that onnx_op declares live in {CONTRIB} only: a node reaches them with "
                "that domain."
            )
        elif new.domain != CONTRIB:
            raise WrongAnswer(f"The node {old.name} is now {now}, expected a node of {CONTRIB}.")
        elif new.name != old.name:
            raise WrongAnswer(f"The node {old.name} has the name {new.name!r} now. Names stay as they are.")
    for what, old, new in (
        ("inputs of the graph", before.graph.input, after.graph.input),
        ("outputs of the graph", before.graph.output, after.graph.output),
        ("model-local functions", before.functions, after.functions),
    ):
        if list(old) != list(new):
            raise WrongAnswer(f"The {what} have changed: only the MyAdd nodes and the imports do.")
    if graphs.opset(after) != graphs.opset(before):
        raise WrongAnswer(
            f"The model imported version {graphs.opset(before)} of ONNX's own operators, and now {graphs.opset(after) or 'none'}."
        )
    used = next((node for node in after.graph.node if graphs.opset(after, node.domain) is None), None)
    if used is not None and used.domain != CONTRIB:
        raise WrongAnswer(
            f"The node {used.name} is of the domain {used.domain}, which the model does not import any more: every import that is "
            "used stays."
        )
    if graphs.opset(after, CONTRIB) is None:
        raise WrongAnswer(
            f"The model does not import {CONTRIB}: opset_import needs an entry for every domain that a node uses. ONNX Runtime "
            "takes the model all the same; onnx.checker and other runtimes do not."
        )


# --- function_my_add -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Host:
    """A model that has MyAdd nodes and needs their definition."""

    title: str
    opset: int
    outputs: tuple[str, ...]
    imports_oplab: bool = True
    has_function: bool = False
    oplab_first: bool = False


HOSTS = [
    Host("float, both attributes", 18, ("both",)),
    Host("float, attributes left out", 20, ("both", "none", "alpha")),
    Host("double", 18, ("double_none", "double_beta", "double_both")),
    Host("float and double in one model, opset 21", 21, ("both", "none", "double_both", "double_beta")),
    Host("opset 15, imported after oplab", 15, ("alpha", "double_none"), oplab_first=True),
    Host("oplab not imported", 17, ("both", "none"), imports_oplab=False),
    Host("a model with its own functions", 19, ("both", "alpha"), has_function=True),
]
SHAPES = [(5, 3), (1, 1), (0, 4)]


def host_model(host: Host, coefficients: Mapping[str, Coefficients]) -> onnx.ModelProto:
    from onnx import helper, numpy_helper

    imports = {"": host.opset, **({"oplab": 1} if host.imports_oplab else {})}
    if host.oplab_first:
        imports = dict(sorted(imports.items(), reverse=True))
    functions = []
    near = {"helpers": "MyAdd", "oplab": "Twice"} if host.has_function else {}
    for domain, kind in near.items():  # the type of a MyAdd, and its domain
        imports[domain] = 1
        body = [helper.make_node("Add", ["x", "x"], ["y"])]
        functions.append(helper.make_function(domain, kind, ["x"], ["y"], body, [helper.make_opsetid("", host.opset)]))
    model = my_add_model({name: coefficients[name] for name in host.outputs}, imports, functions)
    for domain, kind in near.items():
        model.graph.node.append(helper.make_node(kind, ["a"], [f"twice_{domain}"], domain=domain))
        model.graph.output.append(helper.make_tensor_value_info(f"twice_{domain}", 1, ["n", "m"]))
    number = numpy_helper.from_array(np.float32([0.1]), "number")
    model.graph.initializer.append(number)
    model.graph.node.append(helper.make_node("Add", [model.graph.input[0].name, "number_like"], ["more"]))
    model.graph.node.insert(0, helper.make_node("CastLike", ["number", model.graph.input[0].name], ["number_like"]))
    model.graph.output.append(model.graph.input[0])
    model.graph.output[-1].name = "more"
    return model


def collect_function_my_add(c: Collect) -> None:
    import onnx

    coefficients = draw_coefficients(c.rng)
    for number, host in enumerate(HOSTS):
        returned = answer(c, host.title, "function_my_add", host_model(host, coefficients))
        if returned is None:
            continue
        c.value(f"type, {host.title}", type(returned[0]).__name__)
        if isinstance(returned[0], onnx.ModelProto):
            c.file(host.title, _written(c, f"{number}.onnx", returned[0]))


def judge_function_my_add(v: Judge) -> None:
    coefficients = draw_coefficients(v.rng)
    models: dict[str, onnx.ModelProto] = {}
    with v.require("one function oplab::MyAdd, and the graph as it was"):
        for host in HOSTS:
            with about(host.title):
                rethrow(v, host.title)
                models[host.title] = model = learners_model(v, f"type, {host.title}", host.title)
                expect_function(host_model(host, coefficients), model)
    with v.require("every domain is imported, by the model and by the function"):
        for host in HOSTS:
            with about(host.title):
                expect_imports(host_model(host, coefficients), models[host.title])
    with v.require("both attributes have their defaults, and the function reads them"):
        for host in HOSTS:
            with about(host.title):
                expect_attributes(my_add_function(models[host.title]))
    with v.require("ONNX's checker and ONNX Runtime take it, without any library"):
        for host in HOSTS:
            with about(host.title):
                expect_dtype_free(models[host.title])
    with v.check("computes alpha a + beta b, in float and in double"):
        for host in HOSTS:
            for shape in SHAPES:
                feeds = draw_terms(v.rng, shape)
                names = [value.name for value in models[host.title].graph.input]
                with about(host.title):
                    results = graphs.run(models[host.title], {name: feeds[name] for name in names})
                    for output, got in zip(host.outputs, results, strict=False):
                        expect_sum(got, coefficients, output, feeds)


def my_add_function(model: onnx.ModelProto) -> onnx.FunctionProto:
    return next(entry for entry in model.functions if (entry.domain, entry.name) == ("oplab", "MyAdd"))


def expect_function(before: onnx.ModelProto, after: onnx.ModelProto) -> None:
    found = [f"{entry.domain}::{entry.name}" for entry in after.functions]
    kept = [f"{entry.domain}::{entry.name}" for entry in before.functions]
    nodes = [node.SerializeToString() for node in before.graph.node]
    if nodes != [node.SerializeToString() for node in after.graph.node]:
        gone = graphs.ops(before)["oplab::MyAdd"] - sum(
            (node.domain, node.op_type) == ("oplab", "MyAdd") for node in after.graph.node
        )
        why = (
            f"{gone} MyAdd node{'s are' if gone != 1 else ' is'} gone: leave the graph as it is, the definition goes to model.functions."
            if gone > 0
            else "Nodes or their attributes were changed: leave the graph as it is, defaults belong into the function."
        )
        raise WrongAnswer(why)
    for what in ("input", "output", "initializer"):
        if list(getattr(before.graph, what)) != list(getattr(after.graph, what)):
            raise WrongAnswer(f"The graph's {what} list has changed: leave the graph as it is.")
    missing = [name for name in kept if name not in found]
    if missing:
        raise WrongAnswer(f"The model had the function {missing[0]}, and lost it. Add yours to model.functions.")
    if found.count("oplab::MyAdd") != 1:
        shown = ", ".join(name for name in found if name not in kept) or "none"
        raise WrongAnswer(
            f"Expected one new function, oplab::MyAdd; found {shown}. A function is found by its domain and its name, which are "
            "those of the node."
        )


def expect_imports(before: onnx.ModelProto, model: onnx.ModelProto) -> None:
    for entry in before.opset_import:
        found = [other.version for other in model.opset_import if other.domain == entry.domain]
        if found != [entry.version]:
            shown = " and ".join(map(str, found)) or "none"
            raise WrongAnswer(
                f"The model imported version {entry.version} of {entry.domain or 'ai.onnx'}, and now imports {shown}: the imports that it "
                "has stay, once each."
            )
    function = my_add_function(model)
    have = {entry.domain if entry.domain != "ai.onnx" else "": entry.version for entry in function.opset_import}
    for node in function.node:
        if (node.domain if node.domain != "ai.onnx" else "") not in have:
            raise WrongAnswer(
                f"The function uses {node.op_type} of the domain {node.domain or 'ai.onnx'} and does not import it. A function has its "
                "own opset_import, in addition to the model's."
            )
    if graphs.opset(model, "oplab") is None:
        raise WrongAnswer(
            "The model does not import oplab, the domain of its MyAdd nodes: opset_import needs an entry for it."
        )
    version = graphs.opset(model)
    if have.get("", version) != version:
        raise WrongAnswer(
            f"The function imports version {have['']} of ONNX's operators, the model version {version}. onnx.checker wants the operators "
            "of both to be compatible: take the model's version."
        )


def expect_attributes(function: onnx.FunctionProto) -> None:
    """alpha and beta are declared with defaults, and the body refers to both."""
    import onnx

    defaults = {entry.name: entry for entry in function.attribute_proto}
    referred = {entry.ref_attr_name for node in function.node for entry in node.attribute if entry.ref_attr_name}
    for name, value in (("alpha", 3.0), ("beta", 2.0)):
        if name in defaults and name in function.attribute:
            raise WrongAnswer(
                f"The function declares {name} twice, in attributes= and in attribute_protos=. ONNX allows one of the two: an attribute "
                "with a default belongs in attribute_protos= only."
            )
        if name not in defaults and name in function.attribute:
            raise WrongAnswer(
                f"The function declares {name} as an attribute without a default, so a node that leaves it out cannot run. "
                "Defaults are attribute_protos of make_function."
            )
        if name not in defaults:
            raise WrongAnswer(
                f"The function does not declare the attribute {name}. Its attributes are "
                f"{', '.join([*defaults, *function.attribute]) or 'none'}."
            )
        if name not in referred:
            others = sorted(referred - set(defaults))
            instead = f" It refers to {others[0]}, which is not an attribute of the function." if others else ""
            raise WrongAnswer(
                f"Nothing in the function refers to the attribute {name}: its value is baked in or lost.{instead} Inside a function an "
                "attribute of a node takes the caller's value through ref_attr_name."
            )
        entry = defaults[name]
        kind = onnx.AttributeProto.AttributeType.Name(entry.type)
        if kind != "FLOAT":
            raise WrongAnswer(f"The default of {name} has the type {kind}, expected FLOAT.")
        if entry.f != value:
            raise WrongAnswer(f"The default of {name} is {entry.f:g}, expected {value:g}.")


def expect_dtype_free(model: onnx.ModelProto) -> None:
    """The checker's and the runtime's opinion; one body has to serve float and double."""
    try:
        graphs.expect_valid(model)
        graphs.load(model)
    except WrongAnswer as error:
        text, why = str(error), ""
        if "inconsistent type" in text or "Type parameter" in text or "type inference" in text.lower():
            why = (
                " A Constant made from an attribute is float; to be used with a double input, it has to be cast to that input's dtype, "
                "which the function does not know: CastLike."
            )
        raise WrongAnswer(f"{text}{why}") from None
