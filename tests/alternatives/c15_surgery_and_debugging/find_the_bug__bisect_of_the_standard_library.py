def find_the_bug(model, compare):
    import bisect

    nodes = list(model.graph.node)

    def spoilt(count):
        later = {name for node in nodes[count:] for name in node.input} | {value.name for value in model.graph.output}
        alive = [node.output[0] for node in nodes[:count] if node.output[0] in later]
        return bool(alive) and max((2.0 if error != error else error) for error in compare(alive).values()) > 1e-3

    return nodes[bisect.bisect_left(range(1, len(nodes)), True, key=spoilt)].name
