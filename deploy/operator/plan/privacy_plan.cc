#include "deploy/operator/plan/privacy_plan.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/crypto/label_noise.h"
#include "common/privacy/gaussian_privacy.h"
#include "common/privacy/label_privacy.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// As the configuration has them.
constexpr double kMaxRunAucBound = 0.999999;
constexpr int64_t kMaxEpochs = 100'000;

absl::Status Unfit(const char* field, const char* expected, double found) {
  return absl::InvalidArgumentError(absl::StrFormat("%s: expected %s, found %.10g", field, expected, found));
}

// The noise of a run as the label party plans it (label_party/label_privacy/noised_labels.h), one release an epoch. Of
// several classes, which this command knows nothing of, it is sqrt 2 times as much.
absl::StatusOr<LabelNoisePlan> PlanNoise(double max_run_auc_bound, int64_t epochs) {
  LabelNoisePlanOptions noise;
  noise.strength = RunAucBound{max_run_auc_bound};
  noise.releases = static_cast<uint32_t>(epochs);
  absl::StatusOr<LabelNoisePlan> plan = PlanLabelNoise(noise);
  // The planner speaks of sigma; the user chose a bound and a number of epochs.
  if (absl::IsInvalidArgument(plan.status())) {
    const double mu = std::sqrt(2.0) * NormalQuantile(max_run_auc_bound);
    return absl::InvalidArgumentError(absl::StrFormat(
        "--max_run_auc_bound=%.10g over --epochs=%d: expected noise of sigma below 2048 in each epoch, found %.4g: "
        "choose a looser bound or fewer epochs",
        max_run_auc_bound, epochs, std::sqrt(static_cast<double>(epochs)) / mu));
  }
  return plan;
}

// Written so that NaN fails too.
absl::Status CheckOptions(const PlanOptions& options) {
  if (options.rows < 1) {
    return Unfit("rows", "at least 1", static_cast<double>(options.rows));
  }
  if (!(options.positives > 0 && options.positives < 1)) {
    return Unfit("positives", "a share above 0 and below 1", options.positives);
  }
  if (options.epochs < 1 || options.epochs > kMaxEpochs) {
    return Unfit("epochs", "1 to 100000", static_cast<double>(options.epochs));
  }
  if (!(options.max_run_auc_bound > 0.5 && options.max_run_auc_bound <= kMaxRunAucBound)) {
    return Unfit("max_run_auc_bound", "a number above 0.5 and at most 0.999999", options.max_run_auc_bound);
  }
  if (!(options.delta >= 0 && options.delta < 1)) {
    return Unfit("delta", "a number from 0 to below 1", options.delta);
  }
  return absl::OkStatus();
}

std::string SeedsText(double seeds) {
  return seeds > 1 ? absl::StrFormat("over %g seeds or more", seeds)
                   : "partly of one seed, with the scatter of the fewest rows measured";
}

// The curves were measured without columns at the label party: there all of the AUC above 0.5 was to be lost.
absl::Status TakeOwnModel(const PlanOptions& options, ExpectedLoss& loss) {
  const double own = options.own_features_auc > 0 ? options.own_features_auc : 0.5;
  const double unprotected = options.unprotected_auc > 0 ? options.unprotected_auc : loss.none_test_auc;
  if (!(own < unprotected)) {
    return Unfit("own_features_auc",
                 absl::StrFormat("less than the %.3f of both parties' columns", unprotected).c_str(), own);
  }
  const double scale = (unprotected - own) / (loss.none_test_auc - 0.5);
  for (double* const figure : {&loss.loss, &loss.loss_min, &loss.loss_max}) {
    *figure *= scale;
  }
  loss.none_test_auc = unprotected;
  return absl::OkStatus();
}

// Of the rows that a test at the bound flags, the share that is positive.
double Precision(double tpr, double fpr, double positives) {
  return tpr * positives / (tpr * positives + fpr * (1 - positives));
}

void TprLine(const PrivacyPlan& plan, double fpr, std::string& text) {
  const double tpr = plan.privacy.TprBound(fpr), positives = plan.options.positives;
  Line(absl::StrFormat("TPR at %g%% false positives", 100 * fpr),
       absl::StrFormat("at most %.3g%% (precision at most %.3g%%; base rate %.3g%%)", 100 * tpr,
                       100 * Precision(tpr, fpr, positives), 100 * positives),
       text);
}

// With three digits that count.
int64_t Rounded(double count) {
  const double unit = std::pow(10, std::max(0., std::floor(std::log10(std::max(1., count))) - 2));
  return static_cast<int64_t>(std::llround(count / unit) * std::llround(unit));
}

void LossLines(const PrivacyPlan& plan, const LossCurves& curves, std::string& text) {
  if (!plan.loss.ok()) {
    Line("expected loss of best test AUC", absl::StrCat("not known: ", plan.loss.status().message()), text);
  } else if (const ExpectedLoss& loss = *plan.loss;
             loss.by_information > 0 || plan.options.own_features_auc > 0 || plan.options.unprotected_auc > 0) {
    const std::string where =
        loss.by_information > 0
            ? absl::StrFormat("at %d points measured whose labels kept about as much information", loss.by_information)
            : SeedsText(loss.seeds);
    Line("expected loss of best test AUC",
         absl::StrFormat("%.3f (%.3f to %.3f %s) of about %.3f without protection", loss.loss, loss.loss_min,
                         loss.loss_max, where, loss.none_test_auc),
         text);
    // They are trained with the true labels, whatever the protection.
    Line("own columns of the label party",
         plan.options.own_features_auc > 0
             ? absl::StrFormat("AUC %.3f alone, trained with the true labels", plan.options.own_features_auc)
             : "none assumed; if it has some, less is lost: set --own_features_auc",
         text);
  } else {
    const std::string where = absl::StrCat(loss.between ? "; read between points measured" : "",
                                           loss.positives != plan.options.positives
                                               ? absl::StrFormat("; measured at %g%% positive", 100 * loss.positives)
                                               : "");
    Line("expected loss of best test AUC",
         absl::StrFormat("%.3f (%.3f to %.3f %s) of %.3f without protection; %.3f with the bottom model frozen%s",
                         loss.loss, loss.loss_min, loss.loss_max, SeedsText(loss.seeds), loss.none_test_auc,
                         loss.frozen_test_auc, where),
         text);
  }
  Line("measured in",
       absl::StrCat(curves.Range(), "; generated data, no features at the label party, noise drawn in every epoch"),
       text);
}

}  // namespace

absl::StatusOr<PrivacyPlan> MakePrivacyPlan(const PlanOptions& options, const LossCurves& curves) {
  SPLITVEIL_RETURN_IF_ERROR(CheckOptions(options));
  SPLITVEIL_ASSIGN_OR_RETURN(const LabelNoisePlan once, PlanNoise(options.max_run_auc_bound, 1));
  SPLITVEIL_RETURN_IF_ERROR(PlanNoise(options.max_run_auc_bound, options.epochs).status());
  const double sigma = std::ldexp(static_cast<double>(once.sigma_units.front()), -kLabelGridBits);
  PlanOptions filled = options;
  if (filled.delta == 0) {
    filled.delta = options.rows > 1 ? 1 / static_cast<double>(options.rows) : 0.5;
  }
  absl::StatusOr<ExpectedLoss> loss = curves.At({static_cast<double>(options.rows), options.positives,
                                                 static_cast<double>(options.epochs), options.max_run_auc_bound});
  if (loss.ok() && (options.own_features_auc > 0 || options.unprotected_auc > 0)) {
    SPLITVEIL_RETURN_IF_ERROR(TakeOwnModel(options, *loss));
  }
  return PrivacyPlan{filled, sigma, once.run, LabelInformationKept(sigma, options.positives), std::move(loss)};
}

std::string PrivacyPlanText(const PrivacyPlan& plan, const LossCurves& curves) {
  const PlanOptions& options = plan.options;
  std::string text = absl::StrFormat(
      "protection { gaussian_label_dp { max_run_auc_bound: %g } } on %d rows, %g%% positive, %d epochs\n",
      options.max_run_auc_bound, options.rows, 100 * options.positives, options.epochs);
  const std::string each = options.epochs == 1
                               ? ""
                               : absl::StrFormat("; drawn in each of %d epochs, about %.4g", options.epochs,
                                                 plan.sigma * std::sqrt(static_cast<double>(options.epochs)));
  Line("sigma", absl::StrFormat("%.6g, of the noise on a label that is 0 or 1, drawn once%s", plan.sigma, each), text);
  Line("mu", absl::StrFormat("%.6g, for all epochs together", plan.privacy.mu()), text);
  Line("epsilon", absl::StrFormat("%.4g at delta %.3g", plan.privacy.EpsilonAt(options.delta), options.delta), text);
  Line("AUC of any adversary", absl::StrFormat("at most %.4f, beyond what it knew otherwise", plan.privacy.AucBound()),
       text);
  TprLine(plan, 0.01, text);
  TprLine(plan, 0.001, text);
  const double worth = plan.information_kept * static_cast<double>(options.rows);
  Line("information left in the labels",
       absl::StrFormat("%.3g%%, worth about %d rows with true labels", 100 * plan.information_kept, Rounded(worth)),
       text);
  LossLines(plan, curves, text);
  return text;
}

}  // namespace splitveil
