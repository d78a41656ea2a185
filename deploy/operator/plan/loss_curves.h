// What a bound costs in test AUC, from measured runs.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PLAN_LOSS_CURVES_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PLAN_LOSS_CURVES_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace splitveil {

// Share of the label's Fisher information that y + sigma xi keeps, y in {0, 1} with P(y = 1) = p and xi normal:
//
//   Var(P(y = 1 | y + sigma xi)) / Var(y)  =  p (1 - p) int (phi_1 - phi_0)^2 / (p phi_1 + (1 - p) phi_0) dx
//
// with phi_k the density of N(k, sigma^2). The left side is the ratio of the informations about the logit of p, since
// the score of the noised label is the expectation of that of the label given it. N rows with such labels tell a model
// about as much as this share of N rows with true labels would, where predictions stay near p. In (0, 1]: 1 for sigma =
// 0, about p (1 - p) / sigma^2 for a large one. NaN unless 0 < p < 1 and sigma >= 0 is finite. Relative error below
// 1e-9.
double LabelInformationKept(double sigma, double p);

struct LossQuestion {
  double rows = 0, positives = 0;  // positives: share of the rows.
  double epochs = 0;
  double max_run_auc_bound = 0;
};

// Mean over seeds, between the least and the largest of a seed; of one seed, with the scatter of the fewest rows.
struct ExpectedLoss {
  double loss = 0, loss_min = 0, loss_max = 0;  // Test AUC of none less that under the bound.
  double none_test_auc = 0, frozen_test_auc = 0;
  double seeds = 0;      // Of the nearest points measured, the fewest.
  double positives = 0;  // Share of them where it was measured.
  bool between = false;  // Of several points measured.
  // So many points, of other shares of positives, epochs or rows, whose labels kept about as much information; the
  // interval spans all of their seeds. 0: measured at, or between, points that differ in rows, epochs and bound alone.
  int by_information = 0;
};

// Runs of both parties' programs on generated data (deploy/operator/plan/README.md says how), on a grid of rows, epochs
// and bounds. Between its points: linear in log rows, in epochs and in log mu. Immutable; thread-safe.
class LossCurves {
 public:
  // Of loss_curves.csv. Errors: Internal, with the line, if the table is not one.
  static absl::StatusOr<LossCurves> Embedded();

  // A line "positives,SHARE", then the header
  // rows,epochs,max_run_auc_bound,seeds,none_test_auc,frozen_test_auc,loss,loss_min,loss_max, then one line per point;
  // combinations of rows, epochs and bounds, none twice, at least two of each but epochs. Further lines
  // "positives,SHARE" begin points of other shares. Errors: InvalidArgument, with the line.
  static absl::StatusOr<LossCurves> Parse(absl::string_view csv);

  // Errors: OutOfRange, with the quantity, the range that is answered and what was asked. Positives are accepted within
  // a fifth of the share measured. Other shares (0.1% to 99.9%), epochs (up to 30) and rows (from 1,000 on) are
  // answered by information: what is lost of the AUC above 0.5 follows from how much of the labels' Fisher information
  // is left, rows p (1 - p) LabelInformationKept.
  absl::StatusOr<ExpectedLoss> At(const LossQuestion& question) const;

  // "10,000 to 1,000,000 rows, 25% positive, 1 to 5 epochs, bounds 0.55 to 0.9".
  std::string Range() const;

 private:
  // Ascending.
  using Axis = std::vector<double>;
  struct Place;

  // What a point lost of the AUC above 0.5, by the logarithm of the information that its labels kept.
  struct Loss {
    double log_information = 0;
    double share = 0, least = 0, most = 0;
    double none_test_auc = 0, seeds = 0, epochs = 0;
  };

  LossCurves() = default;
  static Place PlaceOn(const Axis& axis, double at);
  // Nothing if the grid lacks a point beside the question.
  std::optional<ExpectedLoss> OnGrid(const LossQuestion& question) const;
  ExpectedLoss ByInformation(const LossQuestion& question) const;

  double positives_ = 0;
  Axis rows_, epochs_, bounds_;
  std::map<std::vector<double>, ExpectedLoss> points_;  // By rows, epochs, bound.
  std::vector<Loss> losses_;                            // Of every point, whatever its share of positives; ascending.
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PLAN_LOSS_CURVES_H_
