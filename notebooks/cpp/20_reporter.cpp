// Chapter 20: what a customer's program does when it crashes. Linux, on x86-64 and AArch64.
#include <fcntl.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

#include <cinttypes>
#include <cstdint>
#include <cstdio>

namespace {

// In a signal handler only functions are safe that wait for nothing: open, read and write are.
void report(int signal, siginfo_t*, void* raw) {
  const auto& machine = static_cast<ucontext_t*>(raw)->uc_mcontext;
#if defined(__x86_64__)
  const auto address = static_cast<uint64_t>(machine.gregs[REG_RIP]);
#else
  const auto address = static_cast<uint64_t>(machine.pc);
#endif
  char text[4096];
  const int length = std::snprintf(text, sizeof(text), "crashed at 0x%" PRIx64 "\n", address);
  if (write(STDERR_FILENO, text, static_cast<size_t>(length)) < 0) _exit(1);
  const int maps = open("/proc/self/maps", O_RDONLY);
  for (ssize_t size; (size = read(maps, text, sizeof(text))) > 0;) {
    if (write(STDERR_FILENO, text, static_cast<size_t>(size)) < 0) _exit(1);
  }
  _exit(128 + signal);
}

}  // namespace

extern "C" void install_reporter() {
  struct sigaction action{};
  action.sa_sigaction = report;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
}
