// What the kernels of this library share: Op, which creates an operator from a struct, add_for, which registers it for several
// element types, error statuses, attributes, shape inference, and loops on ONNX Runtime's threads.
#pragma once

#include <onnxruntime_lite_custom_op.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <iomanip>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../common/text.h"

namespace oplab {

using Ort::Custom::Tensor;

// A status for Compute to return. The message starts with the operator's name.
inline Ort::Status invalid(const std::string& message) { return Ort::Status(message.c_str(), ORT_INVALID_ARGUMENT); }

// The same for a constructor and for functions that Compute calls: it throws, and Op returns the status, with the operator's name
// before the message.
template <typename... Args>
[[noreturn]] void refuse(const Args&... args) {
  throw Ort::Exception(make_string(args...), ORT_INVALID_ARGUMENT);
}
inline constexpr auto kRefuse = [](const auto&... args) { refuse(args...); };  // for the functions of ../common

// The inputs of a variadic parameter of Compute: one or more, all of one type.
template <typename T>
using Tensors = std::vector<Tensor<T>>;

namespace detail {

inline bool has_attribute(const OrtKernelInfo* info, const char* name) {
  const OrtApi& api = Ort::GetApi();
  float f;
  int64_t i;
  size_t size = 0;
  return Ort::Status{api.KernelInfoGetAttribute_float(info, name, &f)}.IsOK() ||
         Ort::Status{api.KernelInfoGetAttribute_int64(info, name, &i)}.IsOK() ||
         Ort::Status{api.KernelInfoGetAttribute_string(info, name, nullptr, &size)}.IsOK() ||
         Ort::Status{api.KernelInfoGetAttributeArray_float(info, name, nullptr, &size)}.IsOK() ||
         Ort::Status{api.KernelInfoGetAttributeArray_int64(info, name, nullptr, &size)}.IsOK();
}

// ONNX Runtime reports a missing attribute and one of the wrong type with the same code, and a default would hide the second.
template <typename T, typename Read>
T attribute(const OrtKernelInfo* info, const char* name, const char* type, std::optional<T> default_value, Read read) {
  T value;
  Ort::Status failed{read(info, name, &value)};
  if (failed.IsOK()) return value;
  if (has_attribute(info, name)) {
    refuse("the attribute ", name, " must be ", type, ": ", failed.GetErrorMessage(), ".");
  }
  if (!default_value) refuse("the attribute ", name, " is missing.");
  return *default_value;
}

template <typename T, typename Get>
std::vector<T> list_attribute(const OrtKernelInfo* info, const char* name, const char* elements,
                              const std::optional<std::vector<T>>& default_value, Get get) {
  const auto read = [&](const OrtKernelInfo* info, const char* name, std::vector<T>* value) {
    size_t size = 0;
    if (OrtStatus* failed = get(info, name, nullptr, &size)) return failed;
    if (size == 0) refuse("the attribute ", name, " must be a list of ", elements, " with at least one value.");
    value->resize(size);
    return get(info, name, value->data(), &size);
  };
  return attribute<std::vector<T>>(info, name, elements, default_value, read);
}

}  // namespace detail

// An attribute of the node, or `default_value` where the model does not set it. Throws if the attribute has another type, or is
// missing and has no default. For a kernel's constructor: the session is then not created.
inline float float_attribute(const OrtKernelInfo* info, const char* name, std::optional<float> default_value = {}) {
  return detail::attribute<float>(info, name, "a float", default_value, Ort::GetApi().KernelInfoGetAttribute_float);
}
inline int64_t int_attribute(const OrtKernelInfo* info, const char* name, std::optional<int64_t> default_value = {}) {
  return detail::attribute<int64_t>(info, name, "an int", default_value, Ort::GetApi().KernelInfoGetAttribute_int64);
}

inline std::string string_attribute(const OrtKernelInfo* info, const char* name, std::optional<std::string> default_value = {}) {
  const auto read = [](const OrtKernelInfo* info, const char* name, std::string* value) {
    const auto get = Ort::GetApi().KernelInfoGetAttribute_string;
    size_t size = 0;  // with the zero at the end
    if (OrtStatus* failed = get(info, name, nullptr, &size)) return failed;
    value->resize(size);
    OrtStatus* failed = get(info, name, value->data(), &size);
    value->resize(size - 1);
    return failed;
  };
  return detail::attribute<std::string>(info, name, "a string", default_value, read);
}

// Lists. They throw for an empty list too: ONNX Runtime reads an attribute of any other type as a list without values.
inline std::vector<int64_t> ints_attribute(const OrtKernelInfo* info, const char* name,
                                           std::optional<std::vector<int64_t>> default_value = {}) {
  return detail::list_attribute(info, name, "ints", default_value, Ort::GetApi().KernelInfoGetAttributeArray_int64);
}
inline std::vector<float> floats_attribute(const OrtKernelInfo* info, const char* name,
                                           std::optional<std::vector<float>> default_value = {}) {
  return detail::list_attribute(info, name, "floats", default_value, Ort::GetApi().KernelInfoGetAttributeArray_float);
}

// From an attribute that is a tensor of strings with one dimension: helper.make_tensor("", TensorProto.STRING, [2], ["a", "b"]).
// A kernel cannot read a list of strings (the type STRINGS): the headers have no function for it. Such an attribute throws.
inline std::vector<std::string> strings_attribute(const OrtKernelInfo* info, const char* name,
                                                  std::optional<std::vector<std::string>> default_value = {}) {
  using Strings = std::vector<std::string>;
  const auto read = [](const OrtKernelInfo* info, const char* name, Strings* value) {
    OrtValue* made = nullptr;
    const Ort::AllocatorWithDefaultOptions allocator;
    OrtStatus* failed = Ort::GetApi().KernelInfoGetAttribute_tensor(info, name, allocator, &made);
    if (failed) return failed;
    const Ort::Value tensor(made);  // releases it
    const auto about = tensor.GetTensorTypeAndShapeInfo();
    if (about.GetElementType() != ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING || about.GetDimensionsCount() != 1) {
      refuse("the attribute ", name, " must be a tensor of strings with one dimension.");
    }
    for (size_t i = 0; i < about.GetElementCount(); ++i) value->push_back(tensor.GetStringTensorElement(i));
    return failed;
  };
  return detail::attribute<Strings>(info, name, "a tensor of strings, not a list", default_value, read);
}

// An input whose value is a constant of the model: its values and shape, for the constructor only.
template <typename T>
class Constant {
 public:
  explicit Constant(Ort::ConstValue value) : value_(value), shape_(value.GetTensorTypeAndShapeInfo().GetShape()) {}
  const std::vector<int64_t>& Shape() const { return shape_; }
  int64_t NumberOfElement() const { return static_cast<int64_t>(value_.GetTensorTypeAndShapeInfo().GetElementCount()); }
  const T* Data() const { return value_.GetTensorData<T>(); }

 private:
  Ort::ConstValue value_;  // ONNX Runtime owns it
  std::vector<int64_t> shape_;
};

// The node's input `index` if it is an initializer that no caller of the session can replace; no value for any other input, and
// for one that is left out. For a kernel's constructor, to prepare once what Compute would otherwise do in each run.
template <typename T>
std::optional<Constant<T>> constant_input(const OrtKernelInfo* info, size_t index) {
  int is_constant = 0;
  const Ort::ConstValue value = Ort::ConstKernelInfo(info).GetTensorConstantInput(index, &is_constant);
  if (!is_constant) return std::nullopt;
  if (value.GetTensorTypeAndShapeInfo().GetElementType() != Ort::TypeToTensorType<T>::type) {
    refuse("the constant input ", index, " has another type than the kernel reads.");
  }
  return Constant<T>(value);
}

// Memory for one call of Compute, from ONNX Runtime's allocator, which keeps it for the next call. It is not initialised, and it
// is freed with the object, also when an exception is thrown.
template <typename T>
class Scratch {
  static_assert(std::is_trivial_v<T>, "Scratch calls no constructors and no destructors");

 public:
  Scratch(OrtKernelContext* context, int64_t count) : count_(count) {
    if (count < 0 || count > std::numeric_limits<int64_t>::max() / static_cast<int64_t>(sizeof(T))) {
      refuse("scratch memory for ", count, " elements was asked for.");
    }
    if (count == 0) return;
    const auto cpu = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    OrtAllocator* allocator = nullptr;
    Ort::ThrowOnError(Ort::GetApi().KernelContext_GetAllocator(context, cpu, &allocator));
    allocator_.reset(allocator);  // a new object for each call, which is ours
    data_ = {static_cast<T*>(allocator->Alloc(allocator, static_cast<size_t>(count) * sizeof(T))), Free{allocator}};
    if (!data_) throw std::bad_alloc();
  }

  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T* data() { return data_.get(); }
  int64_t size() const { return count_; }
  T& operator[](int64_t i) { return data_.get()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + count_; }

 private:
  struct Release {
    void operator()(OrtAllocator* allocator) const { Ort::GetApi().ReleaseAllocator(allocator); }
  };
  struct Free {
    OrtAllocator* allocator = nullptr;
    void operator()(T* data) const { allocator->Free(allocator, data); }
  };
  int64_t count_;
  std::unique_ptr<OrtAllocator, Release> allocator_;  // destroyed after the memory
  std::unique_ptr<T, Free> data_;
};

// Tells ThreadSanitizer what ParallelFor guarantees: what was written before the loop is visible in each piece, and what the
// pieces wrote is visible after it. The sanitizer cannot see that itself, because ONNX Runtime is not compiled with it.
#if defined(__has_feature)
#define OPLAB_HAS_FEATURE(feature) __has_feature(feature)
#else
#define OPLAB_HAS_FEATURE(feature) 0
#endif
#if defined(__SANITIZE_THREAD__) || OPLAB_HAS_FEATURE(thread_sanitizer)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
inline void tsan_release(void* address) { __tsan_release(address); }
inline void tsan_acquire(void* address) { __tsan_acquire(address); }
#else
inline void tsan_release(void*) {}
inline void tsan_acquire(void*) {}
#endif

// Calls work(begin, end) for each piece of [0, size), on ONNX Runtime's threads. The bounds of a piece do not depend on the
// number of threads. An exception of `work` is rethrown to the caller when all pieces have ended: on a thread of ONNX Runtime
// it would not be caught.
template <typename Work>
void parallel_for(OrtKernelContext* context, int64_t size, int64_t piece, const Work& work) {
  if (size <= piece) {
    if (size > 0) work(int64_t{0}, size);
    return;
  }
  struct Job {
    const Work& work;
    const int64_t size, piece;
    std::atomic<bool> failed{false};
    std::exception_ptr failure = nullptr;
  } job{work, size, piece};
  const auto call = [](void* data, size_t index) {  // a size_t: signed from here on, or `begin - 1` would wrap around
    tsan_acquire(data);
    Job& it = *static_cast<Job*>(data);
    const int64_t begin = static_cast<int64_t>(index) * it.piece;
    try {
      if (!it.failed) it.work(begin, std::min(begin + it.piece, it.size));
    } catch (...) {
      if (!it.failed.exchange(true)) it.failure = std::current_exception();  // the first one; the pieces that wait are skipped
    }
    tsan_release(data);
  };
  tsan_release(&job);
  Ort::KernelContext(context).ParallelFor(call, static_cast<size_t>((size + piece - 1) / piece), 0, &job);
  tsan_acquire(&job);
  if (job.failure) std::rethrow_exception(job.failure);
}

// The same as a function object parallel_for(size, piece, work), for functions that PyTorch's and ONNX Runtime's operators share.
inline auto parallel_for_on(OrtKernelContext* context) {
  return [context](int64_t size, int64_t piece, const auto& work) { parallel_for(context, size, piece, work); };
}

// Older versions of ONNX Runtime crash when they infer the shapes of a node that leaves out an input (with the name "") or an
// output. add_domain checks the version before an operator is created. A version that cannot be parsed counts as a new one.
inline bool infers_shapes_with_absent_inputs = true;
inline bool infers_shapes_with_absent_outputs = true;
inline void check_version(const OrtApiBase* base) {
  int major = 0, minor = 0;
  if (std::sscanf(base->GetVersionString(), "%d.%d", &major, &minor) == 2) {
    infers_shapes_with_absent_inputs = major > 1 || minor >= 24;
    infers_shapes_with_absent_outputs = major > 1 || minor >= 28;
  }
}

// What is known about an operator's inputs before it runs, and what it implies for the outputs. For a kernel's InferShapes.
class Shapes {
 public:
  struct Dim {
    int64_t size = -1;  // -1: not known
    std::string name;   // of a symbolic dimension; else empty
    bool is_known() const { return size >= 0 || !name.empty(); }
  };
  using Dims = std::vector<Dim>;

  explicit Shapes(OrtShapeInferContext* context) : context_(context) {}

  size_t input_count() const {
    size_t count = 0;
    Ort::ThrowOnError(Ort::GetApi().ShapeInferContext_GetInputCount(context_, &count));
    return count;
  }

  // UNDEFINED for an optional input with the name "".
  ONNXTensorElementDataType type(size_t input) const { return info(input).GetElementType(); }

  // Empty if the rank is not known, and for a scalar: ONNX Runtime reports both the same way.
  Dims dims(size_t input) const {
    const std::vector<int64_t> sizes = info(input).GetShape();
    std::vector<const char*> names(sizes.size());
    if (!names.empty()) info(input).GetSymbolicDimensions(names.data(), names.size());
    Dims dims;
    for (size_t i = 0; i < sizes.size(); ++i) dims.push_back({sizes[i], names[i] ? names[i] : ""});
    return dims;
  }

  // No value if the model does not set the attribute, or sets it with another type.
  std::optional<int64_t> int_attribute(const char* name) const {
    const OrtApi& api = Ort::GetApi();
    const OrtOpAttr* attribute = nullptr;  // owned by ONNX Runtime
    int64_t value = 0;
    size_t bytes = 0;
    if (!Ort::Status{api.ShapeInferContext_GetAttribute(context_, name, &attribute)}.IsOK()) return std::nullopt;
    if (!Ort::Status{api.ReadOpAttr(attribute, ORT_OP_ATTR_INT, &value, sizeof value, &bytes)}.IsOK()) return std::nullopt;
    return value;
  }

  // An unknown size gets a unique name: without one ONNX Runtime would take -1 as the size, and reject a correct model if a later
  // operator does not accept it. The type is a parameter because it overwrites the one that ONNX Runtime has inferred.
  void set(size_t output, ONNXTensorElementDataType type, const Dims& dims) {
    std::vector<int64_t> sizes;
    std::vector<std::string> texts;
    for (const Dim& dim : dims) {
      sizes.push_back(dim.name.empty() ? dim.size : -1);
      texts.push_back(dim.is_known() ? dim.name : fresh_name());
    }
    std::vector<const char*> names;
    for (const std::string& text : texts) names.push_back(text.c_str());
    const OrtApi& api = Ort::GetApi();
    OrtTensorTypeAndShapeInfo* made = nullptr;
    Ort::ThrowOnError(api.CreateTensorTypeAndShapeInfo(&made));
    const Ort::TensorTypeAndShapeInfo info(made);  // releases it
    Ort::ThrowOnError(api.SetTensorElementType(info, type));
    Ort::ThrowOnError(api.SetDimensions(made, sizes.data(), sizes.size()));
    Ort::ThrowOnError(api.SetSymbolicDimensions(made, names.data(), names.size()));
    Ort::ThrowOnError(api.ShapeInferContext_SetOutputTypeShape(context_, output, info));
  }

 private:
  // Random rather than counted: a model that a session has optimised and saved keeps its names, and another process would start
  // from 1 again. ONNX Runtime treats two sizes with one name as equal.
  static std::string fresh_name() {
    std::random_device random;
    std::ostringstream text;
    text << "unknown_" << std::hex << std::setfill('0');
    for (int i = 0; i < 2; ++i) text << std::setw(8) << random();
    return text.str();
  }

  Ort::ConstTensorTypeAndShapeInfo info(size_t input) const {
    OrtTensorTypeAndShapeInfo* info = nullptr;
    Ort::ThrowOnError(Ort::GetApi().ShapeInferContext_GetInputTypeShape(context_, input, &info));
    return Ort::ConstTensorTypeAndShapeInfo{info};
  }

  OrtShapeInferContext* context_;
};

// For an operator with one output, of the type and the shape that all inputs share.
inline void infer_same_shape(Shapes& shapes) {
  Shapes::Dims known = shapes.dims(0);
  for (size_t i = 1; i < shapes.input_count(); ++i) {
    const Shapes::Dims more = shapes.dims(i);
    if (known.empty()) known = more;
    for (size_t k = 0; k < known.size() && known.size() == more.size(); ++k) {
      if (!known[k].is_known()) known[k] = more[k];
    }
  }
  if (!known.empty()) shapes.set(0, shapes.type(0), known);
}

// How a parameter of a kernel's Compute is filled:
//   const Tensor<T>&                   a required input
//   std::optional<const Tensor<T>*>    an optional input; no value if the node omits it, at the end or with the name ""
//   const Tensors<T>&                  variadic: one or more inputs, up to the node's last one
//   Tensor<T>&                         an output
//   std::optional<Tensor<T>*>          an optional output; no value if the node omits it, at the end or with the name ""
//   OrtKernelContext*                  for parallel_for and Scratch
// A tensor of strings has T = std::string_view as an input: x.Data() is a std::vector of views that are valid during Compute. As an
// output it has T = std::string, and y.SetStringOutput(values, shape) takes the place of y.Allocate. ONNX Runtime's own
// Tensor<std::string> as an input, and SetStringOutput, cut a string at a byte that is 0.
namespace detail {

enum class Role { input, optional_input, variadic_input, output, optional_output, context };

constexpr size_t kAbsent = std::numeric_limits<size_t>::max();  // the index of an output that the node does not have

template <typename T>
constexpr ONNXTensorElementDataType onnx_type = Ort::TypeToTensorType<T>::type;
template <>
inline constexpr ONNXTensorElementDataType onnx_type<std::string> = ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
template <>
inline constexpr ONNXTensorElementDataType onnx_type<std::string_view> = ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;

template <typename Parameter>
struct Argument;

template <typename T>
struct Argument<const Tensor<T>&> {
  static constexpr Role role = Role::input;
  static constexpr ONNXTensorElementDataType type = onnx_type<T>;
  Argument(OrtKernelContext* context, size_t index) : tensor(context, index, true) {}
  const Tensor<T>& get() { return tensor; }
  Tensor<T> tensor;
};

template <typename T>
struct Argument<std::optional<const Tensor<T>*>> {
  static constexpr Role role = Role::optional_input;
  static constexpr ONNXTensorElementDataType type = onnx_type<T>;
  Argument(OrtKernelContext* context, size_t index) {
    // Omitted at the end: there are fewer inputs. Omitted in the middle: the input exists and is null.
    const Ort::KernelContext inputs(context);
    if (index < inputs.GetInputCount() && inputs.GetInput(index)) tensor.emplace(context, index, true);
  }
  std::optional<const Tensor<T>*> get() { return tensor ? std::optional<const Tensor<T>*>{&*tensor} : std::nullopt; }
  std::optional<Tensor<T>> tensor;
};

template <typename T>
struct Argument<const Tensors<T>&> {
  static constexpr Role role = Role::variadic_input;
  static constexpr ONNXTensorElementDataType type = onnx_type<T>;
  Argument(OrtKernelContext* context, size_t index) {
    const Ort::KernelContext inputs(context);
    const size_t count = inputs.GetInputCount();
    tensors.reserve(count - index);
    for (; index < count; ++index) {
      if (!inputs.GetInput(index)) refuse("input ", index, " must be given, but its name is \"\".");
      tensors.emplace_back(context, index, true);
    }
  }
  const Tensors<T>& get() { return tensors; }
  Tensors<T> tensors;
};

template <typename T>
struct Argument<Tensor<T>&> {
  static constexpr Role role = Role::output;
  static constexpr ONNXTensorElementDataType type = onnx_type<T>;
  Argument(OrtKernelContext* context, size_t index) : tensor(context, index, false) {}
  Tensor<T>& get() { return tensor; }
  Tensor<T> tensor;
};

template <typename T>
struct Argument<std::optional<Tensor<T>*>> {
  static constexpr Role role = Role::optional_output;
  static constexpr ONNXTensorElementDataType type = onnx_type<T>;
  Argument(OrtKernelContext* context, size_t index) {
    if (index != kAbsent) tensor.emplace(context, index, false);
  }
  std::optional<Tensor<T>*> get() { return tensor ? std::optional<Tensor<T>*>{&*tensor} : std::nullopt; }
  std::optional<Tensor<T>> tensor;
};

template <>
struct Argument<OrtKernelContext*> {
  static constexpr Role role = Role::context;
  static constexpr ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  Argument(OrtKernelContext* context, size_t) : context(context) {}
  OrtKernelContext* get() { return context; }
  OrtKernelContext* context;
};

struct Parameter {
  Role role;
  ONNXTensorElementDataType type;
  bool is_output() const { return role == Role::output || role == Role::optional_output; }
};

// Whether a node has the output. ONNX Runtime's own question, GetOutput, needs a shape and allocates the memory.
inline bool has_output(const OrtKernelInfo* info, size_t index) {
  const Ort::ConstKernelInfo node(info);
  return index < node.GetOutputCount() && !node.GetOutputName(index).empty();
}

// The parameters of Kernel::Compute, from the type of &Kernel::Compute.
template <typename Method>
struct Signature;

template <typename Kernel, typename... Parameters>
struct Signature<Ort::Status (Kernel::*)(Parameters...)> {
  static std::vector<Parameter> parameters() { return {{Argument<Parameters>::role, Argument<Parameters>::type}...}; }

  // In ONNX a variadic input takes all remaining inputs, so no input can follow it.
  static constexpr bool variadic_is_last() {
    bool variadic = false;
    for (Role role : {Argument<Parameters>::role...}) {
      const bool is_input = role == Role::input || role == Role::optional_input || role == Role::variadic_input;
      if (variadic && is_input) return false;
      variadic = variadic || role == Role::variadic_input;
    }
    return true;
  }

  // Calls Compute. `indices` are the parameters' positions among the inputs or among the outputs.
  static Ort::Status call(Kernel& kernel, OrtKernelContext* context, const std::vector<size_t>& indices) {
    return call(kernel, context, indices, std::index_sequence_for<Parameters...>());
  }

 private:
  template <size_t... I>
  static Ort::Status call(Kernel& kernel, OrtKernelContext* context, const std::vector<size_t>& indices,
                          std::index_sequence<I...>) {
    std::tuple<Argument<Parameters>...> arguments{Argument<Parameters>(context, indices[I])...};
    return kernel.Compute(std::get<I>(arguments).get()...);
  }
};

}  // namespace detail

// A custom operator of ONNX Runtime, created from a struct:
//
//   struct Kernel {
//     Kernel(const OrtApi*, const OrtKernelInfo* info);   // reads and checks the attributes; may throw
//     Ort::Status Compute(...);                           // its parameters define the inputs and outputs
//     static void InferShapes(Shapes& shapes);            // optional
//     static constexpr const char* kProvider;             // optional: the execution provider; the CPU's by default
//     static bool reads_on_host(size_t input);            // optional: inputs of a GPU's kernel that Compute reads itself
//   };
//   static const Op<Kernel> op{"Name"};                   // must outlive every session
//
// The parameters are those of ONNX Runtime's own lite API (OrtLiteCustomStruct). It is not used here because it marks each
// input as optional, dereferences a null pointer where an optional input is named "", and lets exceptions cross the C
// boundary.
//
// Of all kernels with one name, ONNX Runtime calls only the first one's shape inference: InferShapes takes types from the
// inputs and never from its own kernel.
template <typename Kernel>
class Op : public OrtCustomOp {
 public:
  // `since` is the first version of the domain that has the operator.
  explicit Op(const char* name, int since = 1) : OrtCustomOp{}, name_(name), since_(since) {
    for (const detail::Parameter& parameter : Signature::parameters()) {
      std::vector<detail::Parameter>& group = parameter.is_output() ? outputs_ : inputs_;
      indices_.push_back(group.size());
      if (parameter.role != detail::Role::context) group.push_back(parameter);
    }

    version = ORT_API_VERSION;
    GetName = [](const OrtCustomOp* op) { return self(op).name_.c_str(); };
    GetExecutionProviderType = [](const OrtCustomOp*) { return provider<Kernel>(0); };
    GetStartVersion = [](const OrtCustomOp* op) { return self(op).since_; };
    GetEndVersion = [](const OrtCustomOp*) { return int{MAX_CUSTOM_OP_END_VER}; };

    GetInputTypeCount = [](const OrtCustomOp* op) { return self(op).inputs_.size(); };
    GetInputType = [](const OrtCustomOp* op, size_t i) { return self(op).inputs_[i].type; };
    GetInputMemoryType = [](const OrtCustomOp*, size_t i) {
      return reads_on_host<Kernel>(i, 0) ? OrtMemTypeCPUInput : OrtMemTypeDefault;
    };
    GetInputCharacteristic = [](const OrtCustomOp* op, size_t i) {
      switch (self(op).inputs_[i].role) {
        case detail::Role::optional_input:
          return INPUT_OUTPUT_OPTIONAL;
        case detail::Role::variadic_input:
          return INPUT_OUTPUT_VARIADIC;
        default:
          return INPUT_OUTPUT_REQUIRED;
      }
    };
    GetVariadicInputMinArity = [](const OrtCustomOp*) { return 1; };
    GetVariadicInputHomogeneity = [](const OrtCustomOp*) { return 1; };  // all of them have one type
    GetOutputTypeCount = [](const OrtCustomOp* op) { return self(op).outputs_.size(); };
    GetOutputType = [](const OrtCustomOp* op, size_t i) { return self(op).outputs_[i].type; };
    GetOutputCharacteristic = [](const OrtCustomOp* op, size_t i) {
      return self(op).outputs_[i].role == detail::Role::optional_output ? INPUT_OUTPUT_OPTIONAL : INPUT_OUTPUT_REQUIRED;
    };

    CreateKernelV2 = [](const OrtCustomOp* op, const OrtApi* api, const OrtKernelInfo* info, void** made) noexcept {
      return guarded(self(op).name_, [&]() -> OrtStatusPtr {
        *made = new Instance{self(op), Kernel(api, info), self(op).indices_of(info)};
        return nullptr;
      });
    };
    KernelComputeV2 = [](void* made, OrtKernelContext* context) noexcept {
      Instance& it = *static_cast<Instance*>(made);
      return guarded(it.op.name_, [&] { return Signature::call(it.kernel, context, it.indices).release(); });
    };
    KernelDestroy = [](void* made) { delete static_cast<Instance*>(made); };

    const auto has = [](const std::vector<detail::Parameter>& group, detail::Role role) {
      return std::any_of(group.begin(), group.end(), [role](const detail::Parameter& it) { return it.role == role; });
    };
    if constexpr (infers_shapes<Kernel>(0)) {
      if (has(inputs_, detail::Role::optional_input) && !infers_shapes_with_absent_inputs) return;
      if (has(outputs_, detail::Role::optional_output) && !infers_shapes_with_absent_outputs) return;
      InferOutputShapeFn = [](const OrtCustomOp*, OrtShapeInferContext* context) noexcept -> OrtStatusPtr {
        try {
          Shapes shapes(context);
          Kernel::InferShapes(shapes);
        } catch (...) {
        }
        return nullptr;  // ONNX Runtime ignores a status here: the shape stays unknown
      };
    }
  }

 private:
  using Signature = detail::Signature<decltype(&Kernel::Compute)>;
  static_assert(Signature::variadic_is_last(), "a variadic input must be the last input of Compute");

  struct Instance {
    const Op& op;
    Kernel kernel;
    const std::vector<size_t> indices;
  };

  // indices_ with kAbsent for the optional outputs that the node does not have.
  std::vector<size_t> indices_of(const OrtKernelInfo* info) const {
    std::vector<size_t> indices = indices_;
    const std::vector<detail::Parameter> parameters = Signature::parameters();
    for (size_t i = 0; i < indices.size(); ++i) {
      if (parameters[i].role == detail::Role::optional_output && !detail::has_output(info, indices[i])) {
        indices[i] = detail::kAbsent;
      }
    }
    return indices;
  }

  template <typename K>
  static constexpr auto provider(int) -> decltype(K::kProvider) {
    return K::kProvider;
  }
  template <typename K>
  static constexpr const char* provider(...) {
    return "CPUExecutionProvider";
  }

  template <typename K>
  static auto reads_on_host(size_t input, int) -> decltype(K::reads_on_host(input)) {
    return K::reads_on_host(input);
  }
  template <typename K>
  static bool reads_on_host(size_t, ...) {
    return false;
  }

  template <typename K>
  static constexpr auto infers_shapes(int) -> decltype(&K::InferShapes, true) {
    return true;
  }
  template <typename K>
  static constexpr bool infers_shapes(...) {
    return false;
  }

  static const Op& self(const OrtCustomOp* op) { return *static_cast<const Op*>(op); }

  template <typename Call>
  static OrtStatusPtr guarded(const std::string& name, Call call) noexcept {
    const auto status = [&](OrtErrorCode code, const std::exception& error) {
      return Ort::GetApi().CreateStatus(code, (name + ": " + error.what()).c_str());
    };
    try {
      return call();
    } catch (const Ort::Exception& error) {
      return status(error.GetOrtErrorCode(), error);
    } catch (const std::exception& error) {
      return status(ORT_RUNTIME_EXCEPTION, error);
    } catch (...) {
      return Ort::GetApi().CreateStatus(ORT_RUNTIME_EXCEPTION, "an unknown C++ exception in a kernel of oplab");
    }
  }

  const std::string name_;
  const int since_;
  std::vector<detail::Parameter> inputs_, outputs_;
  std::vector<size_t> indices_;  // of each parameter of Compute, among the inputs or among the outputs
};

// Adds the operator of one kernel to the domain. The operator is static, so it outlives every session: a Kernel has one name.
template <typename Kernel>
void add(Ort::CustomOpDomain& domain, const char* name, int since = 1) {
  static const Op<Kernel> op{name, since};
  domain.Add(&op);
}

// The same for several element types: add_for<MyAdd, float, double>(domain, "MyAdd") adds MyAdd<float> and MyAdd<double>.
template <template <typename> class Kernel, typename... Types>
void add_for(Ort::CustomOpDomain& domain, const char* name, int since = 1) {
  (add<Kernel<Types>>(domain, name, since), ...);
}

// Implements RegisterCustomOps. `make` is a function that returns the domain and is called once; the domain's operators must
// outlive every session. It does not throw: a failure is a status.
template <typename Make>
OrtStatus* add_domain(OrtSessionOptions* options, const OrtApiBase* base, const Make& make) noexcept {
  const OrtApi* api = base->GetApi(ORT_API_VERSION);
  if (api == nullptr) {  // version 1 of the API always exists and can create the status
    return base->GetApi(1)->CreateStatus(
        ORT_FAIL, "these kernels were compiled with headers newer than this ONNX Runtime. Compile them again.");
  }
  try {
    static const Ort::CustomOpDomain domain = (Ort::InitApi(api), check_version(base), make());
    return api->AddCustomOpDomain(options, domain);
  } catch (const std::exception& error) {
    return api->CreateStatus(ORT_FAIL, error.what());
  } catch (...) {
    return api->CreateStatus(ORT_FAIL, "an unknown C++ exception while kernels were registered");
  }
}

}  // namespace oplab
