#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <limits>
#include <utility>
#include <vector>

#include "common/leakage/attack_traits.h"
#include "common/leakage/bounds.h"

namespace splitveil {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr char kWorstCase[] = "cumulative_conditional_likelihood_ratio";

double Phi(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }

// Of a score that knows nothing all orders are equally likely. P(U = u), the count of pairs won, by the recursion of
// Mann and Whitney (Ann. Math. Stat. 1947) over which class has the largest score.
std::vector<double> NullLaw(int positives, int negatives) {
  std::vector<std::vector<double>> of_negatives(negatives + 1, {1.0});  // Of 0 positives.
  for (int i = 1; i <= positives; ++i) {
    std::vector<std::vector<double>> next = {{1.0}};
    for (int j = 1; j <= negatives; ++j) {
      std::vector<double> law(i * j + 1);
      for (int u = 0; u <= i * j; ++u) {
        const double positive_last = u - j >= 0 && u - j <= (i - 1) * j ? of_negatives[j][u - j] : 0;
        const double negative_last = u <= i * (j - 1) ? next[j - 1][u] : 0;
        law[u] = (i * positive_last + j * negative_last) / (i + j);
      }
      next.push_back(law);
    }
    of_negatives = next;
  }
  return of_negatives[negatives];
}

TEST(AucTailTest, IsAtLeastTheExactOneOfAScoreThatKnowsNothing) {
  for (const auto& [positives, negatives] : std::vector<std::pair<int, int>>{{3, 100}, {5, 5}, {10, 40}, {40, 60}}) {
    const std::vector<double> law = NullLaw(positives, negatives);
    double exact = 0;
    for (int64_t u = static_cast<int64_t>(law.size()) - 1; exact < 1e-2; --u) {
      exact += law[u];
      const double auc = static_cast<double>(u) / (positives * negatives);
      const double stated = AucTail(auc, 0.5, positives, negatives);
      ASSERT_GE(stated, 0.99 * exact) << positives << " " << negatives << " " << auc;
      // Near the cap of 1 it is far too large; elsewhere near the truth.
      ASSERT_LE(stated, (auc < 0.75 ? 2 : kInfinity) * exact) << positives << " " << negatives << " " << auc;
    }
  }
}

// One positive of share V among 1000 negatives beats a binomial count of them, V = Phi(N(mu, 1)).
TEST(AucTailTest, IsAtLeastTheExactOneOfASinglePositive) {
  for (const double mu : {0.3, 1.0}) {
    for (const double auc : {0.97, 0.99, 0.999, 1.0}) {
      constexpr int kNegatives = 1000;
      double exact = 0;
      for (double z = -8; z < 8; z += 0.01) {
        const double share = Phi(mu + z), lost = Phi(-mu - z);
        double reached = 0;
        for (int won = static_cast<int>(std::ceil(auc * kNegatives - 1e-9)); won <= kNegatives; ++won) {
          reached += std::exp(std::lgamma(kNegatives + 1) - std::lgamma(won + 1) - std::lgamma(kNegatives - won + 1) +
                              won * std::log(share) + (kNegatives - won) * std::log(lost));
        }
        exact += 0.01 * std::exp(-z * z / 2) / std::sqrt(2 * M_PI) * reached;
      }
      EXPECT_GE(AucTail(auc, Phi(mu / std::sqrt(2.0)), 1, kNegatives), 0.99 * exact) << mu << " " << auc;
    }
  }
}

TEST(AucTailTest, OfManyExamplesIsThatOfTheNormalDistribution) {
  // Variance (n0 + n1 + 1) / (12 n0 n1) of a score that knows nothing.
  const double deviation = std::sqrt(40001 / (12.0 * 10000 * 30000));
  EXPECT_NEAR(AucTail(0.5 + 4 * deviation, 0.5, 10000, 30000) / Phi(-4), 1, 0.05);
}

TEST(AucTailTest, IsOneWithoutAClassAndNearTheMean) {
  EXPECT_EQ(AucTail(1, 0.6, 0, 100), 1);
  EXPECT_EQ(AucTail(1, 0.6, 100, 0), 1);
  EXPECT_EQ(AucTail(0.6, 0.6, 100, 100), 1);
}

TEST(ShareOfRiskTest, OfAllAttacksInAllEpochsAddsUpToTheRisk) {
  double sum = 0;
  for (const AttackTraits& traits : AllAttackTraits()) {
    for (int hints = traits.takes_hint_count() ? 1 : 0; hints <= (traits.takes_hint_count() ? kMaxHints : 0); ++hints) {
      for (int64_t epoch = 0; traits.reads_gradients() && epoch < 10'000; ++epoch) {
        sum += ShareOfRisk(AttackName({traits.attack, hints}), epoch);
      }
    }
  }
  EXPECT_LE(sum, kAttacksRisk);
  EXPECT_GE(sum, 0.999 * kAttacksRisk);
  EXPECT_EQ(ShareOfRisk("of a later version", 0), ShareOfRisk("norm", 0));
}

TEST(ExceedsGaussianAucBoundTest, TellsWhatIsCertainByTheNumberOfExamples) {
  EXPECT_FALSE(ExceedsGaussianAucBound({kWorstCase, 0, 0.7, 300, 75}, 0.65));
  EXPECT_TRUE(ExceedsGaussianAucBound({kWorstCase, 0, 0.7, 30'000, 7'500}, 0.65));
  EXPECT_TRUE(ExceedsGaussianAucBound({kWorstCase, 0, 0.3, 30'000, 7'500}, 0.65));  // Read in reverse.
  // All of three positives on top is no more than luck.
  EXPECT_FALSE(ExceedsGaussianAucBound({"norm", 0, 1, 30'000, 3}, 0.65));
  EXPECT_FALSE(ExceedsGaussianAucBound({"norm", 0, 1, 0, 0}, 0.65));
}

TEST(ExceedsGaussianAucBoundTest, ALateEpochAndOneOfManyAttacksNeedMore) {
  const auto least = [](const char* attack, int64_t epoch) {
    double auc = 0.65;
    while (!ExceedsGaussianAucBound({attack, epoch, auc, 2000, 500}, 0.65)) {
      auc += 1e-4;
    }
    return auc;
  };
  EXPECT_GT(least("norm", 0), least(kWorstCase, 0));
  EXPECT_GT(least(kWorstCase, 999), least(kWorstCase, 0));
  EXPECT_LT(least(kWorstCase, 999), 0.75);
}

TEST(ExceedsGaussianAucBoundTest, HasATolerance) {
  constexpr int64_t kMany = int64_t{1} << 40;
  EXPECT_TRUE(ExceedsGaussianAucBound({"norm", 0, 0.611, kMany, kMany / 2}, 0.605));
  EXPECT_FALSE(ExceedsGaussianAucBound({"norm", 0, 0.609, kMany, kMany / 2}, 0.605));
}

TEST(ExceedsGaussianAucBoundTest, NothingExceedsWhatIsNotBoundedOrNotMeasured) {
  EXPECT_FALSE(ExceedsGaussianAucBound({"norm", 0, 0.99, 30'000, 7'500}, kNan));
  EXPECT_FALSE(ExceedsGaussianAucBound({"norm", 0, 0.99, 30'000, 7'500}, 0.996));
  EXPECT_FALSE(ExceedsGaussianAucBound({"norm", 0, kNan, 30'000, 7'500}, 0.6));
}

TEST(CertainAucTest, IsTheBoundAboveWhichNothingIsCertain) {
  const MeasuredAuc measured = {kWorstCase, 3, 0.7, 3000, 750};
  const double certain = CertainAuc(measured);
  EXPECT_TRUE(ExceedsGaussianAucBound(measured, certain - kBoundTolerance - 1e-4));
  EXPECT_FALSE(ExceedsGaussianAucBound(measured, certain - kBoundTolerance + 1e-4));
  EXPECT_NEAR(CertainAuc({kWorstCase, 3, 0.3, 3000, 750}), certain, 1e-4);
  EXPECT_EQ(CertainAuc({kWorstCase, 3, 0.9, 30, 3}), 0.5);
  EXPECT_TRUE(std::isnan(CertainAuc({kWorstCase, 3, kNan, 3000, 750})));
}

}  // namespace
}  // namespace splitveil
