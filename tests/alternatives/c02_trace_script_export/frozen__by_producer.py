"""From each output down through the nodes that make it, with the text of the graph for bodies."""


def frozen(model, declared):
    graph = onnx.load_from_string(model).graph
    makers = {name: node for node in graph.node for name in node.output if name}
    seen = set()

    def names_in(graph):
        for node in graph.node:
            yield from node.input
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    yield from names_in(attribute.g)

    def visit(name):
        if name in seen:
            return
        seen.add(name)
        node = makers.get(name)
        if node is not None:
            bodies = [a.g for a in node.attribute if a.type == onnx.AttributeProto.GRAPH]
            for below in [*node.input, *(inner for body in bodies for inner in names_in(body))]:
                visit(below)

    for output in graph.output:
        visit(output.name)
    state = {value.name: "used" if value.name in seen else "unused" for value in graph.input}
    return {name: state.get(name, "missing") for name in declared}
