# says: stands before the node that makes
def repair(model):
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    fixed.ir_version = min(fixed.ir_version, 13)
    for entry in fixed.opset_import:
        if entry.domain == '':
            entry.version = min(entry.version, 26)
    imported = {entry.domain for entry in fixed.opset_import}
    for domain in domains(list(fixed.graph.node)) - imported:
        fixed.opset_import.append(helper.make_opsetid(domain, 1 if domain else 20))
    known = {v.name for v in [*fixed.graph.input, *fixed.graph.initializer]}
    for node in fixed.graph.node:
        if not set(filter(None, node.input)) <= known:
            nodes = list(fixed.graph.node)[::-1]
            del fixed.graph.node[:]
            fixed.graph.node.extend(nodes)
            break
        known |= set(node.output)
    return fixed
