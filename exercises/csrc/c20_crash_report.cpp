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

// TODO c20.crash_report: the function, which a handler in C calls
#error "c20.crash_report is not written yet"
