// The coefficients of 07_pybind.cpp, in a folder of their own: `include`.
#pragma once
constexpr double ALPHA = 3, BETA = 2;
