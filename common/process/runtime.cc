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
#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/match.h"

#include "common/telemetry/log.h"

namespace splitveil {

const char* Version() { return SPLITVEIL_VERSION; }

std::string ReferenceBlasPath() {
  // The definition that the dynamic linker resolves to, if several libraries bring one.
  const void* sgemm = dlsym(RTLD_DEFAULT, "sgemm_");
  Dl_info library = {};
  if (sgemm == nullptr || dladdr(sgemm, &library) == 0 || library.dli_fname == nullptr) {
    return "";
  }
  // LibTorch may bring a BLAS of its own, which names itself in no way.
  if (!absl::StartsWith(std::filesystem::path(library.dli_fname).filename().string(), "libblas.so")) {
    return "";
  }
  // Decided by the symbols that answer, in the library or behind it, not by its name: containers have OpenBLAS under
  // the plain name, too.
  const std::unique_ptr<void, int (*)(void*)> handle(dlopen(library.dli_fname, RTLD_LAZY | RTLD_NOLOAD), dlclose);
  for (const char* const own : {"openblas_get_config", "mkl_get_version", "bli_info_get_version_str", "ATL_sgemm"}) {
    if (handle != nullptr && dlsym(handle.get(), own) != nullptr) {
      return "";
    }
  }
  const std::unique_ptr<char, void (*)(void*)> resolved(realpath(library.dli_fname, nullptr), std::free);
  return resolved != nullptr ? resolved.get() : library.dli_fname;
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

std::atomic<bool> stop_requested{false};
std::atomic<int> reload_requests{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free,
              "written by signal handlers");

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
  // The limit alone does not help if the kernel hands dumps to a program (core(5)).
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

// KeepFreedMemory (tune_runtime.cc) has told glibc never to do so by itself.
void ReturnFreeMemory() { malloc_trim(0); }

void GiveWayToOtherThreads() {
  constexpr int kNicer = 5, kNicest = 19;
  // On Linux 0 is the thread, not the process.
  setpriority(PRIO_PROCESS, 0, std::min(getpriority(PRIO_PROCESS, 0) + kNicer, kNicest));
}

void WarnIfSlowBlas() {
  if (const std::string path = ReferenceBlasPath(); !path.empty()) {
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
