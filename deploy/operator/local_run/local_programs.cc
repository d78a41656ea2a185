#include "deploy/operator/local_run/local_programs.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/process/runtime.h"
#include "common/status/status_macros.h"
#include "common/storage/file_system.h"
#include "common/telemetry/log.h"

namespace splitveil {

absl::StatusOr<std::unique_ptr<FolderLock>> FolderLock::Take(const std::string& folder) {
  MakeFolders(folder);  // Where it cannot, opening the file says it.
  const std::string path = folder + "/run.lock";
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": cannot be opened: ", std::strerror(errno)));
  }
  std::unique_ptr<FolderLock> lock(new FolderLock(descriptor));
  // The kernel drops the lock when the process ends, however it ends: no stale lock to remove.
  if (flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(folder, ": a different sweep is running in this folder: wait for it, or use a different --out"));
  }
  return lock;
}

FolderLock::~FolderLock() { close(descriptor_); }

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
    // Each run is two processes.
    options.jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency() / 2));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(options.programs, OwnFolder());
  options.stop_requested = &StopRequested;
  HandleStopSignals();
  return absl::OkStatus();
}

RunProgress::RunProgress(int64_t total, int64_t done, int fd)
    : total_(total), done_before_(done), fd_(fd), line_("runs", /*unit=*/"", fd) {
  const absl::MutexLock lock(&mutex_);
  if (done > 0) {
    Write(absl::StrCat(done, " of ", total, " runs are finished already"));
  }
  if (done < total) {
    Draw();  // The time left is measured from here on.
  }
}

void RunProgress::Finished(const std::string& run, const RunFigures& figures) {
  const std::string leak =
      figures.strongest() != nullptr ? absl::StrFormat(", strongest attack AUC %.3f", figures.strongest()->auc()) : "";
  const absl::MutexLock lock(&mutex_);
  ++finished_;
  Ended(run, absl::StrFormat("test %s %.4f%s, %.0f s", figures.test.is_regression() ? "R^2" : "AUC",
                             figures.test.quality().value_or(std::nan("")), leak, figures.seconds.value_or(0)));
}

void RunProgress::Failed(const std::string& run, const std::string& name, const absl::Status& error) {
  const absl::MutexLock lock(&mutex_);
  failed_.push_back(absl::StrCat(name, ": ", error.message()));
  Ended(run, "FAILED");
}

void RunProgress::Write(const std::string& text) { WriteLine(fd_, absl::StrCat(OneLine(text), "\n")); }

void RunProgress::Ended(const std::string& run, const std::string& how) {
  Write(absl::StrFormat("[%d/%d] %s: %s", SoFar(), total_, run, how));
  Draw();
}

int64_t RunProgress::SoFar() const { return done_before_ + finished_ + static_cast<int64_t>(failed_.size()); }

void RunProgress::Draw() {
  ProgressUpdate update;
  update.step = SoFar();
  update.total_steps = total_;
  line_.Update(update);
}

void RunProgress::Finish() {
  const absl::MutexLock lock(&mutex_);
  line_.Finish();
}

absl::Status RunProgress::Outcome() {
  const absl::MutexLock lock(&mutex_);
  for (const std::string& failure : failed_) {
    Write(absl::StrCat("failed: ", failure));
  }
  const int64_t missing = total_ - done_before_ - finished_;
  if (missing == 0) {
    return absl::OkStatus();
  }
  // Missing and not failed: they never ran.
  const int64_t stopped = missing - static_cast<int64_t>(failed_.size());
  return absl::InternalError(
      stopped > 0 ? absl::StrCat("stopped on request with ", missing, " of ", total_,
                                 " runs missing; the same command goes on from there")
                  : absl::StrCat(missing, " of ", total_, " runs failed; the same command repeats only those"));
}

}  // namespace splitveil
