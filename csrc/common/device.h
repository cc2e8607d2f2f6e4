// OPLAB_DEVICE marks a function that nvcc compiles for the GPU, too. To every other compiler it is an ordinary function.
#pragma once

#if defined(__CUDACC__)
#define OPLAB_DEVICE __host__ __device__
#else
#define OPLAB_DEVICE
#endif
