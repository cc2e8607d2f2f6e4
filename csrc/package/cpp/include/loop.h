#pragma once

#include <cstdint>

// y = alpha * a + beta * b, for `count` values.
void add_scaled(const float* a, const float* b, float* y, int64_t count, double alpha, double beta);
