#include "common/process/tune_runtime.h"

#include <alloca.h>
#include <malloc.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>

#include "absl/synchronization/mutex.h"

#include "common/process/runtime.h"

namespace splitveil {
namespace {

// glibc gives blocks above 128 KiB back at each free and pays page faults at each malloc: 1.3 to 2.1 times the time of
// a training step. The arenas of threads other than the first are pieces of 64 MiB that it gives back in spite of these
// settings, so all threads share the first one's: a step of the label party runs on a thread of its server.
void KeepFreedMemory() {
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, -1);  // Never.
  mallopt(M_TOP_PAD, 64 << 20);
}

// What OpenBLAS's SKYLAKEX kernels need.
bool CpuHasAvx512() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

// Whether `environment` has the variable of `setting`, "NAME=VALUE".
bool Has(char* const* environment, const char* setting) {
  for (; *environment != nullptr; ++environment) {
    size_t i = 0;
    while (setting[i] != '=' && (*environment)[i] == setting[i]) {
      ++i;
    }
    if (setting[i] == '=' && (*environment)[i] == '=') {
      return true;
    }
  }
  return false;
}

// Neither the libraries nor libc's own environment have been set up: nothing but its arguments, the stack and system
// calls.
void SetEnvironmentOfLibraries(int /*argc*/, char** argv, char** environment) {
  constexpr size_t kSettings = 4;
  const char* const settings[kSettings] = {
      "OPENBLAS_NUM_THREADS=1",
      // Else the threads that wait for the next loop of LibTorch spin on the cores that OpenBLAS's threads, or the
      // other party on the same machine, compute on: 3 to 5 times the time of a step on two threads.
      "OMP_WAIT_POLICY=passive",
      // OpenBLAS's own threads spin for 2^26 cycles after a product, longer than a step. Two to this power, some 50
      // microseconds, bridge the gap to the next product, and are over soon when the party waits for the other one.
      "OPENBLAS_THREAD_TIMEOUT=17",
      CpuHasAvx512() ? "OPENBLAS_CORETYPE=SKYLAKEX" : nullptr,
  };
  size_t size = 0;
  while (environment[size] != nullptr) {
    ++size;
  }
  const size_t before = size;
  auto** const extended = static_cast<char**>(alloca((size + kSettings + 1) * sizeof(char*)));
  for (size_t i = 0; i < size; ++i) {
    extended[i] = environment[i];
  }
  for (const char* const setting : settings) {
    if (setting != nullptr && !Has(environment, setting)) {
      extended[size++] = const_cast<char*>(setting);
    }
  }
  extended[size] = nullptr;
  if (size > before) {
    execve("/proc/self/exe", argv, extended);
  }
}

// The loader calls these before it starts any library. From main it would cost twice the time of starting LibTorch.
__attribute__((section(".preinit_array"), used)) void (*const kBeforeLibraries)(int, char**,
                                                                                char**) = SetEnvironmentOfLibraries;

}  // namespace

void TuneRuntime() {
  prctl(PR_SET_NAME, program_invocation_short_name);  // Executing /proc/self/exe has named it "exe".
  ForbidCoreDumps();
  RaiseFileLimit();
  KeepFreedMemory();
  // Beyond the limit on a file's size a write then fails, which names the file, as on a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  SilenceGrpc();
  // Debian builds Abseil with its debug checks, one of which follows the order of every two locks that gRPC takes.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

}  // namespace splitveil
