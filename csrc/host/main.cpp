// oplab_host: runs an ONNX model from C++, with custom kernels that are loaded from a library or are part of this program.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>

#include "errors.h"
#include "npy.h"
#include "options.h"
#include "session.h"

namespace {

using namespace host;

void print(const char* title, const std::vector<ValueInfo>& infos) {
  size_t width = 0;
  for (const ValueInfo& info : infos) width = std::max(width, printable(info.name).size());
  std::cout << title << '\n';
  for (const ValueInfo& info : infos) {
    std::string name = printable(info.name);
    name.resize(width, ' ');
    std::cout << "  " << name << "  " << info.text() << '\n';
  }
}

std::map<std::string, Array> read_inputs(const std::vector<Options::Input>& inputs) {
  std::map<std::string, Array> arrays;
  for (const Options::Input& input : inputs) {
    if (!arrays.emplace(input.name, read_npy(input.file)).second) {
      throw CallError(make_string("the input ", printable(input.name), " is given twice."));
    }
  }
  return arrays;
}

// Before the run, so that a wrong folder does not cost a run.
void make_folder(const std::filesystem::path& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (!std::filesystem::is_directory(folder)) {
    throw CallError(make_string("the folder ", folder.string(), " cannot be created: ",
                                failed ? failed.message() : "there is a file with that name", "."));
  }
  const std::filesystem::path probe = folder / ".oplab_host.part";
  std::FILE* opened = std::fopen(probe.c_str(), "wb");
  if (!opened) throw CallError(make_string("the folder ", folder.string(), " cannot be written to."));
  std::fclose(opened);
  std::filesystem::remove(probe, failed);
}

// Linear between the two nearest, as numpy.percentile does.
double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const size_t below = static_cast<size_t>(at), above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

std::vector<Ort::Value> measured(Session& session, const Options& options) {
  for (int i = 0; i < options.warmup; ++i) session.run();
  std::vector<Ort::Value> values;
  std::vector<double> milliseconds;
  for (int i = 0; i < options.repeat; ++i) {
    values.clear();  // so that freeing the previous run's outputs is not measured
    const auto start = std::chrono::steady_clock::now();
    values = session.run();
    milliseconds.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  if (options.repeat > 1) {
    std::sort(milliseconds.begin(), milliseconds.end());
    std::printf("%d runs: median %.3f ms, quartiles %.3f and %.3f ms\n", options.repeat, quantile(milliseconds, 0.5),
                quantile(milliseconds, 0.25), quantile(milliseconds, 0.75));
    std::fflush(stdout);
  }
  return values;
}

void report(const ValueInfo& info, const Ort::Value& value, const std::filesystem::path* file) {
  const std::string name = printable(info.name);
  if (!value.HasValue() || !value.IsTensor()) {
    if (file) throw RunError(make_string("the output ", name, " is not a tensor, so it cannot be written as .npy."));
    std::cout << name << "  " << info.dtype << '\n';
    return;
  }
  const Ort::TensorTypeAndShapeInfo tensor = value.GetTensorTypeAndShapeInfo();
  const DType* dtype = dtype_of(tensor.GetElementType());
  if (file && !dtype) throw RunError(make_string("the output ", name, " is ", info.dtype, ", which .npy does not support."));
  std::cout << name << "  " << (dtype ? dtype->name : info.dtype) << shape_text(tensor.GetShape());
  if (file) {
    write_npy(*file, *dtype, tensor.GetShape(), value.GetTensorRawData());
    std::cout << " -> " << file->string();
  }
  std::cout << '\n';
}

int run(const Options& options) {
  const OrtApi* api = OrtGetApiBase()->GetApi(ORT_API_VERSION);
  if (!api) {
    throw RunError(make_string("this program was compiled with headers of version ", ORT_API_VERSION,
                               " of ONNX Runtime's API, and the library is of version ", OrtGetApiBase()->GetVersionString(),
                               ". Recompile it."));
  }
  Ort::InitApi(api);
  std::map<std::string, Array> arrays = read_inputs(options.inputs);
  if (options.outputs && !options.list) make_folder(*options.outputs);
  Session session(options);
  if (options.list) {
    print("inputs", session.inputs());
    print("outputs", session.outputs());
    return 0;
  }
  session.feed(std::move(arrays));
  const std::vector<Ort::Value> values = measured(session, options);
  const std::vector<std::string> files = file_names(session.outputs());
  for (size_t i = 0; i < values.size(); ++i) {
    const std::filesystem::path file = options.outputs.value_or("") / files[i];
    report(session.outputs()[i], values[i], options.outputs ? &file : nullptr);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const Options options = parse_options(argc, argv);
    if (options.help) {
      std::cout << kHelp;
      return 0;
    }
    return run(options);
  } catch (const CallError& error) {
    std::cerr << "oplab_host: " << error.what() << std::endl;
    return 2;
  } catch (const std::bad_alloc&) {
    std::cerr << "oplab_host: there is not enough memory." << std::endl;
  } catch (const std::exception& error) {
    std::cerr << "oplab_host: " << error.what() << std::endl;
  }
  return 1;
}
