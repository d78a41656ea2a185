#include "common/process/runtime.h"

#include <dlfcn.h>
#include <malloc.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"

#include "common/telemetry/log.h"

namespace splitveil {

const char* Version() { return SPLITVEIL_VERSION; }

namespace {

constexpr absl::string_view kOptimised[] = {"openblas", "mkl", "blis", "atlas"};

}  // namespace

std::string LoadedBlasPath() {
  // The definition that the dynamic linker resolves to, where several libraries bring one.
  const void* sgemm = dlsym(RTLD_DEFAULT, "sgemm_");
  Dl_info library = {};
  if (sgemm == nullptr || dladdr(sgemm, &library) == 0 || library.dli_fname == nullptr) {
    return "";
  }
  const std::unique_ptr<char, void (*)(void*)> resolved(realpath(library.dli_fname, nullptr), std::free);
  return resolved != nullptr ? resolved.get() : library.dli_fname;
}

bool IsReferenceBlas(absl::string_view resolved_path) {
  for (const absl::string_view name : kOptimised) {
    if (absl::StrContains(resolved_path, name)) {
      return false;
    }
  }
  const size_t slash = resolved_path.rfind('/');
  const absl::string_view file = slash == absl::string_view::npos ? resolved_path : resolved_path.substr(slash + 1);
  return absl::StartsWith(file, "libblas.so");
}

bool SetBlasThreads(int threads) {
  const auto set_threads = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  if (set_threads == nullptr || threads < 1) {
    return false;
  }
  set_threads(threads);
  return true;
}

namespace {

// Set by the first execution for the second.
constexpr char kExecutedAgain[] = "SPLITVEIL_EXECUTED_AGAIN";

std::atomic<bool> stop_requested{false};
std::atomic<int> reload_requests{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "written by signal handlers");

// glibc gives blocks above 128 KiB back at each free and pays page faults at each malloc: 1.3 to 2.1 times the time of
// a training step. The arenas of threads other than the first are pieces of 64 MiB that it gives back whatever it is
// told, so all threads share the first one's: a step of the label party runs on a thread of its server.
void KeepFreedMemory() {
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, -1);  // Never.
  mallopt(M_TOP_PAD, 64 << 20);
}

// What OpenBLAS's SKYLAKEX kernels need.
bool CpuHasAvx512() {
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
#else
  return false;
#endif
}

// True if `name` was unset.
bool SetIfUnset(const char* name, const char* value) {
  return std::getenv(name) == nullptr && setenv(name, value, /*overwrite=*/1) == 0;
}

extern "C" void OnStopSignal(int signal_number) {
  if (stop_requested.exchange(true)) {
    // Delivered when this handler returns: dies as if it had never handled the signal.
    std::signal(signal_number, SIG_DFL);
    std::raise(signal_number);
  }
}

extern "C" void OnReloadSignal(int /*signal_number*/) { reload_requests.fetch_add(1); }

}  // namespace

void SilenceGrpc() { SetIfUnset("GRPC_VERBOSITY", "NONE"); }

void ForbidCoreDumps() {
  const char* const allowed = std::getenv("SPLITVEIL_CORE_DUMPS");
  if (allowed != nullptr && std::strcmp(allowed, "1") == 0) {
    return;
  }
  // The limit alone does not hold where the kernel hands dumps to a program (core(5)).
  rlimit core = {};
  getrlimit(RLIMIT_CORE, &core);
  core.rlim_cur = 0;
  setrlimit(RLIMIT_CORE, &core);
  prctl(PR_SET_DUMPABLE, 0);
}

void RaiseFileLimit() {
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
}

void TuneRuntime(char** argv) {
  ForbidCoreDumps();
  RaiseFileLimit();
  KeepFreedMemory();
  // Beyond the limit on a file's size a write then fails, which names the file, as on a full disk.
  std::signal(SIGXFSZ, SIG_IGN);
  SilenceGrpc();
  // Debian builds Abseil with its debug checks, one of which follows the order of every two locks that gRPC takes.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  if (std::getenv(kExecutedAgain) != nullptr) {
    unsetenv(kExecutedAgain);                           // Not for the programs this one starts.
    prctl(PR_SET_NAME, program_invocation_short_name);  // Executing /proc/self/exe has named it "exe".
    return;
  }
  bool changed = SetIfUnset("OPENBLAS_NUM_THREADS", "1");
  if (CpuHasAvx512()) {
    changed |= SetIfUnset("OPENBLAS_CORETYPE", "SKYLAKEX");
  }
  // Else the threads that wait for the next loop of LibTorch spin on the cores that OpenBLAS's threads, or the other
  // party on the same machine, compute on: 3 to 5 times the time of a step on two threads.
  changed |= SetIfUnset("OMP_WAIT_POLICY", "passive");
  // OpenBLAS's own threads spin for 2^26 cycles after a product, longer than a step. Two to this power, some 50
  // microseconds, bridge the gap to the next product, and are over soon when the party waits for the other one.
  changed |= SetIfUnset("OPENBLAS_THREAD_TIMEOUT", "17");
  if (changed && setenv(kExecutedAgain, "1", /*overwrite=*/1) == 0) {
    execv("/proc/self/exe", argv);
    unsetenv(kExecutedAgain);
  }
}

void ReturnFreeMemory() { malloc_trim(0); }

void GiveWayToOtherThreads() {
  constexpr int kNicer = 5, kNicest = 19;
  // On Linux 0 is the thread, not the process.
  setpriority(PRIO_PROCESS, 0, std::min(getpriority(PRIO_PROCESS, 0) + kNicer, kNicest));
}

void WarnIfSlowBlas() {
  const std::string path = LoadedBlasPath();
  if (IsReferenceBlas(path)) {
    LogWarning("SLOW: matrix products run on the reference BLAS (", path,
               "), 14 to 24 times slower than OpenBLAS; install libopenblas0-pthread, or choose it with "
               "update-alternatives --config libblas.so.3-x86_64-linux-gnu");
  }
}

void HandleStopSignals() {
  struct sigaction action = {};
  action.sa_handler = OnStopSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

void HandleReloadSignal() {
  struct sigaction action = {};
  action.sa_handler = OnReloadSignal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGHUP, &action, nullptr);
}

bool StopRequested() { return stop_requested.load(); }

int ReloadRequests() { return reload_requests.load(); }

}  // namespace splitveil
