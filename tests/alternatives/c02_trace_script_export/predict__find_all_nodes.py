"""findAllNodes walks into blocks; every graph of the exported program is searched."""


def predict(model, example):
    answer = {"trace": None, "script": None, "export": None}
    for name in ("trace", "script"):
        try:
            made = torch.jit.trace(model, example, check_trace=False) if name == "trace" else torch.jit.script(model)
        except Exception:
            continue
        graph = made.inlined_graph
        found = graph.findAllNodes("prim::If") + graph.findAllNodes("prim::Loop")
        places = range(len(example))
        values = list(graph.inputs())
        answer[name] = (len(found) > 0, [i for i in places if len(values[i + 1].uses()) > 0])
    try:
        program = torch.export.export(model, example)
    except Exception:
        return answer
    targets = [str(node.target) for graph in program.graph_module.modules() for node in graph.graph.nodes]
    inputs = [node for node in program.graph.nodes if node.name in program.graph_signature.user_inputs]
    decides = "cond" in targets or "while_loop" in targets
    answer["export"] = (decides, [i for i, node in enumerate(inputs) if node.users])
    return answer
