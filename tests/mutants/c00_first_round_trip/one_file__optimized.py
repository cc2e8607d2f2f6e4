# says: the source has the operators
def one_file(source, target):
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(target)
    onnxruntime.InferenceSession(source, options)
