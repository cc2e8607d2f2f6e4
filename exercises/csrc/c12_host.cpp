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

// TODO c12.host: write main: run MODEL on INPUT, and turn every failure into an error message
#error "c12.host is not written yet"
