"""What a picture of a model shows, whatever the format of the model.

`oplab.viewer.onnx_graph` creates these objects from a ModelProto, `oplab.viewer.torchscript` from a traced module.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from oplab.onnxtools.names import qualified

MAX_PREVIEW = 6  # elements of a constant that are written out


@dataclass(frozen=True)
class Value:
    """One tensor (or sequence, or optional) that flows along an edge.

    ``dtype`` is a numpy-like name or ''. ``shape`` is None when even the rank is unknown; a dimension is a number, a
    name, or '?'.
    """

    name: str
    dtype: str = ""
    shape: tuple[int | str, ...] | None = None
    wrapper: str = ""  # "sequence" or "optional"

    def type_text(self) -> str:
        """'float32[1,3,h,w]', 'int64 scalar', 'float32' when the rank is unknown, '' when nothing is known."""
        text = self.dtype
        if self.shape is not None:
            text += f"[{','.join(map(str, self.shape))}]" if self.shape else " scalar"
        return f"{self.wrapper}({text})" if self.wrapper else text.strip()


@dataclass(frozen=True)
class Param:
    """A constant input of a node: an initializer, a folded Constant, or a module's parameter."""

    formal: str  # the operator's own name for this input, such as W; may be ''
    value: Value
    preview: str = ""  # the numbers themselves, when there are few

    def text(self) -> str:
        """``W = [1, 2]`` where there are few numbers, else ``W float32[8,3,3,3]``."""
        label = self.formal or short_name(self.value.name)
        return f"{label} = {self.preview}" if self.preview else f"{label} {self.value.type_text()}".rstrip()


@dataclass
class Node:
    """One operator of a graph.

    ``inputs`` are the names of tensors that other nodes or the graph's inputs produce (constants are in ``params``);
    ``captures`` are tensors that the node's bodies read from around it.
    """

    op: str
    domain: str = ""
    name: str = ""
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    attrs: list[tuple[str, str]] = field(default_factory=list)  # those that differ from the operator's default
    defaults: list[tuple[str, str]] = field(default_factory=list)  # those that do not
    params: list[Param] = field(default_factory=list)
    captures: list[str] = field(default_factory=list)
    bodies: list[tuple[str, Graph]] = field(default_factory=list)
    far: list[str] = field(default_factory=list)  # tensors that are named in the box instead of a line to it
    function: bool = False  # the model itself defines what this operator does
    mark: str = ""  # "added", "removed", "changed": set by a comparison
    changed: frozenset[str] = frozenset()  # attributes and params that a comparison found to differ
    times: int = 0  # > 0: this represents a block that repeats, drawn as a stack
    count: int = 0  # nodes in one such block
    block: str = ""  # what folding put here, "" for a real node

    @property
    def title(self) -> str:
        """The operator's type with its domain, for example ``oplab::MyAdd``; ``Relu`` for an operator of ONNX."""
        return qualified(self.op, self.domain)

    def key(self) -> tuple:
        """What makes two nodes of two models the same kind of node."""
        return (self.domain or "", self.op)

    def details(self) -> tuple:
        """Attributes and constant inputs, for comparing two nodes of the same kind."""
        return (
            tuple(self.attrs),
            tuple((p.formal, p.value.type_text(), p.preview) for p in self.params),
        )


@dataclass
class Graph:
    """Nodes in an order in which they can run, with the graph's own inputs and outputs."""

    name: str = ""
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    values: dict[str, Value] = field(default_factory=dict)
    outer: set[str] = field(default_factory=set)  # tensors that come from around this body
    marks: dict[str, str] = field(default_factory=dict)  # marks of inputs and outputs, set by a comparison

    def value(self, name: str) -> Value:
        """The tensor of that name; one without a type where none is known."""
        return self.values.get(name) or Value(name)


@dataclass
class Model:
    """A model as the viewer knows it."""

    graph: Graph
    facts: list[str] = field(default_factory=list)  # "opset 20", "IR 10"
    opsets: dict[str, int] = field(default_factory=dict)
    functions: list[Graph] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)  # sentences shown above the picture
    count: int = -1  # nodes of the main graph, Constants aside; kept when the graph is folded

    def __post_init__(self) -> None:
        if self.count < 0:
            self.count = len(self.graph.nodes)


def short_name(name: str, limit: int = 28) -> str:
    """A tensor's name, cut in the middle: both its scope and its end carry meaning."""
    if len(name) <= limit:
        return name
    keep = limit - 1
    return name[: keep // 3] + "…" + name[-(keep - keep // 3) :]


def shorten(text: str, limit: int = 32) -> str:
    """The text, cut at its end to ``limit`` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def walk(graph: Graph) -> Iterable[Graph]:
    """The graph and all bodies inside it, outermost first."""
    yield graph
    for node in graph.nodes:
        for _, body in node.bodies:
            yield from walk(body)


def number(x: object) -> str:
    """A number as a learner would write it; floats to four significant digits, so that pictures do not flicker."""
    if isinstance(x, bool):
        return "true" if x else "false"
    if isinstance(x, int):
        return str(x)
    try:
        value = float(x)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return str(x)
    if value == int(value) and abs(value) < 1e6 if value == value and abs(value) != float("inf") else False:
        return f"{int(value)}.0"
    return f"{value:.4g}"
