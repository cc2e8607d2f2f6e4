"""The graph in words: for terminals, screen readers, and viewers that show no picture."""

from __future__ import annotations

from collections import Counter

from oplab.viewer.graph import Graph, Model, Node, shorten

MAX_LINES = 40
MAX_KINDS = 8  # of operators, in the alt text


def headline(model: Model, title: str) -> str:
    """The first line: ``title: 12 nodes, opset 20, IR 10``."""
    count = model.count
    return ", ".join([f"{title}: {count:,} node" + ("" if count == 1 else "s"), *model.facts])


def alt(model: Model, title: str) -> str:
    """The picture of a graph in two sentences: ``Graph of title: 3 nodes, opset 20, IR 10. Operators: 2 Conv, 1 Relu.``"""
    return f"Graph of {headline(model, title)}. {operators(model.graph)}".rstrip()


def operators(graph: Graph) -> str:
    """``Operators: 2 Conv, 1 Relu.``, the most frequent first; empty for a graph without nodes."""
    counts = Counter(node.title for node in graph.nodes)
    listed = [f"{count} {name}" for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    more = f", and {len(listed) - MAX_KINDS} more kinds" if len(listed) > MAX_KINDS else ""
    return f"Operators: {', '.join(listed[:MAX_KINDS])}{more}." if listed else ""


def describe(model: Model, title: str) -> str:
    """A heading, the inputs and outputs, and a line for each node."""
    lines = [headline(model, title), *model.problems]
    lines += _graph(model.graph, MAX_LINES)
    for function in model.functions:
        lines += [f"function {function.name}", *_graph(function, 10)]
    return "\n".join(lines)


def _graph(graph: Graph, limit: int, indent: str = "  ") -> list[str]:
    ends = (("input", graph.inputs), ("output", graph.outputs))
    lines = [f"{indent}{word:7}{v.name} {v.type_text()}".rstrip() for word, values in ends for v in values[:8]]
    for node in graph.nodes[:limit]:
        lines.append(f"{indent}{_call(node)}")
        for label, body in node.bodies:
            lines += [f"{indent}  {label}:", *_graph(body, 10, indent + "    ")]
    if len(graph.nodes) > limit:
        lines.append(f"{indent}… and {len(graph.nodes) - limit:,} more nodes")
    return lines


def _call(node: Node) -> str:
    given = [*node.inputs, *(p.text() for p in node.params), *(f"{name}={text}" for name, text in node.attrs)]
    return shorten(f"{', '.join(node.outputs)} = {node.title}({', '.join(given)})", 160)
