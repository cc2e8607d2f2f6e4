# says: compare takes at most 8 names
# status: error
def find_the_bug(model, compare):
    names = [node.output[0] for node in model.graph.node]
    errors = compare(names)
    return next(node.name for node in model.graph.node if not errors[node.output[0]] <= 1e-3)
