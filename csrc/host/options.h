// The command line of oplab_host.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace host {

struct Options {
  struct Input {
    std::string name;
    std::filesystem::path file;
  };

  std::filesystem::path model;
  std::vector<std::filesystem::path> libraries;  // custom op libraries, loaded at run time
  bool in_process = false;                       // register the kernels that are linked into this program
  std::vector<Input> inputs;
  std::optional<std::filesystem::path> outputs;
  bool list = false;
  bool help = false;
  int threads = 0;  // 0: ONNX Runtime chooses
  int repeat = 1;
  int warmup = 0;
};

// Throws CallError.
Options parse_options(int argc, char** argv);

extern const char* const kHelp;

}  // namespace host
