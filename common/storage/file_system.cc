#include "common/storage/file_system.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <ios>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace splitveil {
namespace {

constexpr mode_t kFolderMode = 0755;

namespace fs = std::filesystem;

bool BeginsWith(const std::string& path, absl::string_view header) {
  std::ifstream file(path, std::ios::binary);
  std::string begin(header.size(), '\0');
  return file.read(begin.data(), static_cast<std::streamsize>(begin.size())).good() && begin == header;
}

// Without links and dots, as far as the path exists.
fs::path Resolved(const std::string& path) {
  std::error_code error;
  const fs::path resolved = fs::weakly_canonical(fs::absolute(path), error);
  return error ? fs::path(path).lexically_normal() : resolved;
}

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
  // In a signal handler: no lock and no allocation, since the interrupted code may hold either.
  const Mapping* const mapping = MappingAt(static_cast<const char*>(info->si_addr));
  if (mapping == nullptr) {
    signal(signal_number, SIG_DFL);  // The instruction that failed is repeated when this handler returns.
    return;
  }
  Write(program_invocation_short_name);
  Write(": error: ");
  Write(mapping->path.data());
  Write(": expected a file that stays as it was when it was opened, found it cut short or unreadable\n");
  // No destructors: they are not safe in a signal handler.
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

absl::Status CheckFolderOf(const std::string& path) {
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  folder = folder.empty() ? "." : folder;
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    return absl::NotFoundError(
        absl::StrCat(path, ": expected a path in a folder that exists, found none of that name"));
  }
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a folder that can be written to, found: ", std::strerror(errno)));
  }
  // A file that cannot be replaced would be found out only at the end of a long run.
  if (access(path.c_str(), F_OK) == 0 && access(path.c_str(), W_OK) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a file that can be written, found: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

std::string NameOfDescriptor(int descriptor) { return absl::StrCat("/proc/self/fd/", descriptor); }

int OpenUnnamed(const std::string& path, int access, mode_t mode) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return open(folder.empty() ? "." : folder.c_str(), access | O_TMPFILE | O_CLOEXEC, mode);
}

absl::Status SyncFolderOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent;
  // A renamed file is durable only once its folder is (fsync(2)).
  const int descriptor = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const bool synced = descriptor >= 0 && (fsync(descriptor) == 0 || errno == EINVAL);
  const int error = errno;
  if (descriptor >= 0) {
    close(descriptor);
  }
  return synced
             ? absl::OkStatus()
             : absl::InternalError(absl::StrCat(path, ": its folder cannot be made durable: ", std::strerror(error)));
}

std::error_code MakeFolders(const std::filesystem::path& path) {
  std::error_code ignored;
  if (path.empty() || std::filesystem::is_directory(path, ignored)) {
    return {};
  }
  if (const std::error_code above = MakeFolders(path.parent_path()); above) {
    return above;
  }
  // create_directories would ask for 0777, which some umasks leave writable for everybody.
  if (mkdir(path.c_str(), kFolderMode) == 0 || std::filesystem::is_directory(path, ignored)) {
    return {};  // Also where another process was faster.
  }
  return {errno == EEXIST ? ENOTDIR : errno, std::generic_category()};
}

absl::Status CheckOwnTable(const std::string& path, absl::string_view header) {
  std::error_code error;
  // An operator's typo must not cost a privacy account or a key.
  const fs::file_status found = fs::status(path, error);
  if (found.type() == fs::file_type::not_found || (fs::is_regular_file(found) && BeginsWith(path, header))) {
    return absl::OkStatus();
  }
  return absl::AlreadyExistsError(absl::StrCat(path,
                                               ": expected no file of this name, or an earlier table with the same "
                                               "first line, found a different file; it stays"));
}

bool NameSameFile(const std::string& path, const std::string& other) {
  std::error_code ignored;
  return Resolved(path) == Resolved(other) || fs::equivalent(path, other, ignored);
}

void NoteMappedFile(absl::string_view mapped, const std::string& path) {
  static const bool handled = HandleBusErrors();
  (void)handled;
  for (Mapping& mapping : mappings) {
    if (!mapping.taken.exchange(true)) {
      mapping.size = mapped.size();
      mapping.path.fill('\0');
      path.copy(mapping.path.data(), kMaxPath - 1);
      // Written last: the handler must never see a begin without its size and path.
      mapping.begin = mapped.data();
      return;
    }
  }
}

void ForgetMappedFile(absl::string_view mapped) {
  for (Mapping& mapping : mappings) {
    if (mapping.begin == mapped.data()) {
      // Cleared before the memory is given back, which may be mapped again by something else.
      mapping.begin = nullptr;
      mapping.taken = false;
      return;
    }
  }
}

}  // namespace splitveil
