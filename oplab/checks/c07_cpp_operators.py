"""Checks of chapter 07: operators in C++ as PyTorch sees them, by their schema, values, layouts, storage, fake and gradients."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import sys
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from oplab.checks.children import share_fate, wait_for
from oplab.checks.errors import LearnerError, chain
from oplab.checks.evidence import Collect
from oplab.checks.exporting import about
from oplab.checks.judge import Judge
from oplab.checks.ort_errors import explained
from oplab.checks.references.points import expect_idx, neighbours
from oplab.checks.references.sums import expect_gradient, expect_gradients_apart, mistaken_sums, weights_of
from oplab.checks.torch_stress import Stress, collect_ends, collect_stress, expect_alive, expect_steady
from oplab.checks.torch_threads import use_one_thread
from oplab.parity.arrays import WrongAnswer, describe, expect_close
from oplab.toolchain.compile import compiler_was_killed
from oplab.toolchain.compiler import find_compiler
from oplab.toolchain.recipes import source_folder

if TYPE_CHECKING:
    import torch


STEADY = "is the same among other calls, and uses no memory but its own"


def registered(c: Collect, namespace: str, name: str) -> Callable[..., Any] | None:
    """Load the learner's library; what it registers is evidence. Returns the operator, or None where there is none."""
    import torch

    refusal = refused_by_pytorch(str(c.library))
    c.value("refusal", refusal)
    if refusal:
        return None
    c.attempt("library", torch.ops.load_library, str(c.library))
    full = f"{namespace}::{name}"
    if full not in torch._C._dispatch_get_all_op_names():
        found = [
            entry for entry in torch._C._dispatch_get_all_op_names() if entry.startswith(("c07", "oplab", "lab07"))
        ]
        c.value("registered", sorted(found)[:10])
        return None
    c.value("registered", [full])
    operator = getattr(getattr(torch.ops, namespace), name).default
    schema = operator._schema
    c.value("arguments", [[entry.name, str(entry.type), _default(entry)] for entry in schema.arguments])
    c.value("returns", [str(entry.type) for entry in schema.returns])
    aliases = [entry for entry in (*schema.arguments, *schema.returns) if entry.alias_info is not None]
    c.value("aliases", len(aliases))
    return operator


def refused_by_pytorch(library: str) -> str:
    """What PyTorch says of a library that it ends the process for (a schema with a fault, say), or an empty text.

    The library is loaded in its own process first: what its registration throws cannot be caught in this one.
    """
    import torch

    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(writing, 2)
            torch.ops.load_library(library)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        said = stream.read(1 << 16).decode(errors="replace")
    if wait_for(child) >= 0:
        return ""
    _, _, words = said.partition("Exception across libtorch C API boundary:")
    return " ".join(words.split("Exception raised from")[0].split())[:500] or "it says nothing more"


def _default(argument: Any) -> Any:
    if not argument.has_default_value():
        return "required"
    return argument.default_value


def expect_registered(v: Judge, full: str, arguments: list[list[Any]], returns: list[str]) -> None:
    """Demand the operator ``full`` with this schema: (name, type, default) of each argument, and the types of the results."""
    if v.value("refusal"):
        raise WrongAnswer(
            f"PyTorch ends the process that loads the library: {v.value('refusal')} PyTorch does this when a "
            "schema has a fault in it, or when a name is registered twice."
        )
    if v.error("library"):
        raise WrongAnswer(f"The library cannot be loaded: {v.error('library').message}.")
    if v.value("registered") != [full]:
        found = ", ".join(str(entry) for entry in v.value("registered")) or "nothing"
        raise WrongAnswer(
            f"The library registers no {full}; it registers {found}. The namespace is the first argument of "
            "STABLE_TORCH_LIBRARY, the name is at the beginning of the schema."
        )
    wanted, got = _written(arguments, returns), _written(v.value("arguments"), v.value("returns"))
    if wanted != got:
        hint = ""
        types = [entry[:2] for entry in v.value("arguments")] == [entry[:2] for entry in arguments]
        if types and v.value("returns") == returns:
            hint = " The types fit, the defaults do not: a caller who leaves them out relies on them."
        raise WrongAnswer(f"The schema is {got}, expected {wanted}.{hint}")
    if v.value("aliases"):
        raise WrongAnswer(
            "The schema declares (with a letter or `!` in brackets) that an input is changed or returned: it must not be."
        )


def _written(arguments: Sequence[Sequence[Any]], returns: Sequence[str]) -> str:
    shown = [f"{kind} {name}{'' if default == 'required' else f'={default}'}" for name, kind, default in arguments]
    return f"({', '.join(shown)}) -> {returns[0] if len(returns) == 1 else '(' + ', '.join(returns) + ')'}"


def laid_out(array: np.ndarray, layout: str) -> torch.Tensor:
    """A tensor with the values of ``array`` in another layout.

    Its memory always has space for ``array.size`` values: code that reads it in order reads wrong values, and never beyond.
    """
    import torch

    values = torch.from_numpy(np.ascontiguousarray(array)).reshape(array.shape)
    if layout == "contiguous":
        return values
    if layout == "transposed":
        return values.permute(*reversed(range(values.dim()))).contiguous().permute(*reversed(range(values.dim())))
    if layout == "every second":
        wide = torch.full((*values.shape[:-1], 2 * values.shape[-1] + 1), 7.0, dtype=values.dtype)
        wide[..., 1::2] = values
        return wide[..., 1::2]
    if layout == "one row, expanded":
        memory = torch.full((values.numel(),), 7.0, dtype=values.dtype)
        memory[: values.shape[-1]] = values[0]
        return memory.as_strided(values.shape, (0, 1))
    raise ValueError(layout)


def in_memory_order(array: np.ndarray, layout: str) -> np.ndarray:
    """What code reads that takes a tensor of this layout for a contiguous one."""
    import torch

    tensor = laid_out(array, layout)
    order = torch.as_strided(
        tensor, (tensor.numel(),), (1,), tensor.storage_offset() if layout == "every second" else 0
    )
    return order.numpy().reshape(array.shape)


def raised(message: str) -> str:
    """An exception of the operator, with its cause where that is a known one."""
    if "Could not run" in message:
        message = message.split(" This could be")[0]
        return (
            f"{message} The schema is there and no kernel: STABLE_TORCH_LIBRARY_IMPL(namespace, CPU, m) registers one."
        )
    return f"the operator raised {message}"


def result(v: Judge, title: str) -> np.ndarray:
    """The tensor recorded under ``title``; an exception of the operator is reported in its own words."""
    error = v.error(title)
    if error:
        raise WrongAnswer(raised(error.message))
    value = v.value(title)
    if type(value) is not np.ndarray:
        raise WrongAnswer(f"expected a tensor, got {type(value).__name__}.")
    return value


def expect_refused(v: Judge, title: str, why: str) -> None:
    """Demand that the call recorded under ``title`` raised an exception."""
    if v.error(title) is None:
        got = v.value(title)
        shown = got if type(got) is str else describe(got)
        raise WrongAnswer(f"{title}: expected an error, and the operator returned {shown}. {why}")


# --- my_add --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sum:
    """One call of my_add: the shape of a, how many of its axes b has (None: all), their layouts, and the coefficients where given."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    layouts: tuple[str, str] = ("contiguous", "contiguous")
    coefficients: tuple[float, ...] = ()
    axes: int | None = None

    @property
    def title(self) -> str:
        layouts = f", a {self.layouts[0]}, b {self.layouts[1]}" if set(self.layouts) != {"contiguous"} else ""
        given = f", alpha={self.coefficients[0]}, beta={self.coefficients[1]}" if self.coefficients else ""
        other = "" if self.axes is None else f", b {list(self.shape[: self.axes])}"
        return f"{self.dtype}{list(self.shape)}{other}{layouts}{given}"

    def arrays(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        made = []
        for shape, layout in zip((self.shape, self.shape[: self.axes]), self.layouts, strict=True):
            array = rng.normal(size=shape).astype(self.dtype)
            made.append(np.broadcast_to(array[:1], shape).copy() if layout == "one row, expanded" else array)
        return made[0], made[1]


def over_blocks(b: np.ndarray, a: np.ndarray) -> np.ndarray:
    """b, which has the first axes of a, with an axis of size 1 for each of the others."""
    return b.reshape(b.shape + (1,) * (a.ndim - b.ndim))


VALUES = [
    Sum((5,)),
    Sum((3, 4)),
    Sum((2, 3, 5), "float64"),
    Sum(()),
    Sum((70_001,)),
    Sum((0,)),
    Sum((3, 0, 2), "float64"),
]
BLOCKS = [
    Sum((4, 4), axes=1),
    Sum((2, 3, 5), "float64", axes=2),
    Sum((2, 3, 5), axes=1),
    Sum((3, 4), axes=0),
    Sum((0, 3), axes=1),
    Sum((3, 0, 2), "float64", axes=1),
]
GIVEN = [
    Sum((4, 3), coefficients=(2.0, 1.0)),
    Sum((7,), coefficients=(-0.5, 0.25)),
    Sum((6,), coefficients=(0.0, 0.0)),
    Sum((2, 4), "float64", coefficients=(1.0, 1.0)),
]
PRECISE = [Sum((6,), "float64", coefficients=(0.1, 0.7))]
# Coefficients for which the result has the values of a, of b, and of an a that is given twice.
EQUAL = {"a": (1.0, 0.0), "b": (0.0, 1.0), "both": (0.25, 0.75)}
LAYOUTS = [
    Sum((4, 5), layouts=("transposed", "contiguous")),
    Sum((4, 5), layouts=("contiguous", "transposed")),
    Sum((3, 7), "float64", layouts=("every second", "transposed")),
    Sum((2, 3, 4), layouts=("transposed", "every second")),
    Sum((4, 6), layouts=("one row, expanded", "contiguous")),
    Sum((5, 4), layouts=("transposed", "transposed")),
    Sum((4, 5), layouts=("transposed", "every second"), axes=1),
]
REPEATED = [
    Sum((5, 3)),
    Sum((37,), "float64"),
    Sum((7, 9), coefficients=(-0.5, 4.0), axes=1),
    Sum(()),
    Sum((0, 3), axes=1),
    Sum((301,), "float64", coefficients=(0.1, 0.7)),
]
LARGE = Sum((6, 1029))
_BROADCAST = "That is NumPy's rule: b has the first axes of a, each in its size."
# What each call has to be refused for, by shapes and dtypes of a and b.
REFUSED = {
    "shapes [2, 6] and [3, 4]": "Both have 12 values, so nothing crashes; the result means nothing.",
    "shapes [2, 6] and [2, 4]": "Only the first sizes agree.",
    "shapes [2, 4] and [3, 4]": "Only the last sizes agree.",
    "shapes [3] and [3, 2]": "b has more dimensions than a.",
    "shapes [3, 4] and [4]": _BROADCAST,
    "shapes [3, 4] and [1, 4]": _BROADCAST,
    "shapes [3, 4] and [3, 1]": _BROADCAST,
    "shapes [] and [1]": "Both have one value, and b has more dimensions than a.",
    "dtypes float32 and float64": "Each dtype has its own size in memory.",
    "dtypes float64 and float32": "Each dtype has its own size in memory.",
    "two int64": "The operator is for float32 and float64.",
    "two int32": "The operator is for float32 and float64.",
    "two float16": "The operator is for float32 and float64.",
    "two bfloat16": "The operator is for float32 and float64.",
    "two complex64": "The operator is for float32 and float64.",
    "two bool": "The operator is for float32 and float64.",
}


def refused_sums() -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """The tensors of each call of :data:`REFUSED`, with memory for 24 values, so that reading too far ends nothing."""
    import torch

    made = {}
    for title in REFUSED:
        kind, _, rest = title.partition(" ")
        pair = []
        for place, shown in enumerate(rest.split(" and ") if " and " in rest else [rest, rest]):
            shape = tuple(int(n) for n in shown.strip("[]").split(",") if n) if kind == "shapes" else (3,)
            dtype = torch.float32 if kind == "shapes" else getattr(torch, shown)
            memory = torch.ones(24, dtype=dtype) if dtype is torch.bool else torch.arange(24).to(dtype) + place
            pair.append(memory[: int(np.prod(shape))].reshape(shape))
        made[title] = (pair[0], pair[1])
    return made


def repeated_sums(rng: np.random.Generator) -> Stress:
    """What my_add goes through."""
    calls = {case.title: (*case.arrays(rng), *case.coefficients) for case in REPEATED}
    return Stress(calls, LARGE.arrays(rng), refused_sums(), ("a", "b"))


def collect_my_add(c: Collect) -> None:
    import torch

    operator = registered(c, "c07_my_add", "my_add")
    if operator is None:
        return
    stress = repeated_sums(c.rng)
    if not collect_ends(c, operator, stress):
        return
    for case in (*VALUES, *BLOCKS, *GIVEN, *PRECISE, *LAYOUTS):
        a, b = (laid_out(array, layout) for array, layout in zip(case.arrays(c.rng), case.layouts, strict=True))
        y = c.attempt(case.title, operator, a, b, *case.coefficients)
        c.value(case.title, y.clone() if isinstance(y, torch.Tensor) else y)  # a later call may change it
        if isinstance(y, torch.Tensor):
            c.value(f"{case.title} contiguous", y.is_contiguous())
            c.value(f"{case.title} is an input", y is a or y is b)
    if not collect_stress(c, operator, stress):
        return
    a, b = (torch.from_numpy(array) for array in Sum((3, 4)).arrays(c.rng))
    for name, coefficients in EQUAL.items():
        y = c.attempt(f"equal to {name}", operator, a, a if name == "both" else b, *coefficients)
        c.value(f"equal to {name}", y.clone() if isinstance(y, torch.Tensor) else y)
        if isinstance(y, torch.Tensor):
            shared = {tensor.untyped_storage().data_ptr() for tensor in (a, b)}
            c.value(f"shared with {name}", y.untyped_storage().data_ptr() in shared)
    c.value("a afterwards", a)
    c.value("b afterwards", b)
    for title, pair in refused_sums().items():
        y = c.attempt(title, operator, *pair)
        c.value(title, describe(y) if isinstance(y, torch.Tensor) else y)  # of dtypes that evidence cannot hold, too


def judge_my_add(v: Judge) -> None:
    stress = repeated_sums(v.rng)
    cases = {case.title: (case, *case.arrays(v.rng)) for case in (*VALUES, *BLOCKS, *GIVEN, *PRECISE, *LAYOUTS)}
    a, b = Sum((3, 4)).arrays(v.rng)
    with v.require("registers c07_my_add::my_add with its schema"):
        arguments = [
            ["a", "Tensor", "required"],
            ["b", "Tensor", "required"],
            ["alpha", "float", 3.0],
            ["beta", "float", 2.0],
        ]
        expect_registered(v, "c07_my_add::my_add", arguments, ["Tensor"])
    require_alive(v, stress)
    for name, chosen in (
        ("computes 3a + 2b in float32 and float64", VALUES),
        ("applies each number of b to its block of a", BLOCKS),
        ("uses the coefficients of the call", GIVEN),
        ("keeps the coefficients in double", PRECISE),
        ("reads tensors of any layout", LAYOUTS),
    ):
        with v.check(name):
            for case in chosen:
                with about(case.title):
                    expect_sum(result(v, case.title), *cases[case.title])
                    if not v.value(f"{case.title} contiguous"):
                        raise WrongAnswer(
                            "the values are right, and the result is not contiguous. empty_like keeps the strides of its argument."
                        )
    with v.require(STEADY):
        repeated = {case.title: case for case in REPEATED}

        def expect(title: str, outputs: list[np.ndarray]) -> None:
            with about(title):
                expect_sum(outputs[0], repeated[title], *stress.calls[title][:2])

        expect_steady(v, stress, expect)
    with v.check("returns a new tensor"):
        for name, before in (("a", a), ("b", b)):
            if not np.array_equal(v.array(f"{name} afterwards"), before):
                raise WrongAnswer(
                    f"{name} has other values after the call: a kernel reads its inputs and writes to a new tensor."
                )
        for case, *_ in cases.values():
            if v.value(f"{case.title} is an input"):
                raise WrongAnswer(f"{case.title}: the result is one of the inputs; it has to be a new tensor.")
        for name, expected in (("a", a), ("b", b), ("both", a)):
            alpha, beta = EQUAL[name]
            with about(f"{'my_add(a, a), ' * (name == 'both')}alpha={alpha:g}, beta={beta:g}"):
                expect_close(result(v, f"equal to {name}"), expected)
                if v.value(f"shared with {name}"):
                    raise WrongAnswer(
                        "the result shares its memory with an input: where it equals an input, it is that input. Changing one changes "
                        "the other, and torch.compile relies on the schema, which does not declare that."
                    )
    with v.check("refuses what it cannot compute"):
        for title, why in REFUSED.items():
            expect_refused(v, title, why)


def unwritten(got: np.ndarray, right: np.ndarray) -> dict[str, np.ndarray]:
    """The cause of a NaN next to right values."""
    lost = np.isnan(got)
    if got.shape != right.shape or not lost.any() or lost.all():
        return {}
    cause = "The elements that are NaN are never written: the grader fills new tensors with NaN."
    return {cause: np.where(lost, np.nan, right)}


def require_alive(v: Judge, stress: Stress) -> None:
    """Demand that the operator has come so far that its results can be judged."""
    try:
        expect_alive(v, stress)
    except WrongAnswer as error:
        with v.require(STEADY):
            raise error


def expect_sum(got: np.ndarray, case: Sum, a: np.ndarray, b: np.ndarray) -> None:
    """The result of one call."""
    given = case.coefficients or (None, None)
    alpha, beta = weights_of(given)
    x, z = a.astype(np.float64), over_blocks(b, a).astype(np.float64)
    right = (alpha * x + beta * z).astype(case.dtype)
    likely = {
        "b is repeated along the last axes, as in NumPy: each of its numbers belongs to a whole block of a.": (
            alpha * x + beta * np.resize(b, a.shape)
        ),
        **mistaken_sums(x, z, given, double=True),
    }
    if set(case.layouts) != {"contiguous"}:
        x_raw, z_raw = (in_memory_order(array, layout) for array, layout in zip((a, b), case.layouts, strict=True))
        cause = "The values are those that come next in memory: the kernel takes the tensors for contiguous."
        likely[cause] = alpha * x_raw + beta * over_blocks(z_raw, a)
        if case.layouts[0] == "transposed":  # in order into the memory of empty_like(a)
            cause = "The result has the strides of a, and the kernel writes as if it were contiguous: empty_like keeps them."
            likely[cause] = right.reshape(right.shape[::-1]).transpose()
    likely |= unwritten(got, right)
    if case in PRECISE and got.shape == right.shape and got.dtype == right.dtype:
        # 1e-12: a float32 coefficient is off by 1e-8, a different order of the operations by 1e-16
        expect_close(got, right, rtol=1e-12, atol=1e-12, likely=likely)
    expect_close(got, right, likely=likely)


# --- my_add_backward -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Faked:
    """One call on tensors without data: b has all axes of a, or the first ``axes``."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    strides: tuple[int, ...] | None = None
    axes: int | None = None

    @property
    def title(self) -> str:
        strides = f" with strides {list(self.strides)}" if self.strides else ""
        other = "" if self.axes is None else f" and b {list(self.shape[: self.axes])}"
        return f"the fake for {self.dtype}{list(self.shape)}{strides}{other}"


FAKED = [
    Faked((3, 4)),
    Faked((7,)),
    Faked((2, 0, 5)),
    Faked((3, 4), "float64"),
    Faked(()),
    Faked((3, 4), strides=(1, 3)),
    Faked((3, 4), axes=1),
    Faked((3, 4), axes=0),
]
FAKED += [Faked((2, 5, 3), "float64", axes=2), Faked((2, 5, 3), "float64", strides=(30, 6, 2))]
SLOPES = [
    Sum((3, 4), "float64"),
    Sum((5,), coefficients=(-0.5, 4.0)),
    Sum((4, 5), "float64", ("transposed", "contiguous"), (0.1, -0.7)),
    Sum((3, 3), "float64", axes=1),
    Sum((2, 3, 5), coefficients=(-0.5, 4.0), axes=1),
    Sum((4, 2), "float64", axes=0),
    Sum((0, 2), coefficients=(2.0, 1.0), axes=1),
]


# Two tensors without data for which the fake has to raise an error, as the kernel does: shapes and dtypes.
UNFAKED = {
    "a [2, 3] and b [3, 2]": ((2, 3), (3, 2), "float32"),
    "a [2, 3] and b [2, 4]": ((2, 3), (2, 4), "float32"),
    "a [2, 3] and b [2, 3, 1]": ((2, 3), (2, 3, 1), "float32"),
    "a [] and b [3]": ((), (3,), "float32"),
    "a [3, 4] and b [4]": ((3, 4), (4,), "float32"),
    "a [3, 4] and b [3, 1]": ((3, 4), (3, 1), "float32"),
    "a float32 and b float64": ((3, 4), (3, 4), "float64"),
}
TWICE = "two operators are called, then their gradients"
TWICE_NUMBERS = [(0.1, -0.7), (1.3, 0.4)]
ALONE = {"a": "only a wants a gradient", "b": "only b wants a gradient"}
DATA = "the export with a size that is data"


def collect_my_add_backward(c: Collect) -> None:
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    use_one_thread()

    @torch.no_grad()
    def kernel(a, b, alpha=3.0, beta=2.0):
        return (alpha * a + beta * b.reshape(b.shape + (1,) * (a.dim() - b.dim()))).contiguous()

    namespaces = "c07_blocks", "c07_other"
    libraries = [torch.library.Library(name, "DEF") for name in namespaces]
    for library in libraries:
        library.define("my_add(Tensor a, Tensor b, float alpha=3.0, float beta=2.0) -> Tensor")
        library.impl("my_add", kernel, "CPU")
    operators = [getattr(torch.ops, name).my_add for name in namespaces]
    c.function("my_add_backward")("c07_blocks::my_add")
    operator = operators[0]

    for case in SLOPES:
        arrays = case.arrays(c.rng)
        a, b = (laid_out(array, layout).requires_grad_() for array, layout in zip(arrays, case.layouts, strict=True))
        weight = torch.from_numpy(c.rng.normal(size=case.shape).astype(case.dtype))
        kept = weight.clone()
        y = c.attempt(case.title, operator, a, b, *case.coefficients)
        if y is not None:
            c.attempt(case.title, y.backward, kept)
        c.value(case.title, y)
        c.value(f"{case.title}: the gradient of a", a.grad)
        c.value(f"{case.title}: the gradient of b", b.grad)
        c.value(f"{case.title}: what came in", kept)

    for case in FAKED:
        with FakeTensorMode():
            kind = getattr(torch, case.dtype)
            a = torch.empty(case.shape, dtype=kind)
            if case.strides:
                a = torch.empty_strided(case.shape, case.strides, dtype=kind)
            y = c.attempt(case.title, operator, a, torch.empty(case.shape[: case.axes], dtype=kind))
        if isinstance(y, torch.Tensor):
            shared = y.untyped_storage()._cdata == a.untyped_storage()._cdata
            y = [list(y.shape), list(y.stride()), str(y.dtype), str(y.device), shared]
        c.value(case.title, y)
    for title, (first, second, dtype) in UNFAKED.items():
        with FakeTensorMode():
            y = c.attempt(title, operator, torch.empty(first), torch.empty(second, dtype=getattr(torch, dtype)))
        c.value(title, describe(y) if isinstance(y, torch.Tensor) else None)

    class Model(torch.nn.Module):
        def forward(self, a, b):
            return operator(a, b, 2.0, -1.0)

    a, b = (torch.from_numpy(array) for array in Sum((3, 4)).arrays(c.rng))
    names = ({0: torch.export.Dim.DYNAMIC},) * 2
    program = c.attempt("the export", torch.export.export, Model(), (a, b), dynamic_shapes=names)
    a, b = (torch.from_numpy(array) for array in Sum((6, 4)).arrays(c.rng))
    if program is not None:
        c.value("the export", c.attempt("the export", program.module(), a, b))

    class Selected(torch.nn.Module):
        def forward(self, a, b):
            return operator(a[a > 0], b[a > 0], 2.0, -1.0)

    program = c.attempt(DATA, torch.export.export, Selected(), (a, b))
    if program is not None:
        c.value(DATA, c.attempt(DATA, program.module(), a, b))

    c.attempt("another name", c.function("my_add_backward"), "c07_other::my_add")
    with FakeTensorMode():
        c.attempt("its fake", operators[1], torch.empty(2), torch.empty(2))

    def gradients_later(arrays: list[np.ndarray]) -> list[torch.Tensor | None]:
        """The gradients of a call of each operator, after both, and those of the first once more."""
        a, b, weight = (torch.from_numpy(array.copy()).requires_grad_() for array in arrays)
        results = [called(a, b, *pair) for called, pair in zip(operators, TWICE_NUMBERS, strict=True)]
        found = [torch.autograd.grad(results[place], (a, b), weight, retain_graph=True) for place in (0, 1, 0)]
        return [entry for pair in found for entry in pair]

    def gradient_alone(name: str, arrays: list[np.ndarray]) -> torch.Tensor:
        a, b, weight = (torch.from_numpy(array.copy()) for array in arrays)
        asked = {"a": a, "b": b}[name].requires_grad_()
        return torch.autograd.grad(operator(a, b, *TWICE_NUMBERS[0]), asked, weight)[0]

    arrays = [c.rng.normal(size=(3, 2)) for _ in range(3)]
    c.value(TWICE, c.attempt(TWICE, gradients_later, arrays))
    for name, title in ALONE.items():
        c.value(title, c.attempt(title, gradient_alone, name, arrays))


def judge_my_add_backward(v: Judge) -> None:
    slopes = [(case, case.arrays(v.rng) and v.rng.normal(size=case.shape).astype(case.dtype)) for case in SLOPES]
    Sum((3, 4)).arrays(v.rng)
    a, b = (array.astype(np.float64) for array in Sum((6, 4)).arrays(v.rng))
    *_, later = (v.rng.normal(size=(3, 2)) for _ in range(3))
    with v.check("the fake promises what the kernel returns"):
        for case in FAKED:
            expect_fake(v, case)
        error = v.error("another name") or v.error("its fake")
        if error:
            said = error.message.rstrip(".")
            raise WrongAnswer(
                f"my_add_backward('c07_other::my_add') did not serve that operator: {said}. The argument is the operator's name."
            )
    with v.check("the fake refuses two shapes"):
        for title in UNFAKED:
            if v.error(title) is None:
                raise WrongAnswer(
                    f"For {title} the fake promises {v.value(title) or 'nothing'}; the kernel raises an error. A model would be "
                    "exported that cannot run. In the fake, torch._check(condition, lambda: message) raises an error."
                )
    with v.check("a model with a dynamic size can be exported"):
        explain_fake(v, "the export")
        expect_close(
            result(v, "the export"), (2 * a - b).astype(np.float32), name="the exported program at another size"
        )
    with v.check("a model with a size that is data can be exported"):
        expect_no_guard(v, DATA)
        explain_fake(v, DATA)
        right = (2 * a - b)[a > 0].astype(np.float32)
        expect_close(result(v, DATA), right, name="my_add(a[a > 0], b[a > 0], 2, -1), exported")
    with v.check("the backward gives both gradients"):
        for case, weight in slopes:
            with about(case.title):
                expect_gradients(v, case, weight)
        expect_later_gradients(v, later)


def expect_no_guard(v: Judge, title: str) -> None:
    """Say what an export that stops at an unknown size means."""
    error = v.error(title)
    if error and ("data-dependent" in error.message or "DataDependent" in error.type):
        raise WrongAnswer(
            f"{title} stops: {error.message.splitlines()[0]} The fake compares whole shapes, or decides with `if`; how many values "
            "a[a > 0] has is known when the program runs. torch._check(m == n, …) for each size of a and b makes it a condition then."
        )


def explain_fake(v: Judge, title: str) -> None:
    """Raise what an exception of the fake means, where it is a known one."""
    error = v.error(title)
    if error is None:
        return
    if (
        "UnsupportedOperator" in error.type
        or "no fake impl" in error.message
        or "Operator does not support" in error.message
    ):
        raise WrongAnswer(f"{title}: the operator has no fake. torch.library.register_fake(name) registers one.")
    if "Constraints violated" in error.message or "ConstraintViolation" in error.type or "specializ" in error.message:
        raise WrongAnswer(f"{title}: {error.message} The fake fixes a size that may change: take it from a.shape.")
    raise explained(error, title)


def expect_fake(v: Judge, case: Faked) -> None:
    """Shape, strides, dtype and device of one fake result."""
    if case.axes is not None and (error := v.error(case.title)):
        raise WrongAnswer(f"{case.title}: {error.message} The kernel takes this call: b has the first axes of a.")
    explain_fake(v, case.title)
    got = v.value(case.title)
    if type(got) is not list or len(got) != 5:
        raise WrongAnswer(f"{case.title} returned {describe(got)}, expected a tensor. Does it end with a return?")
    shape, strides, dtype, device, shared = got
    if shape != list(case.shape):
        raise WrongAnswer(
            f"{case.title} has the shape {shape}, expected {list(case.shape)}: the result has the shape of a."
        )
    if dtype != f"torch.{case.dtype}":
        raise WrongAnswer(
            f"{case.title} has the dtype {dtype}, expected torch.{case.dtype}: the result has the dtype of a."
        )
    right = [int(np.prod([max(size, 1) for size in case.shape[i + 1 :]])) for i in range(len(case.shape))]
    if strides != right and 0 not in case.shape:
        kept = " empty_like keeps the strides of its argument" if case.strides and strides != right else " The kernel"
        raise WrongAnswer(
            f"{case.title} has the strides {strides}, expected {right}.{kept}; the kernel returns a contiguous tensor, and compiled "
            "code believes the fake."
        )
    if device != "cpu":
        raise WrongAnswer(f"{case.title} is on the device {device}, expected cpu: the result is where a is.")
    if shared:
        raise WrongAnswer(
            f"{case.title} shares its memory with a: the kernel returns a new tensor, and the fake has to promise one."
        )


def expect_gradients(v: Judge, case: Sum, weight: np.ndarray) -> None:
    """Both gradients of one call, and that the incoming one was left as it was."""
    alpha, beta = case.coefficients or (3.0, 2.0)
    error = v.error(case.title)
    if error and "incorrect number of gradients" in error.message:
        raise WrongAnswer(
            f"{error.message} backward returns one entry for each argument of the schema, None for alpha and beta."
        )
    if error and "invalid gradient" in error.message:
        raise WrongAnswer(
            f"{error.message} The gradient of b has the shape of b: a sum over the axes that only a has. (sum over no axes, dim=(), is "
            "a sum over all of them.)"
        )
    if error and error.where:
        raise LearnerError(f"{case.title}: {error.message} ({error.where})")
    if error:
        raise WrongAnswer(
            f"{error.message}. PyTorch calls setup_context(ctx, inputs, output) after the kernel, and backward(ctx, grad) later."
        )
    sums = {"a": weight, "b": weight.sum(axis=tuple(range(weight.ndim)[case.axes :] if case.axes is not None else ()))}
    whole = weight
    for name in "ab":
        title, weight = f"{case.title}: the gradient of {name}", np.asarray(sums[name])
        got = v.value(title)
        if got is None:
            raise WrongAnswer(
                f"{name} has no gradient after backward(). Without torch.library.register_autograd PyTorch only warns, and the gradient "
                "stays None; a None in its place has the same effect."
            )
        numpys = {}
        if name == "b" and case.axes == 1 and weight.shape == whole.shape[1:]:
            cause = "It is summed over the first axis, as for NumPy's rule: b has the first axes of a."
            numpys[cause] = beta * whole.sum(0)
        expect_gradient(v.array(title), name, (alpha, beta), weight, likely=numpys)
    if not np.array_equal(v.array(f"{case.title}: what came in"), whole):
        raise WrongAnswer(
            "the incoming gradient has other values after backward(): it belongs to the caller. Write `alpha * grad`, not `grad *=`."
        )


def expect_later_gradients(v: Judge, weight: np.ndarray) -> None:
    """Gradients that are asked for after calls of two operators, and those of one input alone."""
    for name, title in ALONE.items():
        if v.error(title):
            raise WrongAnswer(f"{title}: {v.error(title).message} ctx.needs_input_grad tells which inputs want one.")
        right = TWICE_NUMBERS[0]["ab".index(name)] * weight
        expect_close(v.array(title), right, name=f"{title}: the gradient of {name}")
    if v.error(TWICE):
        raise WrongAnswer(
            f"{TWICE}: {v.error(TWICE).message} backward may run again for one call (retain_graph=True): leave what is in ctx as it is."
        )
    found = v.value(TWICE)
    if type(found) is not list or len(found) != 6 or not all(type(entry) is np.ndarray for entry in found):
        raise WrongAnswer(f"{TWICE}: expected six gradients, one is missing.")
    expect_gradients_apart(found, TWICE_NUMBERS, weight)


# --- knn_query -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cloud:
    """One call of knn_query: how many points and how many queries each batch has (None: the points query themselves)."""

    nsample: int
    points: tuple[int, ...]
    queries: tuple[int, ...] | None = None
    layout: str = "contiguous"
    scale: float = 0.5
    shift: float = 0.0

    @property
    def title(self) -> str:
        queries = "" if self.queries is None else f", queries {list(self.queries)}"
        queries += "" if not self.shift else f", coordinates around {self.shift:g}"
        queries += "" if self.scale == 0.5 else f", coordinates of {self.scale:.0e}"
        layout = "" if self.layout == "contiguous" else f", xyz {self.layout}"
        return f"nsample {self.nsample}, batches of {list(self.points)} points{queries}{layout}"

    def arrays(self, rng: np.random.Generator) -> list[np.ndarray]:
        """xyz, offset and, where there are queries, new_xyz, new_offset.

        The coordinates are small multiples of a power of two, so squared distances are exact in float32 and many are equal. That
        holds around a shift as well: below 2**18, float32 still has multiples of 1/64.
        """
        made = []
        for sizes in (self.points, self.queries):
            if sizes is not None:
                made.append((self.shift + rng.integers(-5, 6, size=(sum(sizes), 3)) * self.scale).astype(np.float32))
                made.append(np.cumsum(sizes).astype(np.int64))
        return made


ONE = [Cloud(3, (12,)), Cloud(1, (20,))]
MANY = [Cloud(2, (6, 9, 7)), Cloud(16, (40, 25, 33)), Cloud(2, (8, 9), scale=2.0**50)]
FAR = [Cloud(3, (14, 11), shift=1000.0), Cloud(2, (9, 12), (4, 5), shift=200_000.0), Cloud(1, (1, 1), shift=2e38)]
LARGER = [Cloud(130, (150, 9)), Cloud(3, (40_000,), (2,), scale=0.25)]
OTHER = [Cloud(2, (6, 5, 7), (3, 2, 4)), Cloud(3, (8, 9), (1, 6)), Cloud(2, (5, 9, 6), (4, 0, 1))]
SHORT = [Cloud(4, (5, 1, 7)), Cloud(9, (3,)), Cloud(3, (4, 0, 2), (2, 2, 1)), Cloud(2, (0,)), Cloud(3, (0, 5))]
TURNED = [Cloud(3, (9, 8), layout="transposed"), Cloud(2, (7, 5), (3, 3), layout="every second")]
CLOUDS = [*ONE, *MANY, *FAR, *LARGER, *OTHER, *SHORT, *TURNED]


SPOILT = Cloud(3, (7, 6), (4, 5))
# What is wrong: (which points, the value of one coordinate).
NOT_FINITE = {
    "a NaN in xyz": (0, np.nan),
    "a NaN in new_xyz": (2, np.nan),
    "an infinity in xyz": (0, np.inf),
    "an infinity in new_xyz": (2, -np.inf),
}
UNSEEN = "a NaN in a batch that has no queries"
# What is wrong: (which argument, what it is instead).
MISSHAPEN: dict[str, tuple[int, np.ndarray]] = {
    "xyz without dimensions": (0, np.array(1, np.float32)),
    "new_xyz of two coordinates": (2, np.zeros((9, 2), np.float32)),
    "offsets that end before the points do": (1, np.array([7, 12])),
    "offsets that decrease": (1, np.array([14, 13])),
    "new_offset of one batch": (3, np.array([9])),
}


def spoilt_clouds(rng: np.random.Generator) -> dict[str, list[np.ndarray]]:
    """The arguments of calls that have to be refused."""
    made = {}
    for title, (which, value) in NOT_FINITE.items():
        made[title] = SPOILT.arrays(rng)
        made[title][which].flat[rng.integers(made[title][which].size)] = value
    made[UNSEEN] = Cloud(3, (7, 6), (4, 0)).arrays(rng)
    made[UNSEEN][0].flat[rng.integers(21, 39)] = np.nan
    for title, (which, instead) in MISSHAPEN.items():
        made[title] = SPOILT.arrays(rng)
        made[title][which] = instead
    return made


REPEATED_CLOUDS = [
    Cloud(3, (9, 8)),
    Cloud(2, (6, 5, 7), (3, 0, 4)),
    Cloud(5, (3, 0, 2), (2, 2, 1)),
    Cloud(1, (1,), scale=4.0),
    Cloud(2, (0,)),
    Cloud(4, (31, 2), (1, 9)),
]


def repeated_clouds(rng: np.random.Generator) -> Stress:
    """What knn_query goes through."""
    calls = {case.title: (case.nsample, *case.arrays(rng)) for case in REPEATED_CLOUDS}
    large = Cloud(5, (1200,), (3,)).arrays(rng)
    refused = {title: (SPOILT.nsample, *arrays) for title, arrays in spoilt_clouds(rng).items()}
    return Stress(calls, (5, *large), refused, ("xyz", "offset", "new_xyz", "new_offset"))


NEAR = "points whose squared distances differ and whose distances in float32 do not"


def near_clouds(rng: np.random.Generator) -> list[np.ndarray]:
    """One query and six points with squared distances of 16 000 001 to 16 000 008, in any order.

    Those are exact in float32, but their square roots are 0.000125 apart, and float32 has steps of 0.00024 there.
    """
    small = np.array([[1, 0], [1, 1], [2, 0], [2, 1], [2, 2], [0, 0]])
    order = rng.permutation(6)
    places = [int(np.argmax(order == pair)) for pair in (0, 1)]
    order[[min(places), max(places)]] = 1, 0  # the first two have one root: the farther of them comes first
    small = small[order]
    xyz = np.concatenate([np.full((6, 1), 4000), small], 1).astype(np.float32)
    return [xyz, np.array([6]), np.zeros((1, 3), np.float32), np.array([1])]


TIED = "points whose squared distances are equal in float32 and differ in float64"


def tied_clouds(rng: np.random.Generator) -> list[np.ndarray]:
    """One query and four points with squared distances of 16 000 000 and up to 0.36 more, the farthest first.

    float32 has steps of 1 there, so they are equal and the lower index comes first.
    """
    aside = np.sort(rng.uniform(0, 0.6, 4))[::-1] if rng.integers(2) else -np.sort(rng.uniform(0, 0.6, 4))[::-1]
    xyz = np.stack([np.full(4, 4000.0), aside, np.zeros(4)], 1).astype(np.float32)
    return [xyz, np.array([4]), np.zeros((1, 3), np.float32), np.array([1])]


def collect_knn_query(c: Collect) -> None:
    import torch

    operator = registered(c, "c07_knn_query", "knn_query")
    if operator is None:
        return
    stress = repeated_clouds(c.rng)
    if not collect_ends(c, operator, stress):
        return
    for case in CLOUDS:
        arrays = case.arrays(c.rng)
        tensors = [torch.from_numpy(array) for array in arrays]
        for i in range(0, len(tensors), 2):
            tensors[i] = laid_out(arrays[i], case.layout)
        found = c.attempt(case.title, operator, case.nsample, *tensors)
        for name, tensor in zip(("idx", "dist"), found or (), strict=False):
            c.value(f"{name}: {case.title}", tensor)
    found = c.attempt(NEAR, operator, 4, *map(torch.from_numpy, near_clouds(c.rng)))
    c.value(NEAR, None if found is None else found[0])
    found = c.attempt(TIED, operator, 3, *map(torch.from_numpy, tied_clouds(c.rng)))
    c.value(TIED, None if found is None else found[0])
    if not collect_stress(c, operator, stress):
        return
    for title, arrays in spoilt_clouds(c.rng).items():
        c.value(title, c.attempt(title, operator, SPOILT.nsample, *map(torch.from_numpy, arrays)))


def judge_knn_query(v: Judge) -> None:
    stress = repeated_clouds(v.rng)
    drawn = {case.title: case.arrays(v.rng) for case in CLOUDS}
    near = near_clouds(v.rng)
    tied_clouds(v.rng)  # the same draws as collect: what is expected does not depend on them
    spoilt = spoilt_clouds(v.rng)
    with v.require("registers c07_knn_query::knn_query with its schema"):
        arguments = [["nsample", "int", "required"], ["xyz", "Tensor", "required"], ["offset", "Tensor", "required"]]
        arguments += [["new_xyz", "Optional[Tensor]", None], ["new_offset", "Optional[Tensor]", None]]
        expect_registered(v, "c07_knn_query::knn_query", arguments, ["Tensor", "Tensor"])
    require_alive(v, stress)
    for name, chosen in (
        ("finds the nearest points of one batch", ONE),
        ("keeps batches apart", [*MANY, *FAR, *LARGER]),
        ("takes separate queries", OTHER),
        ("fills up with -1 where a batch is short", SHORT),
        ("reads points of any layout", TURNED),
    ):
        with v.check(name):
            for case in chosen:
                with about(case.title):
                    expect_neighbours(v, case, *drawn[case.title])
    with v.require(STEADY):
        with about(NEAR):
            roots = np.sqrt(((near[0] - near[2]).astype(np.float64) ** 2).sum(1).astype(np.float32))
            by_roots = np.argsort(roots, kind="stable")[None, :4].astype(np.int32)
            likely = {"They are sorted by their roots: compare the squares.": by_roots}
            expect_idx(result(v, NEAR), _feeds(near), 4, likely=likely)
        with about(TIED):
            cause = (
                "They are sorted by distances in float64; in float32 they are equal, and the lower index comes first."
            )
            likely = {cause: np.array([[3, 2, 1]], np.int32)}
            expect_close(result(v, TIED), np.array([[0, 1, 2]], np.int32), name="idx", likely=likely)
        repeated = {case.title: case for case in REPEATED_CLOUDS}
        expect_steady(
            v, stress, lambda title, outputs: expect_found(repeated[title], *outputs, *stress.calls[title][1:])
        )
    with v.check("refuses points that are not finite"):
        for title in (*NOT_FINITE, UNSEEN):
            why = "The distance to such a point cannot be ordered, so the sort leaves wrong neighbours for other points too."
            expect_refused(v, title, why)
            expect_named(v, title, _feeds(spoilt[title]))
    with v.check("refuses shapes and offsets that do not fit"):
        for title in MISSHAPEN:
            expect_refused(v, title, "Keep the checks of the stub.")


def _feeds(arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    return dict(zip(("xyz", "offset", "new_xyz", "new_offset"), arrays, strict=False))


def expect_named(v: Judge, title: str, feeds: dict[str, np.ndarray]) -> None:
    """Demand that a refusal names the tensor and the point that is not finite."""
    name, point = next((name, int(place[0])) for name, x in feeds.items() for place in np.argwhere(~np.isfinite(x)))
    message = v.error(title).message
    if not re.search(rf"\b{name}\b.*\b{point}\b", message):
        raise WrongAnswer(f"{title}: the message has to name {name} and its point {point}. It is: {message}")


def expect_neighbours(v: Judge, case: Cloud, *arrays: np.ndarray) -> None:
    """Both results of one call."""
    error = v.error(case.title)
    if error:
        raise WrongAnswer(raised(error.message))
    expect_found(case, result(v, f"idx: {case.title}"), result(v, f"dist: {case.title}"), *arrays)


def expect_found(case: Cloud, got: np.ndarray, length: np.ndarray, *arrays: np.ndarray) -> None:
    """idx and dist of one call, from its arrays."""
    feeds = _feeds(arrays)
    likely = {}
    if case.layout != "contiguous":
        points = {name: in_memory_order(feeds[name], case.layout) for name in feeds if name.endswith("xyz")}
        cause = "The points are those that come next in memory: the kernel takes xyz for contiguous."
        likely[cause] = neighbours({**feeds, **points}, case.nsample)[0]
    expect_idx(got, feeds, case.nsample, likely=likely)
    dist = neighbours(feeds, case.nsample)[1]
    likely = {"The distances are squared.": dist.astype(np.float64) ** 2, **unwritten(length, dist)}
    expect_close(length, dist, name="dist", likely=likely)


# --- setup ---------------------------------------------------------------------------------------------------------

# What the package's setup.py does here: it calls the learner's function, which is in this process already.
# What distutils raises for a fault is a SystemExit, which run_setup does not pass on.
SETUP_PY = """\
import sys

answer = sys.modules[{module!r}]
answer.__file__ = __file__
try:
    answer.setup()
except SystemExit as error:
    raise ValueError(f"setuptools stops: {{error}}") from error
"""
CALLS = {"the defaults": (), "alpha and beta": (-0.5, 4.0)}


def collect_setup(c: Collect) -> None:
    """Describe the package, then build, install and import it in forks: PyTorch takes two seconds to import."""
    a, b = (c.rng.normal(size=(3, 5)).astype(np.float32) for _ in range(2))
    module = c.function("setup").__module__
    # A copy: a build writes next to setup.py.
    package = shutil.copytree(source_folder("torch").parent / "package", c.scratch / "package")
    (package / "setup.py").write_text(SETUP_PY.format(module=module))
    extensions = c.attempt("description", described, c, package)
    if not extensions:
        return
    for number, extension in enumerate(extensions[:2]):
        c.value(f"extension {number}", c.attempt(f"extension {number}", facts, extension, package))
    os.environ.update(CXX=shlex.join(find_compiler().command), MAX_JOBS="2")
    log, made = c.scratch / "log.txt", c.scratch / "made"
    made.mkdir()
    (made / "step").write_text("sdist")
    c.value("ended", in_a_fork(lambda: build_and_install(package, made), log))
    said = log.read_text(errors="replace")
    if compiler_was_killed(said):
        share_fate(-signal.SIGKILL)
    c.value("log", said.replace(f"{c.scratch.resolve()}/", "")[-20_000:])
    c.value("step", (made / "step").read_text())
    c.value("archive", listed(made / "archive"))
    c.value("installed", listed(made / "site"))
    metadata = [path.read_text() for path in sorted((made / "site").glob("*.dist-info/METADATA"))]
    c.value("metadata", "".join(metadata)[:5000])
    c.value("wheels", [path.name for path in made.glob("*.whl")])
    if metadata:
        elsewhere = c.scratch / "elsewhere"
        elsewhere.mkdir()
        c.value("import ended", in_a_fork(lambda: import_and_call(made / "site", elsewhere, a, b), log))
        c.value("import log", log.read_text(errors="replace").replace(f"{c.scratch.resolve()}/", "")[-4000:])
        for call in CALLS:
            result = elsewhere / f"{call}.npy"
            c.value(call, np.load(result, allow_pickle=False) if result.is_file() else None)


def described(c: Collect, package: Path) -> list[Any]:
    """Run the setup.py up to the point where setuptools knows its arguments, and record them. Returns the extensions."""
    from torch.utils.cpp_extension import BuildExtension

    # isort: split
    from distutils.core import run_setup  # setuptools provides distutils, and the import above has imported setuptools

    started: list[str] = []
    watching = True

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if watching and event in ("subprocess.Popen", "os.system", "os.posix_spawn", "os.exec"):
            words = arguments[1] if event == "subprocess.Popen" else arguments[0]
            started.append(str(words if isinstance(words, (str, bytes)) else next(iter(words), "")))

    sys.addaudithook(watch)  # it cannot be removed
    os.chdir(package)
    try:
        distribution = run_setup("setup.py", stop_after="init")
    except RuntimeError as error:
        if "was never called" not in str(error):
            raise
        c.value("called", False)
        return []
    finally:
        watching = False
        os.chdir(c.scratch)
        c.value("started", started[:5])
    c.value("called", True)
    command = distribution.cmdclass.get("build_ext")
    c.value("BuildExtension", isinstance(command, type) and issubclass(command, BuildExtension))
    extensions = list(distribution.ext_modules or ())
    c.value("extensions", len(extensions))
    return extensions


def facts(extension: Any, package: Path) -> list[Any]:
    """An extension's name, own include folders, flags with macros; its sources that are absolute, those that do not exist; whether it
    has PyTorch's headers."""
    from torch.utils import cpp_extension

    usual = {os.path.realpath(folder) for folder in cpp_extension.include_paths()}
    folders = [os.fspath(folder) for folder in extension.include_dirs]
    own = [folder for folder in folders if os.path.realpath(folder) not in usual]
    flags = extension.extra_compile_args or []
    flags = flags.get("cxx", []) if isinstance(flags, dict) else flags
    macros = [f"-D{name}" if value is None else f"-D{name}={value}" for name, value in extension.define_macros]
    sources = [os.fspath(source) for source in extension.sources]
    prefix = f"{package.resolve()}/"
    return [
        extension.name,
        [folder.replace(prefix, "/package/") for folder in own],
        [*map(str, flags), *macros],
        [source for source in sources if os.path.isabs(source)],
        [source for source in sources if not (package / source).is_file()],
        len(own) < len(folders),
    ]


def in_a_fork(work: Callable[[], None], log: Path) -> str:
    """Run ``work`` in a fork, whose output goes to ``log``. Returns an empty text, or how it ended otherwise."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(output, 1)
            os.dup2(output, 2)
            try:
                work()
                code = 0
            except BaseException as error:  # SystemExit is how setuptools reports what a command has found
                text = "\n".join(f"{type(entry).__name__}: {entry}" for entry in chain(error))
                os.write(2, f"\n{text}\n".encode())
        finally:
            os._exit(code)
    code = wait_for(child)
    if code < 0:
        return signal.Signals(-code).name
    return "an error" if code else ""


def build_and_install(package: Path, made: Path) -> None:
    """What ``pip install`` does with a source archive, with the functions of setuptools that pip calls."""
    from setuptools import build_meta

    os.chdir(package)
    archive = build_meta.build_sdist(str(made))
    with tarfile.open(made / archive) as stream:
        stream.extractall(made / "unpacked", filter="data")
    (folder,) = (made / "unpacked").iterdir()
    folder.rename(made / "archive")
    (made / "step").write_text("wheel")
    os.chdir(made / "archive")
    wheel = build_meta.build_wheel(str(made))
    with zipfile.ZipFile(made / wheel) as stream:
        stream.extractall(made / "site")
    (made / "step").write_text("installed")


def listed(folder: Path) -> list[str]:
    """The files in a folder, without those that a build has added."""
    names = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file()]
    return [name for name in names if not name.startswith("build/") and ".egg-info/" not in name][:60]


def import_and_call(site: Path, elsewhere: Path, a: np.ndarray, b: np.ndarray) -> None:
    """Import the installed package from another folder, and save what its operator computes."""
    import importlib

    import torch

    os.chdir(elsewhere)
    sys.path.insert(0, str(site))
    importlib.invalidate_caches()
    package = importlib.import_module("c07_ops")
    for call, numbers in CALLS.items():
        np.save(elsewhere / f"{call}.npy", package.my_add(torch.from_numpy(a), torch.from_numpy(b), *numbers).numpy())


def judge_setup(v: Judge) -> None:
    a, b = (v.rng.normal(size=(3, 5)).astype(np.float32) for _ in range(2))
    with v.require("setuptools gets one extension, and PyTorch's command to build it"):
        expect_description(v)
        expect_extension(v.value("extension 0"))
    with v.require("the source archive has every file that the build needs"):
        expect_archive(v)
    with v.require("a wheel is built from the source archive, and installed"):
        expect_installed(v)
    with v.require("the wheel has its name and version, and what it needs"):
        expect_metadata(v.value("metadata"))
        expect_tag(v.value("wheels"), v.value("installed"))
    with v.check("the package is imported from another folder, and its operator computes"):
        expect_imported(v)
        for call, numbers in CALLS.items():
            alpha, beta = numbers or (3.0, 2.0)
            expect_close(result(v, call), alpha * a + beta * b, name=f"c07_ops.my_add with {call}")


def expect_description(v: Judge) -> None:
    """Raise what is wrong with the call of setuptools.setup, its extensions left out."""
    if v.error("description"):
        error = v.error("description")
        raise LearnerError(f"{error.message}{error.place}")
    started = v.value("started")
    if started:
        raise WrongAnswer(
            f"The function starts a program: {str(started[0])[:100]}. pip runs a setup.py several times, and often only asks for the "
            "name and the version. Only describe the package; setuptools calls the compiler when the library is asked for."
        )
    if v.value("called") is not True:
        raise WrongAnswer(
            "setuptools.setup is not called, or stops at its arguments. setup.py is a program: pip runs it and uses no result. End "
            "with setuptools.setup(name=…, …)."
        )
    if v.value("extensions") != 1:
        raise WrongAnswer(
            f"`ext_modules` has {v.value('extensions')} extensions, expected one: both sources belong to one library."
        )
    if v.value("BuildExtension") is not True:
        raise WrongAnswer(
            "`build_ext` in `cmdclass` is not PyTorch's BuildExtension. setuptools' own command does not know C++20, which PyTorch's "
            'headers need, or a dict of flags: cmdclass={"build_ext": BuildExtension}.'
        )


def expect_extension(given: Sequence[Any]) -> None:
    """Raise what is wrong with the extension's arguments."""
    _, folders, flags, absolute, missing, has_torch = given
    if absolute:
        raise WrongAnswer(
            f"The source {absolute[0]} is an absolute path. Sources are relative to the folder of setup.py: an "
            "absolute path is not in the source archive."
        )
    if missing:
        raise WrongAnswer(
            f"There is no source {missing[0]}. Sources are relative to the folder of setup.py, and those of this "
            "package are in cpp/."
        )
    if not has_torch:
        raise WrongAnswer(
            "The extension has no PyTorch headers in its include_dirs: setuptools' Extension knows nothing of PyTorch. CppExtension "
            "adds its headers and its libraries."
        )
    relative = [folder for folder in folders if not folder.startswith("/")]
    if relative:
        raise WrongAnswer(
            f"The include folder {relative[0]} is relative. With ninja, the compiler runs in another folder and does not find it: "
            "use os.path.abspath. (Without ninja it is found, so you may see this on another machine only.)"
        )
    if not any(os.path.normpath(folder).endswith("/package/cpp/include") for folder in folders):
        raise WrongAnswer(
            "include_dirs does not have the package's folder cpp/include, so the compiler does not find loop.h. Its absolute path is "
            'os.path.abspath("cpp/include").'
        )
    values = [flag.partition("=")[2] for flag in flags if flag.startswith("-DTORCH_TARGET_VERSION")]
    if not values:
        raise WrongAnswer(
            "No flag defines TORCH_TARGET_VERSION, so the library needs the version of PyTorch that it was compiled with. "
            '"-DTORCH_TARGET_VERSION=0x020d000000000000" in extra_compile_args makes it load in 2.13 and newer.'
        )
    if values[-1].lower().rstrip("ul") != "0x020d000000000000":
        raise WrongAnswer(
            f"TORCH_TARGET_VERSION is {values[-1]}. It is the oldest version that has to load the library: 2.13 is 0x020d000000000000."
        )


def expect_archive(v: Judge) -> None:
    """Raise what the sdist does not have."""
    files = v.value("archive")
    if not files:
        raise WrongAnswer(f"The source archive cannot be made: {reason(v.value('log'))}")
    if "cpp/include/loop.h" not in files:
        raise WrongAnswer(
            "cpp/include/loop.h is not in the source archive, so it cannot be built. setuptools adds the sources, but does not read "
            'their #include lines, and an include folder adds no file: name the header in depends=["cpp/include/loop.h"].'
        )


def expect_installed(v: Judge) -> None:
    """Raise what went wrong in the build, or is missing from the installed package."""
    if v.value("ended") or v.value("step") != "installed":
        raise WrongAnswer(f"The build ends with {v.value('ended')}: {reason(v.value('log'))}")
    files = v.value("installed")
    shown = ", ".join(str(file) for file in files if ".dist-info/" not in str(file)) or "nothing"
    if "c07_ops/__init__.py" not in files:
        raise WrongAnswer(
            f'The Python part of the package is not installed, only: {shown}. Name it in packages=["c07_ops"], and its folder in '
            'package_dir={"": "src"}; nothing is searched where there are extensions.'
        )
    name = v.value("extension 0")[0]
    if not any(str(file).startswith("c07_ops/_C.") for file in files):
        raise WrongAnswer(
            f"The extension has the name {name}, and what is installed is: {shown}. __init__.py looks for _C*.so next to itself: the "
            "name is that of the package, a dot and _C."
        )


def expect_metadata(text: str) -> None:
    """Raise what is wrong with the name, the version and the requirements in the wheel's METADATA."""
    from email.parser import Parser

    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

    fields = Parser().parsestr(text, headersonly=True)
    name, version = str(fields["Name"]), str(fields["Version"])
    if name.lower().replace("_", "-").replace(".", "-") != "c07-ops":
        raise WrongAnswer(
            f"The distribution has the name {name}, expected c07-ops: that is what one writes after `pip install`."
        )
    if version not in ("1.0", "1.0.0", "1"):
        missing = " setuptools writes 0.0.0 where no version is given." if version == "0.0.0" else ""
        raise WrongAnswer(f"The distribution has the version {version}, expected 1.0.{missing}")
    needed = [Requirement(line) for line in fields.get_all("Requires-Dist", [])]
    python = SpecifierSet(str(fields["Requires-Python"] or ""))
    versions = [entry.specifier for entry in needed if entry.name == "torch" and entry.marker is None]
    if not versions:
        raise WrongAnswer(
            'The wheel does not say that it needs PyTorch: install_requires=["torch>=2.13"]. Without it, pip installs the package '
            "where `import torch` fails."
        )
    if "2.12.0" in versions[0]:
        raise WrongAnswer(
            f"install_requires has torch{versions[0]}, which allows PyTorch 2.12. The library asks for functions of 2.13: torch>=2.13."
        )
    newer = [version for version in ("2.13.0", "2.14.0", "2.20.0") if version not in versions[0]]
    if newer:
        raise WrongAnswer(
            f"install_requires has torch{versions[0]}, which does not allow PyTorch {newer[0]}. The library works with 2.13 and newer: "
            "that is what the stable ABI is for."
        )
    allowed = [minor for minor in (8, 9, 10, 11, 14) if f"3.{minor}.0" in python]
    if allowed != [10, 11, 14]:
        given = f"is {python}" if str(python) else "is not given"
        raise WrongAnswer(
            f'python_requires {given}, expected ">=3.10": pip compares it with its Python before it installs.'
        )


def expect_tag(wheels: Sequence[Any], files: Sequence[Any]) -> None:
    """Raise why the wheel is for one version of Python only."""
    tags = str(wheels[0]).split("-")[2:4]
    library = next(str(file) for file in files if str(file).startswith("c07_ops/_C."))
    if ".abi3." not in library:
        raise WrongAnswer(
            f"The library is {library}: its name is for one version of Python. With py_limited_api=True in the extension it ends in "
            ".abi3.so, and the library may use nothing of Python that changes."
        )
    if tags != ["cp310", "abi3"]:
        raise WrongAnswer(
            f"The wheel has the tag {'-'.join(tags)}, expected cp310-abi3: pip installs it into other versions of Python only with that "
            'tag. It is an option of the command bdist_wheel: options={"bdist_wheel": {"py_limited_api": "cp310"}}.'
        )


def expect_imported(v: Judge) -> None:
    """Raise why the installed package cannot be imported or called."""
    if not v.value("import ended"):
        return
    why = reason(v.value("import log"))
    hint = ""
    if "undefined symbol" in why or "symbol not found" in why:
        hint = " A function is declared and called, and no source defines it: all files that do belong in sources."
    raise WrongAnswer(f"`import c07_ops` in another folder ends with {v.value('import ended')}: {why}{hint}")


def reason(log: str) -> str:
    """The line of a log that says what is wrong: the compiler's first error, or the last line, which is the first cause."""
    lines = [" ".join(line.split()) for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if " error: " in line]
    return (errors or lines[-1:] or ["it says nothing"])[0][:500]
