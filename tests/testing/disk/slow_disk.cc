// A library for LD_PRELOAD: a disk that takes SPLITVEIL_TEST_SYNC_MILLISECONDS longer to make something durable, and a
// second to remove a file whose name ends with SPLITVEIL_TEST_SLOW_TO_REMOVE.
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

namespace {

void Dawdle() {
  const char* const milliseconds = std::getenv("SPLITVEIL_TEST_SYNC_MILLISECONDS");
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds == nullptr ? 0 : std::atoi(milliseconds)));
}

}  // namespace

extern "C" {

int fsync(int descriptor) {
  Dawdle();
  return static_cast<int>(syscall(SYS_fsync, descriptor));
}

int fdatasync(int descriptor) {
  Dawdle();
  return static_cast<int>(syscall(SYS_fdatasync, descriptor));
}

int remove(const char* path) noexcept {  // NOLINT(readability-identifier-naming): the C library names it.
  const char* const end = std::getenv("SPLITVEIL_TEST_SLOW_TO_REMOVE");
  const std::string_view name = path;
  if (end != nullptr && name.size() >= std::strlen(end) && name.substr(name.size() - std::strlen(end)) == end) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
  }
  const int unlinked = unlink(path);
  return unlinked != 0 && errno == EISDIR ? rmdir(path) : unlinked;
}

}  // extern "C"
