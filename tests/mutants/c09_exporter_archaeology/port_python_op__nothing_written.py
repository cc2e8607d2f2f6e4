# says: was not written
def port_python_op(model, x, path):
    return {"MyClip": 1, "MyRelu": 1}
