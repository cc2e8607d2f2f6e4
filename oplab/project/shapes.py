"""``oplab new-operator --schema 'x:float[N,C] index:int64[K] -> y:float[K,2*C]'``: each tensor has its own dtype and shape."""

from __future__ import annotations

import math
import re
import textwrap
from typing import Any

from oplab.errors import OplabError
from oplab.project.schema import Input, Schema, attribute, checked, identifier

# PyTorch's names of the dtypes of tensors of integers -> (ScalarType, C++, NumPy).
INTEGERS = {"int64": ("Long", "int64_t", "int64"), "int32": ("Int", "int32_t", "int32")}
# Names that the generated code uses where each tensor has its own shape.
_TAKEN = frozenset("fill grad into math number product rank result Shape shapes slopes Tensor View view_of".split())
_TENSOR = re.compile(r"(\w+)(\??):(\w+)\[([\w\s,*]*)\]")
_EXAMPLE = "For example --schema 'x:float[N,C] index:int64[K] alpha=1.0 -> y:float[K,2*C]'."


def parse(text: str) -> Schema:
    """The schema of a text such as ``x:float[N,C] index:int64[K] mask?:float[N] alpha=1.0 -> y:float[K,2*C]``."""
    given, _, returned = text.partition("->")
    words, outputs = (re.findall(r"(?:[^\s,\[]|\[[^\]]*\]?)+", part) for part in (given, returned))
    tensors = [_tensor(word) for word in words if ":" in word]
    last = max((number for number, one in enumerate(tensors) if not one[1]), default=-1)
    inputs = tuple(
        Input(name, optional, number + 1, optional and number > last, integer, dims)
        for number, (name, optional, integer, dims) in enumerate(tensors)
    )
    made = [_tensor(word) for word in outputs]
    if any(optional or integer for _, optional, integer, _ in made):
        raise OplabError(
            "An output is optional or has integers.", "Write y:float[…] here, and change the dtype in the code."
        )
    attributes = tuple(attribute(word) for word in words if ":" not in word)
    schema = Schema((*inputs, *attributes), tuple(one[0] for one in made), tuple(one[3] for one in made))
    if all(one.optional or one.integer for one in inputs):
        raise OplabError("There is no input of floats that is always given.", _EXAMPLE)
    named = sizes(schema)
    for dims in (*(one.dims for one in inputs), *schema.output_dims):
        for size in (size for dim in dims for size in dim.split(" * ")):
            if not size.isdigit() and size not in named:
                raise OplabError(
                    f"No input has the size {size} alone.",
                    "Write it in an input that is not optional, not as a product.",
                )
    if taken := {*named, *schema.outputs, *(one.name for one in schema.arguments)} & _TAKEN:
        raise OplabError(f"The generated code uses the name {min(taken)!r} itself.", "Choose another name.")
    return checked(schema, *named)


def sizes(schema: Schema) -> dict[str, tuple[str, int]]:
    """Each named size: the first input that a caller always gives and that has it alone, and at which place."""
    found: dict[str, tuple[str, int]] = {}
    for one in schema.inputs:
        for place, dim in enumerate(one.dims or ()):
            if not one.optional and dim.isidentifier():
                found.setdefault(dim, (one.name, place))
    return found


def _tensor(word: str) -> tuple[str, bool, str, tuple[str, ...]]:
    """Name, whether it is optional, dtype if it has integers, and sizes of ``x?:float[N,2*C]``."""
    found = _TENSOR.fullmatch(word)
    if found is None:
        raise OplabError(f"{word!r} is not a tensor with its dtype and sizes.", _EXAMPLE)
    name, optional, dtype, inside = found.groups()
    if dtype != "float" and dtype not in INTEGERS:
        raise OplabError(
            f"{name} has the dtype {dtype}.", f"It can be float, which stands for --dtypes, or {' or '.join(INTEGERS)}."
        )
    dims = (
        tuple(" * ".join(part.strip() for part in dim.split("*")) for dim in inside.split(","))
        if inside.strip()
        else ()
    )
    for size in (size for dim in dims for size in dim.split(" * ")):
        if not re.fullmatch("[1-9][0-9]{0,8}", size):
            identifier(size, "The size")
    return name, bool(optional), dtype if dtype in INTEGERS else "", dims


def context(schema: Schema) -> dict[str, Any]:
    """What the template says about the dtypes and sizes of each tensor, where they have their own."""
    named = sizes(schema)
    places = {one.name: place for place, one in enumerate(schema.inputs)}
    made = [(name, "", dims) for name, dims in zip(schema.outputs, schema.output_dims, strict=False)]
    tensors = [(one.name, one.integer, one.dims or ()) for one in schema.inputs]
    products = {size for _, _, dims in tensors for dim in dims if " * " in dim for size in dim.split(" * ")}
    needed = {named[size][0] for dims in schema.output_dims for size in _factors(dims) if size in named}
    some_sizes = [
        {size: [2 + n % 4, 3 + 2 * n % 5, 1, 2 if n else 0][case] for n, size in enumerate(named)} for case in range(4)
    ]
    words = [f"{name} [{', '.join(dims)}]{f' {integer}' if integer else ''}" for name, integer, dims in tensors + made]
    unpacked = " ".join(f"{name}.shape[{place}]," for name, place in named.values())
    return {
        "sizes": named,
        "typed": bool(schema.output_dims),
        "integers": INTEGERS,
        "described": textwrap.wrap(", ".join(words), 100),
        "unpacked": f"{', '.join(named)}{',' if len(named) == 1 else ''} = {unpacked}",
        # InferShapes: the inputs that it reads, and what it says.
        "infers_from": {name: places[name] for name in needed},
        "inferred": [[_inferred(dim, schema) for dim in dims] for dims in schema.output_dims],
        "has_products": any(" * " in dim for dims in schema.output_dims for dim in dims),
        # Of the tests: all sizes differ, or nearly so; then other ones; then 1; then no values.
        "some_sizes": some_sizes,
        "small_sizes": {size: 1 + number % 2 for number, size in enumerate(named)},
        "large": _large(schema, some_sizes[0]),
        # What has to be refused: one more dimension, and a size that another input determines.
        "wrong": [
            (name, place)
            for name, _, dims in tensors
            for place in (None, *range(len(dims)))
            if place is None or named.get(dims[place]) != (name, place)
        ],
        # The exporters cannot leave a size open of which there is a product in an input.
        "fixed_sizes": [size for size in named if size in products],
        "open_sizes": {
            name: {place: dim for place, dim in enumerate(dims) if dim in named and dim not in products}
            for name, _, dims in tensors
        },
    }


def _factors(dims: tuple[str, ...]) -> list[str]:
    return [size for dim in dims for size in dim.split(" * ")]


def _inferred(dim: str, schema: Schema) -> str:
    """A size of an output in InferShapes."""
    if " * " in dim:
        return f"product({{{', '.join(_inferred(size, schema) for size in dim.split(' * '))}}})"
    return "{}[{}]".format(*sizes(schema)[dim]) if dim in sizes(schema) else f'oplab::Shapes::Dim{{{dim}, ""}}'


def _large(schema: Schema, some: dict[str, int]) -> dict[str, int]:
    """The sizes, with the first one of the first output so large that this has 150,000 values or more."""
    factors = _factors(schema.output_dims[0] if schema.output_dims else ())
    first = next((size for size in factors if size in some), None)
    count = math.prod(some.get(size) or int(size) for size in factors)
    return some if first is None else {**some, first: some[first] * -(-150_000 // count)}
