// A model in ONNX Runtime, with custom kernels from a library or from this program.
#pragma once

#include <onnxruntime_cxx_api.h>

#include <map>
#include <string>
#include <vector>

#include "npy.h"
#include "options.h"

namespace host {

// One input or output of the model.
struct ValueInfo {
  std::string name;
  std::string dtype;  // NumPy's name; for a value without one, its kind: "string", "sequence"
  bool is_tensor = false;
  std::vector<int64_t> shape;      // -1 for a dynamic dimension. Empty for a scalar and for an unknown rank: ONNX Runtime's C
                                   // API reports both the same way
  std::vector<std::string> names;  // of the symbolic dimensions; "" for all others

  std::string text() const;        // float32[points, 3]
};

class Session {
 public:
  // Throws CallError if a file is missing, RunError if ONNX Runtime rejects a library or the model.
  explicit Session(const Options& options);

  const std::vector<ValueInfo>& inputs() const { return inputs_; }
  const std::vector<ValueInfo>& outputs() const { return outputs_; }

  // Sets the inputs, by name, of all following runs. Throws CallError if one is unknown or missing, or has another dtype or
  // shape than the model declares.
  void feed(std::map<std::string, Array> arrays);

  // All outputs in the model's order. Throws RunError.
  std::vector<Ort::Value> run();

 private:
  Ort::Env env_;  // must outlive the session
  Ort::Session session_{nullptr};
  std::vector<ValueInfo> inputs_, outputs_;
  std::map<std::string, Array> arrays_;  // own the memory of values_
  std::vector<Ort::Value> values_;
};

// A file name for each output, derived from the output's name: safe in any folder, and unique.
std::vector<std::string> file_names(const std::vector<ValueInfo>& outputs);

// The dtype of an output, or nullptr if .npy has none for it.
const DType* dtype_of(ONNXTensorElementDataType type);

// A name of the model as one line of text: newlines and other control characters become "?".
std::string printable(const std::string& name);

}  // namespace host
