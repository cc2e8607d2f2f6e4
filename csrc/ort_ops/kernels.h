// One function per operator, which adds the operator's kernels, one for each element type, to the domain.
#pragma once

#include <onnxruntime_cxx_api.h>

namespace oplab {

void add_my_add(Ort::CustomOpDomain& domain);          // my_add.cpp
void add_grid(Ort::CustomOpDomain& domain);            // grid.cpp
void add_foo(Ort::CustomOpDomain& domain);             // foo.cpp
void add_knn_query(Ort::CustomOpDomain& domain);       // knn_query.cpp
void add_dynamic_resize(Ort::CustomOpDomain& domain);  // dynamic_resize.cpp
void add_deform_conv2d(Ort::CustomOpDomain& domain);   // deform_conv2d.cpp
void add_var_sum(Ort::CustomOpDomain& domain);         // var_sum.cpp
void add_rms_norm(Ort::CustomOpDomain& domain);        // rms_norm.cpp

inline void add_all(Ort::CustomOpDomain& domain) {
  add_my_add(domain);
  add_grid(domain);
  add_foo(domain);
  add_knn_query(domain);
  add_dynamic_resize(domain);
  add_deform_conv2d(domain);
  add_var_sum(domain);
  add_rms_norm(domain);
}

}  // namespace oplab
