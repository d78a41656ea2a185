#include "deploy/operator/local_run/run_progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

#include "common/telemetry/line_output.h"
#include "common/telemetry/one_line.h"

namespace splitveil {

std::string TimeLeft(absl::Duration elapsed, int64_t ended, int64_t left) {
  if (left == 0) {
    return "";
  }
  const double seconds = absl::ToDoubleSeconds(elapsed) / static_cast<double>(ended) * static_cast<double>(left);
  if (seconds < 90) {
    return absl::StrFormat("about %.0f s left", std::ceil(seconds));
  }
  return seconds < 90 * 60 ? absl::StrFormat("about %.0f min left", seconds / 60)
                           : absl::StrFormat("about %.1f h left", seconds / 3600);
}

RunProgress::RunProgress(int64_t total, int64_t done) : total_(total), done_before_(done), started_(absl::Now()) {
  if (done > 0) {
    WriteLine(STDERR_FILENO, absl::StrCat(done, " of ", total, " runs are finished already\n"));
  }
}

void RunProgress::Finished(const std::string& run, const RunFigures& figures) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++finished_;
  double strongest = 0;
  for (const LeakPoint& leak : figures.leaks) {
    strongest = std::max(strongest, std::isfinite(leak.p95) ? leak.p95 : 0);
  }
  const std::string leak = strongest > 0 ? absl::StrFormat(", strongest leak p95 %.3f", strongest) : "";
  Write(run, absl::StrFormat("test AUC %.4f%s, %.0f s", figures.best_test_auc, leak, figures.seconds));
}

void RunProgress::Failed(const std::string& run, const std::string& name, const absl::Status& error) {
  const std::lock_guard<std::mutex> lock(mutex_);
  failed_.push_back(absl::StrCat(name, ": ", error.message()));
  Write(run, "FAILED");
}

void RunProgress::Write(const std::string& run, const std::string& what) {
  const int64_t ended = finished_ + static_cast<int64_t>(failed_.size());
  const int64_t so_far = done_before_ + ended;
  const std::string left = TimeLeft(absl::Now() - started_, ended, total_ - so_far);
  WriteLine(
      STDERR_FILENO,
      OneLine(absl::StrFormat("[%d/%d] %s: %s%s%s", so_far, total_, run, what, left.empty() ? "" : "; ", left)) + "\n");
}

absl::Status RunProgress::Outcome() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const std::string& failure : failed_) {
    WriteLine(STDERR_FILENO, OneLine(absl::StrCat("failed: ", failure)) + "\n");
  }
  const int64_t missing = total_ - done_before_ - finished_;
  if (missing == 0) {
    return absl::OkStatus();
  }
  const int64_t stopped = missing - static_cast<int64_t>(failed_.size());
  return absl::InternalError(
      stopped > 0 ? absl::StrCat("stopped on request with ", missing, " of ", total_,
                                 " runs missing; the same command goes on from there")
                  : absl::StrCat(missing, " of ", total_, " runs failed; the same command repeats only those"));
}

}  // namespace splitveil
