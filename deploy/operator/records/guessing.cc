#include "deploy/operator/records/guessing.h"

#include <cmath>
#include <cstdint>
#include <limits>

namespace splitveil {
namespace {

double MeanBatch(const RunRecords& run) {
  double examples = 0;
  for (const StepRow& row : run.steps()) {
    examples += static_cast<double>(row.examples);
  }
  return run.steps().empty() ? 0 : examples / static_cast<double>(run.steps().size());
}

// By the protection's own counts, else by the epochs that attacks were scored over; NaN where neither is there.
double ShareOfPositives(const RunRecords& run) {
  double sum = 0;
  int64_t count = 0;
  for (const ProtectionRow& row : run.protections()) {
    if (std::isfinite(row.p)) {
      sum += row.p;
      ++count;
    }
  }
  if (count > 0) {
    return sum / static_cast<double>(count);
  }
  for (const EpochLeakRow& row : run.epoch_leaks()) {
    if (row.examples > 0) {
      return static_cast<double>(row.positives) / static_cast<double>(row.examples);
    }
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

Guessing GuessingOf(const RunRecords& run) {
  const double batch = MeanBatch(run), share = ShareOfPositives(run);
  return batch > 0 && std::isfinite(share) ? GuessingOver(batch * share, batch * (1 - share)) : Guessing();
}

}  // namespace splitveil
