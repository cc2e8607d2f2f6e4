// Arrays in NumPy's .npy format, versions 1 to 3, as NumPy's page "numpy.lib.format" defines it. Independent of ONNX Runtime.
//
// Only arrays that a tensor of ONNX Runtime can hold: numbers and bools, little endian, in C order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace host {

struct DType {
  const char* name;   // float32
  const char* descr;  // <f4, as in the file
  size_t size;        // bytes of one element
};

// The dtypes that this program reads and writes.
const std::vector<DType>& dtypes();

struct Array {
  const DType* dtype = nullptr;
  std::vector<int64_t> shape;
  std::vector<char> data;  // shape's product times dtype->size bytes
};

// Throws CallError if the file is not such an array. It allocates at most about as much memory as the file has bytes.
Array read_npy(const std::filesystem::path& file);

// Writes the file atomically, by a rename: an interrupted run leaves no partial file. Throws RunError.
void write_npy(const std::filesystem::path& file, const DType& dtype, const std::vector<int64_t>& shape,
               const void* data);

}  // namespace host
