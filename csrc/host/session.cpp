#include "session.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>

#include "errors.h"

// csrc/ort_ops/register.cpp, linked into this program.
extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options, const OrtApiBase* base);

namespace host {
namespace {

struct TypeName {
  ONNXTensorElementDataType type;
  const char* name;
};

constexpr TypeName kTypes[] = {
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, "float16"},   {ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, "float32"},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE, "float64"},    {ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL, "bool"},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, "int8"},         {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16, "int16"},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, "int32"},       {ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, "int64"},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, "uint8"},       {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16, "uint16"},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32, "uint32"},     {ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64, "uint64"},
    {ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16, "bfloat16"}, {ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, "string"},
};

std::string type_name(ONNXTensorElementDataType type) {
  for (const TypeName& known : kTypes) {
    if (known.type == type) return known.name;
  }
  return sentence("type ", static_cast<int>(type));
}

ONNXTensorElementDataType type_of(const DType& dtype) {
  for (const TypeName& known : kTypes) {
    if (std::string_view(known.name) == dtype.name) return known.type;
  }
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

Port port(const char* name, const Ort::TypeInfo& info) {
  Port port;
  port.name = name;
  switch (info.GetONNXType()) {
    case ONNX_TYPE_TENSOR:
      break;
    case ONNX_TYPE_SEQUENCE:
      return port.dtype = "sequence", port;
    case ONNX_TYPE_MAP:
      return port.dtype = "map", port;
    case ONNX_TYPE_OPTIONAL:
      return port.dtype = "optional", port;
    default:
      return port.dtype = "no tensor", port;
  }
  const Ort::ConstTensorTypeAndShapeInfo tensor = info.GetTensorTypeAndShapeInfo();
  port.dtype = type_name(tensor.GetElementType());
  port.is_tensor = true;
  port.shape = tensor.GetShape();
  std::vector<const char*> names(port.shape.size());
  if (!names.empty()) tensor.GetSymbolicDimensions(names.data(), names.size());
  for (const char* symbol : names) port.names.emplace_back(symbol ? symbol : "");
  return port;
}

std::string names(const std::vector<Port>& ports) {
  if (ports.empty()) return "none";
  std::string text;
  for (const Port& port : ports) text += (text.empty() ? "" : ", ") + printable(port.name);
  return text;
}

bool fits(const Port& port, const std::vector<int64_t>& shape) {
  if (port.shape.empty()) return true;  // a scalar or an unknown rank: ONNX Runtime decides
  return std::equal(port.shape.begin(), port.shape.end(), shape.begin(), shape.end(),
                    [](int64_t declared, int64_t given) { return declared < 0 || declared == given; });
}

void must_exist(const std::filesystem::path& file, const char* what) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) throw CallError(sentence("there is no ", what, " ", file.string(), "."));
  if (std::filesystem::is_directory(file, ignored)) {
    throw CallError(sentence(file.string(), " is a folder, not a ", what, "."));
  }
}

// What to do about a message of ONNX Runtime that many meet; empty for all others.
std::string advice(std::string_view message) {
  constexpr std::string_view known[][2] = {
      {"is not a registered function/op",
       "\nName the library that has the operator (--library FILE), or register the course's own kernels (--in-process)."},
      {"Domain already set in registry", "\nA domain comes from one library: leave out one --library, or --in-process."},
      {"undefined symbol: RegisterCustomOps", "\nA custom op library exports a function of that name. This is none."},
      {"libtorch", "\nIt is a library of operators for PyTorch. ONNX Runtime needs one of its own."},
  };
  for (const auto& [words, fix] : known) {
    if (message.find(words) != std::string_view::npos) return std::string(fix);
  }
  return "";
}

Ort::SessionOptions session_options(const Options& options) {
  Ort::SessionOptions made;
  if (options.threads) made.SetIntraOpNumThreads(options.threads);
  for (const std::filesystem::path& library : options.libraries) {
    must_exist(library, "library");
    try {
      // An absolute path: the system's loader looks for a bare name in its own folders, not in this one.
      made.RegisterCustomOpsLibrary(std::filesystem::absolute(library).c_str());
    } catch (const Ort::Exception& error) {
      throw RunError(sentence("the library ", library.string(), " cannot be registered: ", error.what(),
                              advice(error.what())));
    }
  }
  if (options.in_process) {
    const Ort::Status failed{RegisterCustomOps(made, OrtGetApiBase())};
    if (!failed.IsOK()) {
      throw RunError(sentence("the kernels of this program cannot be registered: ", failed.GetErrorMessage()));
    }
  }
  return made;
}

}  // namespace

std::string Port::text() const {
  if (!is_tensor || shape.empty()) return dtype;
  std::string text = dtype + "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i) text += ", ";
    text += shape[i] >= 0 ? std::to_string(shape[i]) : names[i].empty() ? "?" : printable(names[i]);
  }
  return text + "]";
}

// FATAL: what ONNX Runtime has to say about a failure comes as an exception, once.
Session::Session(const Options& options) : env_(ORT_LOGGING_LEVEL_FATAL, "oplab_host") {
  must_exist(options.model, "model");
  const Ort::SessionOptions made = session_options(options);
  try {
    session_ = Ort::Session(env_, options.model.c_str(), made);
  } catch (const Ort::Exception& error) {
    throw RunError(sentence("ONNX Runtime cannot load ", options.model.string(), ": ", error.what(), advice(error.what())));
  }
  Ort::AllocatorWithDefaultOptions allocator;
  for (size_t i = 0; i < session_.GetInputCount(); ++i) {
    inputs_.push_back(port(session_.GetInputNameAllocated(i, allocator).get(), session_.GetInputTypeInfo(i)));
  }
  for (size_t i = 0; i < session_.GetOutputCount(); ++i) {
    outputs_.push_back(port(session_.GetOutputNameAllocated(i, allocator).get(), session_.GetOutputTypeInfo(i)));
  }
}

void Session::feed(std::map<std::string, Array> arrays) {
  for (const auto& [name, array] : arrays) {
    const auto is_it = [&name = name](const Port& port) { return port.name == name; };
    if (std::none_of(inputs_.begin(), inputs_.end(), is_it)) {
      throw CallError(sentence("the model has no input ", printable(name), "; its inputs are: ", names(inputs_), "."));
    }
  }
  const Ort::MemoryInfo memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  arrays_ = std::move(arrays);
  values_.clear();
  for (const Port& port : inputs_) {
    const auto found = arrays_.find(port.name);
    if (found == arrays_.end()) {
      throw CallError(sentence("the input ", printable(port.name), " (", port.text(), ") is missing: --input ",
                               printable(port.name), "=FILE.npy"));
    }
    Array& array = found->second;
    if (port.dtype != array.dtype->name || !fits(port, array.shape)) {
      throw CallError(sentence("the input ", printable(port.name), " is ", port.text(), " in the model, and ",
                               array.dtype->name, shape_text(array.shape), " in the file."));
    }
    array.data.reserve(1);  // an empty array has an address too, or it would be refused
    try {
      values_.push_back(Ort::Value::CreateTensor(memory, array.data.data(), array.data.size(), array.shape.data(),
                                                 array.shape.size(), type_of(*array.dtype)));
    } catch (const Ort::Exception& error) {
      throw RunError(sentence("ONNX Runtime does not take the input ", printable(port.name), ": ", error.what()));
    }
  }
}

std::vector<Ort::Value> Session::run() {
  std::vector<const char*> input_names, output_names;
  for (const Port& port : inputs_) input_names.push_back(port.name.c_str());
  for (const Port& port : outputs_) output_names.push_back(port.name.c_str());
  try {
    return session_.Run(Ort::RunOptions{nullptr}, input_names.data(), values_.data(), values_.size(), output_names.data(),
                        output_names.size());
  } catch (const Ort::Exception& error) {
    throw RunError(sentence("the run failed: ", error.what()));
  }
}

std::vector<std::string> file_names(const std::vector<Port>& outputs) {
  constexpr size_t longest = 100;
  const auto lower = [](std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
  };
  std::vector<std::string> files;
  std::set<std::string> taken;  // in lower case: some file systems do not tell a.npy from A.npy
  for (const Port& port : outputs) {
    std::string name = port.name.substr(0, longest);
    for (char& c : name) {
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-' && c != '.') c = '_';
    }
    if (name.empty() || name[0] == '.' || name[0] == '-') name.insert(0, "_");
    std::string unique = name;
    for (int number = 2; !taken.insert(lower(unique)).second; ++number) unique = sentence(name, "_", number);
    files.push_back(unique + ".npy");
  }
  return files;
}

const DType* dtype_of(ONNXTensorElementDataType type) {
  const std::string name = type_name(type);
  for (const DType& dtype : dtypes()) {
    if (name == dtype.name) return &dtype;
  }
  return nullptr;
}

std::string printable(const std::string& name) {
  std::string text = name;
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

}  // namespace host
