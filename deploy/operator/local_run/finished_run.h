// What a finished run left in its folder: result.json.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_FINISHED_RUN_H_
#define SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_FINISHED_RUN_H_

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace splitveil {

// Leak of one attack at one layer over a run's batches.
struct LeakPoint {
  std::string layer, attack;
  double mean = 0, p95 = 0;
};

// The figures of a run's result file that runs are compared by. NaN: the run did not measure it.
struct RunFigures {
  double test_quality = 0, final_test_quality = 0;  // Of the best epoch, of the last; AUC, of a regression R^2.
  double test_loss = 0;  // Log loss, of a regression RMSE; of the epoch with the best quality.
  double run_auc_bound = 0, auc_bound_p95 = 0, sum_kl_mean = 0;
  int64_t steps = 0;
  double seconds = 0;            // Of the whole run: start, alignment, training, audit.
  std::vector<LeakPoint> leaks;  // Ordered as the file has them.
  // Of the strongest attack on gradients, whatever its adversary knows: what runs are ranked by.
  double strongest_auc = std::numeric_limits<double>::quiet_NaN();
  bool is_regression = false;

  // "AUC" or "R^2".
  const char* quality_name() const { return is_regression ? "R^2" : "AUC"; }
};

// result.json is the object of the label party's result file with two keys before it: configuration_sha256 and seconds.
// It is written last and at once, so a run is finished where it is there.
absl::StatusOr<std::string> FinishedRunJson(absl::string_view result_json, const std::string& configuration_sha256,
                                            double seconds);

// The figures of result.json. Errors: FailedPrecondition where it is of another configuration; InvalidArgument where it
// is not what FinishedRunJson writes.
absl::StatusOr<RunFigures> ParseFinishedRun(absl::string_view json, const std::string& configuration_sha256);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_FINISHED_RUN_H_
