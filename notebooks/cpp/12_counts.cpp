// Runs a model on 1, 2, 3, ... and prints what it takes and gives: counts MODEL LIBRARY SIZE
#include <onnxruntime_cxx_api.h>

#include <cstdint>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int64_t size = std::stoll(argv[3]);  // of each dynamic dimension

  Ort::Env env(ORT_LOGGING_LEVEL_FATAL, "counts");  // first, and it dies last
  Ort::SessionOptions options;
  options.RegisterCustomOpsLibrary(argv[2]);  // before the session is made
  Ort::Session session(env, argv[1], options);

  Ort::AllocatorWithDefaultOptions allocator;
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  std::vector<std::vector<float>> values;  // the tensors have addresses in here
  std::vector<Ort::AllocatedStringPtr> names;
  std::vector<const char*> input_names;
  std::vector<Ort::Value> inputs;
  for (size_t i = 0; i < session.GetInputCount(); ++i) {
    names.push_back(session.GetInputNameAllocated(i, allocator));  // kept: it owns the text
    input_names.push_back(names.back().get());
    const Ort::TypeInfo type = session.GetInputTypeInfo(i);  // kept: `tensor` is a part of it
    const auto tensor = type.GetTensorTypeAndShapeInfo();
    std::vector<int64_t> shape = tensor.GetShape();
    std::cout << "input " << input_names[i] << " [";
    int64_t count = 1;
    for (int64_t& dim : shape) {
      std::cout << ' ' << dim;
      if (dim == -1) dim = size;
      count *= dim;
    }
    std::cout << " ]\n";
    std::vector<float>& made = values.emplace_back(static_cast<size_t>(count));
    std::iota(made.begin(), made.end(), 1.0f);
    inputs.push_back(Ort::Value::CreateTensor<float>(memory, made.data(), made.size(),
                                                     shape.data(), shape.size()));
  }

  const Ort::AllocatedStringPtr output_name = session.GetOutputNameAllocated(0, allocator);
  const char* const output_names[] = {output_name.get()};
  const std::vector<Ort::Value> outputs =
      session.Run(Ort::RunOptions{nullptr}, input_names.data(), inputs.data(), inputs.size(),
                  output_names, 1);
  std::cout << "output " << output_names[0] << ":";
  const size_t count = outputs[0].GetTensorTypeAndShapeInfo().GetElementCount();
  const float* y = outputs[0].GetTensorData<float>();  // valid as long as outputs[0]
  for (size_t i = 0; i < count; ++i) std::cout << ' ' << y[i];
  std::cout << '\n';
}
