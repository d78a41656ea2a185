#include "label_party/audit/measured_leak.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/status/statusor.h"

#include "common/leakage/attack_traits.h"
#include "common/leakage/leak_auc.h"
#include "common/leakage/scores.h"

namespace splitveil {

double MeasuredLeak(ConstMatrixView gradients, ConstMatrixView clean, const ReleasedBatch& batch) {
  const NormAndCosineScores scores = ScoreNormsAndCosines(gradients, batch.CleanPositive(clean));
  double leak = 0.5;
  for (const std::vector<float>* attack : {&scores.norms, &scores.cosines}) {
    if (attack->empty()) {
      continue;
    }
    if (const absl::StatusOr<double> auc = LeakAuc(*attack, batch.labels, RowsLeftOut(v1::COSINE, batch.hint_rows));
        auc.ok()) {
      leak = std::max(leak, 0.5 + std::abs(*auc - 0.5));
    }
  }
  return leak;
}

}  // namespace splitveil
