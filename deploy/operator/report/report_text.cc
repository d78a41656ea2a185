#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "deploy/operator/records/run_records.h"
#include "deploy/operator/report/report_sections.h"

#include "common/figures/attack_catalogue.h"
#include "common/figures/figure_words.h"
#include "common/figures/run_figures.h"
#include "common/leakage/summary.h"

namespace splitveil {
namespace {

// "epoch 5", "epochs 1 and 5", "epochs 1, 2 and 5".
std::string Epochs(const std::vector<int64_t>& epochs) {
  const std::vector<int64_t> before(epochs.begin(), epochs.end() - 1);
  return absl::StrCat(epochs.size() == 1 ? "epoch " : "epochs ", absl::StrJoin(before, ", "),
                      before.empty() ? "" : " and ", epochs.back());
}

}  // namespace

Exposure ExposureOf(double leak_auc) {
  return leak_auc <= kPartlyFrom    ? Exposure::kHidden
         : leak_auc <= kLargelyFrom ? Exposure::kPartly
         : leak_auc <= kExposedFrom ? Exposure::kLargely
                                    : Exposure::kExposed;
}

std::string ExposureName(Exposure exposure) {
  constexpr const char* kNames[] = {"hidden", "partly", "largely", "exposed"};
  return kNames[static_cast<int>(exposure)];
}

std::string DescribeProtection(absl::string_view protection) {
  static constexpr char kCoarser[] =
      "the gradients were released coarser than they were computed, without noise; no theory bounds what they tell.";
  constexpr std::pair<absl::string_view, const char*> kMethods[] = {
      // By how their names begin.
      {"marvell",
       "every gradient was released with noise shaped to hide the label for the least disturbance of the training."},
      {"max_norm", "every gradient was released with noise along its own direction, so that its length tells less."},
      {"iso", "every gradient was released with the same amount of noise in every direction."},
      {"gaussian_label_dp", "all that was released was computed from labels with noise."},
      {"label_dp", "some labels were flipped at random, once for the whole run, before any gradient was made of them."},
      {"sparsify", kCoarser},
      {"discretize", kCoarser}};
  if (protection.empty()) {
    return "These ledgers do not say how the gradients were protected.";
  }
  if (protection == "none") {
    return "No protection: the gradients were released as they were computed.";
  }
  for (const auto& [method, words] : kMethods) {
    if (absl::StartsWith(protection, method)) {
      return absl::StrCat("Protection ", protection, ": ", words);
    }
  }
  return absl::StrCat("Protection: ", protection, ".");
}

std::string AucText(double auc) { return absl::StrFormat("%.3f", auc); }

std::string AucWithInterval(double auc, double low, double high) {
  if (auc < 0.5) {
    return AucWithInterval(1 - auc, 1 - high, 1 - low);
  }
  const double width = high - low;
  if (!(width > 0)) {
    return AucText(auc);
  }
  const int digits = std::clamp(static_cast<int>(std::ceil(-std::log10(width))), 3, 6);
  return absl::StrFormat("%s (95%% interval %.*f to %.*f)", AucText(auc), digits, low, digits, high);
}

std::string DescribeNeeds(const std::string& attack) {
  switch (NeedsOf(attack)) {
    case AttackNeeds::kNothing:
      return "from what the partner receives";
    case AttackNeeds::kKnownPositives:
      return "with known positives";
    case AttackNeeds::kTrueClasses:
      return IsWorstCase(attack) ? "worst case: knows the model and the noise law"
                                 : "label side: knows the class statistics";
    case AttackNeeds::kGivenLabels:
      return "with labels it was given";
    case AttackNeeds::kUnknown:
      break;
  }
  return "";
}

std::string DescribeRole(absl::string_view role) {
  if (role == "nonlabel_party") {
    return "non-label party";
  }
  return role == "label_party" ? std::string("label party") : std::string(role);
}

std::string DescribeReach(const AttackLeak& leak) {
  std::vector<std::string> figures;
  const bool batches = leak.has_batches();
  if (batches) {
    figures.push_back(absl::StrCat(AucText(leak.series->summary.p95), " in one batch of twenty"));
    figures.push_back(absl::StrCat(AucText(leak.series->summary.mean), " on average over the batches"));
  }
  if (!leak.epochs.empty()) {
    const EpochLeakRow& last = *leak.epochs.back();
    const char* when = batches || leak.epochs.size() > 1 ? " over the last epoch" : " over all examples";
    figures.insert(figures.begin(), absl::StrCat(AucWithInterval(last.auc, last.auc_low, last.auc_high), when));
  }
  if (figures.empty()) {
    return "";
  }
  const std::string first = figures.front();
  figures.erase(figures.begin());
  return absl::StrCat(AttackTitle(leak.attack), " at ", DescribeLayer(leak.layer), " reaches AUC ", first,
                      figures.empty() ? "" : "; ", absl::StrJoin(figures, ", "), ".");
}

std::string DescribeCumulative(const AttackLeak& leak, BoundState state) {
  if (leak.epochs.empty()) {
    return "";
  }
  const EpochLeakRow& row = *leak.epochs.back();
  std::string words = absl::StrCat(AttackTitle(row.attack), " at ", DescribeLayer(row.layer), " reaches AUC ",
                                   AucWithInterval(row.auc, row.auc_low, row.auc_high),
                                   " over all examples after epoch ", row.epoch + 1);
  if (row.gaussian_auc_bound < kNoPromise) {  // Else the noise promises nothing; NaN neither.
    absl::StrAppend(&words, "; the bound for all epochs together is ", BoundText(row.gaussian_auc_bound),
                    state == BoundState::kExceeded ? ", but an attack exceeded a bound of this run" : "");
  }
  return words + ".";
}

std::string DescribeExcess(const BoundExcess& excess) {
  const std::string place = absl::StrCat(AttackTitle(excess.attack), " at ", DescribeLayer(excess.layer));
  if (excess.epochs.empty()) {
    return absl::StrCat(place, ": the run's events have the figures.");
  }
  return absl::StrCat(place, " exceeds its bound in ", Epochs(excess.epochs),
                      excess.epochs.size() == 1 ? "" : absl::StrCat(", most in epoch ", excess.worst_epoch),
                      ": lower 99.99% limit of its AUC ", AucText(*excess.auc_at_least), ", bound there ",
                      BoundText(*excess.auc_bound), ".");
}

std::string DescribeAdvantage(const std::vector<EpochLeakRow>& rows, int64_t auxiliary_labels) {
  const EpochLeakRow *completed = nullptr, *baseline = nullptr;
  for (const EpochLeakRow& row : rows) {
    if (std::isfinite(row.auc)) {
      completed = row.attack == "model_completion" ? &row : completed;
      baseline = row.attack == "features_only" ? &row : baseline;
    }
  }
  if (completed == nullptr || baseline == nullptr) {
    return "";
  }
  const double with = InvertedAuc(completed->auc), without = InvertedAuc(baseline->auc);
  const std::string labels = auxiliary_labels > 0 ? absl::StrCat(auxiliary_labels, " labels") : "a few labels";
  const std::string words =
      absl::StrCat("With ", labels, ", an attack that uses the trained bottom model reaches AUC ", AucText(with),
                   " on the other examples, and one that uses the features alone ", AucText(without), ": ");
  if (completed->auc_low <= baseline->auc_high) {
    return absl::StrCat(words, "the difference may be chance.");
  }
  return absl::StrCat(words, "the training adds ", AucText(with - without), ".");
}

std::string DescribeGateDecision(v1::GateAction gate) {
  switch (gate) {
    case v1::RELEASE:
      return "released";
    case v1::WARN:
      return "released with a warning";
    case v1::RAISE_NOISE:
      return "released with more noise";
    case v1::FREEZE_BOTTOM:
      return "kept back: bottom model frozen";
    case v1::HALT:
      return "run halted";
    default:
      return "unknown decision";
  }
}

std::string DescribeBound(const std::vector<ProtectionRow>& protections, const RunFigures& figures) {
  std::vector<double> bounds;
  for (const ProtectionRow& row : protections) {
    if (IsReleased(row) && std::isfinite(row.auc_bound)) {
      bounds.push_back(row.auc_bound);
    }
  }
  const std::string step_bound =
      bounds.empty() || NearestRankQuantile(bounds, 0.95) >= kNoPromise
          ? ""
          : absl::StrCat(" (Theorem 1, AUC ", BoundText(NearestRankQuantile(bounds, 0.95)), " per step)");
  const std::string run_bound = Promises(figures.run_auc_bound)
                                    ? absl::StrCat("AUC ", BoundText(*figures.run_auc_bound), " over the whole run")
                                    : "";
  if (figures.is_proved() && figures.bound() >= BoundState::kNotTested && figures.bound() != BoundState::kExceeded) {
    return absl::StrCat(
        "Bound, proved for any adversary, model and data, beyond what it knew without the gradients: ",
        run_bound.empty() ? "not recorded for the whole run" : run_bound,
        figures.bound() == BoundState::kNotExceeded ? absl::StrCat("; ", BoundStateWords(figures), ".") : ".");
  }
  const std::string bound =
      absl::StrCat(figures.is_proved() ? "Bound, claimed as proved" : "Bound, conditional",
                   figures.is_proved() ? "" : step_bound, run_bound.empty() ? "" : absl::StrCat(", ", run_bound));
  switch (figures.bound()) {
    case BoundState::kNotInLedger:
      return "Bound: the label party's ledger, which was not given, states it.";
    case BoundState::kNothingReleased:
      return "Bound: no gradient was released, so there is nothing to bound.";
    case BoundState::kNoneStated:
      return "Bound: none stated. Only the measurements tell what the gradients leak.";
    case BoundState::kNotTested:
      return absl::StrCat(bound, ": no attack was held against it in this run.");
    case BoundState::kNotExceeded:
      return absl::StrCat(bound,
                          ": not exceeded by the attacks run here. That does not show that the classes are Gaussian.");
    case BoundState::kExceeded:
      break;
  }
  return absl::StrCat(bound, ": exceeded by ", AttackTitle(figures.excesses.front().attack),
                      figures.excesses.size() > 1 ? absl::StrCat(" and ", figures.excesses.size() - 1, " more") : "",
                      figures.is_proved()
                          ? ". The programs do not do what the proof assumes: stop using the run and report it."
                          : ". These gradients are not as it assumes: rely on what was measured.");
}

std::string DescribeBaseline(const RunFigures& figures) {
  if (figures.bound() == BoundState::kNothingReleased) {
    return "";
  }
  if (figures.baseline() == nullptr) {
    return "What features alone reveal was not measured (features_only, activation_clusters).";
  }
  return figures.practical() != nullptr ? absl::StrCat("The AUC of the practical attack is ",
                                                       AdvantageWords(figures.practical_pooled(), figures), ".")
                                        : "";
}

namespace {

bool IsRegression(const EvaluationRow& row) { return std::isfinite(row.r_squared); }

// A mean AUC of every class against the rest has no calibration error beside it.
bool IsOfSeveralClasses(const EvaluationRow& row) {
  return std::isfinite(row.auc) && std::isfinite(row.accuracy) && !std::isfinite(row.calibration_error);
}

}  // namespace

std::string QualityName(const std::vector<EvaluationRow>& evaluations) {
  return std::any_of(evaluations.begin(), evaluations.end(), IsRegression)         ? "R²"
         : std::any_of(evaluations.begin(), evaluations.end(), IsOfSeveralClasses) ? "macro AUC"
                                                                                   : "AUC";
}

std::string DescribeTask(const std::vector<EvaluationRow>& evaluations) {
  if (std::any_of(evaluations.begin(), evaluations.end(), IsRegression)) {
    return "Labels that are numbers: attacks are measured by whether they tell those above the median, here called "
           "positive, from those below; the worst case by which of two numbers is an example's, its own or the farther "
           "end of the range.";
  }
  if (std::any_of(evaluations.begin(), evaluations.end(), IsOfSeveralClasses)) {
    return "Labels of several classes: attacks are measured by whether they tell one class, here called positive "
           "(label_side_audit.audited_class, else the schema's first), from all others; the worst case by which of two "
           "classes is an example's, its own or another.";
  }
  return "";
}

std::string DescribeModel(const std::vector<EvaluationRow>& evaluations) {
  const EvaluationRow* const kept = KeptTest(evaluations);
  if (kept == nullptr) {
    return "";
  }
  const auto tests = std::count_if(evaluations.begin(), evaluations.end(),
                                   [](const EvaluationRow& row) { return row.split == "test"; });
  const std::string by = kept->kept == "validation" ? "kept by the validation part"
                         : kept->kept == "test"     ? "chosen on the test part itself"
                                                    : "";
  return absl::StrCat("Test ", QualityName(evaluations), " of the model: ", AucText(*ModelFiguresOf(*kept).quality()),
                      tests > 1 && !by.empty()
                          ? absl::StrCat(" (of ", tests, " epochs the one ", by, "; last ",
                                         AucText(*ModelFiguresOf(*LastTest(evaluations)).quality()), ").")
                          : std::string("."));
}

std::string DescribeVersion(const StoredVersionFigures& version) {
  const std::string name = absl::StrCat("Served version ", version.number, ": ");
  const std::optional<double> quality =
      version.train.has_value() ? ModelFiguresOf(*version.train).quality() : std::nullopt;
  return quality.has_value()
             ? absl::StrCat(name, "its answers on the rows that it was trained on have ", QualityName({*version.train}),
                            " ", AucText(*quality), " against their labels: what a caller could read of them.")
             : absl::StrCat(name,
                            "what its answers tell of training labels was not measured, as it was stored with "
                            "other data than the training's, or these have no labels.");
}

}  // namespace splitveil
