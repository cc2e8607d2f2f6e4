// A program without Python: loads a TorchScript file, runs it on a quiet and on a loud signal,
// and prints each output in one line.
#include <torch/script.h>

#include <iostream>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: load model.pt\n";
    return 2;
  }
  try {
    torch::jit::Module model = torch::jit::load(argv[1]);
    torch::NoGradGuard no_grad;
    for (float scale : {0.1f, 3.0f}) {
      torch::Tensor x = scale * torch::arange(4, torch::kFloat).reshape({1, 1, 4});
      torch::Tensor y = model.forward({x}).toTensor().flatten();
      for (int64_t i = 0; i < y.numel(); ++i) std::cout << y[i].item<float>() << ' ';
      std::cout << '\n';
    }
  } catch (const c10::Error& error) {
    std::cerr << error.what_without_backtrace() << '\n';
    return 1;
  }
}
