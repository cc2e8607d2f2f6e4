# says: The place is wrong
def rows(place: str, nodes: list[onnx.NodeProto], versions: dict[str, int]) -> Iterator[tuple]:
    for node in nodes:
        operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        head = (place, operator, versions[node.domain])
        if not node.attribute:
            yield (*head, "", "", None)
        for attribute in node.attribute:
            yield (*head, attribute.name, AttributeProto.AttributeType.Name(attribute.type), plain(attribute))
            for body in [attribute.g, *attribute.graphs]:
                yield from rows(body.name, list(body.node), versions)


def inventory(model: onnx.ModelProto) -> list[tuple[str, str, int, str, str, object]]:

    def imports(owner: onnx.ModelProto | onnx.FunctionProto) -> dict[str, int]:
        return {"" if entry.domain == "ai.onnx" else entry.domain: entry.version for entry in owner.opset_import}

    found = list(rows("main", list(model.graph.node), imports(model)))
    for function in model.functions:
        found += rows(f"{function.domain}::{function.name}", list(function.node), imports(function))
    return found
