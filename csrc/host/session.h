// A model in ONNX Runtime, with custom kernels registered in either way.
#pragma once

#include <onnxruntime_cxx_api.h>

#include <map>
#include <string>
#include <vector>

#include "npy.h"
#include "options.h"

namespace host {

// One input or output of the model.
struct Port {
  std::string name;
  std::string dtype;  // NumPy's name, or what it is that is no tensor of numbers: "string", "sequence"
  bool is_tensor = false;
  std::vector<int64_t> shape;      // -1 for a size that the model leaves open. Empty for a scalar and for an unknown rank:
                                   // ONNX Runtime's C API reports both alike
  std::vector<std::string> names;  // of the open sizes; "" where there is none

  std::string text() const;        // float32[points, 3]
};

class Session {
 public:
  // Throws CallError where a file is missing, RunError where a library or the model is refused.
  explicit Session(const Options& options);

  const std::vector<Port>& inputs() const { return inputs_; }
  const std::vector<Port>& outputs() const { return outputs_; }

  // Takes the arrays, by the name of the input, for all runs that follow. Throws CallError where one is unknown, missing, or
  // of another dtype or shape than the model declares.
  void feed(std::map<std::string, Array> arrays);

  // All outputs in the model's order. Throws RunError.
  std::vector<Ort::Value> run();

 private:
  Ort::Env env_;  // must outlive the session
  Ort::Session session_{nullptr};
  std::vector<Port> inputs_, outputs_;
  std::map<std::string, Array> arrays_;  // the values point into them
  std::vector<Ort::Value> values_;
};

// Where each output goes: a file name made from the output's own, safe in any folder, and no two alike.
std::vector<std::string> file_names(const std::vector<Port>& outputs);

// The dtype of an output, or nullptr where .npy has none for it.
const DType* dtype_of(ONNXTensorElementDataType type);

// A name of the model as one line of text: line ends and other control characters become "?".
std::string printable(const std::string& name);

}  // namespace host
