#include <cstdio>
#include <limits>

#include "deploy/operator/command.h"

#include "common/preparation/synthetic_criteo.h"

namespace splitveil {
namespace {

absl::Status Generate(const Flags& flags) {
  const absl::StatusOr<int64_t> rows = flags.GetInt("rows", 1);
  if (!rows.ok()) {
    return rows.status();
  }
  const absl::StatusOr<int64_t> seed = flags.GetInt("seed", 0);
  if (!seed.ok()) {
    return seed.status();
  }
  SyntheticCriteoOptions options;
  options.path = flags.Get("out");
  options.rows = *rows;
  options.seed = *seed;
  const absl::StatusOr<SyntheticCriteoResult> result = GenerateSyntheticCriteo(options);
  if (!result.ok()) {
    return result.status();
  }
  std::printf("%s: %lld rows, %.2f%% positive, %.2f%% of the feature cells empty\n", options.path.c_str(),
              static_cast<long long>(result->rows), 100.0 * result->positives / result->rows,
              100 * result->missing_rate);
  std::printf("Bayes AUC (the best that any model can expect): %.4f\n", result->bayes_auc);
  return absl::OkStatus();
}

}  // namespace

Command GenerateCommand() {
  return {"generate",
          "Generate data in Criteo's format with a known best AUC.",
          {{"out", "", "File to write.", /*required=*/true},
           {"rows", "70000", "Rows."},
           {"seed", "1", "Same seed, same bytes."}},
          Generate};
}

}  // namespace splitveil
