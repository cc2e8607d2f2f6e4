"""Recordings of engines that are made here: what each engine would have shown of a model's values, with planted faults.

Used by chapter 18's `differ`. Both halves draw the same recordings. Each node is computed by ONNX's reference from the values that the
engine had, rounding errors are added, and the fault of a node is planted in what it computed: what is wrong follows from that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from oplab.checks.draws import Draws
from oplab.checks.evidence import Collect
from oplab.checks.judge import Judge
from oplab.parity.arrays import WrongAnswer

Values = dict[str, np.ndarray]
Change = Callable[[np.ndarray], np.ndarray]
Reading = Callable[..., np.ndarray]
ENGINES = ("ort", "openvino", "ncnn", "tvm", "mnn")
ROUNDING = {"float16": 3e-3, "float32": 3e-5, "float64": 3e-10}  # relative; a third of what is allowed


@dataclass(frozen=True)
class Faulty:
    """What one engine does in one case.

    Attributes:
        faults: by the node's first output, what the engine makes of the right value, and what differs then.
        uses: nodes for which it takes the other reading.
        rounds: values that are computed with another rounding, everywhere.
        hides: values that it does not show.
        refuses: whether it refuses the case.
    """

    faults: Mapping[str, tuple[Change, str]] = field(default_factory=dict)
    uses: Sequence[str] = ()
    rounds: bool = False
    hides: Sequence[str] = ()
    refuses: bool = False


@dataclass(frozen=True)
class Scenario:
    """One call of `differ`, and why its answer is what it is.

    Attributes:
        engines: by engine, what it does in each case.
    """

    check: str
    model: onnx.ModelProto
    cases: list[Values]
    engines: Mapping[str, Sequence[Faulty]]
    allowed: Mapping[str, list[Reading]] = field(default_factory=dict)

    def expected(self) -> list[tuple[str, int, str, str]]:
        """What `differ` has to return, and entries without a difference for what is planted and permitted."""
        order = [node.output[0] for node in self.model.graph.node]
        return [
            (engine, number, name, doing.faults[name][1])
            for engine, done in self.engines.items()
            for number, doing in enumerate(done)
            if not doing.refuses
            for name in order
            if name in doing.faults
        ]

    def recorded(self) -> dict[str, list[Values | None]]:
        """By engine, the values of each case."""
        return {
            engine: [self._one(feed, doing) for feed, doing in zip(self.cases, done, strict=True)]
            for engine, done in self.engines.items()
        }

    def _one(self, feed: Values, doing: Faulty) -> Values | None:
        if doing.refuses:
            return None
        values: dict[str, Any] = {"": None, **_constants(self.model), **feed}
        shown: Values = {}
        for node in self.model.graph.node:
            inputs = [values[name] for name in node.input]
            first = node.output[0]
            outputs = [self.allowed[first][0](*inputs)] if first in doing.uses else alone(self.model, node, inputs)
            if doing.rounds:
                outputs = [rounded(output) for output in outputs]
            if first in doing.faults:
                outputs = [doing.faults[first][0](outputs[0]), *outputs[1:]]
            made = dict(zip(node.output, outputs, strict=True))
            values |= made
            shown |= {name: value for name, value in made.items() if name not in doing.hides}
        return shown


def alone(model: onnx.ModelProto, node: onnx.NodeProto, inputs: Sequence[np.ndarray | None]) -> list[np.ndarray]:
    """What the reference computes for one node of the model."""
    given = {name: value for name, value in zip(node.input, inputs, strict=True) if name}
    ports = [helper.make_tensor_value_info(name, 0, None) for name in given]
    graph = helper.make_graph(
        [node], "one", ports, [helper.make_tensor_value_info(name, 0, None) for name in node.output]
    )
    one = helper.make_model(graph, opset_imports=list(model.opset_import), ir_version=model.ir_version)
    with np.errstate(all="ignore"):
        return [np.array(value) for value in ReferenceEvaluator(one).run(None, given)]


def rounded(value: np.ndarray) -> np.ndarray:
    """Other rounding: a third of the tolerance, relative and absolute."""
    part = ROUNDING.get(value.dtype.name)
    if part is None:
        return value
    with np.errstate(all="ignore"):
        return (value.astype(np.float64) * (1 + part) + part / 10).astype(value.dtype)


def _constants(model: onnx.ModelProto) -> Values:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


# --- faults


def _scaled(part: float) -> Change:
    return lambda value: (value.astype(np.float64) * (1 + part)).astype(value.dtype)


def _first(number: float) -> Change:
    def change(value: np.ndarray) -> np.ndarray:
        value = value.copy()
        value.flat[0] = number
        return value

    return change


def _as(dtype: str) -> Change:
    return lambda value: value.astype(dtype)


# --- the calls


_HEAD = '<ir_version: 10, opset_import: ["": {opset}]>'


def _parsed(text: str, opset: int = 18) -> onnx.ModelProto:
    return onnx.parser.parse_model(_HEAD.format(opset=opset) + text)


def _engines(rng: Draws, cases: int = 1, **doing: Faulty | Sequence[Faulty]) -> dict[str, list[Faulty]]:
    """Three engines or more in an order that is drawn; `bad`, `bad2`, … name them until they get a name."""
    # ONNX Runtime is wrong only where it is a case about that, or where all are.
    names = [*(str(name) for name in rng.permutation(ENGINES[1:])), ENGINES[0]]
    names = [*names[: max(2, len(doing))], ENGINES[0]] if len(doing) < len(ENGINES) else names
    found: dict[str, list[Faulty]] = {}
    for name, one in zip(names, [*doing.values(), *[Faulty()] * len(names)], strict=False):
        found[name] = [one] * cases if isinstance(one, Faulty) else list(one)
    return {name: found[name] for name in (str(name) for name in rng.permutation(sorted(found)))}


def scenarios(rng: Draws) -> dict[str, Scenario]:
    """All calls, by the sentence for an answer that is not the expected one.

    The faults are larger than the tolerances by a factor of three or more, roundings are smaller.
    """
    chain = _parsed("""net (float[n, 4] x) => (float[n, 4] y) {
        a = Tanh(x)  b = Abs(a)  c = Sqrt(b)  d = Add(c, a)  y = Exp(d) }""")
    x = [{"x": (rng.integers(1, 9, (2 + k, 4)) / 4).astype(np.float32)} for k in range(2)]
    wrong: Faulty = Faulty({"c": (_scaled(1e-3), "values")})
    both = Faulty({"b": (_scaled(2e-3), "values"), "d": (_scaled(1e-3), "values")})
    kinds = _parsed("""net (float[n, 3] x, int64[n] i, double[n] e, float16[n] h) =>
        (float[n, 3] y, int64[n] j, double[n] f, float16[n] g, float[n] m, bool[n] t) <int64[1] axis = {1}> {
        y = Neg(x)  m = ReduceMax <keepdims = 0> (x, axis)  j = Add(i, i)  f = Exp(e)  g = Abs(h)  t = Less(i, j) }""")
    big = rng.integers(2**54, 2**55, 3) * 2 + 1
    feed = {
        "x": rng.integers(1, 9, (3, 3)).astype(np.float32),
        "i": big,
        "e": rng.integers(1, 9, 3) / 4,
        "h": (rng.integers(8, 16, 3) / 4).astype(np.float16),
    }
    odd = _parsed("net (float[n] x, float[n] z) => (float[n] y, float[n] q) { y = Relu(x)  q = Add(x, z) }")
    inf, nan = np.inf, np.nan
    specials = {
        "x": np.array([nan, 2, inf, -inf, -1, 0], np.float32),
        "z": np.array([1, nan, 2, 1, -inf, 3], np.float32),
    }
    steps = _parsed(
        "net (float[n] x) => (float[n] y) <float one = {1.0}> { a = Add(x, one)  b = Floor(a)  y = Neg(b) }"
    )
    old = _parsed(
        """net (float[1, 4] x) => (float[1, 1, 2] y) {
        s = Unsqueeze <axes = [0]> (x)  p, q = Split <axis = 1> (x)  u, t = Split <axis = 2> (s)  y = Mul(p, u) }""",
        opset=11,
    )
    clips = _parsed("""net (float[n, 4] x) => (float[n, 2] y) <float top = {0.5}, int64[2] parts = {2, 2}> {
        a = Clip(x, "", top)  p, q = Split <axis = 1> (a, parts)  y = Sub(p, q) }""")
    resizes = _parsed("""net (float[1, 1, 1, w] x) => (float[1, 1, 1, v] y) <float[4] s = {1, 1, 1, 1.1}> {
        a = Mul(x, x)  r = Resize <mode = "linear"> (a, "", s)  b = Sqrt(r)  y = Add(b, r) }""")
    row = {"x": (rng.integers(2, 9, (1, 1, 1, 5)) + np.arange(5) * 9).astype(np.float32)}
    copies: dict[str, list[Reading]] = {"r": [lambda a, _roi, s: a.copy(), lambda a, _roi, s: -a]}
    empties = {"x": np.zeros((0, 4), np.float32)}

    def one(check: str, model: onnx.ModelProto, cases: list[Values], **doing: Any) -> Scenario:
        allowed = doing.pop("allowed", {})
        return Scenario(check, model, cases, _engines(rng, len(cases), **doing), allowed)

    node = "finds the node, not what follows from it"
    vote = "asks the standard, not the majority"
    type_and_shape = "compares types and shapes"
    tolerance = "has the tolerance of the type"
    special = "compares NaN and infinity"
    permitted = "accepts what the standard allows"
    part = "works with what is recorded, and with each operator set"
    return {
        "c is wrong, and what follows from it is right for such a c.": one(node, chain, x, bad=wrong),
        "Two nodes are wrong in one case.": one(node, chain, x[:1], bad=both),
        "The engine is wrong in the second case only.": one(node, chain, x, bad=[Faulty(), wrong]),
        "a is 2.0 in one engine and 1.999999 in another, which is rounding; then Floor is right for both.": one(
            node,
            steps,
            [{"x": np.array([1 - 1e-6, 3 - 1e-6, 5.5], np.float32)}],
            bad=Faulty({"a": (lambda value: np.array([2, 4, 6.5], np.float32), "")}),
        ),
        "Two of three engines are wrong, in the same way.": one(vote, chain, x[:1], bad=wrong, bad2=wrong),
        "ONNX Runtime is one of the engines, and wrong here.": Scenario(
            vote, chain, x[:1], {"ort": [wrong], "tvm": [Faulty()], "mnn": [Faulty()]}
        ),
        "All engines are wrong in the same way.": one(
            vote, chain, x[:1], bad=wrong, bad2=wrong, bad3=wrong, bad4=wrong, bad5=wrong
        ),
        "A value of another dtype is wrong, also if the numbers are equal.": one(
            type_and_shape, kinds, [feed], bad=Faulty({"y": (_as("float64"), "dtype"), "m": (_as("float64"), "dtype")})
        ),
        "m has the shape [3], and the engine has [3, 1] or [1, 3], which NumPy broadcasts.": one(
            type_and_shape,
            kinds,
            [feed],
            bad=Faulty({"m": (lambda value: value[:, None], "shape")}),
            bad2=Faulty({"m": (lambda value: value[None], "shape")}),
        ),
        "dtype comes first, then shape, then the values.": one(
            type_and_shape,
            kinds,
            [feed],
            bad=Faulty({"m": (lambda value: value[:, None].astype("float64") * 2, "dtype")}),
            bad2=Faulty({"j": (lambda value: value[:, None] * 2, "shape")}),
        ),
        "An empty tensor has a shape as well: [0, 4] is not [4, 0].": one(
            type_and_shape, chain, [empties], bad=Faulty({"y": (lambda value: value.T, "shape")})
        ),
        "The differences are rounding errors of float32.": one(tolerance, chain, x, bad=Faulty(rounds=True)),
        "The differences are rounding errors of each type.": one(tolerance, kinds, [feed], bad=Faulty(rounds=True)),
        "1e-6 is much for float64, and 3e-2 is much for float16.": one(
            tolerance,
            kinds,
            [feed],
            bad=Faulty({"f": (_scaled(1e-6), "values")}),
            bad2=Faulty({"g": (_scaled(3e-2), "values")}),
        ),
        "Integers are equal or wrong: these differ by one, and are larger than 2**53.": one(
            tolerance, kinds, [feed], bad=Faulty({"j": (lambda value: value + 1, "values")})
        ),
        "A bool is another value if it is not the same one.": one(
            tolerance, kinds, [feed], bad=Faulty({"t": (np.logical_not, "values")})
        ),
        "NaN where the standard has NaN is right, and so is an infinity of the same sign.": one(
            special, odd, [specials], bad=Faulty(rounds=True)
        ),
        "y[0] must be NaN, and the engine has 0.": one(
            special, odd, [specials], bad=Faulty({"y": (_first(0), "values")})
        ),
        "A NaN where the standard has a number is wrong.": one(
            special,
            chain,
            x[:1],
            bad=Faulty({"y": (_first(nan), "values")}),
            bad2=Faulty({"y": (_first(inf), "values")}),
        ),
        "y[2] must be infinity: the largest float32 and minus infinity are other values.": one(
            special,
            odd,
            [specials],
            bad=Faulty({"y": (lambda v: np.where(np.isinf(v), np.finfo(np.float32).max, v).astype(v.dtype), "values")}),
            bad2=Faulty({"q": (lambda v: np.where(np.isinf(v), -v, v).astype(v.dtype), "values")}),
        ),
        "One engine takes the other reading of r, and what follows from it is right.": one(
            permitted, resizes, [row], bad=Faulty(uses=["r"]), bad2=Faulty(uses=["r"], rounds=True), allowed=copies
        ),
        "One engine takes the other reading of r, and then computes b wrongly. Another has a third result for r.": one(
            permitted,
            resizes,
            [row],
            bad=Faulty({"b": (_scaled(1e-2), "values")}, uses=["r"]),
            bad2=Faulty({"r": (_scaled(1e-2), "values")}),
            allowed=copies,
        ),
        "No other reading is allowed in this call.": one(
            permitted, resizes, [row], bad=Faulty({"r": (lambda value: _copied(value, row), "values")})
        ),
        "The engine refuses the first case. That is not a wrong result.": one(
            part, chain, x, bad=[Faulty(refuses=True), wrong]
        ),
        "What is not recorded is what the standard computes from the values that this engine had.": one(
            part,
            chain,
            x[:1],
            bad=Faulty({"c": (_scaled(1e-3), "values")}, hides=["a", "b"]),
            bad2=Faulty({"a": (_scaled(2e-2), "values")}, hides=["b", "c", "d"]),
        ),
        'An input that is left out has the name "". A node may have two outputs, and the first one names it.': one(
            part,
            clips,
            [{"x": (rng.integers(-8, 8, (3, 4)) / 8).astype(np.float32)}],
            bad=Faulty({"p": (_first(9), "values")}),
        ),
        "The model imports operator set 11, where Unsqueeze has axes as an attribute.": one(
            part,
            old,
            [{"x": (rng.integers(1, 8, (1, 4)) / 8).astype(np.float32)}],
            bad=Faulty({"s": (_scaled(1e-2), "values")}),
        ),
    }


def _copied(value: np.ndarray, row: Values) -> np.ndarray:
    return (row["x"] * row["x"]).reshape(value.shape)


# --- the halves


def _digest(recorded: Mapping[str, list[Values | None]]) -> list[bytes]:
    return [array.tobytes() for runs in recorded.values() for run in runs if run is not None for array in run.values()]


def collect_differ(c: Collect) -> None:
    """Call the learner's function once for each scenario."""
    differ = c.function("differ")
    for number, scenario in enumerate(scenarios(c.rng).values()):
        model = onnx.ModelProto.FromString(scenario.model.SerializeToString())
        recorded = scenario.recorded()
        before = _digest(recorded), model.SerializeToString(), [sorted(feed) for feed in scenario.cases]
        with np.errstate(all="ignore"):
            result = c.attempt(str(number), differ, model, scenario.cases, recorded, dict(scenario.allowed))
        after = _digest(recorded), model.SerializeToString(), [sorted(feed) for feed in scenario.cases]
        c.value(f"{number}: changed", before != after)
        c.value(str(number), result)


def judge_differ(v: Judge) -> None:
    """Compare each list with the faults that were planted."""
    told = scenarios(v.rng)
    for check in dict.fromkeys(scenario.check for scenario in told.values()):
        with v.check(check):
            for number, (hint, scenario) in enumerate(told.items()):
                if scenario.check == check:
                    _expect(scenario, hint, v.value(str(number)))
    with v.check("leaves its arguments as they are"):
        if any(v.value(f"{number}: changed") for number in range(len(told))):
            raise WrongAnswer("The model, a feed or a recorded array has changed. Copy what you change.")


def _expect(scenario: Scenario, hint: str, got: object) -> None:
    expected = [found for found in scenario.expected() if found[3]]
    if not isinstance(got, list | tuple):
        raise WrongAnswer(f"differ must return a list of tuples, got {type(got).__name__}.")
    found = [tuple(one) if isinstance(one, list | tuple) else one for one in got]
    if found == expected:
        return
    extra = [one for one in found if one not in expected]
    missing = [one for one in expected if one not in found]
    if extra:
        what = f"{extra[0]} is not wrong"
    elif missing:
        what = f"{missing[0]} is missing"
    else:
        what = "an entry occurs twice, or the order is another one"
    raise WrongAnswer(f"{hint} Expected {expected}, got {found}: {what}.")
