#include "deploy/operator/plan/privacy_plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"

#include "common/crypto/label_noise.h"
#include "common/privacy/gaussian_privacy.h"
#include "common/privacy/label_noise_plan.h"
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
  } else {
    const ExpectedLoss& loss = *plan.loss;
    const std::string where = absl::StrCat(loss.between ? "; read between points measured" : "",
                                           loss.positives != plan.options.positives
                                               ? absl::StrFormat("; measured at %g%% positive", 100 * loss.positives)
                                               : "");
    Line("expected loss of best test AUC",
         absl::StrFormat("%.3f (%s) of %.3f without protection; %.3f with the bottom model frozen%s", loss.loss,
                         loss.seeds > 1 ? absl::StrFormat("%.3f to %.3f over %g seeds or more", loss.loss_min,
                                                          loss.loss_max, loss.seeds)
                                        : "in part of one seed alone",
                         loss.none_test_auc, loss.frozen_test_auc, where),
         text);
  }
  Line("measured in",
       absl::StrCat(curves.Range(), "; generated data, no features at the label party, noise drawn in every epoch"),
       text);
}

}  // namespace

double LabelInformationKept(double sigma, double p) {
  if (!(p > 0 && p < 1 && sigma >= 0 && std::isfinite(sigma))) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  if (sigma == 0) {
    return 1;
  }
  // In units of sigma, with the labels at 0 and mu: the trapezoid rule converges exponentially for a smooth integrand
  // that vanishes at both ends; its nearest poles, where the mixture vanishes, are pi / mu off the real line, so that
  // the error is of order e^(-2 pi^2 / (mu step)). Beyond 12 nothing is left.
  const double mu = 1 / sigma;
  constexpr double kEnd = 12;
  const double step = std::min(1. / 64, 0.5 / mu);
  const auto steps = static_cast<int64_t>((2 * kEnd + mu) / step);
  double sum = 0;
  for (int64_t i = 0; i <= steps; ++i) {
    const double x = -kEnd + step * static_cast<double>(i);
    const double phi0 = std::exp(-x * x / 2), phi1 = std::exp(-(x - mu) * (x - mu) / 2);
    const double mixture = p * phi1 + (1 - p) * phi0;
    if (mixture > 0) {
      // expm1 keeps the difference of two densities that nearly agree.
      const double difference =
          phi0 > 0 && std::abs(mu * (x - mu / 2)) < 1 ? phi0 * std::expm1(mu * (x - mu / 2)) : phi1 - phi0;
      sum += difference * difference / mixture;
    }
  }
  constexpr double kInverseRootTwoPi = 0.39894228040143267794;
  return p * (1 - p) * kInverseRootTwoPi * step * sum;
}

absl::StatusOr<PrivacyPlan> MakePrivacyPlan(const PlanOptions& options, const LossCurves& curves) {
  SPLITVEIL_RETURN_IF_ERROR(CheckOptions(options));
  SPLITVEIL_ASSIGN_OR_RETURN(const LabelNoisePlan once, PlanNoise(options.max_run_auc_bound, 1));
  SPLITVEIL_RETURN_IF_ERROR(PlanNoise(options.max_run_auc_bound, options.epochs).status());
  const double sigma = std::ldexp(static_cast<double>(once.sigma_units.front()), -kLabelGridBits);
  PlanOptions filled = options;
  if (filled.delta == 0) {
    filled.delta = options.rows > 1 ? 1 / static_cast<double>(options.rows) : 0.5;
  }
  return PrivacyPlan{filled, sigma, once.run, LabelInformationKept(sigma, options.positives),
                     curves.At({static_cast<double>(options.rows), options.positives,
                                static_cast<double>(options.epochs), options.max_run_auc_bound})};
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
