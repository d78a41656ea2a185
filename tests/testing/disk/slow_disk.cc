// A library for LD_PRELOAD: a disk that takes SPLITVEIL_TEST_SYNC_MILLISECONDS longer to make something durable.
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
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

}  // extern "C"
