def inventory(model):
    found = []
    owners = [("main", model.graph.node, model)]
    owners += [(f"{f.domain}::{f.name}", f.node, f) for f in model.functions]
    for place, nodes, owner in owners:
        versions = {e.domain or "ai.onnx": e.version for e in owner.opset_import}
        waiting = list(nodes)
        while waiting:
            node = waiting.pop()
            name = "::".join(filter(None, [node.domain, node.op_type]))
            version = versions[node.domain or "ai.onnx"]
            if len(node.attribute) == 0:
                found.append([place, name, version, "", "", None])
            for a in node.attribute:
                kind = AttributeProto.AttributeType.Name(a.type)
                if a.ref_attr_name:
                    value = "@" + a.ref_attr_name
                elif kind == "TENSOR":
                    array = numpy_helper.to_array(a.t)
                    value = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
                elif kind == "GRAPH":
                    value, waiting = a.g.name, waiting + list(a.g.node)
                elif kind == "STRING":
                    value = a.s.decode()
                elif kind == "STRINGS":
                    value = [s.decode() for s in a.strings]
                else:
                    value = {"FLOAT": a.f, "INT": a.i, "FLOATS": list(a.floats), "INTS": list(a.ints)}[kind]
                found.append((place, name, version, a.name, kind, value))
    return found
