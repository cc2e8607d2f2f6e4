// c20.crash_report: the lines of a crash report that somebody with the
// debug file can resolve.
//
//   int64_t crash_report(const char* maps, const uint64_t* frames,
//                        int64_t count, char* text, int64_t size)
//
// maps is the text of /proc/self/maps: for each mapping one line
//     7f31a4c02000-7f31a4c05000 r-xp 00002000 fd:01 1573   /opt/my app/libops.so
// with its first address, the address after its last, permissions, the
// offset in the file, device, inode and, after spaces, the path. A path
// may contain spaces. A mapping without a path, or with one that does
// not begin with "/" ("[stack]"), belongs to no file.
//
// frames has count addresses. The first is that of the instruction that
// crashed; the others are return addresses, each of the instruction
// after a call: the report has the address before it, which belongs to
// the call.
//
// Writes one line for each frame, with its number, the file's name
// without folders, and the address as addr2line needs it, from where
// the file was loaded (the first address of the first mapping of this
// path):
//   #0 libops.so+0x2f14
// or, if the address belongs to no file, the address itself:
//   #1 0x7ffd0c1e2a40
// The frame's number is decimal; addresses and offsets are hexadecimal,
// in lower case. None has leading zeros.
//
// Returns the length of the report, as snprintf does. Writes at most
// size bytes, the last of which is 0; nothing if size is 0. It runs in
// a signal handler: the crash may have come from malloc, so no memory
// is allocated.
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// ANSWER c20.crash_report: the function, which a handler in C calls
namespace {

struct Mapping {
  uint64_t begin, end;
  const char* path;
  size_t length;  // of the path
};

// Reads one mapping; returns where the next one is, or null.
const char* read(const char* line, Mapping& mapping) {
  if (*line == '\0') return nullptr;
  const size_t size = std::strcspn(line, "\n");
  const char *end = line + size, *at = line;
  char* after = nullptr;
  mapping.begin = std::strtoull(line, &after, 16);
  mapping.end = std::strtoull(after + 1, &after, 16);
  at = after;
  for (int field = 0; field < 4; ++field) {
    while (at < end && *at == ' ') ++at;
    while (at < end && *at != ' ') ++at;
  }
  while (at < end && *at == ' ') ++at;
  mapping.path = at;
  mapping.length = static_cast<size_t>(end - at);
  return *end ? end + 1 : end;
}

bool find(const char* maps, uint64_t address, Mapping& found) {
  for (const char* line = maps; (line = read(line, found));) {
    if (found.begin <= address && address < found.end) {
      return found.length > 0 && *found.path == '/';
    }
  }
  return false;
}

uint64_t base_of(const char* maps, const Mapping& mapping) {
  Mapping other{};
  for (const char* line = maps; (line = read(line, other));) {
    if (other.length == mapping.length &&
        std::memcmp(other.path, mapping.path, mapping.length) == 0) {
      return other.begin;
    }
  }
  return mapping.begin;
}

}  // namespace

extern "C" int64_t crash_report(const char* maps, const uint64_t* frames, int64_t count,
                                char* text, int64_t size) {
  int64_t length = 0;
  if (size > 0) *text = '\0';
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t address = i == 0 ? frames[i] : frames[i] - 1;
    const bool fits = length < size;
    char* at = fits ? text + length : nullptr;
    const size_t left = fits ? static_cast<size_t>(size - length) : 0;
    Mapping mapping{};
    if (find(maps, address, mapping)) {
      const char* name = mapping.path + mapping.length;
      while (name[-1] != '/') --name;
      length += std::snprintf(at, left, "#%" PRId64 " %.*s+0x%" PRIx64 "\n", i,
                              static_cast<int>(mapping.path + mapping.length - name), name,
                              address - base_of(maps, mapping));
    } else {
      length += std::snprintf(at, left, "#%" PRId64 " 0x%" PRIx64 "\n", i, address);
    }
  }
  return length;
}
// END
