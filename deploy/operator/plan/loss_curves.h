// What a bound costs in test AUC, from measured runs.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PLAN_LOSS_CURVES_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PLAN_LOSS_CURVES_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace splitveil {

struct LossQuestion {
  double rows = 0, positives = 0;  // positives: share of the rows.
  double epochs = 0;
  double max_run_auc_bound = 0;
};

// Mean over seeds, between the least and the largest of a seed.
struct ExpectedLoss {
  double loss = 0, loss_min = 0, loss_max = 0;  // Test AUC of none less that under the bound.
  double none_test_auc = 0, frozen_test_auc = 0;
  double seeds = 0;      // Of the nearest points measured, the fewest.
  double positives = 0;  // Share of them where it was measured.
  bool between = false;  // Of several points measured.
};

// Runs of both parties' programs on generated data (deploy/operator/plan/README.md says how), on a grid of rows, epochs
// and bounds. Between its points: linear in log rows, in epochs and in log mu. Immutable; thread-safe.
class LossCurves {
 public:
  // Of loss_curves.csv. Errors: Internal, with the line, if the table is not one.
  static absl::StatusOr<LossCurves> Embedded();

  // A line "positives,SHARE", then the header
  // rows,epochs,max_run_auc_bound,seeds,none_test_auc,frozen_test_auc,loss,loss_min,loss_max, then one line per point;
  // combinations of rows, epochs and bounds, none twice, at least two of each but epochs. Errors: InvalidArgument, with
  // the line.
  static absl::StatusOr<LossCurves> Parse(absl::string_view csv);

  // Errors: OutOfRange, with the quantity, the range measured and what was asked, or with the point beside it that was
  // not measured: nothing is extrapolated. Positives are accepted within a fifth of the share measured.
  absl::StatusOr<ExpectedLoss> At(const LossQuestion& question) const;

  // "10,000 to 1,000,000 rows, 25% positive, 1 to 5 epochs, bounds 0.55 to 0.9".
  std::string Range() const;

 private:
  // Ascending.
  using Axis = std::vector<double>;
  struct Place;

  LossCurves() = default;
  static Place PlaceOn(const Axis& axis, double at);

  double positives_ = 0;
  Axis rows_, epochs_, bounds_;
  std::map<std::vector<double>, ExpectedLoss> points_;  // By rows, epochs, bound.
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PLAN_LOSS_CURVES_H_
