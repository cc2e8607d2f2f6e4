// Registers torch.ops.oplab: the schema and the CPU kernel of each operator. The kernels are in the other files of this folder,
// the fakes and the backwards in oplab/ops/torch_ops.py.
#include <torch/csrc/stable/library.h>

#include "operators.h"

STABLE_TORCH_LIBRARY(oplab, m) {
  m.def("my_add(Tensor a, Tensor b, float alpha=3.0, float beta=2.0) -> Tensor");
  m.def("grid(Tensor pos, Tensor size, Tensor? start=None, Tensor? end=None) -> Tensor");
  m.def("foo_forward(Tensor input1, Tensor input2, float attr1, int attr2) -> Tensor");
  m.def(
      "knn_query(int nsample, Tensor xyz, Tensor offset, Tensor? new_xyz=None, Tensor? new_offset=None) -> "
      "(Tensor idx, Tensor dist)");
  m.def("dynamic_resize(Tensor x, Tensor scales) -> Tensor");
  m.def("dynamic_resize_backward(Tensor grad, Tensor scales, SymInt height, SymInt width) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(oplab, CPU, m) {
  m.impl("my_add", TORCH_BOX(&oplab::my_add));
  m.impl("grid", TORCH_BOX(&oplab::grid));
  m.impl("foo_forward", TORCH_BOX(&oplab::foo_forward));
  m.impl("knn_query", TORCH_BOX(&oplab::knn_query));
  m.impl("dynamic_resize", TORCH_BOX(&oplab::dynamic_resize));
  m.impl("dynamic_resize_backward", TORCH_BOX(&oplab::dynamic_resize_backward));
}
