// Chapter 13: Scores(x [n, d], w [d, m]) -> the squares of x w, with ONNX Runtime's MatMul.
#include "oplab_kernel.h"

namespace {

using oplab::Tensor;

constexpr char kMatMul[] = "MatMul", kMisspelt[] = "MatMull", kGemm[] = "Gemm";

template <const char* name>
struct Scores {
  Scores(const OrtApi*, const OrtKernelInfo* info) : matmul(create(info)) {}

  static Ort::Op create(const OrtKernelInfo* info) {
    const char* constraint = "T";  // the name of MatMul's type parameter
    const ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
    return Ort::Op::Create(info, name, "", 13, &constraint, &type, 1, nullptr, 0, 2, 1);
  }

  Ort::Status Compute(OrtKernelContext* context, const Tensor<float>& x, const Tensor<float>& w,
                      Tensor<float>& y) {
    if (x.Shape().size() != 2 || w.Shape().size() != 2 || x.Shape()[1] != w.Shape()[0]) {
      oplab::refuse("x is ", oplab::shape_text(x.Shape()), " and w is ",
                    oplab::shape_text(w.Shape()), ".");
    }
    const std::vector<int64_t> shape{x.Shape()[0], w.Shape()[1]};
    const int64_t size = shape[0] * shape[1];
    oplab::Scratch<float> product(context, size);  // MatMul writes here
    const auto cpu = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
    Ort::Value to = Ort::Value::CreateTensor<float>(cpu, product.data(), size, shape.data(), 2);

    const Ort::KernelContext run(context);
    const OrtValue* inputs[] = {run.GetInput(0), run.GetInput(1)};
    OrtValue* outputs[] = {to};
    matmul.Invoke(context, inputs, 2, outputs, 1);

    float* squares = y.Allocate(shape);
    for (int64_t i = 0; i < size; ++i) squares[i] = product[i] * product[i];
    return Ort::Status{nullptr};
  }

  Ort::Op matmul;
};

}  // namespace

extern "C" OrtStatus* ORT_API_CALL RegisterCustomOps(OrtSessionOptions* options,
                                                     const OrtApiBase* base) noexcept {
  return oplab::add_domain(options, base, [] {
    Ort::CustomOpDomain made{"lesson"};
    oplab::add<Scores<kMatMul>>(made, "Scores");
    oplab::add<Scores<kMisspelt>>(made, "Misspelt");
    oplab::add<Scores<kGemm>>(made, "WithoutAttributes");
    return made;
  });
}
