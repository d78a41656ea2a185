#include "deploy/operator/tune/private_choice.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>
#include <random>
#include <vector>

#include "common/privacy/gaussian_privacy.h"

namespace splitveil {
namespace {

using ::testing::IsEmpty;

// By its definition: the share of pairs that are ranked right, ties counting half.
std::optional<double> AucOf(const std::vector<int>& scores, const std::vector<int>& labels) {
  double right = 0, pairs = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    for (size_t j = 0; j < labels.size(); ++j) {
      if (labels[i] == 1 && labels[j] == 0) {
        pairs += 1;
        right += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5 : 0;
      }
    }
  }
  return right / pairs;
}

std::vector<double> ProbabilitiesOf(const std::vector<std::vector<int>>& trials, const std::vector<int>& labels,
                                    double epsilon) {
  std::vector<std::optional<double>> aucs;
  int64_t positives = 0;
  for (const int label : labels) {
    positives += label;
  }
  for (const std::vector<int>& scores : trials) {
    aucs.push_back(AucOf(scores, labels));
  }
  return ChoiceProbabilities(aucs, positives, static_cast<int64_t>(labels.size()) - positives, epsilon);
}

// Over all labels of nine examples and each flip of one of them, with trials that rank them at random and one against
// another: no probability changes by more than e^epsilon, and the worst ones change nearly so much, so that another
// factor would be too small or waste what is allowed.
TEST(ChoiceProbabilitiesTest, AnotherLabelMovesNoneByMoreThanEpsilon) {
  constexpr double kEpsilon = 0.6;
  constexpr int kExamples = 9;
  std::mt19937_64 random(7);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  double worst = 0;
  for (int space = 0; space < 6; ++space) {
    std::vector<std::vector<int>> trials(4, std::vector<int>(kExamples));
    for (int i = 0; i < kExamples; ++i) {
      for (std::vector<int>& scores : trials) {
        scores[i] = std::uniform_int_distribution<int>(0, space < 3 ? 2 : 100)(random);
      }
      trials[2][i] = -trials[1][i];
    }
    for (int bits = 1; bits + 1 < 1 << kExamples; ++bits) {
      std::vector<int> labels;
      for (int i = 0; i < kExamples; ++i) {
        labels.push_back(bits >> i & 1);
      }
      const std::vector<double> before = ProbabilitiesOf(trials, labels, kEpsilon);
      for (int i = 0; i < kExamples; ++i) {
        const int flipped = bits ^ 1 << i;
        if (flipped == 0 || flipped + 1 == 1 << kExamples) {
          continue;  // One class has no AUC, and no run.
        }
        labels[i] = 1 - labels[i];
        const std::vector<double> after = ProbabilitiesOf(trials, labels, kEpsilon);
        labels[i] = 1 - labels[i];
        for (size_t t = 0; t < trials.size(); ++t) {
          worst = std::max(worst, std::abs(std::log(after[t] / before[t])));
        }
      }
    }
  }
  EXPECT_LE(worst, kEpsilon);
  EXPECT_GT(worst, kEpsilon / 2);
}

TEST(ChoiceProbabilitiesTest, TheConfiguredOneWhereNothingIsBetterAndTheBestWhereItIsClear) {
  const std::vector<std::optional<double>> alike(31, 0.8);
  const std::vector<double> even = ChoiceProbabilities(alike, 500, 1500, 0.5);
  EXPECT_NEAR(even[0], 0.8, 1e-12);
  EXPECT_NEAR(even[30], 0.2 / 30, 1e-12);
  std::vector<std::optional<double>> better = alike;
  better[7] = 0.9;
  better[9] = std::nullopt;
  const std::vector<double> clear = ChoiceProbabilities(better, 500, 1500, 0.5);
  EXPECT_GT(clear[7], 0.98);
  EXPECT_EQ(clear[9], 0);
  EXPECT_THAT(ChoiceProbabilities({std::nullopt, std::nullopt}, 5, 5, 1), IsEmpty());
}

// The tests of an epsilon-private mechanism that errs least: randomised response, whose two errors are 1 / (1 +
// e^epsilon), and what lies between it and a coin. None errs less than mu-GDP allows.
TEST(EpsilonWithinTest, AnEpsilonPrivateChoiceIsMuPrivate) {
  for (const double mu : {0.01, 0.358, 0.742, 2.0, 6.0}) {
    const double corner = 1 / (1 + std::exp(EpsilonWithin(mu)));
    for (double share = 0; share <= 1; share += 0.01) {
      const double false_positives = share * corner, true_positives = share * (1 - corner);
      EXPECT_LE(true_positives, NormalCdf(NormalQuantile(false_positives) + mu) + 1e-12) << mu;
      EXPECT_LE(1 - false_positives, NormalCdf(NormalQuantile(1 - true_positives) + mu) + 1e-12) << mu;
    }
    const double wider = 1 / (1 + std::exp(1.01 * EpsilonWithin(mu)));
    EXPECT_GT(1 - wider, NormalCdf(NormalQuantile(wider) + mu)) << mu;  // No larger epsilon is.
  }
}

}  // namespace
}  // namespace splitveil
