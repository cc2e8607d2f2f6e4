// A library of kernels that registers another one (OPLAB_LIBRARY) with an older ONNX Runtime: the real functions, but only those that
// the version OPLAB_API had (20 for 1.20). A later entry of the table ends the process and says so. With OPLAB_FULL, it has no place for
// a domain.
//
// Compiled without ONNX Runtime's headers: the places of a table never change. OPLAB_NOTES is a file that gets a line for each event.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>

namespace {

struct Base {
  const void* (*GetApi)(uint32_t) noexcept;
  const char* (*GetVersionString)() noexcept;
};

constexpr size_t kCreateStatus = 0, kCreateCustomOpDomain = 26, kCustomOpDomainAdd = 27, kAddCustomOpDomain = 28,
                 kAttributeFloat = 85, kReleaseStatus = 93, kParallelFor = 274, kEntries = 285;
constexpr struct {
  uint32_t version;
  size_t first;  // the first entry that is new in it
} kNew[] = {{11, 204}, {12, 210}, {13, 219}, {14, 225}, {15, 239}, {16, 255}, {17, 266}, {18, 276}, {20, 280}};

uint32_t newest;
void *real[kEntries], *table[kEntries];
std::mutex lock;
std::set<void*> statuses;  // that the library has to return or to release

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
  return reinterpret_cast<Type>(real[entry]);
}

void* parallel_for(const void* context, void (*work)(void*, size_t), size_t total, size_t batch, void* data) noexcept {
  note("parallel", static_cast<uint32_t>(total));
  return original<decltype(&parallel_for)>(kParallelFor)(context, work, total, batch, data);
}

void* made(void* status) {
  const std::lock_guard<std::mutex> hold(lock);
  if (status && statuses.insert(status).second) note("made", 1);
  return status;
}

bool gone(void* status) {
  const std::lock_guard<std::mutex> hold(lock);
  return statuses.erase(status) != 0;
}

void* create_status(int code, const char* text) noexcept {
  return made(original<decltype(&create_status)>(kCreateStatus)(code, text));
}

void release_status(void* status) noexcept {
  if (gone(status)) note("released", 1);
  original<decltype(&release_status)>(kReleaseStatus)(status);
}

void* attribute_float(const void* info, const char* name, float* value) noexcept {
  return made(original<decltype(&attribute_float)>(kAttributeFloat)(info, name, value));
}

void* create_domain(const char* name, void** domain) noexcept {
  note("domain", 1);
  return original<decltype(&create_domain)>(kCreateCustomOpDomain)(name, domain);
}

void* add_domain(void* options, void* domain) noexcept {
  if (*getenv("OPLAB_FULL")) return create_status(1, "no place for the domain");
  return original<decltype(&add_domain)>(kAddCustomOpDomain)(options, domain);
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

bool prepare(void** theirs) {
  newest = static_cast<uint32_t>(std::atoi(getenv("OPLAB_API")));
  std::memcpy(real, theirs, sizeof real);
  std::memcpy(table, theirs, sizeof table);
  table[kAttributeFloat] = reinterpret_cast<void*>(&attribute_float);
  table[kReleaseStatus] = reinterpret_cast<void*>(&release_status);
  table[kCreateStatus] = reinterpret_cast<void*>(&create_status);
  table[kCreateCustomOpDomain] = reinterpret_cast<void*>(&create_domain);
  table[kAddCustomOpDomain] = reinterpret_cast<void*>(&add_domain);
  table[kCustomOpDomainAdd] = reinterpret_cast<void*>(&add);
  table[kParallelFor] = reinterpret_cast<void*>(&parallel_for);
  for (size_t k = 0; k < sizeof kNew / sizeof *kNew; ++k) {
    if (kNew[k].version <= newest) continue;
    const size_t end = k + 1 < sizeof kNew / sizeof *kNew ? kNew[k + 1].first : kEntries;
    for (size_t entry = kNew[k].first; entry < end; ++entry) table[entry] = reinterpret_cast<void*>(kBeyond[k]);
  }
  // A kernel gets the runtime's own table, not ours: what is counted is replaced there as well.
  const uintptr_t begin = reinterpret_cast<uintptr_t>(theirs + kAttributeFloat), page = begin % sysconf(_SC_PAGESIZE);
  const size_t size = page + (kReleaseStatus + 1 - kAttributeFloat) * sizeof(void*);
  if (mprotect(reinterpret_cast<void*>(begin - page), size, PROT_READ | PROT_WRITE) == 0) {
    for (const size_t entry : {kAttributeFloat, kReleaseStatus}) theirs[entry] = table[entry];
  }
  return true;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void* RegisterCustomOps(void* options, const Base* base) noexcept {
  const char* name = getenv("OPLAB_LIBRARY");
  void* file = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  using Register = void* (*)(void*, const Base*);
  const auto entry = file ? reinterpret_cast<Register>(dlsym(file, "RegisterCustomOps")) : nullptr;
  if (!entry) {
    std::fprintf(stderr, "%s\n", dlerror());
    _exit(5);
  }
  static const bool once = prepare(static_cast<void**>(const_cast<void*>(base->GetApi(1))));
  static const Base older{get_api, version_string};
  void* status = once ? entry(options, &older) : nullptr;
  if (status) note(gone(status) ? "returned" : "again", 1);
  return status;
}
