# says: compare takes at most 8 names
# status: error
def find_the_bug(model, compare):
    errors = compare([node.output[0] for node in model.graph.node])
    worst = max(errors, key=errors.get)
    return next(node.name for node in model.graph.node if node.output[0] == worst)
