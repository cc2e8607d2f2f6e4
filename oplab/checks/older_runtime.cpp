// A library of kernels that registers another one (OPLAB_LIBRARY) with an older ONNX Runtime: the real functions, but only those that
// the version OPLAB_API had (20 for 1.20; 0 is the runtime as it is). A later entry of the table ends the process and says so.
//
// Compiled without ONNX Runtime's headers: the places of a table never change. OPLAB_NOTES is a file that gets a line for each event.
#include <dlfcn.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

struct Base {
  const void* (*GetApi)(uint32_t) noexcept;
  const char* (*GetVersionString)() noexcept;
};

constexpr size_t kCustomOpDomainAdd = 27, kParallelFor = 274, kEntries = 285;
constexpr struct {
  uint32_t version;
  size_t first;  // the first entry that is new in it
} kNew[] = {{11, 204}, {12, 210}, {13, 219}, {14, 225}, {15, 239}, {16, 255}, {17, 266}, {18, 276}, {20, 280}};

const Base* real;
uint32_t newest;
void* table[kEntries];

void note(const char* words, uint32_t number) {
  char line[64];
  const int size = std::snprintf(line, sizeof line, "%s %u\n", words, number);
  const int file = open(getenv("OPLAB_NOTES"), O_WRONLY | O_CREAT | O_APPEND, 0600);
  if (file < 0 || write(file, line, size) != size) _exit(3);
  close(file);
}

template <uint32_t version>
void beyond() {
  note("beyond", version);
  _exit(4);
}

using Function = void (*)();
constexpr Function kBeyond[] = {beyond<11>, beyond<12>, beyond<13>, beyond<14>, beyond<15>,
                                beyond<16>, beyond<17>, beyond<18>, beyond<20>};

// The real function, in a table of the right type.
template <typename Type>
Type original(size_t entry) {
  return reinterpret_cast<Type>(static_cast<void* const*>(real->GetApi(1))[entry]);
}

void* parallel_for(const void* context, void (*work)(void*, size_t), size_t total, size_t batch, void* data) noexcept {
  note("parallel", static_cast<uint32_t>(total));
  return original<decltype(&parallel_for)>(kParallelFor)(context, work, total, batch, data);
}

// The first member of an op is the version of its struct.
void* add(void* domain, const uint32_t* op) noexcept {
  note("op", *op);
  return original<decltype(&add)>(kCustomOpDomainAdd)(domain, op);
}

const void* get_api(uint32_t version) noexcept {
  note("asked", version);
  return version <= newest ? table : nullptr;
}

const char* version_string() noexcept { return getenv("OPLAB_VERSION"); }

}  // namespace

extern "C" __attribute__((visibility("default"))) void* RegisterCustomOps(void* options, const Base* base) noexcept {
  real = base;
  const char* name = getenv("OPLAB_LIBRARY");
  void* file = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  using Register = void* (*)(void*, const Base*);
  const auto entry = file ? reinterpret_cast<Register>(dlsym(file, "RegisterCustomOps")) : nullptr;
  if (!entry) {
    std::fprintf(stderr, "%s\n", dlerror());
    _exit(5);
  }
  newest = static_cast<uint32_t>(std::atoi(getenv("OPLAB_API")));
  std::memcpy(table, base->GetApi(1), sizeof table);
  table[kCustomOpDomainAdd] = reinterpret_cast<void*>(&add);
  table[kParallelFor] = reinterpret_cast<void*>(&parallel_for);
  for (size_t k = 0; k < sizeof kNew / sizeof *kNew; ++k) {
    if (kNew[k].version <= newest) continue;
    const size_t end = k + 1 < sizeof kNew / sizeof *kNew ? kNew[k + 1].first : kEntries;
    for (size_t entry = kNew[k].first; entry < end; ++entry) table[entry] = reinterpret_cast<void*>(kBeyond[k]);
  }
  static const Base older{get_api, version_string};
  return entry(options, &older);
}
