// Arrays in NumPy's .npy format, versions 1 to 3 of it; NumPy's page "numpy.lib.format" defines it.
//
// Only what a tensor of ONNX Runtime can take: numbers and bools, little endian, the last dimension first in memory.
// Nothing here knows ONNX Runtime.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace host {

struct DType {
  const char* name;   // float32
  const char* descr;  // <f4, as the file says it
  size_t size;        // bytes of one element
};

// All that this program reads and writes.
const std::vector<DType>& dtypes();

struct Array {
  const DType* dtype = nullptr;
  std::vector<int64_t> shape;
  std::vector<char> data;  // shape's product times dtype->size bytes
};

// Throws CallError with a sentence for whatever is not such an array. It never allocates more than the file has to fill.
Array read_npy(const std::filesystem::path& file);

// Puts the file in its place with one rename: an interrupted run leaves no half of an array. Throws RunError.
void write_npy(const std::filesystem::path& file, const DType& dtype, const std::vector<int64_t>& shape,
               const void* data);

// "[2, 3]"
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace host
