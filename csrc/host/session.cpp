#include "session.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>

#include "errors.h"

// Defined in csrc/ort_ops/register.cpp, which is linked into this program.
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
  return make_string("type ", static_cast<int>(type));
}

ONNXTensorElementDataType type_of(const DType& dtype) {
  for (const TypeName& known : kTypes) {
    if (std::string_view(known.name) == dtype.name) return known.type;
  }
  return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
}

ValueInfo value_info(const char* name, const Ort::TypeInfo& type) {
  ValueInfo info;
  info.name = name;
  switch (type.GetONNXType()) {
    case ONNX_TYPE_TENSOR:
      break;
    case ONNX_TYPE_SEQUENCE:
      return info.dtype = "sequence", info;
    case ONNX_TYPE_MAP:
      return info.dtype = "map", info;
    case ONNX_TYPE_OPTIONAL:
      return info.dtype = "optional", info;
    default:
      return info.dtype = "not a tensor", info;
  }
  const Ort::ConstTensorTypeAndShapeInfo tensor = type.GetTensorTypeAndShapeInfo();
  info.dtype = type_name(tensor.GetElementType());
  info.is_tensor = true;
  info.shape = tensor.GetShape();
  std::vector<const char*> names(info.shape.size());
  if (!names.empty()) tensor.GetSymbolicDimensions(names.data(), names.size());
  for (const char* symbol : names) info.names.emplace_back(symbol ? symbol : "");
  return info;
}

std::string names(const std::vector<ValueInfo>& infos) {
  if (infos.empty()) return "none";
  std::string text;
  for (const ValueInfo& info : infos) text += (text.empty() ? "" : ", ") + printable(info.name);
  return text;
}

bool fits(const ValueInfo& info, const std::vector<int64_t>& shape) {
  if (info.shape.empty()) return true;  // a scalar or an unknown rank: ONNX Runtime decides
  return std::equal(info.shape.begin(), info.shape.end(), shape.begin(), shape.end(),
                    [](int64_t declared, int64_t given) { return declared < 0 || declared == given; });
}

void must_exist(const std::filesystem::path& file, const char* what) {
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) throw CallError(make_string("there is no ", what, " ", file.string(), "."));
  if (std::filesystem::is_directory(file, ignored)) {
    throw CallError(make_string(file.string(), " is a folder, not a ", what, "."));
  }
}

// What to do about a common error message of ONNX Runtime; empty for all others.
std::string advice(std::string_view message) {
  constexpr std::string_view known[][2] = {
      {"is not a registered function/op",
       "\nName the library that has the operator (--library FILE), or register the course's own kernels (--in-process)."},
      {"Domain already set in registry", "\nONNX Runtime takes a domain from one library: omit one --library, or --in-process."},
      {"undefined symbol: RegisterCustomOps", "\nA custom op library exports a function of that name: this is not one."},
      {"libtorch", "\nIt is a library of operators for PyTorch. ONNX Runtime needs a custom op library."},
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
      // An absolute path: the system's loader does not look for a bare name in the current folder.
      made.RegisterCustomOpsLibrary(std::filesystem::absolute(library).c_str());
    } catch (const Ort::Exception& error) {
      throw RunError(make_string("the library ", library.string(), " cannot be registered: ", error.what(),
                                 advice(error.what())));
    }
  }
  if (options.in_process) {
    const Ort::Status failed{RegisterCustomOps(made, OrtGetApiBase())};
    if (!failed.IsOK()) {
      throw RunError(make_string("the kernels of this program cannot be registered: ", failed.GetErrorMessage()));
    }
  }
  return made;
}

}  // namespace

std::string ValueInfo::text() const {
  if (!is_tensor || shape.empty()) return dtype;
  std::vector<std::string> dims;
  for (size_t i = 0; i < shape.size(); ++i) {
    dims.push_back(shape[i] >= 0 ? std::to_string(shape[i]) : names[i].empty() ? "?" : printable(names[i]));
  }
  return dtype + shape_text(dims);
}

// FATAL: ONNX Runtime's message about a failure is in the exception, and is not logged too.
Session::Session(const Options& options) : env_(ORT_LOGGING_LEVEL_FATAL, "oplab_host") {
  must_exist(options.model, "model");
  const Ort::SessionOptions made = session_options(options);
  try {
    session_ = Ort::Session(env_, options.model.c_str(), made);
  } catch (const Ort::Exception& error) {
    throw RunError(make_string("ONNX Runtime cannot load ", options.model.string(), ": ", error.what(), advice(error.what())));
  }
  Ort::AllocatorWithDefaultOptions allocator;
  for (size_t i = 0; i < session_.GetInputCount(); ++i) {
    inputs_.push_back(value_info(session_.GetInputNameAllocated(i, allocator).get(), session_.GetInputTypeInfo(i)));
  }
  for (size_t i = 0; i < session_.GetOutputCount(); ++i) {
    outputs_.push_back(value_info(session_.GetOutputNameAllocated(i, allocator).get(), session_.GetOutputTypeInfo(i)));
  }
}

void Session::feed(std::map<std::string, Array> arrays) {
  for (const auto& [name, array] : arrays) {
    const auto is_it = [&name = name](const ValueInfo& info) { return info.name == name; };
    if (std::none_of(inputs_.begin(), inputs_.end(), is_it)) {
      throw CallError(make_string("the model has no input ", printable(name), "; its inputs are: ", names(inputs_), "."));
    }
  }
  const Ort::MemoryInfo memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  arrays_ = std::move(arrays);
  values_.clear();
  for (const ValueInfo& info : inputs_) {
    const auto found = arrays_.find(info.name);
    if (found == arrays_.end()) {
      throw CallError(make_string("the input ", printable(info.name), " (", info.text(), ") is missing: --input ",
                                  printable(info.name), "=FILE.npy"));
    }
    Array& array = found->second;
    if (info.dtype != array.dtype->name || !fits(info, array.shape)) {
      throw CallError(make_string("the input ", printable(info.name), " is ", info.text(), " in the model, and ",
                                  array.dtype->name, shape_text(array.shape), " in the file."));
    }
    array.data.reserve(1);  // ONNX Runtime rejects a null pointer, also for an empty array
    try {
      values_.push_back(Ort::Value::CreateTensor(memory, array.data.data(), array.data.size(), array.shape.data(),
                                                 array.shape.size(), type_of(*array.dtype)));
    } catch (const Ort::Exception& error) {
      throw RunError(make_string("ONNX Runtime rejects the input ", printable(info.name), ": ", error.what()));
    }
  }
}

std::vector<Ort::Value> Session::run() {
  std::vector<const char*> input_names, output_names;
  for (const ValueInfo& info : inputs_) input_names.push_back(info.name.c_str());
  for (const ValueInfo& info : outputs_) output_names.push_back(info.name.c_str());
  try {
    return session_.Run(Ort::RunOptions{nullptr}, input_names.data(), values_.data(), values_.size(), output_names.data(),
                        output_names.size());
  } catch (const Ort::Exception& error) {
    throw RunError(make_string("the run failed: ", error.what()));
  }
}

std::vector<std::string> file_names(const std::vector<ValueInfo>& outputs) {
  constexpr size_t longest = 100;
  const auto lower = [](std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return text;
  };
  std::vector<std::string> files;
  std::set<std::string> taken;  // in lower case: some file systems do not distinguish a.npy from A.npy
  for (const ValueInfo& info : outputs) {
    std::string name = info.name.substr(0, longest);
    for (char& c : name) {
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-' && c != '.') c = '_';
    }
    if (name.empty() || name[0] == '.' || name[0] == '-') name.insert(0, "_");
    std::string unique = name;
    for (int number = 2; !taken.insert(lower(unique)).second; ++number) unique = make_string(name, "_", number);
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
