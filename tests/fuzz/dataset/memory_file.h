// Bytes under a file name, without a file on a disk.
#ifndef SPLITVEIL_TESTS_FUZZ_DATASET_MEMORY_FILE_H_
#define SPLITVEIL_TESTS_FUZZ_DATASET_MEMORY_FILE_H_

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"

namespace splitveil {

// Aborts, so that a fuzzer keeps the input.
inline void Require(bool condition) {
  if (!condition) {
    std::abort();
  }
}

class MemoryFile {
 public:
  explicit MemoryFile(absl::string_view bytes) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    Require(descriptor_ >= 0 && write(descriptor_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_FUZZ_DATASET_MEMORY_FILE_H_
