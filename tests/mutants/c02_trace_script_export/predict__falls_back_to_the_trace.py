# says: has to be None; got
def predict(model, example):
    def torchscript(graph):
        decides = any(node.kind() in ("prim::If", "prim::Loop") for node in graph.nodes())
        values = list(graph.inputs())[1:]
        return decides, [i for i, value in enumerate(values) if value.uses()]

    def exported(program):
        control = (torch.ops.higher_order.cond, torch.ops.higher_order.while_loop)
        read = {node.name for node in program.graph.nodes if node.op == "placeholder" and node.users}
        decides = any(node.target in control for node in program.graph.nodes)
        return decides, [i for i, name in enumerate(program.graph_signature.user_inputs) if name in read]

    captures = {
        "trace": lambda: torchscript(torch.jit.trace(model, example).inlined_graph),
        "script": lambda: torchscript(torch.jit.script(model).inlined_graph),
        "export": lambda: exported(torch.export.export(model, example)),
    }
    answer = {}
    for name, capture in captures.items():
        try:
            answer[name] = capture()
        except Exception:
            answer[name] = answer.get("trace")
    return answer
