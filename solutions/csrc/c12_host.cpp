// c12.host: a program that runs an ONNX model from C++
//
//   c12_host MODEL LIBRARY INPUT OUTPUT
//
// MODEL is an ONNX file whose nodes need the kernels of the custom-op
// library LIBRARY. INPUT holds the values of the model's only input,
// and OUTPUT receives those of its first output. Both are float32 in
// this machine's byte order, and nothing else. The program returns 0,
// and OUTPUT holds these values only, also where there was a longer
// one.
//
// - Names and shapes differ from model to model: ask the session.
// - At most one dimension of the input is dynamic: ONNX Runtime reports
//   it as -1. It may be any of them, and the number of values in INPUT
//   decides how large it is.
// - The output may have another shape than the input. If it is not
//   float32, that is a failure.
//
// A failure prints a sentence on stderr that names the cause, returns
// another number than 0, and creates no OUTPUT; one that existed is
// unchanged:
// - a file or library that is missing or is not what it should be: its
//   name, or what is missing in it;
// - values that do not fill the input's shape exactly: how many they
//   are;
// - an input with two dynamic dimensions, or an OUTPUT that cannot be
//   written;
// - whatever ONNX Runtime refuses: what it says.
// No exception may end the program: std::terminate calls abort, which
// says little.
//
// Not allowed (contains the answer): csrc/host/*.
#include <onnxruntime_cxx_api.h>

#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace {

// The floats of a file. Throws std::runtime_error, with the file's
// name.
std::vector<float> read_floats(const std::string& file) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  if (!in || std::filesystem::is_directory(file)) {
    throw std::runtime_error(file + " cannot be read");
  }
  const auto bytes = static_cast<std::size_t>(in.tellg());
  if (bytes % sizeof(float) != 0) {
    throw std::runtime_error(file + " has " + std::to_string(bytes) +
                             " bytes, which are not whole floats");
  }
  std::vector<float> values(bytes / sizeof(float));
  in.seekg(0);
  in.read(reinterpret_cast<char*>(values.data()), static_cast<std::streamsize>(bytes));
  if (!in) throw std::runtime_error(file + " cannot be read");
  return values;
}

}  // namespace

// The steps: environment, options with LIBRARY, session; names and
// shape; tensor; Run; OUTPUT. Which of these objects has only the
// address of another one? Write functions as you like.

// ANSWER c12.host: write main: run MODEL on INPUT, and turn every failure into an error message
namespace {

// Writes all of a file, or leaves what was there. Throws std::runtime_error, with its name.
void write_floats(const std::string& file, const float* values, std::size_t count) {
  namespace fs = std::filesystem;
  if (fs::exists(file) && !fs::is_regular_file(file)) {
    throw std::runtime_error(file + " is not a regular file");  // a folder, or a device
  }
  const std::string part = file + ".part";
  std::ofstream out(part, std::ios::binary);
  out.write(reinterpret_cast<const char*>(values),
            static_cast<std::streamsize>(count * sizeof(float)));
  out.close();  // a full disk may be noticed only now
  std::error_code failed;
  if (out) fs::rename(part, file, failed);
  if (out && !failed) return;
  fs::remove(part, failed);
  throw std::runtime_error(file + " cannot be written");
}

// The input's shape, with the dynamic dimension that `count` values need.
std::vector<int64_t> filled(std::vector<int64_t> shape, std::size_t count) {
  std::size_t known = 1, dynamic = 0;
  for (int64_t size : shape) {
    if (size < 0) ++dynamic;
    else known *= static_cast<std::size_t>(size);
  }
  if (dynamic > 1) throw std::runtime_error("two dimensions of the input are dynamic");
  const bool fits = dynamic == 1 ? known > 0 && count % known == 0 : count == known;
  if (!fits) {
    throw std::runtime_error(std::to_string(count) + " values do not fill the input: it takes " +
                             (dynamic ? "a multiple of " : "") + std::to_string(known));
  }
  for (int64_t& size : shape) {
    if (size < 0) size = static_cast<int64_t>(count / known);
  }
  return shape;
}

void run(const char* model, const char* library, const char* input, const char* output) {
  std::vector<float> values = read_floats(input);

  const Ort::Env env(ORT_LOGGING_LEVEL_FATAL, "c12_host");  // exceptions say what the log would
  Ort::SessionOptions options;
  options.RegisterCustomOpsLibrary(library);
  Ort::Session session(env, model, options);

  // Objects, not temporaries: each name is freed with its object.
  const Ort::AllocatorWithDefaultOptions allocator;
  const Ort::AllocatedStringPtr input_name = session.GetInputNameAllocated(0, allocator);
  const Ort::AllocatedStringPtr output_name = session.GetOutputNameAllocated(0, allocator);
  const char* const input_names[] = {input_name.get()};
  const char* const output_names[] = {output_name.get()};

  const Ort::TypeInfo type = session.GetInputTypeInfo(0);
  const std::vector<int64_t> shape =
      filled(type.GetTensorTypeAndShapeInfo().GetShape(), values.size());
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  const Ort::Value x = Ort::Value::CreateTensor<float>(memory, values.data(), values.size(),
                                                       shape.data(), shape.size());
  const std::vector<Ort::Value> results =
      session.Run(Ort::RunOptions{nullptr}, input_names, &x, 1, output_names, 1);

  const Ort::TensorTypeAndShapeInfo made = results[0].GetTensorTypeAndShapeInfo();
  if (made.GetElementType() != ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT) {
    throw std::runtime_error(std::string("the output ") + output_names[0] + " is not float32");
  }
  write_floats(output, results[0].GetTensorData<float>(), made.GetElementCount());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "c12_host takes four files: MODEL LIBRARY INPUT OUTPUT\n";
    return 1;
  }
  try {
    run(argv[1], argv[2], argv[3], argv[4]);
    return 0;
  } catch (const std::exception& error) {  // Ort::Exception is one
    std::cerr << "c12_host: " << error.what() << '\n';
  } catch (...) {
    std::cerr << "c12_host: an unknown exception\n";
  }
  return 1;
}
// END
