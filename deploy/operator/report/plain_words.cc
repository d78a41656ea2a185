#include "deploy/operator/report/plain_words.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "deploy/operator/records/run_records.h"
#include "deploy/operator/report/attack_words.h"

#include "common/leakage/summary.h"

namespace splitveil {
namespace {

// Pairs in a hundred that a score of this AUC puts in the right order, whichever way it points.
int64_t PairsIn100(double auc) { return std::llround(100 * std::max(auc, 1 - auc)); }

}  // namespace

Exposure ExposureOf(double leak_auc) {
  if (leak_auc <= kPartlyFrom) {
    return Exposure::kHidden;
  }
  if (leak_auc <= kLargelyFrom) {
    return Exposure::kPartly;
  }
  return leak_auc <= kExposedFrom ? Exposure::kLargely : Exposure::kExposed;
}

std::string ExposureName(Exposure exposure) {
  switch (exposure) {
    case Exposure::kHidden:
      return "hidden";
    case Exposure::kPartly:
      return "partly";
    case Exposure::kLargely:
      return "largely";
    case Exposure::kExposed:
      break;
  }
  return "exposed";
}

std::string Verdict(Exposure exposure) {
  switch (exposure) {
    case Exposure::kHidden:
      return "Close to guessing for every attack tried";
    case Exposure::kPartly:
      return "Labels partly readable";
    case Exposure::kLargely:
      return "Labels largely readable";
    case Exposure::kExposed:
      break;
  }
  return "Labels exposed";
}

std::string DescribeProtection(absl::string_view protection) {
  if (protection.empty()) {
    return "These ledgers do not say how the gradients were protected.";
  }
  if (protection == "none") {
    return "No protection: the gradients left the label party as they were computed.";
  }
  const std::string named = absl::StrCat("Protection ", protection, ": every gradient left the label party with ");
  if (absl::StartsWith(protection, "marvell")) {
    return absl::StrCat(named, "noise shaped to hide the label for the least disturbance of the training.");
  }
  if (absl::StartsWith(protection, "max_norm")) {
    return absl::StrCat(named, "noise along its own direction, so that its length tells less.");
  }
  if (absl::StartsWith(protection, "iso")) {
    return absl::StrCat(named, "the same amount of noise in every direction.");
  }
  if (absl::StartsWith(protection, "label_dp")) {
    return absl::StrCat("Protection ", protection,
                        ": some labels were flipped at random, once for the whole run, before any gradient was made of "
                        "them.");
  }
  if (absl::StartsWith(protection, "sparsify") || absl::StartsWith(protection, "discretize")) {
    return absl::StrCat("Protection ", protection,
                        ": the gradients left coarser than they were, without noise; no theory bounds what they tell.");
  }
  return absl::StrCat("Protection: ", protection, ".");
}

std::string DescribeLayer(absl::string_view layer) {
  return layer == "cut" ? std::string("the cut layer") : absl::StrCat("layer \"", layer, "\"");
}

std::string DescribeObserver(absl::string_view observer) {
  if (observer == "nonlabel_party") {
    return "attack module";
  }
  return observer == "label_party" ? std::string("label party's audit") : std::string(observer);
}

std::string DescribeRole(absl::string_view role) {
  if (role == "nonlabel_party") {
    return "non-label party";
  }
  return role == "label_party" ? std::string("label party") : std::string(role);
}

std::string DescribeLeak(const LeakSeries& series) {
  const LeakSummary& leak = series.summary;
  const std::string where = absl::StrCat("\"", AttackTitle(series.attack), "\" at ", DescribeLayer(series.layer), " ");
  if (leak.steps == 0) {
    return absl::StrCat(where, "was not measured: no batch held both classes.");
  }
  return absl::StrCat(
      where, "tells a positive from a negative example in ", PairsIn100(leak.mean), " of 100 pairs",
      PairsIn100(leak.mean) > 50 && leak.mean < 0.5 ? " (its score read in reverse)" : "",
      "; in one batch of twenty, in ",
      PairsIn100(leak.p95) == 100 ? std::string("all 100.") : absl::StrCat(PairsIn100(leak.p95), " or more."));
}

std::string DescribeCumulative(const EpochLeakRow& row) {
  const bool reversed = row.auc < 0.5;
  std::string words =
      absl::StrCat("An adversary that remembers every epoch reads ", PairsIn100(row.auc), " of 100 pairs after epoch ",
                   row.epoch + 1, " (95% interval ", PairsIn100(reversed ? row.auc_high : row.auc_low), " to ",
                   PairsIn100(reversed ? row.auc_low : row.auc_high), ")");
  if (std::ceil(100 * row.gaussian_auc_bound) < 100) {  // Else the noise promises nothing; NaN neither.
    absl::StrAppend(&words, "; the noise of all epochs together allows it ",
                    static_cast<int64_t>(std::ceil(100 * row.gaussian_auc_bound)));
  }
  return words + ".";
}

std::string DescribeBeyondBound(const EpochLeakRow& row) {
  return absl::StrFormat("\"%s\" at %s after epoch %d: at least %.1f of 100 pairs, where the noise allows %.1f.",
                         AttackTitle(row.attack), DescribeLayer(row.layer), row.epoch + 1, 100 * AucAtLeast(row),
                         100 * row.gaussian_auc_bound);
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
  const int64_t with = PairsIn100(completed->auc), without = PairsIn100(baseline->auc);
  const std::string labels = auxiliary_labels > 0 ? absl::StrCat(auxiliary_labels, " labels") : "a few labels";
  const std::string words =
      absl::StrCat("Given ", labels, ", the bottom model trained here reads ", with,
                   " of 100 pairs of the other examples, a model from the features alone ", without, ": ");
  if (completed->auc_low <= baseline->auc_high) {
    return absl::StrCat(words, "the training gave away no more than this sample can tell apart.");
  }
  return absl::StrCat(words, "the training gave away ", with - without, ".");
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

std::string DescribeBound(const std::vector<ProtectionRow>& protections) {
  std::vector<double> bounds;
  for (const ProtectionRow& row : protections) {
    if (std::isfinite(row.auc_bound)) {
      bounds.push_back(row.auc_bound);
    }
  }
  const double p95 = NearestRankQuantile(bounds, 0.95);
  if (bounds.empty()) {
    return "";
  }
  if (p95 >= 1) {
    return "The theory (Theorem 1) gives no guarantee here: it allows an attack on one batch's gradients to tell every "
           "pair apart.";
  }
  return absl::StrCat("Whatever the attack, the theory (Theorem 1, Gaussian gradients) allows at most ",
                      static_cast<int64_t>(std::ceil(100 * p95)),
                      " of 100 pairs from the gradients of one batch, in 95% of the batches.");
}

const EvaluationRow* BestTest(const std::vector<EvaluationRow>& evaluations) {
  const EvaluationRow* best = nullptr;
  for (const EvaluationRow& row : evaluations) {
    if (row.split == "test" && std::isfinite(row.auc) && (best == nullptr || row.auc > best->auc)) {
      best = &row;
    }
  }
  return best;
}

std::string DescribeModel(const std::vector<EvaluationRow>& evaluations) {
  const EvaluationRow* best = BestTest(evaluations);
  if (best == nullptr) {
    return "";
  }
  const auto tests = std::count_if(evaluations.begin(), evaluations.end(),
                                   [](const EvaluationRow& row) { return row.split == "test"; });
  return absl::StrCat("The model itself ranks a positive above a negative test example in ",
                      std::llround(100 * best->auc), " of 100 pairs (test AUC ", absl::StrFormat("%.3f", best->auc),
                      tests > 1 ? absl::StrCat(", best of ", tests, " evaluations).") : std::string(")."));
}

}  // namespace splitveil
