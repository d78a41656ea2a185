#include "deploy/operator/local_run/local_programs.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <thread>

#include "absl/status/status.h"

#include "common/process/runtime.h"
#include "common/status/status_macros.h"

namespace splitveil {

absl::StatusOr<std::string> OwnFolder() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    return absl::InternalError("/proc/self/exe: cannot be read: " + error.message());
  }
  return program.parent_path().string();
}

absl::Status FindLocalPrograms(LocalRunsOptions& options) {
  if (options.jobs == 0) {
    options.jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency() / 2));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(options.programs, OwnFolder());
  options.stop_requested = &StopRequested;
  HandleStopSignals();
  return absl::OkStatus();
}

}  // namespace splitveil
