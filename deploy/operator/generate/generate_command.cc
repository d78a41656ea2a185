#include <cstdio>
#include <limits>

#include "deploy/operator/command.h"

#include "common/preparation/synthetic_criteo.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

absl::Status Generate(const Flags& flags) {
  SPLITVEIL_ASSIGN_OR_RETURN(const int64_t rows, flags.GetInt("rows", 1));
  SPLITVEIL_ASSIGN_OR_RETURN(const int64_t seed, flags.GetInt("seed", 0));
  SyntheticCriteoOptions options;
  options.path = flags.Get("out");
  options.rows = rows;
  options.seed = seed;
  SPLITVEIL_ASSIGN_OR_RETURN(const SyntheticCriteoResult result, GenerateSyntheticCriteo(options));
  std::printf("%s: %lld rows, %.2f%% positive, %.2f%% of the feature cells empty\n", options.path.c_str(),
              static_cast<long long>(result.rows), 100.0 * result.positives / result.rows, 100 * result.missing_rate);
  std::printf("Bayes AUC (the best that any model can expect): %.4f\n", result.bayes_auc);
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
