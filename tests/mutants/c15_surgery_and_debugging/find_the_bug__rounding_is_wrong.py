# says: is right (error
def find_the_bug(model: onnx.ModelProto, compare: Callable[[list[str]], dict[str, float]]) -> str:
    nodes = model.graph.node
    last_read = {name: place for place, node in enumerate(nodes) for name in node.input}

    def wrong_after(count: int) -> bool:
        """Whether the fault is in the first ``count`` nodes: then a value that is still needed behind them is wrong."""
        alive = [node.output[0] for node in nodes[:count] if last_read[node.output[0]] >= count]
        return any(not error <= 0 for error in compare(alive).values())

    right, wrong = 0, len(nodes)
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if wrong_after(middle):
            wrong = middle
        else:
            right = middle
    return nodes[right].name
