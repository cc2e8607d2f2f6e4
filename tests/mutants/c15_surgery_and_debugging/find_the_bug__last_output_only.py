# says: The first wrong node is
def find_the_bug(model, compare):
    nodes, right, wrong = model.graph.node, 0, len(model.graph.node)
    while wrong - right > 1:
        middle = (right + wrong) // 2
        if not compare([nodes[middle - 1].output[0]])[nodes[middle - 1].output[0]] <= 1e-3:
            wrong = middle
        else:
            right = middle
    return nodes[right].name
