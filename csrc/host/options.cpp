#include "options.h"

#include <charconv>

#include "errors.h"

namespace host {

const char* const kHelp =
    R"(usage: oplab_host MODEL.onnx [options]

Runs an ONNX model with ONNX Runtime's C++ API.

  --library FILE      register a custom op library; may be given more than once
  --in-process        register the course's kernels (domain oplab), which are part of this program
  --input NAME=FILE   an input of the model, as a .npy file
  --outputs DIR       write each output as DIR/NAME.npy
  --list              print the model's inputs and outputs, and run nothing
  --threads N         threads inside one operator; ONNX Runtime chooses by default
  --repeat N          run N times and print the median and the quartiles
  --warmup N          run N times first, without measuring
  --help              this text

Exit codes: 0 success, 1 the model or its run failed, 2 the command line is wrong.
)";

namespace {

constexpr int kMost = 1'000'000;

int number(const std::string& option, const std::string& text, int least) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > kMost) {
    throw CallError(make_string(option, " takes a whole number from ", least, " to ", kMost, ", not \"", text, "\"."));
  }
  return value;
}

Options::Input input(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos || equals + 1 == text.size()) {
    throw CallError(make_string("--input takes NAME=FILE, for example --input x=x.npy, not \"", text, "\"."));
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  bool only_files = false;  // after --
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (only_files || word.size() < 2 || word[0] != '-') {
      if (!options.model.empty()) {
        throw CallError(make_string("there is more than one model: ", options.model.string(), " and ", word, "."));
      }
      if (word.empty()) throw CallError("the model's name is empty.");
      options.model = word;
      continue;
    }
    if (word == "--") {
      only_files = true;
      continue;
    }
    std::optional<std::string> attached;  // --threads=2
    if (const size_t equals = word.find('='); equals != std::string::npos) {
      attached = word.substr(equals + 1);
      word.resize(equals);
    }
    const auto value = [&]() -> std::string {
      if (attached) return *attached;
      if (i + 1 == argc) throw CallError(make_string(word, " needs a value."));
      return argv[++i];
    };
    const auto flag = [&](bool& set) {
      if (attached) throw CallError(make_string(word, " takes no value."));
      set = true;
    };
    if (word == "--library") {
      options.libraries.emplace_back(value());
    } else if (word == "--in-process") {
      flag(options.in_process);
    } else if (word == "--input") {
      options.inputs.push_back(input(value()));
    } else if (word == "--outputs") {
      options.outputs = value();
      if (options.outputs->empty()) throw CallError("--outputs needs the name of a folder.");
    } else if (word == "--list") {
      flag(options.list);
    } else if (word == "--threads") {
      options.threads = number(word, value(), 1);
    } else if (word == "--repeat") {
      options.repeat = number(word, value(), 1);
    } else if (word == "--warmup") {
      options.warmup = number(word, value(), 0);
    } else if (word == "--help" || word == "-h") {
      flag(options.help);
    } else {
      throw CallError(make_string("there is no option ", word, "; oplab_host --help lists them."));
    }
  }
  if (options.model.empty() && !options.help) throw CallError("the model is missing; see oplab_host --help.");
  return options;
}

}  // namespace host
