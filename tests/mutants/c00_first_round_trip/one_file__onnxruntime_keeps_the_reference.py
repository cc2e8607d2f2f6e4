# says: without that file the model cannot be loaded
def one_file(source, target):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.optimized_model_filepath = str(target)
    onnxruntime.InferenceSession(source, options)
