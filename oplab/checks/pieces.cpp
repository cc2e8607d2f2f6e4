// A replacement for ThreadSanitizer's runtime, linked to a learner's kernel that is compiled with -fsanitize=thread. It finds out
// whether two pieces of a ParallelFor, or two calls of RegisterCustomOps, access the same memory.
//
// ThreadSanitizer's own runtime must be loaded before Python, does not start on every Linux kernel, and finds a race only between
// threads that run at the same time. Here the pieces run one after the other, on two threads that alternate
// (oplab/checks/schedules.py), and each access is compared with those of the other thread: a race is found in either order. Locks
// and atomics order accesses by vector clocks, as in ThreadSanitizer. With two threads, stacks and thread_local variables are
// separate as in a real run. Memory is never freed, so that no two pieces get the same block one after the other.
#include <cstddef>
#include <cstdint>

#define RAW __attribute__((no_sanitize("thread")))

extern "C" {
struct OplabConflict {
  int32_t found, first_piece, first_writes, second_piece, second_writes;
  uint64_t address;
};
__attribute__((visibility("default"))) void oplab_watch(int who, int piece);  // 0 or 1: that thread; -1: stop; -2: reset
__attribute__((visibility("default"))) const OplabConflict* oplab_conflict();
__attribute__((visibility("default"))) void oplab_wrote(void* at, size_t size);  // by a function that is not watched
void* calloc(size_t, size_t) noexcept;
#ifdef __linux__
extern const char _ZN3Ort6GlobalIvE4api_E __attribute__((weak, visibility("hidden")));  // Ort::Global<void>::api_
#endif
}

#pragma GCC visibility push(hidden)

namespace {

using Time = uint32_t;

// The last access to one byte by each of the two threads; time 0 is none.
struct Byte {
  uint64_t address;
  uint32_t run;
  Time wrote[2], read[2];
  int32_t wrote_piece[2], read_piece[2];
};

// The vector clock of a lock or an atomic: up to which time of each thread its last owner has seen.
struct Sync {
  uint64_t address;
  uint32_t run;
  Time known[2];
};

constexpr uint64_t kBytes = 1 << 20, kSyncs = 1 << 12;
Byte* bytes;
Sync syncs[kSyncs];
int who = -1, piece;
uint32_t run = 1;
uint64_t held, synced;
Time known[2][2];  // [u][v]: up to which time of v thread u has seen; [u][u] is its own
OplabConflict conflict;

template <typename Entry>
RAW Entry* entry(Entry* table, uint64_t size, uint64_t address, uint64_t& count) {
  for (uint64_t at = (address * 0x9E3779B97F4A7C15u) >> 20;; ++at) {
    Entry& found = table[at & (size - 1)];
    if (found.run == run && found.address == address) return &found;
    if (found.run == run) continue;
    if (count >= size / 8 * 7) return nullptr;  // more than any check needs: the rest is not watched
    ++count;
    found = Entry{};
    found.address = address, found.run = run;
    return &found;
  }
}

RAW void report(uint64_t address, int first, bool first_writes, bool writes) {
  if (!conflict.found) conflict = {1, first, first_writes, piece, writes, address};
}

RAW void access(const volatile void* from, size_t size, bool writes) {
  if (who < 0) return;
#ifdef __linux__
  if (from == &_ZN3Ort6GlobalIvE4api_E) return;  // each call of Ort::InitApi stores the same pointer
#endif
  const int other = 1 - who;
  for (size_t i = 0; i < size; ++i) {
    Byte* b = entry(bytes, kBytes, reinterpret_cast<uint64_t>(from) + i, held);
    if (b == nullptr) return;
    if (b->wrote[other] > known[who][other]) {
      report(b->address, b->wrote_piece[other], true, writes);
    } else if (writes && b->read[other] > known[who][other]) {
      report(b->address, b->read_piece[other], false, true);
    }
    (writes ? b->wrote : b->read)[who] = known[who][who];
    (writes ? b->wrote_piece : b->read_piece)[who] = piece;
  }
}

RAW void acquire(const volatile void* at) {
  if (who < 0) return;
  const Sync* s = entry(syncs, kSyncs, reinterpret_cast<uint64_t>(at), synced);
  if (s && s->known[1 - who] > known[who][1 - who]) known[who][1 - who] = s->known[1 - who];
}

RAW void release(const volatile void* at) {
  if (who < 0) return;
  Sync* s = entry(syncs, kSyncs, reinterpret_cast<uint64_t>(at), synced);
  for (int v = 0; s && v < 2; ++v) {
    if (known[who][v] > s->known[v]) s->known[v] = known[who][v];
  }
  ++known[who][who];
}

}  // namespace

extern "C" {

RAW void oplab_watch(int next, int number) {
  if (!bytes) bytes = static_cast<Byte*>(calloc(kBytes, sizeof(Byte)));
  if (next == -2) {
    ++run, held = synced = 0;
    known[0][0] = known[1][1] = 1, known[0][1] = known[1][0] = 0;
  }
  who = next < 0 || !bytes ? -1 : next;
  piece = number;
}
RAW const OplabConflict* oplab_conflict() { return &conflict; }
RAW void oplab_wrote(void* at, size_t size) { access(at, size, true); }

RAW void __tsan_init() {}
RAW void __tsan_func_entry(void*) {}
RAW void __tsan_func_exit() {}
RAW void __tsan_acquire(void*) {}  // called by oplab_kernel.h; the order of a ParallelFor is known here
RAW void __tsan_release(void*) {}
RAW void __tsan_vptr_update(void**, void*) {}
RAW void __tsan_vptr_read(void**) {}
RAW void __tsan_read_range(void* at, size_t size) { access(at, size, false); }
RAW void __tsan_write_range(void* at, size_t size) { access(at, size, true); }

#define ACCESS(size)                                                                  \
  RAW void __tsan_read##size(void* at) { access(at, size, false); }                   \
  RAW void __tsan_write##size(void* at) { access(at, size, true); }                   \
  RAW void __tsan_volatile_read##size(void* at) { access(at, size, false); }          \
  RAW void __tsan_volatile_write##size(void* at) { access(at, size, true); }          \
  RAW void __tsan_unaligned_read##size(void* at) { access(at, size, false); }         \
  RAW void __tsan_unaligned_write##size(void* at) { access(at, size, true); }         \
  RAW void __tsan_read_write##size(void* at) { access(at, size, true); }              \
  RAW void __tsan_unaligned_read_write##size(void* at) { access(at, size, true); }
ACCESS(1) ACCESS(2) ACCESS(4) ACCESS(8) ACCESS(16)

// Only one thread runs at any time, so plain arithmetic is atomic.
#define UPDATE(bits, type, name, made)                                                                        \
  RAW type __tsan_atomic##bits##_##name(volatile void* at, type value, int) {                                 \
    acquire(at);                                                                                              \
    const type old = *static_cast<volatile type*>(at);                                                        \
    *static_cast<volatile type*>(at) = static_cast<type>(made);                                               \
    release(at);                                                                                              \
    return old;                                                                                               \
  }
#define ATOMIC(bits, type)                                                                                    \
  RAW type __tsan_atomic##bits##_load(const volatile void* at, int) {                                         \
    acquire(at);                                                                                              \
    return *static_cast<const volatile type*>(at);                                                            \
  }                                                                                                           \
  RAW void __tsan_atomic##bits##_store(volatile void* at, type value, int) {                                  \
    *static_cast<volatile type*>(at) = value;                                                                 \
    release(at);                                                                                              \
  }                                                                                                           \
  UPDATE(bits, type, exchange, value)                                                                         \
  UPDATE(bits, type, fetch_add, old + value)                                                                  \
  UPDATE(bits, type, fetch_sub, old - value)                                                                  \
  UPDATE(bits, type, fetch_and, old & value)                                                                  \
  UPDATE(bits, type, fetch_or, old | value)                                                                   \
  UPDATE(bits, type, fetch_xor, old ^ value)                                                                  \
  UPDATE(bits, type, fetch_nand, ~(old & value))                                                              \
  RAW bool __tsan_atomic##bits##_compare_exchange_strong(volatile void* at, void* wanted, type value, int, int) { \
    acquire(at);                                                                                              \
    const type old = *static_cast<volatile type*>(at);                                                        \
    const bool same = old == *static_cast<type*>(wanted);                                                     \
    if (same) *static_cast<volatile type*>(at) = value, release(at);                                          \
    *static_cast<type*>(wanted) = old;                                                                        \
    return same;                                                                                              \
  }                                                                                                           \
  RAW bool __tsan_atomic##bits##_compare_exchange_weak(volatile void* at, void* wanted, type value, int a, int b) { \
    return __tsan_atomic##bits##_compare_exchange_strong(at, wanted, value, a, b);                            \
  }                                                                                                           \
  RAW type __tsan_atomic##bits##_compare_exchange_val(volatile void* at, type wanted, type value, int a, int b) { \
    __tsan_atomic##bits##_compare_exchange_strong(at, &wanted, value, a, b);                                  \
    return wanted;                                                                                            \
  }
ATOMIC(8, uint8_t) ATOMIC(16, uint16_t) ATOMIC(32, uint32_t) ATOMIC(64, uint64_t)
RAW void __tsan_atomic_thread_fence(int) {}
RAW void __tsan_atomic_signal_fence(int) {}

// Locks are never contended here, so only their order matters.
#define LOCK(name) \
  RAW int name(void* lock) { return acquire(lock), 0; }
LOCK(pthread_mutex_lock) LOCK(pthread_mutex_trylock) LOCK(pthread_spin_lock) LOCK(pthread_spin_trylock)
LOCK(pthread_rwlock_rdlock) LOCK(pthread_rwlock_tryrdlock) LOCK(pthread_rwlock_wrlock) LOCK(pthread_rwlock_trywrlock)
#define UNLOCK(name) \
  RAW int name(void* lock) { return release(lock), 0; }
UNLOCK(pthread_mutex_unlock) UNLOCK(pthread_spin_unlock) UNLOCK(pthread_rwlock_unlock)

RAW int pthread_once(int* once, void (*work)()) {  // std::call_once
  acquire(once);
  if (*static_cast<volatile int*>(once)) return 0;
  work();
  *static_cast<volatile int*>(once) = 1;
  release(once);
  return 0;
}

// The initialisation of a static variable inside a function.
RAW int __cxa_guard_acquire(uint64_t* guard) {
  acquire(guard);
  return *reinterpret_cast<volatile char*>(guard) == 0;
}
RAW void __cxa_guard_release(uint64_t* guard) {
  *reinterpret_cast<volatile char*>(guard) = 1;
  release(guard);
}
RAW void __cxa_guard_abort(uint64_t*) {}

// The compiler calls these for loops and copies. volatile, because it would compile their own loops to such calls.
RAW void* memset(void* to, int value, size_t size) {
  access(to, size, true);
  for (size_t i = 0; i < size; ++i) static_cast<volatile char*>(to)[i] = static_cast<char>(value);
  return to;
}
RAW void* memmove(void* to, const void* from, size_t size) {
  access(from, size, false), access(to, size, true);
  volatile char* out = static_cast<volatile char*>(to);
  const volatile char* in = static_cast<const volatile char*>(from);
  const bool up = out < in;
  for (size_t i = 0; i < size; ++i) out[up ? i : size - 1 - i] = in[up ? i : size - 1 - i];
  return to;
}
RAW void* memcpy(void* __restrict to, const void* __restrict from, size_t size) { return memmove(to, from, size); }
RAW void* __tsan_memset(void* to, int value, size_t size) { return memset(to, value, size); }
RAW void* __tsan_memmove(void* to, const void* from, size_t size) { return memmove(to, from, size); }
RAW void* __tsan_memcpy(void* to, const void* from, size_t size) { return memmove(to, from, size); }

RAW void free(void*) noexcept {}
}

RAW void operator delete(void*) noexcept {}
RAW void operator delete[](void*) noexcept {}
RAW void operator delete(void*, size_t) noexcept {}
RAW void operator delete[](void*, size_t) noexcept {}
namespace std {
enum class align_val_t : size_t;
}
RAW void operator delete(void*, std::align_val_t) noexcept {}
RAW void operator delete[](void*, std::align_val_t) noexcept {}
RAW void operator delete(void*, size_t, std::align_val_t) noexcept {}
RAW void operator delete[](void*, size_t, std::align_val_t) noexcept {}

#pragma GCC visibility pop
