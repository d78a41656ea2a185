#include "common/leakage/attribute_leak.h"

#include <algorithm>
#include <vector>

#include "absl/status/statusor.h"

#include "common/leakage/leak_figures.h"
#include "common/leakage/summary.h"
#include "common/matrix/matrix.h"

namespace splitveil {
namespace {

constexpr AttributeAttackTraits kAttacks[] = {
    {v1::BASIC, "basic", DecoderSource::kAuxiliaryActivations, false},
    {v1::LINEAR_PROBE, "linear_probe", DecoderSource::kAuxiliaryActivations, true},
    {v1::POISON, "poison", DecoderSource::kMarkedActivations, false},
    {v1::CUMULATIVE_POISON, "cumulative_poison", DecoderSource::kMarkedHistory, false},
    {v1::SIMULATOR, "simulator", DecoderSource::kAuxiliaryFeatures, false},
};

constexpr double kRisk = 0.025;  // On either side of a 95% interval.

// The AUC of the scores for `value` against all other values, over the rows `known`. Error if one side is empty, or a
// score is NaN.
// Scores are log probabilities: of two values their difference is the log ratio, the best score there is.
absl::StatusOr<double> AucOf(ConstMatrixView scores, absl::Span<const uint8_t> truth, absl::Span<const int64_t> known,
                             uint8_t value) {
  std::vector<float> score;
  std::vector<uint8_t> label;
  score.reserve(known.size());
  label.reserve(known.size());
  for (const int64_t row : known) {
    const auto scores_of_row = scores.row(row);
    score.push_back(scores.cols() == 2 ? scores_of_row[1] - scores_of_row[0] : scores_of_row[value]);
    label.push_back(truth[static_cast<size_t>(row)] == value ? 1 : 0);
  }
  return LeakAuc(score, label);
}

double MeanAuc(ConstMatrixView scores, absl::Span<const uint8_t> truth, absl::Span<const int64_t> known) {
  double sum = 0;
  int64_t values = 0;
  std::vector<int64_t> rows(static_cast<size_t>(scores.cols()));
  for (const int64_t row : known) {
    ++rows[truth[static_cast<size_t>(row)]];
  }
  // Of two values one AUC says all: the other's is its mirror image.
  for (int64_t value = scores.cols() == 2 ? 1 : 0; value < scores.cols(); ++value) {
    // Inverted, the AUC of so few says more than 0.5 by chance alone.
    if (scores.cols() > 2 && rows[static_cast<size_t>(value)] < AttributeLeak::kLeastOfValue) {
      continue;
    }
    const absl::StatusOr<double> auc = AucOf(scores, truth, known, static_cast<uint8_t>(value));
    // Of several values each is inverted by itself, as an adversary may: one that is ranked last must not hide another.
    sum += !auc.ok() ? 0 : scores.cols() == 2 ? *auc : InvertedAuc(*auc);
    values += auc.ok() ? 1 : 0;
  }
  return values > 0 ? sum / static_cast<double>(values) : AttributeLeak::kNone;
}

}  // namespace

AttributeAttackTraits TraitsOf(v1::AttributeAttack attack) {
  for (const AttributeAttackTraits& traits : kAttacks) {
    if (traits.attack == attack) {
      return traits;
    }
  }
  // An attack that the table does not know has no name, by which callers recognise it.
  return {attack, "", DecoderSource::kAuxiliaryFeatures, false};
}

std::optional<v1::AttributeAttack> AttributeAttackOfName(absl::string_view name) {
  for (const AttributeAttackTraits& traits : kAttacks) {
    if (name == traits.name) {
      return traits.attack;
    }
  }
  return std::nullopt;
}

AttributeLeak MeasureAttributeLeak(ConstMatrixView scores, absl::Span<const uint8_t> truth) {
  std::vector<int64_t> known;
  std::vector<int64_t> counts(static_cast<size_t>(scores.cols()));
  int64_t hits = 0;
  for (int64_t row = 0; row < scores.rows(); ++row) {
    const uint8_t value = truth[static_cast<size_t>(row)];
    // An example whose value is unknown can be neither hit nor missed.
    if (value >= scores.cols()) {
      continue;
    }
    known.push_back(row);
    ++counts[value];
    const auto scores_of_row = scores.row(row);
    const auto* const best = std::max_element(scores_of_row.begin(), scores_of_row.end());
    hits += best - scores_of_row.begin() == value ? 1 : 0;
  }
  AttributeLeak leak;
  leak.examples = static_cast<int64_t>(known.size());
  if (known.empty()) {
    return leak;
  }
  const auto examples = static_cast<double>(leak.examples);
  // Examples are independent, so the exact binomial interval applies, also if nothing or everything was hit.
  leak.accuracy = static_cast<double>(hits) / examples;
  leak.accuracy_low = LowerBinomialLimit(hits, leak.examples, kRisk);
  leak.accuracy_high = UpperBinomialLimit(hits, leak.examples, kRisk);
  // What guessing the most common value always reaches: only what lies above it was learnt.
  leak.floor = static_cast<double>(*std::max_element(counts.begin(), counts.end())) / examples;
  leak.auc = MeanAuc(scores, truth, known);
  return leak;
}

}  // namespace splitveil
