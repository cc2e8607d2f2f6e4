// Several threads share one session: every run of every thread must give the bits of the first one.
//
//   session_driver ONNXRUNTIME LIBRARY THREADS RUNS MODEL...
//
// It is a program of its own because a sanitizer's runtime has to be there from the start, and to look on while the process
// ends; Python and all that it loads would only add noise. ONNXRUNTIME is the shared library inside the Python package. The
// models have fixed shapes, and beside MODEL lies MODEL.NAME for each input: its values as plain bytes.
#include <dlfcn.h>
#include <onnxruntime_cxx_api.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

// In a block of exactly that size, so that a read behind it is found.
static std::vector<char> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::vector<char> bytes(static_cast<size_t>(file.tellg()));
  file.seekg(0).read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  return bytes;
}

static bool equal(const Ort::Value& a, const Ort::Value& b) {
  const auto of = a.GetTensorTypeAndShapeInfo(), other = b.GetTensorTypeAndShapeInfo();
  if (of.GetShape() != other.GetShape() || of.GetElementType() != other.GetElementType()) return false;
  const size_t size = of.GetElementType() == ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32   ? 4
                      : of.GetElementType() == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT ? 4
                                                                                   : 8;
  return std::memcmp(a.GetTensorRawData(), b.GetTensorRawData(), of.GetElementCount() * size) == 0;
}

// How many runs gave other bits than the first.
static int share(Ort::Session& session, const std::string& model, int threads, int runs) {
  Ort::AllocatorWithDefaultOptions allocator;
  const Ort::MemoryInfo memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  std::vector<std::string> names, wanted;
  std::vector<std::vector<char>> bytes;
  std::vector<Ort::Value> inputs;
  for (size_t i = 0; i < session.GetInputCount(); ++i) {
    names.push_back(session.GetInputNameAllocated(i, allocator).get());
    bytes.push_back(bytes_of(model + "." + names.back()));
    const Ort::TypeInfo type = session.GetInputTypeInfo(i);
    const auto tensor = type.GetTensorTypeAndShapeInfo();
    const std::vector<int64_t> shape = tensor.GetShape();
    inputs.push_back(Ort::Value::CreateTensor(memory, bytes.back().data(), bytes.back().size(), shape.data(), shape.size(),
                                              tensor.GetElementType()));
  }
  for (size_t i = 0; i < session.GetOutputCount(); ++i) {
    wanted.push_back(session.GetOutputNameAllocated(i, allocator).get());
  }
  std::vector<const char*> in, out;
  for (const std::string& name : names) in.push_back(name.c_str());
  for (const std::string& name : wanted) out.push_back(name.c_str());

  const auto run = [&] { return session.Run({}, in.data(), inputs.data(), inputs.size(), out.data(), out.size()); };
  const std::vector<Ort::Value> first = run();
  std::atomic<int> left{runs}, wrong{0};
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t) {
    pool.emplace_back([&] {
      while (left-- > 0) {
        const std::vector<Ort::Value> again = run();
        for (size_t i = 0; i < first.size(); ++i) wrong += !equal(first[i], again[i]);
      }
    });
  }
  for (std::thread& thread : pool) thread.join();
  return wrong;
}

int main(int count, char** words) try {
  if (count < 6) throw std::runtime_error("session_driver ONNXRUNTIME LIBRARY THREADS RUNS MODEL...");
  void* runtime = dlopen(words[1], RTLD_NOW | RTLD_GLOBAL);
  if (!runtime) throw std::runtime_error(dlerror());
  // Kept open: a sanitizer that reports when all sessions are gone still has to find the names in it.
  if (!dlopen(words[2], RTLD_NOW | RTLD_LOCAL)) throw std::runtime_error(dlerror());
  const auto base = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(runtime, "OrtGetApiBase"));
  Ort::InitApi(base()->GetApi(ORT_API_VERSION));
  const Ort::Env env(ORT_LOGGING_LEVEL_ERROR, "driver");
  for (int i = 5; i < count; ++i) {
    Ort::SessionOptions options;
    options.SetIntraOpNumThreads(2).DisableCpuMemArena().DisableMemPattern();  // each allocation is one of its own
    options.AddConfigEntry("session.intra_op.allow_spinning", "0");
    options.RegisterCustomOpsLibrary(words[2]);
    Ort::Session session(env, words[i], options);
    const int wrong = share(session, words[i], std::stoi(words[3]), std::stoi(words[4]));
    std::printf("%d of the runs differ: %s\n", wrong, std::strrchr(words[i], '/') + 1);
    if (wrong) return 1;
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
