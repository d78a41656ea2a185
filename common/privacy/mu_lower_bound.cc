#include "common/privacy/mu_lower_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/crypto/seeded_stream.h"
#include "common/crypto/sha256.h"
#include "common/leakage/leak_figures.h"
#include "common/privacy/gaussian_privacy.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr char kSplitTag[] = "splitveil.v1 audit split\n";
constexpr double kFarthestQuantile = 4,
                 kQuantileStep = 0.05;  // Standard deviations: the thresholds that ExpectedMuLower tries.

struct Example {
  ScoreRange score;
  uint8_t label;

  // The end that counts: of a positive, the one that a test finds last, of a negative, first. Larger is more positive.
  float End(bool positive_above) const {
    return positive_above ? (label != 0 ? score.low : score.high) : -(label != 0 ? score.high : score.low);
  }
};

struct Halves {
  std::vector<Example> choosing, testing;
};

struct Counts {
  int64_t positives = 0, negatives = 0;

  void Add(uint8_t label) { (label != 0 ? positives : negatives) += 1; }
};

Counts Count(const std::vector<Example>& examples) {
  Counts counts;
  for (const Example& example : examples) {
    counts.Add(example.label);
  }
  return counts;
}

absl::Status CheckInput(absl::Span<const ScoreRange> scores, absl::Span<const uint8_t> labels,
                        const MuLowerBoundOptions& options) {
  if (labels.size() != scores.size() || scores.size() > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("lower bound of mu: expected as many labels as scores, below 2^32, found ", labels.size(), " and ",
                     scores.size()));
  }
  // A bound that holds less often than not would refute nothing.
  if (!(options.confidence >= 0.5 && options.confidence < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("lower bound of mu: confidence: expected in [0.5, 1), found ", options.confidence));
  }
  if (!(options.delta >= 0 && options.delta < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("lower bound of mu: delta: expected in [0, 1), found ", options.delta));
  }
  for (size_t i = 0; i < scores.size(); ++i) {
    if (!(scores[i].low <= scores[i].high)) {  // NaN, too.
      return absl::InvalidArgumentError(absl::StrCat("lower bound of mu: score ", i, " is not a number or a range"));
    }
    if (labels[i] > 1) {
      return absl::InvalidArgumentError(absl::StrCat("lower bound of mu: label ", i, " is neither 0 nor 1"));
    }
  }
  return absl::OkStatus();
}

// Class by class, so that neither half lacks one. The testing half gets the odd example: it gives the bound.
Halves Split(absl::Span<const ScoreRange> scores, absl::Span<const uint8_t> labels, uint64_t seed) {
  // From a fixed seed: a split that could be drawn again until it refutes would make the confidence meaningless.
  SeededStream random(Sha256(absl::StrCat(kSplitTag, seed)));
  Halves halves;
  for (const uint8_t label : {0, 1}) {
    std::vector<Example> members;
    for (size_t i = 0; i < scores.size(); ++i) {
      if (labels[i] == label) {
        members.push_back({scores[i], label});
      }
    }
    // Fisher and Yates: every split is equally likely.
    for (size_t i = members.size(); i > 1; --i) {
      std::swap(members[i - 1], members[random.UniformBelow(static_cast<uint32_t>(i))]);
    }
    const auto middle = members.begin() + static_cast<std::ptrdiff_t>(members.size() / 2);
    halves.choosing.insert(halves.choosing.end(), members.begin(), middle);
    halves.testing.insert(halves.testing.end(), middle, members.end());
  }
  return halves;
}

// One-sided limits of a proportion, near those of Clopper and Pearson and much faster (Wilson, JASA 1927): good enough
// to choose by, and nothing is concluded from them.
class WilsonLimits {
 public:
  WilsonLimits(Counts totals, double risk) : totals_(totals), z_(-NormalQuantile(risk)) {}

  // The mu that the other half would confirm if it were like this one.
  // Rates that are only estimated would favour thresholds with a handful of examples beyond them.
  double Mu(const Counts& flagged) const {
    return NormalQuantile(Limit(flagged.positives, totals_.positives, -1)) -
           NormalQuantile(Limit(flagged.negatives, totals_.negatives, 1));
  }

 private:
  double Limit(int64_t successes, int64_t trials, int side) const {
    const auto n = static_cast<double>(trials);
    const double share = static_cast<double>(successes) / n;
    const double square = z_ * z_ / n;
    const double limit =
        (share + square / 2 + side * std::sqrt(square * (share * (1 - share) + square / 4))) / (1 + square);
    return std::clamp(limit, 0.0, 1.0);
  }

  const Counts totals_;
  const double z_;
};

struct ThresholdTest {
  float threshold = 0;
  bool positive_above = true;

  bool Flags(const Example& example) const {
    return example.End(positive_above) >= (positive_above ? threshold : -threshold);
  }
};

ThresholdTest ChooseTest(std::vector<Example> examples, double risk) {
  const WilsonLimits limits(Count(examples), risk);
  double best = -std::numeric_limits<double>::infinity();
  ThresholdTest chosen;
  for (const bool positive_above : {true, false}) {
    const auto end = [positive_above](const Example& example) { return example.End(positive_above); };
    std::sort(examples.begin(), examples.end(), [&](const Example& a, const Example& b) { return end(a) > end(b); });
    Counts flagged;
    for (size_t begin = 0; begin < examples.size();) {
      const float threshold = end(examples[begin]);
      // Thresholds lie between groups of equal scores: to split a tie would need randomness that the testing half
      // lacks.
      for (; begin < examples.size() && end(examples[begin]) == threshold; ++begin) {
        flagged.Add(examples[begin].label);
      }
      if (const double mu = limits.Mu(flagged); mu > best) {
        best = mu;
        chosen = {positive_above ? threshold : -threshold, positive_above};
      }
    }
  }
  return chosen;
}

// (epsilon, delta)-differential privacy has TPR <= e^epsilon FPR + delta, and the same of the rates of the opposite
// answer (Kairouz, Oh and Viswanath, ICML 2015, theorem 2.1).
double EpsilonLower(double tpr_low, double fpr_high, double delta) {
  // Both inequalities are tried, since a test may be strong in either of its answers.
  double epsilon = 0;
  if (tpr_low > delta) {
    epsilon = std::max(epsilon, std::log((tpr_low - delta) / fpr_high));
  }
  if (1 - fpr_high > delta) {
    epsilon = std::max(epsilon, std::log((1 - fpr_high - delta) / (1 - tpr_low)));
  }
  return epsilon;
}

int64_t Total(const OpenScores& scores) {
  int64_t total = 0;
  for (const auto& [width, examples] : scores) {
    total += examples;
  }
  return total;
}

// Of scores whose middles are N(mean, 1), the share whose point at `of_width` from the middle is above `threshold`.
double ShareAbove(double threshold, double mean, const OpenScores& scores, double of_width) {
  double above = 0;
  for (const auto& [width, examples] : scores) {
    above += static_cast<double>(examples) * NormalCdf(mean + of_width * width - threshold);
  }
  return above / static_cast<double>(Total(scores));
}

}  // namespace

absl::StatusOr<MuLowerBound> LowerBoundMu(absl::Span<const float> scores, absl::Span<const uint8_t> labels,
                                          const MuLowerBoundOptions& options) {
  std::vector<ScoreRange> ranges;
  ranges.reserve(scores.size());
  for (const float score : scores) {
    ranges.push_back({score, score});
  }
  return LowerBoundMu(ranges, labels, options);
}

absl::StatusOr<MuLowerBound> LowerBoundMu(absl::Span<const ScoreRange> scores, absl::Span<const uint8_t> labels,
                                          const MuLowerBoundOptions& options) {
  SPLITVEIL_RETURN_IF_ERROR(CheckInput(scores, labels, options));
  Halves halves = Split(scores, labels, options.seed);
  const Counts choosing = Count(halves.choosing);
  if (choosing.positives == 0 || choosing.negatives == 0) {
    return absl::FailedPreconditionError("lower bound of mu: at least two examples of each class are needed");
  }
  // Half of the error probability for each of the two rates.
  const double risk = (1 - options.confidence) / 2;
  // The test is fixed now; on the other half its counts are plain binomials, which the exact limits need.
  const ThresholdTest test = ChooseTest(std::move(halves.choosing), risk);
  Counts flagged;
  for (const Example& example : halves.testing) {
    if (test.Flags(example)) {
      flagged.Add(example.label);
    }
  }
  const Counts testing = Count(halves.testing);
  MuLowerBound bound;
  bound.threshold = test.threshold;
  bound.positive_above = test.positive_above;
  bound.true_positive_rate_low = LowerBinomialLimit(flagged.positives, testing.positives, risk);
  bound.false_positive_rate_high = UpperBinomialLimit(flagged.negatives, testing.negatives, risk);
  bound.mu_lower =
      std::max(0.0, NormalQuantile(bound.true_positive_rate_low) - NormalQuantile(bound.false_positive_rate_high));
  bound.epsilon_lower = EpsilonLower(bound.true_positive_rate_low, bound.false_positive_rate_high, options.delta);
  return bound;
}

double MuLowerOfNoise(double mu, int64_t within, int64_t draws, double risk) {
  if (draws == 0) {
    return 0;
  }
  const double share = LowerBinomialLimit(within, draws, risk);
  return mu * NormalQuantile((1 + share) / 2) / kNoiseWithin;
}

double ExpectedMuLower(double mu, const OpenScores& positives, const OpenScores& negatives, double confidence) {
  const Counts all = {Total(positives), Total(negatives)};
  // LowerBoundMu needs an example of each class in each half.
  if (all.positives < 2 || all.negatives < 2) {
    return 0;
  }
  // As Split divides them.
  const Counts testing = {all.positives - all.positives / 2, all.negatives - all.negatives / 2};
  const WilsonLimits limits(testing, (1 - confidence) / 2);
  const auto expected = [](double share, int64_t trials) {
    return static_cast<int64_t>(std::llround(share * static_cast<double>(trials)));
  };
  // The classes are far enough apart at twice the farthest quantile already. A larger mu, even an infinite one, would
  // expect the same counts, and its steps would in the end no longer change the threshold.
  mu = std::min(mu, 4 * kFarthestQuantile);
  double most = 0;
  // Scores N(0, 1) of negatives and N(mu, 1) of positives; thresholds from above nearly all to below nearly all.
  const auto steps = static_cast<int64_t>((mu + 2 * kFarthestQuantile) / kQuantileStep);
  for (int64_t step = 0; step <= steps; ++step) {
    const double threshold = mu + kFarthestQuantile - static_cast<double>(step) * kQuantileStep;
    // As Example::End: a positive counts if all of its range lies above, a negative if any of it does.
    most = std::max(most, limits.Mu({expected(ShareAbove(threshold, mu, positives, -0.5), testing.positives),
                                     expected(ShareAbove(threshold, 0, negatives, 0.5), testing.negatives)}));
  }
  return most;
}

}  // namespace splitveil
