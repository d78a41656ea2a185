#include "common/leakage/leak_figures.h"

#include <algorithm>
#include <boost/math/distributions/binomial.hpp>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/leakage/summary.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

namespace policies = boost::math::policies;

// No exception: what is out of range is answered here, and an overflow gives the limit.
using Binomial = boost::math::binomial_distribution<
    double, policies::policy<
                policies::domain_error<policies::ignore_error>, policies::pole_error<policies::ignore_error>,
                policies::overflow_error<policies::ignore_error>, policies::evaluation_error<policies::ignore_error>>>;

// Examples of equal score. All figures depend on the scores' order alone.
struct TiedGroup {
  int64_t negatives = 0, positives = 0;
};

struct Ranking {
  std::vector<TiedGroup> groups;  // Descending by score.
  int64_t negatives = 0, positives = 0;
};

// Sorted and grouped once: AUC, its variance and both true positive rates read the same groups.
absl::StatusOr<Ranking> Rank(absl::Span<const float> scores, absl::Span<const uint8_t> labels) {
  if (labels.size() != scores.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("leak figures: expected as many labels as scores, found ", labels.size(), " and ", scores.size()));
  }
  std::vector<RankedScore> sorted;
  sorted.reserve(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i]) || labels[i] > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("leak figures: a score is not a number, or a label is not 0 or 1, at row ", i));
    }
    sorted.push_back({scores[i], labels[i]});
  }
  SortByScore(sorted);
  // From the most suspicious example down, as an adversary accuses.
  std::reverse(sorted.begin(), sorted.end());
  Ranking ranking;
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i == 0 || sorted[i].score != sorted[i - 1].score) {
      ranking.groups.emplace_back();
    }
    const bool positive = sorted[i].label != 0;
    (positive ? ranking.groups.back().positives : ranking.groups.back().negatives) += 1;
    (positive ? ranking.positives : ranking.negatives) += 1;
  }
  if (ranking.negatives == 0 || ranking.positives == 0) {
    return absl::FailedPreconditionError("leak figures: both classes are needed");
  }
  return ranking;
}

// Calls `visit(group, won, lost)` on each group: the share of the negatives that a positive of the group ranks above,
// and the share of the positives that rank above a negative of it, ties half. Those are DeLong's structural components.
template <typename Visit>
void VisitComponents(const Ranking& ranking, const Visit& visit) {
  double negatives_above = 0;
  double positives_above = 0;
  for (const TiedGroup& group : ranking.groups) {
    const double negatives = static_cast<double>(group.negatives);
    const double positives = static_cast<double>(group.positives);
    visit(group, 1 - (negatives_above + negatives / 2) / static_cast<double>(ranking.negatives),
          (positives_above + positives / 2) / static_cast<double>(ranking.positives));
    negatives_above += negatives;
    positives_above += positives;
  }
}

double Auc(const Ranking& ranking) {
  double wins = 0;
  VisitComponents(
      ranking, [&](const TiedGroup& group, double won, double) { wins += static_cast<double>(group.positives) * won; });
  return wins / static_cast<double>(ranking.positives);
}

// DeLong's variance. If the sample shows none, or a class of one row cannot, the largest a score of that AUC may
// have: AUC (1 - AUC) / min(n0, n1) (Birnbaum and Klose 1957).
double AucVariance(const Ranking& ranking, double auc) {
  const double negatives = static_cast<double>(ranking.negatives);
  const double positives = static_cast<double>(ranking.positives);
  double of_positives = 0;
  double of_negatives = 0;
  VisitComponents(ranking, [&](const TiedGroup& group, double won, double lost) {
    of_positives += static_cast<double>(group.positives) * (won - auc) * (won - auc);
    of_negatives += static_cast<double>(group.negatives) * (lost - auc) * (lost - auc);
  });
  const double smaller = std::min(negatives, positives);
  const double variance =
      smaller < 2 ? 0 : of_positives / (positives - 1) / positives + of_negatives / (negatives - 1) / negatives;
  constexpr double kRounding = 1e-15;
  return variance > kRounding ? variance : auc * (1 - auc) / smaller;
}

// Standard error of the AUC of so many rows of normal scores, if the AUC of the population is `auc` (Hanley and McNeil,
// Radiology 1982, with both classes of their mean size less one: Newcombe, Statistics in Medicine 2006, part 2, method
// 5).
double NewcombeError(const Ranking& ranking, double auc) {
  const double negatives = static_cast<double>(ranking.negatives);
  const double positives = static_cast<double>(ranking.positives);
  const double more = (negatives + positives) / 2 - 1;
  return std::sqrt(auc * (1 - auc) * (1 + more * ((1 - auc) / (2 - auc) + auc / (1 + auc))) / (negatives * positives));
}

// The AUC between `auc` and `end`, 0 or 1, that lies as many standard errors of its own from `auc` as limits of 95% do.
// Halving needs no derivative, and fifty halvings exhaust a double.
double NewcombeLimit(const Ranking& ranking, double auc, double end) {
  double within = auc, beyond = end;
  for (int halving = 0; halving < 50; ++halving) {
    const double middle = (within + beyond) / 2;
    (std::abs(middle - auc) < kNormalQuantile975 * NewcombeError(ranking, middle) ? within : beyond) = middle;
  }
  return within;
}

Estimate EstimateAuc(const Ranking& ranking) {
  Estimate estimate;
  estimate.value = std::clamp(Auc(ranking), 0.0, 1.0);
  const double auc = estimate.value;
  const int64_t disjoint_pairs = std::min(ranking.negatives, ranking.positives);
  // Of few rows the sample's own variance says little, and is often near zero.
  constexpr int64_t kFewRows = 50;
  if (disjoint_pairs < kFewRows) {
    estimate.low = NewcombeLimit(ranking, auc, 0);
    estimate.high = NewcombeLimit(ranking, auc, 1);
    return estimate;
  }
  // Off the end of the logit scale: all pairs came out the same way.
  constexpr double kEnd = 1e-12;
  if (auc > 1 - kEnd) {
    estimate.low = LowerBinomialLimit(disjoint_pairs, disjoint_pairs, 0.025);
    estimate.high = 1;
    return estimate;
  }
  if (auc < kEnd) {
    estimate.high = UpperBinomialLimit(0, disjoint_pairs, 0.025);
    return estimate;
  }
  // On the logit scale the interval cannot leave [0, 1], and is asymmetric as the AUC's law is.
  const double logit = std::log(auc / (1 - auc));
  const double half_width = kNormalQuantile975 * std::sqrt(AucVariance(ranking, auc)) / (auc * (1 - auc));
  // Near an end of the scale the sample's variance says little. As many disjoint pairs as the smaller class has rows
  // come out the wrong way no more often than all pairs do, and scatter more than their mean.
  const double pairs = static_cast<double>(disjoint_pairs);
  const auto lost = static_cast<int64_t>(std::ceil((1 - auc) * pairs));
  const auto won = static_cast<int64_t>(std::ceil(auc * pairs));
  estimate.low = std::max(1 / (1 + std::exp(half_width - logit)),
                          LowerBinomialLimit(disjoint_pairs - lost, disjoint_pairs, 0.025));
  estimate.high = std::min(1 / (1 + std::exp(-half_width - logit)), UpperBinomialLimit(won, disjoint_pairs, 0.025));
  return estimate;
}

// Height of the ROC curve over the false positive rate 1/`per`.
// A tied group that straddles the threshold is split in proportion, as an adversary does who accuses it at random.
double TruePositiveRate(const Ranking& ranking, int64_t per) {
  double budget = static_cast<double>(ranking.negatives) / static_cast<double>(per);  // False positives still allowed.
  double found = 0;
  for (const TiedGroup& group : ranking.groups) {
    const double negatives = static_cast<double>(group.negatives);
    const double positives = static_cast<double>(group.positives);
    if (negatives > budget) {
      found += positives * budget / negatives;
      break;
    }
    budget -= negatives;
    found += positives;
  }
  return found / static_cast<double>(ranking.positives);
}

// Ranks (from 1, descending) of two negatives between whose scores the threshold lies that a share 1/`per` of all
// negatives exceeds: above the `low` one, below the `high` one, each but for a probability of `risk`. 0, or more than
// there are negatives: these negatives do not say.
struct ThresholdRanks {
  int64_t high = 0, low = 0;
};

ThresholdRanks BoundThreshold(int64_t negatives, int64_t per, double risk) {
  const double share = 1 / static_cast<double>(per);
  // Smallest count c with P(at most c of the negatives exceed the threshold) >= level.
  // Halving over the counts: the distribution function increases in the count.
  const auto quantile = [&](double level) {
    int64_t below = -1;
    int64_t reached = negatives;
    while (reached - below > 1) {
      const int64_t middle = below + (reached - below) / 2;
      (BinomialCdf(negatives, share, middle) >= level ? reached : below) = middle;
    }
    return reached;
  };
  return {quantile(risk), quantile(1 - risk) + 1};
}

Estimate EstimateTruePositiveRate(const Ranking& ranking, int64_t per) {
  constexpr double kRisk = 0.05 / 4;  // Two limits of the threshold, and two of a share of the positives beyond it.
  // The threshold is itself estimated from negatives; an interval that ignored this would be too narrow.
  const ThresholdRanks ranks = BoundThreshold(ranking.negatives, per, kRisk);
  // Positives that lie certainly above the threshold, and those that may. Of equal scores, which an adversary splits at
  // random, as large a share as of their negatives.
  double above_high = 0, from_low = 0;
  int64_t negatives = 0;
  for (const TiedGroup& group : ranking.groups) {
    // The share of the group that lies above the negative of that rank, if so many negatives are above the threshold.
    const auto share = [&](int64_t rank, int64_t above) {
      if (group.negatives == 0) {
        return negatives < rank ? 1.0 : 0.0;
      }
      return std::clamp(static_cast<double>(above - negatives) / static_cast<double>(group.negatives), 0.0, 1.0);
    };
    above_high += share(ranks.high, ranks.high - 1) * static_cast<double>(group.positives);
    from_low += share(ranks.low, ranks.low) * static_cast<double>(group.positives);
    negatives += group.negatives;
  }
  constexpr double kRounding = 1e-9;
  Estimate estimate;
  estimate.value = TruePositiveRate(ranking, per);
  estimate.low = ranks.high == 0 ? 0
                                 : LowerBinomialLimit(static_cast<int64_t>(std::floor(above_high + kRounding)),
                                                      ranking.positives, kRisk);
  estimate.high = UpperBinomialLimit(static_cast<int64_t>(std::ceil(from_low - kRounding)), ranking.positives, kRisk);
  return estimate;
}

}  // namespace

double BinomialCdf(int64_t n, double p, int64_t k) {
  if (k < 0) {
    return 0;
  }
  if (k >= n || p <= 0) {
    return 1;
  }
  if (p >= 1) {
    return 0;
  }
  return boost::math::cdf(Binomial(static_cast<double>(n), p), static_cast<double>(k));
}

double LowerBinomialLimit(int64_t successes, int64_t n, double risk) {
  return Binomial::find_lower_bound_on_p(static_cast<double>(n), static_cast<double>(successes), risk);
}

double UpperBinomialLimit(int64_t successes, int64_t n, double risk) {
  return Binomial::find_upper_bound_on_p(static_cast<double>(n), static_cast<double>(successes), risk);
}

absl::StatusOr<LeakFigures> MeasureLeak(absl::Span<const float> scores, absl::Span<const uint8_t> labels) {
  SPLITVEIL_ASSIGN_OR_RETURN(Ranking ranking, Rank(scores, labels));
  LeakFigures figures;
  figures.auc = EstimateAuc(ranking);
  figures.tpr_at_1_percent_fpr = EstimateTruePositiveRate(ranking, 100);
  figures.tpr_at_01_percent_fpr = EstimateTruePositiveRate(ranking, 1000);
  if (figures.auc.value < 0.5) {  // The adversary inverts the score, and accuses from its other end.
    std::reverse(ranking.groups.begin(), ranking.groups.end());
    // At low false positive rates the inverted score may find fewer: the adversary takes the better end.
    const auto larger = [](const Estimate& a, const Estimate& b) { return a.value < b.value ? b : a; };
    figures.tpr_at_1_percent_fpr = larger(figures.tpr_at_1_percent_fpr, EstimateTruePositiveRate(ranking, 100));
    figures.tpr_at_01_percent_fpr = larger(figures.tpr_at_01_percent_fpr, EstimateTruePositiveRate(ranking, 1000));
  }
  figures.examples = static_cast<int64_t>(scores.size());
  figures.positives = ranking.positives;
  return figures;
}

// One infinite score would make the mean and the deviation infinite, and every other score 0.
void StandardizeScores(std::vector<float>& scores) {
  double count = 0;
  double sum = 0;
  for (float score : scores) {
    if (std::isfinite(score)) {
      ++count;
      sum += score;
    }
  }
  const double mean = sum / count;
  double squares = 0;
  for (float score : scores) {
    if (std::isfinite(score)) {
      squares += (score - mean) * (score - mean);
    }
  }
  const double scale = squares > 0 ? 1 / std::sqrt(squares / count) : 0;
  for (float& score : scores) {
    if (std::isfinite(score)) {
      score = static_cast<float>((score - mean) * scale);
    }
  }
}

}  // namespace splitveil
