# says: 12 calls are allowed
# status: error
def find_the_bug(model, compare):
    for node in model.graph.node:
        name = node.output[0]
        if not compare([name])[name] <= 1e-3:
            return node.name
