"""Checks of chapter 12: kernels in C++ for ONNX Runtime.

A kernel runs in its own process, so that a crash becomes a sentence about the case that caused it. Its tensors are between guards: a
write outside of its output is seen there, and a read outside of its inputs gives NaN, whatever the memory happens to hold.
"""

from __future__ import annotations

import math
import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oplab.checks.children import wait_for
from oplab.checks.evidence import Collect
from oplab.checks.judge import Judge
from oplab.checks.ort_errors import UNREGISTERED, status
from oplab.checks.programs import ended, last_line, run_program
from oplab.checks.references.sums import mistaken_sums, weights_of
from oplab.checks.stress import Stress, collect_stress, judge_stress
from oplab.parity.arrays import WrongAnswer, describe, expect_close
from oplab.toolchain.findings import thrown

if TYPE_CHECKING:
    import onnx
    import onnxruntime

DOMAIN = "c12"
GUARD = 4096  # elements before and after each tensor
UNTOUCHED = np.float32(-1.2345e30)  # what an output holds before the kernel writes to it


@dataclass(frozen=True)
class Case:
    """One model with one node, and one run of it.

    Attributes:
        title: what is special about it, for messages.
        shapes: of the inputs, in order.
        attributes: of the node; ``None`` values are left out.
        version: of the domain that the model imports.
        refused: a status is expected and no result.
        wrong: the attribute for which it is refused; empty where the shapes are wrong.
        special: the inputs begin with NaN, infinity, 1e15 and 0.
    """

    title: str
    shapes: tuple[tuple[int, ...], ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    version: int = 1
    refused: bool = False
    wrong: str = ""
    special: bool = False


SPECIAL = np.array([np.nan, np.inf, -np.inf, 1e15, -1e15, 0], np.float32)


def draw(rng: np.random.Generator, case: Case) -> list[np.ndarray]:
    """The inputs of a case: both halves draw the same."""
    made = [np.asarray(rng.uniform(-2, 2, shape), np.float32) for shape in case.shapes]
    if case.special:
        for number, array in enumerate(made):  # rolled, so that each input meets other values of the other one
            array.flat[: len(SPECIAL)] = np.roll(SPECIAL, number)
    return made


def model_of(op: str, names: Sequence[str], case: Case) -> onnx.ModelProto:
    """A model of one node ``c12::op``, which says nothing about shapes."""
    from onnx import TensorProto, helper

    given = {name: value for name, value in case.attributes.items() if value is not None}
    node = helper.make_node(op, list(names), ["y"], domain=DOMAIN, **given)
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]
    graph = helper.make_graph([node], op, inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    opsets = [helper.make_opsetid("", 20), helper.make_opsetid(DOMAIN, case.version)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


# --- collect: in its own process -------------------------------------------------------------------------------------


def run_cases(c: Collect, op: str, names: Sequence[str], cases: Sequence[Case]) -> bool:
    """Run every case with the learner's library, and record for each what came: ``<title>`` is ``ok``, a signal or an exception's type.

    Returns:
        whether the library lives, and stays inside of its arrays where it should give a result: then it can be stressed in this process.
    """
    inputs = [draw(c.rng, case) for case in cases]
    if os.environ.get("OPLAB_SANITIZE"):
        # The grader reads the sanitizer's report from this process. Guards would hide from it where a tensor ends.
        for number, case in enumerate(cases):
            _one(c.library, op, names, case, inputs[number], c.scratch / f"{number}.npz", guarded=False)
    else:
        _apart(c, op, names, cases, inputs)
    sound = True
    for number, case in enumerate(cases):
        file = c.scratch / f"{number}.npz"
        if not file.is_file():
            return False  # the process died before
        with np.load(file, allow_pickle=False) as found:
            c.value(case.title, str(found["state"]))
            c.value(f"{case.title}: says", str(found["says"]))
            c.value(f"{case.title}: during", str(found["during"]))
            if "y" in found:
                c.value(f"{case.title}: y", found["y"])
                c.value(f"{case.title}: around", int(found["around"]))
                strange = (found["y"] == UNTOUCHED) | np.isnan(found["y"])
                sound = sound and not found["around"] and (case.special or not strange.any())
            elif not case.refused:
                sound = False
    return sound


def _apart(c: Collect, op: str, names: Sequence[str], cases: Sequence[Case], inputs: list[list[np.ndarray]]) -> None:
    said, now, stage = c.scratch / "stderr.txt", c.scratch / "now.txt", c.scratch / "stage.txt"
    child = os.fork()
    if child == 0:
        try:
            os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
            for number, case in enumerate(cases):
                now.write_text(str(number))
                _one(c.library, op, names, case, inputs[number], c.scratch / f"{number}.npz", guarded=True)
            now.write_text(str(len(cases)))
        finally:
            os._exit(0)
    code = wait_for(child)
    reached = int(now.read_text()) if now.is_file() else 0
    if reached == len(cases):
        return
    state = signal.Signals(-code).name if code < 0 else "exit"
    says = thrown(said.read_text(errors="replace")) if said.is_file() else ""
    during = stage.read_text() if stage.is_file() else ""
    np.savez(c.scratch / f"{reached}.npz", state=state, says=says, during=during)


def _one(
    library: Path | None,
    op: str,
    names: Sequence[str],
    case: Case,
    arrays: list[np.ndarray],
    file: Path,
    *,
    guarded: bool,
) -> None:
    import onnxruntime

    stage = file.with_name("stage.txt")  # outlives the process
    stage.write_text("register")
    try:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        if not guarded:
            options.enable_cpu_mem_arena = options.enable_mem_pattern = False
        options.register_custom_ops_library(str(library))
        data = model_of(op, names, case).SerializeToString()
        stage.write_text("create")
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        stage.write_text("run")
        shape = case.shapes[0]
        if guarded and not case.refused:
            y, around = _run_between_guards(session, names, arrays, shape)
        else:
            y, around = session.run(None, dict(zip(names, arrays, strict=True)))[0], 0
        np.savez(file, state="ok", says="", during="", y=y, around=around)
    except Exception as error:
        np.savez(file, state=type(error).__name__, says=str(error)[:2000], during=stage.read_text())


def _run_between_guards(
    session: onnxruntime.InferenceSession, names: Sequence[str], arrays: list[np.ndarray], shape: tuple[int, ...]
) -> tuple[np.ndarray, int]:
    """The output, and how many elements outside of it were written."""
    binding, size = session.io_binding(), int(np.prod(shape, dtype=np.int64))
    kept = []  # the binding holds addresses only
    for name, array in zip(names, arrays, strict=True):
        padded = np.full(array.size + 2 * GUARD, np.nan, np.float32)
        padded[GUARD : GUARD + array.size] = array.reshape(-1)
        kept.append(padded)
        binding.bind_input(name, "cpu", 0, np.float32, list(array.shape), padded.ctypes.data + 4 * GUARD)
    out = np.full(size + 2 * GUARD, UNTOUCHED, np.float32)
    binding.bind_output("y", "cpu", 0, np.float32, list(shape), out.ctypes.data + 4 * GUARD)
    session.run_with_iobinding(binding)
    around = out != UNTOUCHED
    around[GUARD : GUARD + size] = False
    return out[GUARD : GUARD + size].reshape(shape).copy(), int(around.sum())


# --- judge -----------------------------------------------------------------------------------------------------------


# Where a process died, and what to look at.
_STAGES = {
    "register": (
        "while RegisterCustomOps ran",
        "Is Ort::InitApi the first call, before any op or domain is made? The C++ classes call through the table that it stores.",
    ),
    "create": (
        "while the session was made, after RegisterCustomOps had returned",
        "Do the op and the domain live as long as the library (static)? ONNX Runtime keeps pointers to both. Then look at CreateKernel.",
    ),
    "run": (
        "while the kernel ran",
        "Look at the ends of loops, at sizes that are read from a shape without asking for its rank, and at pointers that may be null.",
    ),
}


def outcome(v: Judge, op: str, case: Case) -> tuple[str, str]:
    """What came of a case: ``ok`` or an exception's type, and what it said.

    Raises:
        WrongAnswer: the library could not be used at all, or the process died.
    """
    state, says = str(v.value(case.title)), str(v.value(f"{case.title}: says"))
    if state == "ok":
        return state, says
    if state == "SIGABRT" and says:
        raise WrongAnswer(
            f"{case.title}: a C++ exception ({says}) tried to leave a function that C calls. It cannot be caught there: std::terminate "
            "ended the process (SIGABRT). Catch it inside and return a status, or do not throw."
        )
    during = str(v.value(f"{case.title}: during"))
    if state.startswith("SIG") or state == "exit":
        how = {"SIGSEGV": "SIGSEGV, a segmentation fault", "exit": "by calling exit"}.get(state, state)
        where, look = _STAGES.get(during, _STAGES["run"])
        raise WrongAnswer(
            f"{case.title}: {where}, the process ended ({how}). {look} `oplab check c12.{exercise_of(op)} --sanitize` finds the line."
        )
    if during == "register":
        raise WrongAnswer(f"{case.title}: the library cannot be registered: {status(says)}")
    if UNREGISTERED in says:
        raise _unknown(op, case)
    if "type inference failed" in says or re.search(r"put parameter \(.*\) of operator .* is invalid", says):
        raise WrongAnswer(
            f"{case.title}: the operator is not declared for float tensors, or not with these inputs: {status(says)}"
        )
    if "has input size" in says or "has output size" in says:
        raise WrongAnswer(
            f"{case.title}: the operator is declared with another number of inputs or outputs: {status(says)}"
        )
    return state, says


def exercise_of(op: str) -> str:
    """The exercise in which an operator is asked for."""
    return {"MyAdd": "my_add", "AddBias": "errors", "Foo": "port_foo"}[op]


def _unknown(op: str, case: Case) -> WrongAnswer:
    version = f" in version {case.version} of the domain" if case.version != 1 else ""
    return WrongAnswer(
        f"{case.title}: the library loads, and it has no operator {op} in the domain {DOMAIN}{version}. Compare three things with the "
        f"exercise's first lines: the op's name (GetName, or the first argument of CreateLiteCustomOp), the name of the "
        "Ort::CustomOpDomain (capitals count in both), and the op's start version. Is the op added to the domain, and the "
        "domain to the session's options?"
    )


def result(v: Judge, op: str, case: Case) -> np.ndarray:
    """The output of a case that has to work."""
    state, says = outcome(v, op, case)
    if state != "ok":
        if found := re.search(r"has shape (\{.*?\}) but the computed output shape for this run is (\{.*?\})", says):
            raise WrongAnswer(
                f"{case.title}: the kernel asks for an output of the shape {found[2]}, expected {found[1]}, which is the shape of the "
                "first input. A shape that is written down fits one model only."
            )
        if missing := re.search(r"No attribute with name:'(\w+)'", says):
            given = [name for name, value in case.attributes.items() if value is not None]
            if missing[1] in {"MyAdd": ("alpha", "beta"), "AddBias": ("scale",)}.get(op, ()):
                why = "A model may leave it out, and then the default counts."
            else:
                why = f"The attributes of {op} are {' and '.join(given)}."
            raise WrongAnswer(f"{case.title}: {status(says)} {why}")
        if "name and type don't match" in says and op == "Foo":
            raise WrongAnswer(
                f"{case.title}: {status(says)} (attr1 is a float attribute, attr2 an int, int64_t in C++)"
            )
        if str(v.value(f"{case.title}: during")) == "run":
            given = " and ".join(str(list(shape)) for shape in case.shapes)
            raise WrongAnswer(f"{case.title}: inputs of {given} are right, and the kernel refuses them: {status(says)}")
        raise WrongAnswer(f"{case.title}: {status(says)}")
    around = v.value(f"{case.title}: around")
    y = v.array(f"{case.title}: y")
    if type(around) is not int or around:
        raise WrongAnswer(
            f"{case.title}: the kernel writes {around} elements outside of its output, which has {y.size}. The loop must end at the number "
            "of elements of this run."
        )
    return y


def expect_result(v: Judge, op: str, case: Case, expected: np.ndarray, likely: Mapping[str, np.ndarray]) -> None:
    """Demand the values, and that every element was written."""
    y = result(v, op, case)
    if y.dtype == expected.dtype and y.shape == expected.shape:
        left = int((y == UNTOUCHED).sum())
        if left:
            raise WrongAnswer(
                f"{case.title}: the kernel left {left} of {y.size} elements of {describe(y)} unwritten. The loop must run over "
                "all elements of this run."
            )
        if np.isnan(y).any() and not np.isnan(expected).any():
            raise WrongAnswer(
                f"{case.title}: {int(np.isnan(y).sum())} of {y.size} elements are NaN: the kernel reads outside of its inputs, where the "
                "grader puts NaN, or it computes with something that was never set."
            )
    expect_close(y, expected, name=case.title, likely=dict(likely))


def _bad_shapes(title: str, *shapes: tuple[int, ...], version: int = 1, **attributes: Any) -> Case:
    """A case with shapes that must be refused."""
    return Case(title, shapes, attributes, version, refused=True)


def _bad_attribute(title: str, *shapes: tuple[int, ...], version: int = 1, **attributes: Any) -> Case:
    """A case whose attribute, the first word of the title, is missing or wrong and must be refused."""
    return Case(title, shapes, attributes, version, refused=True, wrong=title.split()[0])


def expect_refused(v: Judge, op: str, names: Sequence[str], case: Case, words: Sequence[str], prefix: str = "") -> None:
    """Demand that a case ends with a status whose sentence holds ``words``.

    Shapes are refused when the model runs, with the code ORT_INVALID_ARGUMENT, which no exception keeps. A wrong attribute is refused when
    the session is made, and there ONNX Runtime reports RUNTIME_EXCEPTION whatever the code was.
    """
    state, says = outcome(v, op, case)
    if state == "ok":
        shapes = " and ".join(str(list(shape)) for shape in case.shapes)
        y = describe(v.array(f"{case.title}: y"))
        why = _why_refused(op, case)
        raise WrongAnswer(f"{case.title}: the kernel ran and gave {y} for {' and '.join(names)} of {shapes}.{why}")
    short = status(says)
    if "unknown exception" in says:
        raise WrongAnswer(
            f"{case.title}: an exception that is not a std::exception left the kernel, and its text is lost ({short}). Return a status."
        )
    if case.wrong and str(v.value(f"{case.title}: during")) == "run":
        raise WrongAnswer(f"{case.title}: the session was made, and only its run was refused: {short}")
    if not case.wrong and state != "InvalidArgument":
        raise WrongAnswer(
            f"{case.title}: expected a status of the code ORT_INVALID_ARGUMENT, got {state}: {short} An exception that leaves the kernel, "
            "and a status of another code, arrive like this."
        )
    if not short.startswith(prefix):
        raise WrongAnswer(f"{case.title}: the sentence has to begin with {prefix!r}, got: {short}")
    missing = [word for word in words if not _names(short.removeprefix(prefix), word)]
    if missing:
        raise WrongAnswer(f"{case.title}: the sentence does not name {' and '.join(missing)}: {short}")


def _why_refused(op: str, case: Case) -> str:
    """What to look at where a wrong model or input was accepted."""
    if not case.wrong:
        return "" if op == "AddBias" else " Compare the two shapes before anything is read, and return a status."
    if op == "Foo":
        return (
            " attr1, a float, and attr2, an int, are required: where reading one fails, the session must not be made."
        )
    value = case.attributes[case.wrong]
    why = f" {case.wrong} is {value!r}."
    if not isinstance(value, float):
        why += (
            " KernelInfoGetAttribute_float fails for an attribute of another type as it does for one that is missing: "
            "asking for the other types tells the two apart."
        )
    return why


def _names(sentence: str, word: str) -> bool:
    """Whether a sentence names a shape, a number or an argument, however it is written."""
    if word.startswith("["):
        return word.replace(" ", "") in sentence.replace(" ", "")
    words = re.findall(r"-?\d+(?:\.\d*)?(?:e[+-]?\d+)?|[a-z]\w*", sentence.lower())
    try:
        number = float(word)
    except ValueError:
        return word in words
    return word in words or any(
        entry[-1] in "0123456789."
        and math.isclose(float(entry), number, rel_tol=1e-5)  # six digits, or all of a float's
        for entry in words
        if entry[0] in "-0123456789"
    )


def unequal_shapes(version: int = 1, **attributes: Any) -> list[tuple[Case, Sequence[str]]]:
    """Pairs of shapes that an elementwise operator without broadcasting refuses, each with the words that its sentence must hold."""
    shapes: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
        "second input shorter": ((6,), (4,)),
        "second input longer": ((4,), (6,)),
        "a row for each row": ((2, 3), (3,)),  # what NumPy broadcasts
        "one column": ((2, 3), (2, 1)),
        "one element for all": ((2, 3), (1,)),
        "a scalar for all": ((2, 3), ()),
        "a scalar first": ((), (3,)),
        "a scalar and one element": ((), (1,)),
        "transposed": ((2, 3), (3, 2)),  # as many elements
        "flat and not flat": ((6,), (2, 3)),
        "no elements in the second": ((4,), (0,)),
        "no elements in either": ((0, 3), (3, 0)),
    }
    return [
        (
            _bad_shapes(f"{title}, {list(a)} and {list(b)}", a, b, version=version, **attributes),
            [str(list(s)) for s in (a, b) if s],
        )
        for title, (a, b) in shapes.items()
    ]


# --- other nodes, sessions and threads -------------------------------------------------------------------------------


def stressed(
    rng: np.random.Generator,
    op: str,
    names: tuple[str, str],
    nodes: Mapping[str, Mapping[str, Any]],
    shapes: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
    refused: Sequence[Case],
) -> Stress:
    """Two nodes with other attributes, inputs of these shapes, and cases that have to be refused."""

    def model(case: Case) -> onnx.ModelProto:
        return model_of(op, names, case)

    def feeds(case: Case) -> dict[str, np.ndarray]:
        return dict(zip(names, draw(rng, case), strict=True))

    version = 2 if op == "Foo" else 1
    return Stress(
        {title: model(Case(title, shapes[0], attributes, version)) for title, attributes in nodes.items()},
        {f"{list(shape[0])} and {list(shape[1])}": feeds(Case("", shape)) for shape in shapes},
        {case.title: (model(case), None if case.wrong else feeds(case)) for case in refused},
    )


# The first two keep four threads busy for a moment; no elements come last.
PAIRS = [((800, 500), (800, 500)), ((600, 600), (600, 600)), ((3, 5), (3, 5)), ((0, 5), (0, 5))]


# --- my_add ----------------------------------------------------------------------------------------------------------

MY_ADD = [
    Case("both attributes left out", ((4, 5), (4, 5))),
    Case("1000 elements", ((1000,), (1000,))),
    Case("both attributes given", ((6, 3), (6, 3)), {"alpha": -0.75, "beta": 1.625}),
    Case("only alpha given", ((2, 3, 4), (2, 3, 4)), {"alpha": 2.75}),
    Case("only beta given", ((7,), (7,)), {"beta": -2.375}),
    Case("alpha = 0, beta = 0.5", ((3, 1, 5, 2), (3, 1, 5, 2)), {"alpha": 0.0, "beta": 0.5}, special=True),
    Case("one element", ((1,), (1,))),
    Case("a scalar", ((), ()), {"alpha": 0.5}),
    Case("no elements, shape [0, 5]", ((0, 5), (0, 5))),
    Case("NaN, infinity and 1e15", ((2, 4), (2, 4)), special=True),
]

# Each wrong case with the words that its sentence must hold.
MY_ADD_TYPES = [
    (_bad_attribute("alpha is the int 2", (3,), (3,), alpha=2), ("alpha",)),
    (_bad_attribute("beta is the int 7", (3,), (3,), beta=7), ("beta",)),
    (_bad_attribute("alpha is a text", (3,), (3,), alpha="2.0"), ("alpha",)),
    (_bad_attribute("beta is a list of floats", (3,), (3,), alpha=1.5, beta=[1.5, 2.5]), ("beta",)),
    (_bad_attribute("alpha is a list of ints", (3,), (3,), alpha=[2]), ("alpha",)),
]
MY_ADD_SHAPES = unequal_shapes()


MY_ADD_NODES = {"alpha = 0.1, beta = -1.75": {"alpha": 0.1, "beta": -1.75}, "no attributes": {}}


def my_add_stress(rng: np.random.Generator) -> Stress:
    refused = [MY_ADD_SHAPES[0][0], MY_ADD_TYPES[0][0]]
    return stressed(rng, "MyAdd", ("a", "b"), MY_ADD_NODES, PAIRS, refused)


def collect_my_add(c: Collect) -> None:
    s = my_add_stress(c.rng)
    if run_cases(c, "MyAdd", ("a", "b"), [*MY_ADD, *(case for case, _ in MY_ADD_TYPES + MY_ADD_SHAPES)]):
        collect_stress(c, s)


def judge_my_add(v: Judge) -> None:
    s = my_add_stress(v.rng)
    inputs = [draw(v.rng, case) for case in MY_ADD]
    for name, chosen in (
        ("3a + 2b where the model sets no attribute", (0, 1)),
        ("alpha and beta of the model", (2, 3, 4, 5)),
    ):
        with v.require(name):
            for number in chosen:
                _expect_my_add(v, MY_ADD[number], *inputs[number])
    with v.require("any shape and any values"):
        for number in (6, 7, 8, 9):
            _expect_my_add(v, MY_ADD[number], *inputs[number])
    for name, chosen in (
        ("no session for an attribute of another type", MY_ADD_TYPES),
        ("a status for shapes that differ", MY_ADD_SHAPES),
    ):
        with v.require(name):
            for case, words in chosen:
                expect_refused(v, "MyAdd", ("a", "b"), case, words)

    def expect(node: str, run: str, arrays: list[np.ndarray]) -> None:
        alpha, beta = map(np.float32, weights_of((MY_ADD_NODES[node].get("alpha"), MY_ADD_NODES[node].get("beta"))))
        expect_close(arrays[0], alpha * s.runs[run]["a"] + beta * s.runs[run]["b"], name="y")

    judge_stress(v, s, expect)


@np.errstate(invalid="ignore")
def _expect_my_add(v: Judge, case: Case, a: np.ndarray, b: np.ndarray) -> None:
    given = case.attributes.get("alpha"), case.attributes.get("beta")
    alpha, beta = map(np.float32, weights_of(given))
    expect_result(v, "MyAdd", case, alpha * a + beta * b, mistaken_sums(a, b, given))


# --- errors ----------------------------------------------------------------------------------------------------------

GOOD = [
    Case("scale left out", ((4, 5), (5,))),
    Case("scale = 0.375", ((3, 7), (7,)), {"scale": 0.375}),
    Case("one column", ((6, 1), (1,))),
    Case("100 rows, 33 columns", ((100, 33), (33,)), {"scale": 2.5}),
    Case("no rows", ((0, 4), (4,))),
    Case("no columns", ((3, 0), (0,))),
    Case("NaN, infinity and 1e15", ((3, 8), (8,)), {"scale": 2.5}, special=True),
    Case("scale = 1e15", ((3, 2), (2,)), {"scale": 1e15}),
]


# Each wrong case with the words that its sentence must hold.
BAD = [
    (
        _bad_shapes("x of rank 3", (2, 4, 3), (4,)),
        ("x", "[2, 4, 3]"),
    ),  # 4 is where a kernel looks that takes rank 2 for granted
    (_bad_shapes("x of rank 3, bias as its last dimension", (2, 3, 4), (4,)), ("x", "[2, 3, 4]")),
    (_bad_shapes("x of rank 1", (6,), (6,)), ("x", "[6]")),
    (_bad_shapes("x a scalar", (), (1,)), ("x",)),
    (_bad_shapes("x of rank 3 without elements", (0, 2, 4), (4,)), ("x", "[0, 2, 4]")),
    (_bad_shapes("bias of rank 2", (2, 3), (1, 3)), ("bias", "[1, 3]")),
    (_bad_shapes("bias a scalar", (2, 3), ()), ("bias",)),
    (_bad_shapes("bias shorter than a row, no rows", (0, 5), (4,)), ("[0, 5]", "[4]")),
    (_bad_shapes("bias longer than a row", (5, 2), (5,)), ("[5, 2]", "[5]")),
    (_bad_shapes("bias of one element", (2, 3), (1,)), ("[2, 3]", "[1]")),
    (_bad_attribute("scale = -1.5", (2, 3), (3,), scale=-1.5), ("scale", "-1.5")),
    (_bad_attribute("scale is NaN", (2, 3), (3,), scale=float("nan")), ("scale", "nan")),
    (_bad_attribute("scale is infinite", (2, 3), (3,), scale=float("inf")), ("scale", "inf")),
    (_bad_attribute("scale = -1e-9", (2, 3), (3,), scale=-1e-9), ("scale", "-1e-9")),
    (_bad_attribute("scale = 0", (2, 3), (3,), scale=0.0), ("scale", "0")),
    (_bad_attribute("scale is the int 2", (2, 3), (3,), scale=2), ("scale",)),
    (_bad_attribute("scale is a text", (2, 3), (3,), scale="2.0"), ("scale",)),
    (_bad_attribute("scale is a list of floats", (2, 3), (3,), scale=[1.5, 2.5]), ("scale",)),
    (_bad_attribute("scale is a list of ints", (2, 3), (3,), scale=[2]), ("scale",)),
]


ADD_BIAS_NODES = {"scale = 0.1": {"scale": 0.1}, "no attribute": {}}


def errors_stress(rng: np.random.Generator) -> Stress:
    shapes = [((800, 500), (500,)), ((600, 600), (600,)), ((3, 5), (5,)), ((0, 5), (5,)), ((3, 0), (0,))]
    refused = [BAD[1][0], BAD[7][0], BAD[10][0]]
    return stressed(rng, "AddBias", ("x", "bias"), ADD_BIAS_NODES, shapes, refused)


def collect_errors(c: Collect) -> None:
    s = errors_stress(c.rng)
    if run_cases(c, "AddBias", ("x", "bias"), [*GOOD, *(case for case, _ in BAD)]):
        collect_stress(c, s)


@np.errstate(invalid="ignore")
def judge_errors(v: Judge) -> None:
    s = errors_stress(v.rng)
    inputs = [draw(v.rng, case) for case in GOOD]
    with v.require("computes x + scale*bias where all is well"):
        for case, (x, bias) in zip(GOOD, inputs, strict=True):
            scale = np.float32(case.attributes.get("scale", 1.0))
            expect_result(v, "AddBias", case, x + scale * bias, {"The attribute scale has no effect.": x + bias})
    for name, chosen in (("a status for wrong shapes", BAD[:10]), ("a status for a wrong attribute", BAD[10:])):
        with v.require(name):
            for case, words in chosen:
                expect_refused(v, "AddBias", ("x", "bias"), case, words, prefix="AddBias: ")

    def expect(node: str, run: str, arrays: list[np.ndarray]) -> None:
        scale = np.float32(ADD_BIAS_NODES[node].get("scale", 1))
        expect_close(arrays[0], s.runs[run]["x"] + scale * s.runs[run]["bias"], name="y")

    judge_stress(v, s, expect)


# --- port_foo --------------------------------------------------------------------------------------------------------

PORT_FOO = [
    Case("attr1 = 1.5, attr2 = 2", ((3, 4), (3, 4)), {"attr1": 1.5, "attr2": 2}, 2),
    Case("attr1 = -0.25, attr2 = 3", ((500,), (500,)), {"attr1": -0.25, "attr2": 3}, 2),
    Case("attr1 = 2.75, attr2 = 1", ((2, 3, 5), (2, 3, 5)), {"attr1": 2.75, "attr2": 1}, 2),
    Case("attr1 = 0.5, attr2 = 0", ((7,), (7,)), {"attr1": 0.5, "attr2": 0}, 2),
    Case("attr1 = 1.25, attr2 = -1", ((4, 2), (4, 2)), {"attr1": 1.25, "attr2": -1}, 2),
    Case("version 3 of the domain", ((2, 2), (2, 2)), {"attr1": 1.5, "attr2": 2}, 3),
    Case("a scalar", ((), ()), {"attr1": 1.5, "attr2": 2}, 2),
    Case("no elements, shape [2, 0]", ((2, 0), (2, 0)), {"attr1": 1.5, "attr2": 2}, 2),
    Case("NaN, infinity and 1e15", ((2, 4), (2, 4)), {"attr1": 1.5, "attr2": 3}, 2, special=True),
    Case(
        "attr2 = 65539", ((2, 4), (2, 4)), {"attr1": 0.1, "attr2": 65539}, 2, special=True
    ),  # a loop takes it, 16 bits do not
    Case(
        "attr2 = 2**32 + 1", ((2, 4), (2, 4)), {"attr1": 0.1, "attr2": 2**32 + 1}, 2, special=True
    ),  # nor does a float
    Case("version 1 of the domain", ((2, 2), (2, 2)), {"attr1": 1.5, "attr2": 2}, 1, refused=True),
]

PORT_FOO_TYPES = [
    (_bad_attribute("attr1 is the int 2", (3,), (3,), version=2, attr1=2, attr2=2), ("attr1",)),
    (_bad_attribute("attr2 is the float 2.0", (3,), (3,), version=2, attr1=1.5, attr2=2.0), ("attr2",)),
    (_bad_attribute("attr1 is a text", (3,), (3,), version=2, attr1="1.5", attr2=2), ("attr1",)),
    (_bad_attribute("attr2 is a list of ints", (3,), (3,), version=2, attr1=1.5, attr2=[2, 3]), ("attr2",)),
    (_bad_attribute("attr1 left out", (3,), (3,), version=2, attr2=2), ("attr1",)),
    (_bad_attribute("attr2 left out", (3,), (3,), version=2, attr1=1.5), ("attr2",)),
]
PORT_FOO_SHAPES = unequal_shapes(version=2, attr1=1.5, attr2=2)


FOO_NODES: dict[str, dict[str, Any]] = {
    "attr1 = 0.1, attr2 = 3": {"attr1": 0.1, "attr2": 3},
    "attr1 = -2.5, attr2 = 2": {"attr1": -2.5, "attr2": 2},
}


def port_foo_stress(rng: np.random.Generator) -> Stress:
    refused = [replace(PORT_FOO_SHAPES[0][0], attributes=FOO_NODES["attr1 = 0.1, attr2 = 3"]), PORT_FOO_TYPES[1][0]]
    shapes = [((200, 300), (200, 300)), ((250, 200), (250, 200)), *PAIRS[2:]]  # std::pow takes its time
    return stressed(rng, "Foo", ("input1", "input2"), FOO_NODES, shapes, refused)


def collect_port_foo(c: Collect) -> None:
    s = port_foo_stress(c.rng)
    cases = [*PORT_FOO, *(case for case, _ in PORT_FOO_TYPES + PORT_FOO_SHAPES)]
    if run_cases(c, "Foo", ("input1", "input2"), cases):
        collect_stress(c, s)


def judge_port_foo(v: Judge) -> None:
    s = port_foo_stress(v.rng)
    inputs = [draw(v.rng, case) for case in PORT_FOO]
    for name, chosen in (("attr1*input1 + input2**attr2", range(6)), ("any shape and any values", (6, 7, 8, 9, 10))):
        with v.require(name):
            for number in chosen:
                _expect_foo(v, PORT_FOO[number], *inputs[number])
    with v.require("not in version 1 of the domain"):
        case = PORT_FOO[-1]
        if str(v.value(case.title)) == "ok":
            raise WrongAnswer(
                "A model that imports version 1 of c12 finds Foo and runs. The op has to say that it exists from version 2 on: "
                "start_ver_ of CustomOpBase, or the start version that CreateLiteCustomOp takes."
            )
    for name, chosen in (
        ("no session for an attribute that is missing or of another type", PORT_FOO_TYPES),
        ("a status for shapes that differ", PORT_FOO_SHAPES),
    ):
        with v.require(name):
            for case, words in chosen:
                expect_refused(v, "Foo", ("input1", "input2"), case, words)

    def expect(node: str, run: str, arrays: list[np.ndarray]) -> None:
        attr1, attr2 = np.float32(FOO_NODES[node]["attr1"]), FOO_NODES[node]["attr2"]
        power = s.runs[run]["input2"].astype(np.float64) ** attr2
        expect_close(arrays[0], attr1 * s.runs[run]["input1"] + power.astype(np.float32), name="y")

    judge_stress(v, s, expect)


@np.errstate(all="ignore")
def foo_ideas(attr1: np.float32, attr2: int, input1: np.ndarray, input2: np.ndarray) -> dict[str, np.ndarray]:
    """What known mistakes give."""
    power = input2.astype(np.float64) ** attr2
    likely = {}
    if attr2 > 2**24:  # first: others round it, too
        cause = "The exponent has become a float, which cannot hold it: powers of negative numbers change their sign."
        likely[cause] = attr1 * input1 + input2.astype(np.float64) ** float(np.float32(attr2))
        likely["The exponent is cut to 32 bits: attr2 is an int64_t."] = attr1 * input1 + input2 ** (attr2 % 2**32)
    if attr2 < 0:
        likely["Negative exponents are not computed."] = attr1 * input1 + 1
    return likely | {
        "This is input1 + input2, as another version of the old kernel has it.": input1 + input2,
        "The inputs are swapped: this is attr1*input2 + input1**attr2.": attr1 * input2 + input1 ** np.float32(attr2),
        "This is attr1*input1 + input2*attr2: ** is a power.": attr1 * input1 + input2 * attr2,
        "The fraction of attr1 is lost.": np.trunc(attr1) * input1 + power,
    }


@np.errstate(all="ignore")
def _expect_foo(v: Judge, case: Case, input1: np.ndarray, input2: np.ndarray) -> None:
    attr1, attr2 = np.float32(case.attributes["attr1"]), case.attributes["attr2"]
    expected = attr1 * input1 + (input2.astype(np.float64) ** attr2).astype(np.float32)
    expect_result(v, "Foo", case, np.asarray(expected, np.float32), foo_ideas(attr1, attr2, input1, input2))


# --- host ------------------------------------------------------------------------------------------------------------

_HEAD = '<ir_version: 10, opset_import: ["": 20, "oplab": 1]>\n'


@dataclass(frozen=True)
class Deployed:
    """A model that the learner's program has to run, as ONNX's text form, with one input.

    Attributes:
        title: what is special about it, for messages.
        shape: of the input.
        text: of the model; all of them have a node of the domain ``oplab``.
        expected: the first output for an input; the judge alone calls it.
        over: OUTPUT exists already, from the run before.
    """

    title: str
    shape: tuple[int, ...]
    text: str
    expected: Callable[[np.ndarray], np.ndarray]
    over: bool = False


POINTS = """g (float[n, 3] points) => (float[n, 3] moved) {
    t = Abs(points)
    moved = oplab.MyAdd<alpha=0.25, beta=-1.5>(points, t) }"""
SIGNAL = """g (float[2, samples] signal) => (float[2, samples] mixed) {
    t = Abs(signal)
    mixed = oplab.MyAdd<alpha=-2.5, beta=0.75>(signal, t) }"""
TWICE = """g (float[n] wave) => (float[m] both) {
    t = oplab.MyAdd(wave, wave)
    both = Concat<axis=0>(wave, t) }"""
FIXED = """g (float[4, 6] image) => (float[4, 6] out) { out = oplab.MyAdd(image, image) }"""
SUMS = """g (float[3, n, 2] x) => (float[3, 2] sums) {
    axes = Constant<value_ints=[1]>()
    t = oplab.MyAdd(x, x)
    sums = ReduceSum<keepdims=0>(t, axes) }"""
SEVERAL = """g (float[n, 2] a) => (float[n, 2] z, float[2, n] b, int64[2] c) {
    z = oplab.MyAdd(a, a)
    b = Transpose(z)
    c = Shape(a) }"""
WIDE = """g (float[n, 16] features) => (float[n, 16] scaled) { scaled = oplab.MyAdd(features, features) }"""

DEPLOYED = (
    Deployed("5 rows of [n, 3]", (5, 3), POINTS, lambda x: 0.25 * x - 1.5 * np.abs(x)),
    Deployed("1 row of [n, 3], and an older OUTPUT", (1, 3), POINTS, lambda x: 0.25 * x - 1.5 * np.abs(x), True),
    Deployed("11 columns of [2, samples]", (2, 11), SIGNAL, lambda x: -2.5 * x + 0.75 * np.abs(x)),
    Deployed("no dynamic dimension, [4, 6]", (4, 6), FIXED, lambda x: 5 * x),
    Deployed("an output that is longer than the input", (9,), TWICE, lambda x: np.concatenate([x, 5 * x])),
    Deployed("an output that is shorter than the input", (3, 13, 2), SUMS, lambda x: (5 * x).sum(axis=1)),
    Deployed("three outputs", (6, 2), SEVERAL, lambda x: 5 * x),
    Deployed("70 000 rows of [n, 16]", (70_000, 16), WIDE, lambda x: 5 * x),
)

NOPE = "g (float[n, 3] points) => (float[n, 3] moved) { moved = oplab.NoSuchOperator(points) }"
UNEQUAL = """g (float[n] x) => (float[n] y) {
    three = Constant<value_floats=[1.0, 2.0, 3.0]>()
    y = oplab.MyAdd(x, three) }"""
TWO_DYNAMIC = "g (float[n, m] x) => (float[n, m] y) { y = oplab.MyAdd(x, x) }"
EMPTY = "g (float[n, 0] x) => (float[n, 0] y) { y = oplab.MyAdd(x, x) }"
COUNTS = "g (float[n, 3] x) => (int64[2] sizes) { y = oplab.MyAdd(x, x) sizes = Shape(y) }"


@dataclass(frozen=True)
class Failing:
    """A run that has to fail.

    Attributes:
        title: what is wrong, for messages.
        words: the program's sentence has one of them; empty where any sentence will do.
        text: of the model.
        count: of values in the input file.
        files: what replaces one of the four files; a name below the scratch folder, or ``/`` and the key of a file of this machine.
        given: how many of the four arguments the program gets.
        room: bytes that the disk has for each file; None is enough.
    """

    title: str
    words: tuple[str, ...] = ()
    text: str = POINTS
    count: int = 12
    files: Mapping[str, str] = field(default_factory=dict)
    given: int = 4
    room: int | None = None


WRONG_FILES = (
    Failing("MODEL does not exist", ("absent.onnx",), files={"model": "absent.onnx"}),
    Failing("MODEL is not a model", ("values.raw",), files={"model": "values.raw"}),
    Failing("LIBRARY does not exist", ("absent.so",), files={"library": "absent.so"}),
    Failing("LIBRARY is not a library", ("values.raw",), files={"library": "values.raw"}),
    Failing("LIBRARY has no RegisterCustomOps", ("RegisterCustomOps",), files={"library": "/runtime"}),
    Failing("INPUT does not exist", ("absent.raw",), files={"input": "absent.raw"}),
    Failing("OUTPUT is in a folder that does not exist", ("absent",), files={"output": "absent/out.raw"}),
    Failing("OUTPUT is a folder", ("folder",), files={"output": "folder"}),
    Failing("OUTPUT is missing from the command", given=3),
    Failing("the disk is full", count=60, room=200),  # less than a stream holds back
)
WRONG_VALUES = (
    Failing("37 values for [n, 3]", ("37",), count=37),
    Failing("25 values for [4, 6]", ("25",), text=FIXED, count=25),
    Failing("23 values for [4, 6]", ("23",), text=FIXED, count=23),
    Failing("24 values for [n, m]", text=TWO_DYNAMIC, count=24),
    Failing("41 values for [n, 0]", ("41",), text=EMPTY, count=41),
)
WRONG_MODELS = (
    Failing("an operator that LIBRARY does not have", ("NoSuchOperator",), text=NOPE),
    Failing("a kernel that refuses its inputs", ("MyAdd",), text=UNEQUAL, count=5),
    Failing("an output of int64", ("sizes", "float", "int64"), text=COUNTS),
)
OLDER = b"what an earlier run wrote"
HOST_DRAWN = 64  # values of the inputs of runs that have to fail


def _values(rng: np.random.Generator) -> tuple[list[np.ndarray], np.ndarray]:
    """The inputs of DEPLOYED, and the values of which each failing run takes the first ones: both halves draw the same."""
    inputs = [np.asarray(rng.uniform(-2, 2, case.shape), np.float32) for case in DEPLOYED]
    return inputs, np.asarray(rng.uniform(-2, 2, HOST_DRAWN), np.float32)


def collect_host(c: Collect) -> None:
    import onnx

    from oplab.toolchain.build import compiled_library
    from oplab.toolchain.recipes import ort_runtime

    inputs, drawn = _values(c.rng)
    kernels = compiled_library("ort")
    (c.scratch / "folder").mkdir()
    for case, x in zip(DEPLOYED, inputs, strict=True):
        model, values, out = (c.scratch / name for name in ("model.onnx", "values.raw", "out.raw"))
        onnx.save(onnx.parser.parse_model(_HEAD + case.text), model)
        values.write_bytes(x.tobytes())
        if not case.over:
            out.unlink(missing_ok=True)
        if not run_program(c, case.title, model, kernels, values, out):
            return
        c.file(f"{case.title}: OUTPUT", out)
    for wrong in WRONG_FILES + WRONG_VALUES + WRONG_MODELS:
        names = {"model": "model.onnx", "input": "values.raw", "output": "out.raw", **wrong.files}
        places = {name: c.scratch / file for name, file in names.items()}
        places.setdefault("library", kernels)
        if wrong.files.get("library") == "/runtime":
            places["library"] = ort_runtime()
        onnx.save(onnx.parser.parse_model(_HEAD + wrong.text), c.scratch / "model.onnx")
        (c.scratch / "values.raw").write_bytes(drawn[: wrong.count].tobytes())
        before = OLDER if wrong in WRONG_VALUES else None
        (c.scratch / "out.raw").write_bytes(OLDER) if before else (c.scratch / "out.raw").unlink(missing_ok=True)
        arguments = [places[name] for name in ("model", "library", "input", "output")]
        if not run_program(c, wrong.title, *arguments[: wrong.given], room=wrong.room):
            return
        after = places["output"].read_bytes() if places["output"].is_file() else None
        c.value(f"{wrong.title}: OUTPUT as before", after == before)
        c.value(f"{wrong.title}: folder", places["output"].is_dir())


def judge_host(v: Judge) -> None:
    inputs, _ = _values(v.rng)
    for name, chosen in (
        ("runs a model with the library's kernels", slice(0, 2)),
        ("takes names and the dynamic dimension from the model", slice(2, 4)),
        ("writes the first output, whatever its size", slice(4, 7)),
        ("a large input", slice(7, 8)),
    ):
        with v.require(name):
            for case, x in zip(DEPLOYED[chosen], inputs[chosen], strict=True):
                _expect_output(v, case, x)
    for name, runs in (
        ("a sentence for each wrong file", WRONG_FILES),
        ("a sentence for values that do not fill the input", WRONG_VALUES),
        ("a sentence for what ONNX Runtime refuses", WRONG_MODELS),
    ):
        with v.require(name):
            for wrong in runs:
                _expect_failure(v, wrong)


def _expect_output(v: Judge, case: Deployed, x: np.ndarray) -> None:
    code, said = ended(v, case.title)
    if code:
        says = last_line(said)
        raise WrongAnswer(f"{case.title}: the program returned {code}, and said: {says}{_advice(says)}")
    found, expected = v.bytes(f"{case.title}: OUTPUT"), np.asarray(case.expected(x), np.float32)
    if len(found) != expected.nbytes:
        how = ""
        if found and all(byte in b"0123456789.,-+einfa \t\r\n[]" for byte in found[:200]):
            how = " This is text: write the bytes of the floats."
        elif case.over and len(found) > expected.nbytes:
            how = " An older OUTPUT was there: replace all of it."
        elif len(found) == x.nbytes:
            how = " These are as many as the input has: ask the result for its own number of elements."
        raise WrongAnswer(
            f"{case.title}: OUTPUT has {len(found)} bytes, and the {expected.size} floats of the first output have "
            f"{expected.nbytes}.{how}"
        )
    y = np.frombuffer(found, np.float32).reshape(expected.shape)
    likely = {"This is the input: the program has to write what Run returns.": x} if x.shape == y.shape else {}
    expect_close(y, expected, name=case.title, likely=likely)


def _advice(says: str) -> str:
    """What to look at, for a message of ONNX Runtime that a right model and right files have brought about."""
    if UNREGISTERED in says:
        return " Register LIBRARY in the session's options before the session is made."
    if "Invalid input name" in says or "Invalid output name" in says or "Invalid Output Name" in says:
        return " Ask the session for the names, and keep the object that GetInputNameAllocated returns: the name is freed with it."
    if "invalid dimensions" in says or "Invalid rank" in says:
        return (
            " Only the dimension that is -1 in the model follows from the number of values: the others are the model's."
        )
    return ""


def _says(word: str, said: str) -> bool:
    """Whether a sentence has a word; a number must not be part of a longer one."""
    return re.search(rf"(?<!\d){word}(?!\d)" if word.isdigit() else re.escape(word), said) is not None


def _expect_failure(v: Judge, wrong: Failing) -> None:
    code, said = ended(v, wrong.title)
    if code == 0:
        larger = (
            " CreateTensor accepts a buffer that is larger than the shape needs: compare the numbers."
            if wrong in WRONG_VALUES
            else ""
        )
        flushed = " A stream writes what it holds when it is closed: check it after that." if wrong.room else ""
        raise WrongAnswer(f"{wrong.title}: the program returned 0, which means success.{larger}{flushed}")
    if not said.strip():
        raise WrongAnswer(f"{wrong.title}: the program returned {code} and said nothing on stderr.")
    if wrong.words and not any(_says(word, said) for word in wrong.words):
        words = " or ".join(repr(word) for word in wrong.words)
        raise WrongAnswer(f"{wrong.title}: the sentence has to name the cause ({words}). It is: {last_line(said)}")
    if wrong.files.get("output") == "folder" and not v.value(f"{wrong.title}: folder"):
        raise WrongAnswer(
            f"{wrong.title}: the folder is gone. remove() also removes an empty folder: look before you write."
        )
    if v.value(f"{wrong.title}: OUTPUT as before") is not True:
        if wrong in WRONG_VALUES:
            raise WrongAnswer(f"{wrong.title}: the OUTPUT that was there has changed or is gone: a failure leaves it.")
        raise WrongAnswer(
            f"{wrong.title}: the program returned {code}, and yet there is an OUTPUT. Open it when there is something to write, and "
            "remove it if writing fails."
        )
