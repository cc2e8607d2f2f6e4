"""What an exception of ONNX Runtime or of an exporter means, as a sentence for the learner.

Every check that shows such an exception does it here: :func:`explained` for one that was recorded, :func:`sentence` for one that the
judge has caught. The message is cut to its first paragraph, without colours, boxes and advice to write to PyTorch's developers
(:func:`oplab.checks.errors.shortened`), and the likely cause follows.

What a message of ONNX Runtime means is the same in each chapter (:data:`RUNTIME`); a chapter passes what is special to its exercise,
as a table of :data:`Causes`. Symbolic functions of the TorchScript path have :func:`symbolic_causes`, translations of the dynamo path
:data:`TRANSLATION`, and :func:`no_symbolic` is for an operator that the TorchScript path has no symbolic function for.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from oplab.checks.errors import LearnerError, RecordedError, shortened
from oplab.parity.arrays import WrongAnswer

# The likely cause by words of the message; " … " means any text between them. The first entry that fits counts.
Causes = Mapping[str, str]
NO_CAUSES: Causes = {}

UNREGISTERED = "is not a registered function/op"
OUTPUT_TYPE = "of output arg … does not match expected type"
INPUT_TYPE = "of input parameter … is invalid"
MIXED_TYPES = "bound to different types"

RUNTIME: Causes = {
    UNREGISTERED: "No library of this session has an operator of that name in that domain; capitals count in both.",
    "No Op registered for": "The version of the domain that the model imports has no operator of that name.",
    "No opset import for domain": "The model has a node of that domain and does not import the domain.",
    OUTPUT_TYPE: "The graph declares another type for this output than the operator gives.",
    INPUT_TYPE: "The operator does not take this type for this input.",
    MIXED_TYPES: "The operator takes these inputs in one type only.",
    "Unexpected input data type": "The graph declares another type for this input.",
    "Got invalid dimensions": "The graph declares a fixed size for that axis.",
    "Could not find an implementation": "ONNX Runtime knows the operator, but has no kernel for these types.",
}

_TAKEN_OUT = (
    "The exporter cannot follow a number that .item() or .tolist() takes out of a tensor: hide that inside your own "
    "operator."
)
TRANSLATION: Causes = {
    "No ONNX function found": (
        "The table has no translation for that operator; its key is torch.ops.<namespace>.<name>.default."
    ),
    "No decompositions registered": (
        "The table has no translation for that operator; its key is torch.ops.<namespace>.<name>.default."
    ),
    "No schema registered": (
        "A plain function is traced, and each call of an operator looks for its ONNX schema. For your own domain use @script, "
        "with typed arguments and a typed result."
    ),
    "number of values and replacements": (
        "A @script function that calls its own domain needs a typed result: -> FLOAT[...]."
    ),
    "Opset mismatch when inlining": (
        "The exporter translates in opset 18 and converts afterwards: a @script translation uses opset18."
    ),
    "Required attribute": (
        "The exporter passes on the arguments of the call; an argument that the call leaves out needs a default in the translation."
    ),
    "no fake impl": "Without a fake the exporter does not know shape and dtype of the result: register_fake.",
    "SymFloat": _TAKEN_OUT,
    "data-dependent": _TAKEN_OUT,
    "Could not determine the dtype": (
        "A Python number or a torch tensor is where a value of the graph belongs: op.Constant(value_floats=[…]) makes one."
    ),
}


def symbolic_causes(arguments: str = "", outputs: int = 1) -> Causes:
    """The likely causes of an exception in a symbolic function, or of what it returned.

    Args:
        arguments: what the symbolic function takes, ``g, x, alpha``; empty where that is not to be told.
        outputs: how many results the operator has.
    """
    each = f"in the schema: {arguments}." if arguments else "argument of the schema."
    many = "several values as a tuple, one for each output of the operator" if outputs > 1 else "one value"
    unpacked = "g.op returns a single value unless outputs= says how many the node has"
    constant = "A Constant has one attribute here, the tensor value_t."
    return {
        "number of arguments": "parse_args needs one descriptor for each argument of the schema"
        + (f": {arguments}." if arguments else ", g not counted."),
        "positional argument … translating": (
            f"The exporter calls a symbolic function with the graph context g, then one argument for each {each}"
        ),
        "Couldn't export operator": (
            "The symbolic function returned None, or it wrote a node aten::…, which is PyTorch's own: return the value of the last node, "
            "and name each node as ONNX does."
        ),
        "min() arg is an empty sequence": (
            "No function is registered for that operator any more: its registration was removed again."
        ),
        "must be Tensor, not torch._C.Value": (
            'A function of torch takes tensors, and this is a value of the graph: g.op("Name", …) writes a node.'
        ),
        "'torch._C.Graph' object has no attribute": 'The graph context writes a node by g.op("Name", …).',
        "incorrect number of outputs": f"The symbolic function has to return {many}.",
        "Error casting results": "A symbolic function returns what g.op returned, not a number or a tensor.",
        "non-iterable torch._C.Value": f"{unpacked}: outputs=2 gives a tuple.",
        "'torch._C.Value' object is not subscriptable": f"{unpacked}.",
        "unsupported operand type": 'A value of the graph has no operators: write g.op("Mul", …) and the like.',
        "has no attribute 'dtype'": "The dtype of a value of the graph is x.type().dtype().",
        "'torch._C.Value' object has no attribute": 'A value of the graph has no such method: g.op("Name", …) writes a node.',
        "must be suffixed with type": "An attribute is a keyword with the suffix of its type: alpha_f, axis_i, mode_s, value_t.",
        "Expected node type 'onnx::Constant'": (
            'A letter such as "i" asks for a constant, and this argument is a tensor: the letter of a tensor is "v".'
        ),
        "z_(): incompatible": (
            "g.op was given a Python number or a text as an input. An input is a value of the graph: pass on what the function got, or "
            "make a number a Constant."
        ),
        "f_(): incompatible": (
            "The suffix _f takes a Python float, and was given a value of the graph: parse_args turns a constant argument into a Python "
            "number."
        ),
        "i_(): incompatible": (
            "The suffix _i takes a Python int. parse_args turns a constant argument into a Python number; the numbers of dtypes are in "
            "torch.onnx.TensorProtoDataType."
        ),
        "incompatible function arguments": (
            "An attribute was given a value of the graph: parse_args turns a constant argument into a Python number."
        ),
        "Could not infer dtype of torch._C.Value": (
            "torch.tensor takes numbers, and this is a value of the graph: parse_args reads it."
        ),
        "keyword attribute 'value'": constant,
        "Value'": "Without a letter in parse_args an argument is a value of the graph, not a Python number.",
    }


def no_symbolic(title: str, operator: str, registered: Sequence[str], opset: int) -> WrongAnswer:
    """The message for an operator that the TorchScript path has no symbolic function for: what is registered instead of it.

    Args:
        title: which export it is about.
        operator: its full name, ``aten::asinh``.
        registered: the learner's registrations, as :func:`oplab.checks.exporting.registrations` returns them.
        opset: the opset of the export.
    """
    shown = f"Registered: {', '.join(registered)}."
    if not registered:
        why = (
            "Nothing is registered: the function has to call torch.onnx.register_custom_op_symbolic, before any export."
        )
    elif any(entry.startswith(f"{operator} ") for entry in registered):
        why = f"{shown} The version is the earliest opset that the function serves, and it has to serve opset {opset}."
    else:
        why = f"{shown} The name has to be the operator's own, with its namespace: {operator}."
    return WrongAnswer(f"{title}: the exporter finds no symbolic function for {operator}. {why}")


def refused(error: RecordedError, title: str, operator: str, registered: Sequence[str], opset: int) -> WrongAnswer:
    """The message for a symbolic function of the answer that refuses an opset: which registration the look-up has found.

    Args:
        title, operator, registered: as for :func:`no_symbolic`.
        opset: the opset of the export.
    """
    versions = [int(entry.rsplit(" ", 1)[1]) for entry in registered if entry.startswith(f"{operator} ")]
    above, below = [v for v in versions if opset <= v <= 9], [v for v in versions if v <= opset]
    found = min(above, default=0) if opset < 9 else max(below, default=0)
    which = (
        f" at {found}, which the look-up takes for opset {opset}, and that function" if found else " a function that"
    )
    return WrongAnswer(
        f"{title}: {shortened(error.message).rstrip('.')}{error.place}. {operator} is registered{which} raises this."
    )


def cause(message: str, *special: Causes) -> str:
    """What a message means: the sentence of :data:`RUNTIME`, then the one of the tables; an empty string where none fits."""
    return " ".join(filter(None, (_first(message, [RUNTIME]), _first(message, special))))


def sentence(message: object, *special: Causes, place: str = "", limit: int = 400) -> str:
    """A message, shortened, and its :func:`cause`.

    Args:
        message: a text, or an exception that the judge has caught.
        special: what is special to the exercise; the first entry that fits counts.
        place: from :attr:`oplab.checks.errors.RecordedError.place`.
        limit: characters of the message that are kept; the cause comes on top.
    """
    text = str(message)
    reason = shortened(_OURS.sub("", text), limit).rstrip(".")
    return f"{reason}{place}. {cause(text, *special)}".rstrip()


def explained(error: RecordedError, title: str, *special: Causes, raised: bool = False) -> WrongAnswer:
    """The exception to raise for one that was recorded: ``title: message (file.py, line 12). cause``.

    It is a :class:`LearnerError` where the exception came from the learner's file and no cause is known, so that the exercise ends
    in ``error`` and not in ``failed``.

    Args:
        special: what is special to the exercise; the first entry that fits counts.
        raised: any exception from the learner's file is a :class:`LearnerError`, with a known cause too.
    """
    known = cause(error.message, *special)
    kind = LearnerError if error.where and (raised or not known) else WrongAnswer
    return kind(f"{title}: {sentence(error.message, *special, place=error.place)}")


def status(message: str, limit: int = 300) -> str:
    """A kernel's own sentence: a message of ONNX Runtime without what it puts around it; :data:`SILENT` where there is none."""
    return shortened(_AROUND.sub("", " ".join(message.split())), limit) or SILENT


SILENT = "ONNX Runtime failed without a message."
_OURS = re.compile(r"^(?:ExportError|WrongAnswer|LearnerError): ")  # checks raise these around an exception
_AROUND = re.compile(
    r"^.*(?:Status Message:|Exception during initialization:)\s*|^.*?\[ONNXRuntimeError\] : \d+ : [A-Z_]+ :\s*"
)


def _first(message: str, tables: Sequence[Causes]) -> str:
    entries = (entry for table in tables for entry in table.items())
    return next((text for words, text in entries if _holds(message, words)), "")


def _holds(message: str, words: str) -> bool:
    return re.search(".*".join(map(re.escape, words.split(" … "))), message, re.DOTALL) is not None
