"""What a new operator takes and returns: read from the options of ``oplab new-operator``, in PyTorch's schema language."""

from __future__ import annotations

import json
import keyword
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from oplab.errors import OplabError

# Of an attribute: PyTorch's name of the type -> C++, Python, the letter of TorchScript's parse_args, the suffix of g.op's attribute,
# the function of oplab_kernel.h, and an example that differs from any default that is likely.
_TYPES: dict[str, tuple[str, str, str, str, str, tuple[Any, Any]]] = {
    "float": ("double", "float", "f", "f", "float_attribute", (1.5, 0.75)),
    "int": ("int64_t", "int", "i", "i", "int_attribute", (3, 4)),
    "float[]": ("std::vector<double>", "Sequence[float]", "fs", "f", "floats_attribute", ([0.5, 1.25], [0.75])),
    "int[]": ("std::vector<int64_t>", "Sequence[int]", "is", "i", "ints_attribute", ([3, 1], [4])),
    "str": ("std::string", "str", "s", "s", "string_attribute", ("nearest", "linear")),
}
# PyTorch's names of the dtypes of tensors -> (ScalarType, C++ in ONNX Runtime's kernel or "", NumPy or "").
DTYPES = {
    "float": ("Float", "float", "float32"),
    "double": ("Double", "double", "float64"),
    "half": ("Half", "", "float16"),
    "bfloat16": ("BFloat16", "", ""),
}
_ALIASES = {"float32": "float", "float64": "double", "float16": "half"}

_CPP = frozenset(
    "alignas alignof asm auto bool case catch char char8_t char16_t char32_t concept const consteval constexpr constinit "
    "const_cast co_await co_return co_yield decltype default delete do double dynamic_cast enum explicit export extern float "
    "friend goto inline int long mutable namespace new noexcept nullptr operator private protected public register "
    "reinterpret_cast requires short signed sizeof static static_assert static_cast struct switch template this thread_local "
    "throw typedef typeid typename union unsigned using virtual void volatile wchar_t and_eq bitand bitor compl not_eq or_eq "
    "xor xor_eq true false errno linux unix".split()
)
# Names that the generated code uses itself, next to those of the operator.
TAKEN = frozenset(
    "op oplab std torch np ctx g self i t T Compute count begin end scale attributes parallel_for refuse shape context info "
    "model len sum list tuple float int str output inputs slope rng dtype size Model OpRun script my "
    "data_of shape_of name tensor expected".split()
)
# Words of PyTorch's parser for what it expects.
_TOKENS = {"eof": "the end", "ident": "a name", "number": "a number", "a valid token": "a name, a number or a sign"}
_BEFORE = "lab::name"  # of a schema's parenthesis, for the parser
_LARGEST = 3.4028234663852886e38  # float32
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_LONGEST = 4000  # of a schema, in characters: PyTorch's parser ends the process where brackets are nested deeper


@dataclass(frozen=True)
class Input:
    """A tensor that the operator takes.

    Attributes:
        name: in PyTorch, ONNX and the C++ code.
        optional: whether a caller may leave it out.
        weight: the factor of this input in the formula of the template.
        has_default: whether the schema says ``=None``.
        integer: its dtype, of :data:`oplab.project.shapes.INTEGERS`; empty where it has that of the operator.
        dims: its sizes: a number, a name, or a product of them such as ``M * D``; None where it has the shape of all tensors.
    """

    name: str
    optional: bool
    weight: int
    has_default: bool = False
    integer: str = ""
    dims: tuple[str, ...] | None = None

    @property
    def is_input(self) -> bool:
        """True: it is not an attribute."""
        return True

    @property
    def text(self) -> str:
        """As PyTorch's schema has it."""
        return f"Tensor{'? ' if self.optional else ' '}{self.name}{'=None' if self.has_default else ''}"

    @property
    def python(self) -> str:
        """As the parameter of a Python function, without its type."""
        return f"{self.name}=None" if self.has_default else self.name


@dataclass(frozen=True)
class Attribute:
    """A number, a text or a list that is fixed when a model is exported.

    Attributes:
        name: in PyTorch, ONNX and the C++ code.
        type: ``float``, ``int``, ``float[]``, ``int[]`` or ``str``.
        default: its default; None if a caller has to give it.
    """

    name: str
    type: str
    default: Any = None

    @property
    def is_input(self) -> bool:
        """False: it is not a tensor."""
        return False

    @property
    def text(self) -> str:
        """As PyTorch's schema has it."""
        return f"{self.type} {self.name}" + ("" if self.default is None else f"={_literal(self.default)}")

    @property
    def is_list(self) -> bool:
        """Whether it has several values."""
        return self.type.endswith("[]")

    @property
    def python(self) -> str:
        """As the parameter of a Python function, without its type."""
        return self.name if self.default is None else f"{self.name}={self.python_default}"

    @property
    def python_default(self) -> str:
        """The default, as Python."""
        return repr(tuple(self.default) if self.is_list else self.default).replace("'", '"')

    @property
    def annotated(self) -> str:
        """As the parameter of a Python function, with its type."""
        return f"{self.name}: {self.python_type}" + ("" if self.default is None else f" = {self.python_default}")

    @property
    def cpp_type(self) -> str:
        """In C++; a float is double precision there, as in PyTorch."""
        return _TYPES[self.type][0]

    @property
    def python_type(self) -> str:
        """In an annotation of Python."""
        return _TYPES[self.type][1]

    @property
    def letter(self) -> str:
        """For ``torch.onnx.symbolic_helper.parse_args``."""
        return _TYPES[self.type][2]

    @property
    def suffix(self) -> str:
        """Of the keyword of ``g.op``: ``alpha_f``."""
        return _TYPES[self.type][3]

    @property
    def cpp_read(self) -> str:
        """The call that reads it in the constructor of ONNX Runtime's kernel."""
        default = "" if self.default is None else f", {self.cpp_default}"
        return f'oplab::{_TYPES[self.type][4]}(info, "{self.name}"{default})'

    @property
    def cpp_default(self) -> str:
        """The default, as the C++ function that reads it takes it."""
        if self.type == "str":
            return json.dumps(self.default)
        if self.type == "float":
            return f"{self.default!r}f"
        if self.type == "float[]":
            return f"std::vector<float>{{{', '.join(f'{value!r}f' for value in self.default)}}}"
        if self.type == "int[]":
            return f"std::vector<int64_t>{{{', '.join(map(str, self.default))}}}"
        return str(self.default)

    @property
    def example(self) -> Any:
        """A value that is not the default. A float is exact in float32: ONNX has no attribute in double precision."""
        first, second = _TYPES[self.type][5]
        return second if self.default == first else first

    @property
    def cpp_term(self) -> str:
        """Its part of ``scale`` in the formula of the template, in C++."""
        if self.is_list:
            return f"sum(attributes.{self.name})"
        if self.type == "float":
            return f"attributes.{self.name}"
        return f"static_cast<double>(attributes.{self.name}{'.size()' if self.type == 'str' else ''})"

    @property
    def python_term(self) -> str:
        """The same in Python."""
        return f"sum({self.name})" if self.is_list else f"len({self.name})" if self.type == "str" else self.name


@dataclass(frozen=True)
class Schema:
    """An operator without its name.

    Attributes:
        arguments: inputs and attributes, in PyTorch's order.
        outputs: the names of the tensors that are returned.
        output_dims: the sizes of each, as in :attr:`Input.dims`; empty where all tensors have one shape and one dtype.
    """

    arguments: tuple[Input | Attribute, ...]
    outputs: tuple[str, ...]
    output_dims: tuple[tuple[str, ...], ...] = ()

    @cached_property
    def inputs(self) -> tuple[Input, ...]:
        """The tensors, which are the inputs of the ONNX node."""
        return tuple(one for one in self.arguments if isinstance(one, Input))

    @cached_property
    def attributes(self) -> tuple[Attribute, ...]:
        """The attributes of the ONNX node."""
        return tuple(one for one in self.arguments if isinstance(one, Attribute))

    @cached_property
    def main(self) -> Input:
        """The first input of floats that a caller always gives: the outputs have its dtype, and its shape where all have one."""
        return next(one for one in self.inputs if not one.optional and not one.integer)

    @cached_property
    def optional(self) -> tuple[Input, ...]:
        """The inputs that a caller may leave out."""
        return tuple(one for one in self.inputs if one.optional)

    @property
    def text(self) -> str:
        """In PyTorch's schema language, from the opening parenthesis on."""
        outputs = [f"Tensor {name}" for name in self.outputs]
        returned = "Tensor" if len(outputs) == 1 else f"({', '.join(outputs)})"
        return f"({', '.join(one.text for one in self.arguments)}) -> {returned}"


def from_options(inputs: str, outputs: str, attributes: str) -> Schema:
    """The schema of three lists separated by commas: ``x,mask?``, ``y`` and ``spatial_scale=1.0,sampling_ratio=2``."""
    words = _split(inputs)
    if not words:
        raise OplabError("There are no inputs.", "For example --inputs x,mask? where mask may be left out.")
    last = max((number for number, word in enumerate(words) if not word.endswith("?")), default=-1)
    made: list[Input | Attribute] = []
    for number, word in enumerate(words):
        optional = word.endswith("?")
        made.append(Input(word.removesuffix("?").strip(), optional, number + 1, optional and number > last))
    made += [attribute(word) for word in _split(attributes)]
    return checked(Schema(tuple(made), tuple(_split(outputs))))


def with_defaults(inputs: str | None, outputs: str | None, attributes: str | None) -> tuple[str, str, str]:
    """The three lists of :func:`from_options`, each that is None filled in: ``x,y``, ``z``, ``alpha=1.0``, or names that are free."""
    given = [word for text in (inputs, outputs, attributes) if text for word in text.split(",")]
    taken = {re.split(r"[?=]", word)[0].strip() for word in given}

    def free(count: int, names: str) -> str:
        chosen = [name for name in names.split() if name not in taken][:count]
        taken.update(chosen)
        return ",".join(chosen)

    return (
        free(2, "x y w v u") if inputs is None else inputs,
        free(1, "z y out result last more") if outputs is None else outputs,
        f"{free(1, 'alpha beta gamma delta omega more_alpha')}=1.0" if attributes is None else attributes,
    )


def from_text(text: str) -> Schema:
    """The schema of a text such as ``(Tensor x, Tensor? mask=None, float alpha=1.0) -> Tensor``, in which all tensors have one shape and
    one dtype, or ``x:float[N,C] index:int64[K] mask?:float[N] alpha=1.0 -> y:float[K,2*C]``, in which each has its own.
    """
    import torch

    if not text.strip():
        raise OplabError("The schema is empty.", "For example --schema '(Tensor x, float alpha=1.0) -> Tensor'.")
    if len(text) > _LONGEST:
        raise OplabError(f"The schema has {len(text):,} characters.", f"It can have {_LONGEST:,}.")
    if ":" in text and "(" not in text:
        from oplab.project import shapes  # it needs the classes of this module

        return shapes.parse(text)
    try:
        found = torch._C.parse_schema(_BEFORE + text.strip())
    except (RuntimeError, ValueError) as error:
        # ValueError, "stod": the default of a complex is no float.
        why = "a default is no number" if isinstance(error, ValueError) else _wrong(str(error), text.strip())
        raise OplabError(
            f"The schema cannot be parsed: {why}.",
            "For example --schema '(Tensor x, Tensor? mask=None, float alpha=1.0) -> Tensor'.",
        ) from None
    if found.name != _BEFORE or found.overload_name:
        raise OplabError(
            "The schema begins with a name.",
            "Begin it with the parenthesis: the operator's name is NAME of the command.",
        )
    if "..." in str(found):
        raise OplabError("The schema has a ... in it.", "Name each argument.")
    if found.is_mutable or any(argument.alias_info for argument in (*found.arguments, *found.returns)):
        raise OplabError(
            "The schema has an alias annotation such as (a!).", "An exported operator returns new tensors: take it out."
        )
    made: list[Input | Attribute] = []
    for argument in found.arguments:
        if argument.kwarg_only:
            raise OplabError(f"{argument.name} can only be given by name.", "Take the * out of the schema.")
        made.append(_argument(argument, sum(isinstance(one, Input) for one in made) + 1))
    for value in found.returns:
        if str(value.type) != "Tensor":
            raise OplabError(f"The schema returns {_type(value.type)}.", "An operator returns Tensors.")
    outputs = _outputs([value.name for value in found.returns], [one.name for one in made])
    if not any(isinstance(one, Input) for one in made):
        raise OplabError("There are no inputs: the schema has no Tensor.", "Write (Tensor x, …) -> Tensor.")
    return checked(Schema(tuple(made), outputs))


def dtypes(text: str) -> tuple[str, ...]:
    """The dtypes of ``float,double``, in the order of :data:`DTYPES`."""
    names = [_ALIASES.get(word, word) for word in _split(text)]
    for name in names:
        if name not in DTYPES:
            raise OplabError(f"There is no dtype {name} here.", f"--dtypes can be {', '.join(DTYPES)}.")
    if len(set(names)) < len(names):
        raise OplabError(f"--dtypes {text} names a dtype twice.", "Name each one once.")
    if "float" not in names:
        raise OplabError("--dtypes lacks float.", "The example network is in float32, and autocast casts to it.")
    return tuple(name for name in DTYPES if name in names)


def identifier(name: str, what: str) -> str:
    """The name, if Python and C++ take it."""
    if not _NAME.fullmatch(name):
        raise OplabError(f"{what} {name!r} is not an identifier.", "Use letters, digits and _, with a letter first.")
    if keyword.iskeyword(name) or name in _CPP:
        raise OplabError(f"{what} {name!r} is a keyword of Python or C++.", "Choose another name.")
    if "__" in name or name.endswith("_"):
        raise OplabError(f"{what} {name!r} has a _ too many.", "Use single ones, between words.")
    return name


def checked(schema: Schema, *more: str) -> Schema:
    """The schema, if the template can do it. ``more`` are further names of the generated code."""
    if not schema.outputs:
        raise OplabError("There are no outputs.", "For example --outputs y.")
    names = [*(one.name for one in schema.arguments), *schema.outputs, *more]
    for name in names:
        identifier(name, "The name")
        if name in TAKEN:
            raise OplabError(f"The generated code uses the name {name!r} itself.", "Choose another name.")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise OplabError(
            f"The name {twice!r} is used twice.", "Inputs, outputs, attributes and sizes need different names."
        )
    if all(one.optional for one in schema.inputs):
        raise OplabError("All inputs are optional.", "Write one without ?: the outputs have its shape.")
    return schema


def attribute(word: str) -> Attribute:
    """The attribute of ``name=value``."""
    name, equals, value = (part.strip() for part in word.partition("="))
    if not equals or not value:
        raise OplabError(
            f"The attribute {word!r} has no default.",
            "Write name=value: 1.0, 2, [1, 2] or a word; the value is its type.",
        )
    try:
        parsed = json.loads(value.replace("'", '"'))
    except ValueError:
        parsed = value
    kind = None if parsed in ("True", "False") else _kind(parsed)
    if kind is None:
        raise OplabError(
            f"The default {value} of {name} has no type that an attribute can have.",
            f"It can be {', '.join(_TYPES)}: for example 1.0, 2, [0.5, 1.5], [1, 2] or a word.",
        )
    return Attribute(name, kind, _valid(name, kind, parsed))


def _kind(value: Any) -> str | None:
    kind = {float: "float", int: "int", str: "str"}.get(type(value))
    if isinstance(value, list):
        kinds = {_kind(one) for one in value}
        if not value or not kinds <= {"float", "int"}:
            return None
        kind = "int[]" if kinds == {"int"} else "float[]"
    return kind


def _argument(argument: Any, weight: int) -> Input | Attribute:
    # `type` is int for a SymInt and a ScalarType as well; for the first one only kind() says it.
    kind = "SymInt" if argument.real_type.kind() == "SymIntType" else _type(argument.real_type)
    if kind in ("Tensor", "Tensor?"):
        if kind == "Tensor?" and argument.has_default_value() and argument.default_value is not None:
            raise OplabError(f"The default of {argument.name} is not None.", "A Tensor has no other default.")
        return Input(argument.name, kind == "Tensor?", weight, argument.has_default_value())
    if kind not in _TYPES:
        raise OplabError(
            f"{argument.name} has the type {kind}.", f"An argument is Tensor, Tensor?, {', '.join(_TYPES)}."
        )
    if not argument.has_default_value():
        return Attribute(argument.name, kind)
    try:
        default = argument.default_value
    except RuntimeError:  # [1.5] for an int[]
        raise OplabError(
            f"The default of {argument.name} has another type than {kind}.", "Change one of them."
        ) from None
    return Attribute(argument.name, kind, _valid(argument.name, kind, default))


def _outputs(given: Sequence[str], used: Sequence[str]) -> tuple[str, ...]:
    """A name for each output that the schema gives none: PyTorch needs no name, ONNX does."""
    free = (stem for stem in ("y", "z", "out", "result") if not any(one.startswith(stem) for one in (*used, *given)))
    stem = next(free, f"from_{max(used, key=len, default='')}")
    several = len(given) > 1
    return tuple(name or (f"{stem}{number}" if several else stem) for number, name in enumerate(given))


def _type(kind: Any) -> str:
    """PyTorch's type as its schema language has it."""
    text = str(kind)
    for pattern, short in ((r"Optional\[(.*)\]", r"\1?"), (r"List\[(.*)\]", r"\1[]")):
        text = re.sub(pattern, short, text)
    return text


def _valid(name: str, kind: str, value: Any) -> Any:
    """A default that C++, ONNX and Python take."""
    values = value if isinstance(value, list) else [value]
    if not values:
        raise OplabError(f"The default of {name} is an empty list.", "ONNX Runtime needs at least one value.")
    for one in values:
        if kind == "str":
            if not re.fullmatch(r"[A-Za-z0-9_.+ -]*", one):
                raise OplabError(f"The default {one!r} of {name} has unusual characters.", "Use letters and digits.")
        elif isinstance(one, float) and not math.isfinite(one):
            raise OplabError(f"The default of {name} is {one}.", "Give a finite number.")
        elif kind.startswith("int") and type(one) is not int:
            raise OplabError(f"The default {one} of {name} is not an int.", "Give a whole number, or make it a float.")
        elif kind.startswith("float") and abs(one) > _LARGEST:
            raise OplabError(f"The default {one} of {name} does not fit into float32.", "ONNX has no larger floats.")
        elif isinstance(one, int) and not -(2**63) < one < 2**63:
            raise OplabError(f"The default {one} of {name} does not fit into 64 bits.", "Give a smaller number.")
    if kind.startswith("float"):
        value = [float(one) for one in values] if kind.endswith("[]") else float(value)
    return value


def _wrong(said: str, text: str) -> str:
    """What PyTorch's parser says, in one line, with the place that it marks by a line of ~ below the schema."""
    lines = said.strip().splitlines()
    sentence = lines[0].rpartition("bug to PyTorch. ")[2].removesuffix(":").removesuffix(" here")
    sentence = sentence.partition(". Common")[0].partition(". Parameter")[0].strip()
    marks = next((line for line in lines if line.endswith("<--- HERE")), None)
    place = "" if marks is None else text[marks.index("~") - len(_BEFORE) :][: marks.count("~")]
    expected = re.fullmatch(r"expected (.+) but found .+", sentence)
    if expected is None:
        return f"{sentence} at {place!r}" if place else sentence
    wanted = _TOKENS.get(expected[1], expected[1])
    return f"expected {wanted}, not {place!r}" if place else f"expected {wanted}, but it ends"


def _literal(value: Any) -> str:
    return json.dumps(value) if isinstance(value, str | list) else repr(value)


def _split(text: str) -> list[str]:
    """At the commas outside of brackets."""
    words = [word.strip() for word in re.split(r",(?![^\[]*\])", text)]
    if words == [""]:
        return []
    if "" in words:
        raise OplabError(f"There is an empty name in {text!r}.", "Separate names by one comma.")
    return words
