// The first way: two functions that pybind11 binds to Python.
#include "07_defaults.h"
#include <torch/extension.h>

torch::Tensor my_add(const torch::Tensor& a, const torch::Tensor& b, double alpha,
                     double beta) {
  return alpha * a + beta * b;
}

torch::Tensor my_add_raw(const torch::Tensor& a, const torch::Tensor& b) {  // its own loop
  torch::Tensor y = torch::empty(a.sizes());
  const float *pa = a.data_ptr<float>(), *pb = b.data_ptr<float>();
  float* py = y.data_ptr<float>();
  for (int64_t i = 0; i < y.numel(); ++i) py[i] = ALPHA * pa[i] + BETA * pb[i];
  return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
  m.doc() = "alpha * a + beta * b, twice";  // what help() shows
  m.def("my_add", &my_add, py::arg("a"), py::arg("b"), py::arg("alpha") = ALPHA,
        py::arg("beta") = BETA);
  m.def("my_add_raw", &my_add_raw);
}
