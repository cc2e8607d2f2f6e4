// Hides sets of instructions from all libraries that this process loads later. ONNX Runtime, PyTorch and our kernels ask the
// instruction CPUID what there is. Linux can let it fault instead (arch_prctl, ARCH_SET_CPUID); the handler executes it and
// removes bits from its answer. What the C library chose when the process started (memcpy) stays as it is.
#if defined(__linux__) && defined(__x86_64__)
#include <cpuid.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

namespace {

constexpr unsigned bits() { return 0; }
template <typename... More>
constexpr unsigned bits(int first, More... more) {
  return 1u << first | bits(more...);
}

bool no_avx2 = false;

int let_cpuid(bool run) { return static_cast<int>(syscall(SYS_arch_prctl, 0x1012 /* ARCH_SET_CPUID */, run)); }

void answer(int, siginfo_t*, void* context) {
  greg_t* registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const auto* code = reinterpret_cast<const unsigned char*>(registers[REG_RIP]);
  if (code[0] != 0x0f || code[1] != 0xa2) {  // not CPUID: a crash like any other, when it is run again
    signal(SIGSEGV, SIG_DFL);
    return;
  }
  const auto leaf = static_cast<unsigned>(registers[REG_RAX]), part = static_cast<unsigned>(registers[REG_RCX]);
  unsigned a, b, c, d;
  let_cpuid(true);
  __cpuid_count(leaf, part, a, b, c, d);
  let_cpuid(false);
  if (leaf == 7 && part == 0) {  // all AVX-512, AMX
    b &= ~bits(16, 17, 21, 26, 27, 28, 30, 31);
    c &= ~bits(1, 6, 11, 12, 14);
    d &= ~bits(2, 3, 8, 22, 23, 24, 25);
    if (no_avx2) b &= ~bits(5), c &= ~bits(9, 10);
  } else if (leaf == 7 && part == 1) {  // AVX512_BF16, AMX_FP16; AVX_VNNI and its kind
    a &= ~bits(5, 21);
    if (no_avx2) a &= ~bits(4, 23), d &= ~bits(4, 5, 10);
    d &= ~bits(19);  // AVX10
  } else if (leaf == 1 && no_avx2) {  // FMA, AVX, F16C
    c &= ~bits(12, 28, 29);
  } else if (leaf == 0x80000001 && no_avx2) {  // XOP, FMA4
    c &= ~bits(11, 16);
  }
  registers[REG_RAX] = a, registers[REG_RBX] = b, registers[REG_RCX] = c, registers[REG_RDX] = d;
  registers[REG_RIP] += 2;
}

}  // namespace

// level 1: what is left is AVX2 and FMA; 2: SSE. Returns 0 where it worked. Threads that exist already are not affected.
extern "C" int hide(int level) {
  no_avx2 = level > 1;
  struct sigaction action = {};
  action.sa_sigaction = answer;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (sigaction(SIGSEGV, &action, nullptr) != 0) return -1;
  return let_cpuid(false);
}
#else
extern "C" int hide(int) { return -1; }
#endif
