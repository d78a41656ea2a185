#include "common/storage/mapped_files.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>

namespace splitveil {
namespace {

constexpr size_t kMaxPath = 256;
constexpr int kInvalidInput = 2;  // ARCHITECTURE.md, "Exit codes".

// Read by a signal handler: no lock, no memory that somebody else owns. `begin` is written last and cleared first.
struct Mapping {
  std::atomic<bool> taken{false};
  std::atomic<const char*> begin{nullptr};
  size_t size = 0;
  std::array<char, kMaxPath> path{};
};
static_assert(std::atomic<const char*>::is_always_lock_free, "read by a signal handler");

std::array<Mapping, 256> mappings;

const Mapping* MappingAt(const char* address) {
  for (const Mapping& mapping : mappings) {
    const char* const begin = mapping.begin.load();
    if (begin != nullptr && address >= begin && address < begin + mapping.size) {
      return &mapping;
    }
  }
  return nullptr;
}

void Write(const char* text) {
  const size_t size = std::strlen(text);
  if (write(STDERR_FILENO, text, size) < 0) {
    return;  // Nobody is left to tell.
  }
}

extern "C" void OnBusError(int signal_number, siginfo_t* info, void* /*context*/) {
  const Mapping* const mapping = MappingAt(static_cast<const char*>(info->si_addr));
  if (mapping == nullptr) {
    signal(signal_number, SIG_DFL);  // The instruction that failed is repeated when this handler returns.
    return;
  }
  Write(program_invocation_short_name);
  Write(": error: ");
  Write(mapping->path.data());
  Write(": expected a file that stays as it was when it was opened, found it cut short or unreadable\n");
  _exit(kInvalidInput);
}

bool HandleBusErrors() {
  struct sigaction action = {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  return sigaction(SIGBUS, &action, nullptr) == 0;
}

}  // namespace

void NoteMappedFile(absl::string_view mapped, const std::string& path) {
  static const bool handled = HandleBusErrors();
  (void)handled;
  for (Mapping& mapping : mappings) {
    if (!mapping.taken.exchange(true)) {
      mapping.size = mapped.size();
      mapping.path.fill('\0');
      path.copy(mapping.path.data(), kMaxPath - 1);
      mapping.begin = mapped.data();
      return;
    }
  }
}

void ForgetMappedFile(absl::string_view mapped) {
  for (Mapping& mapping : mappings) {
    if (mapping.begin == mapped.data()) {
      mapping.begin = nullptr;
      mapping.taken = false;
      return;
    }
  }
}

}  // namespace splitveil
