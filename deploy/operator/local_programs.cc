#include "deploy/operator/local_programs.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <thread>

#include "absl/status/status.h"

namespace splitveil {

absl::StatusOr<int> JobsOf(const Flags& flags) {
  const absl::StatusOr<int64_t> jobs = flags.GetInt("jobs", 0, 1024);
  if (!jobs.ok()) {
    return jobs.status();
  }
  // Each run is two processes.
  const int64_t by_default = std::max(1u, std::thread::hardware_concurrency() / 2);
  return static_cast<int>(*jobs > 0 ? *jobs : by_default);
}

absl::StatusOr<std::string> OwnFolder() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    return absl::InternalError("/proc/self/exe: cannot be read: " + error.message());
  }
  return program.parent_path().string();
}

}  // namespace splitveil
