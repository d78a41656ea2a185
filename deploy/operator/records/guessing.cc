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

// By the epochs that attacks were scored over, as the label party's RESULT line counts, else by the protection's own
// counts; NaN where neither is there.
double ShareOfPositives(const RunRecords& run) {
  for (const EpochLeakRow& row : run.epoch_leaks()) {
    if (row.examples > 0) {
      return static_cast<double>(row.positives) / static_cast<double>(row.examples);
    }
  }
  double sum = 0;
  int64_t count = 0;
  for (const ProtectionRow& row : run.protections()) {
    if (std::isfinite(row.p)) {
      sum += row.p;
      ++count;
    }
  }
  return count > 0 ? sum / static_cast<double>(count) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

Guessing GuessingOf(const RunRecords& run) {
  const double batch = MeanBatch(run), share = ShareOfPositives(run);
  return batch > 0 && std::isfinite(share) ? GuessingOver(batch * share, batch * (1 - share)) : Guessing();
}

}  // namespace splitveil
