#include <algorithm>
#include <cmath>
#include <cstdint>
#include <ctime>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "common/evaluation/evaluation.h"
#include "common/matrix/matrix.h"

namespace splitveil {
namespace {

using Labels = std::vector<uint8_t>;
using Rows = std::vector<std::vector<float>>;

Matrix Logits(const Rows& rows) {
  Matrix logits(static_cast<int64_t>(rows.size()), static_cast<int64_t>(rows.front().size()));
  for (size_t i = 0; i < rows.size(); ++i) {
    std::copy(rows[i].begin(), rows[i].end(), logits.row(static_cast<int64_t>(i)).begin());
  }
  return logits;
}

float LogOf(double probability) { return static_cast<float>(std::log(probability)); }

// Softmax, and the AUC of each class over all pairs of a member and another, in long double.
double BruteForceMacroAuc(const Rows& rows, const Labels& labels) {
  const size_t classes = rows.front().size();
  long double sum = 0;
  int counted = 0;
  for (size_t label = 0; label < classes; ++label) {
    std::vector<long double> scores;
    for (const std::vector<float>& row : rows) {
      long double total = 0;
      for (const float logit : row) {
        total += std::exp(static_cast<long double>(logit));
      }
      scores.push_back(std::exp(static_cast<long double>(row[label])) / total);
    }
    long double right = 0, pairs = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      for (size_t j = 0; j < rows.size(); ++j) {
        if (labels[i] == label && labels[j] != label) {
          pairs += 1;
          right += scores[i] > scores[j] ? 1 : scores[i] == scores[j] ? 0.5L : 0;
        }
      }
    }
    if (pairs > 0) {
      sum += right / pairs;
      ++counted;
    }
  }
  return static_cast<double>(sum / counted);
}

TEST(EvaluateClassesTest, LogLossIsTheMeanNegativeLogProbabilityOfTheTrueLabel) {
  const Rows rows = {{LogOf(0.7), LogOf(0.2), LogOf(0.1)}, {LogOf(0.3), LogOf(0.3), LogOf(0.4)}};
  const Evaluation evaluation = *EvaluateClasses(Logits(rows), Labels{0, 2});
  EXPECT_NEAR(evaluation.log_loss, -(std::log(0.7) + std::log(0.4)) / 2, 1e-6);
  EXPECT_EQ(evaluation.examples, 2);
}

TEST(EvaluateClassesTest, LogLossDoesNotChangeWithACommonShift) {
  const Rows rows = {{1, 2, 3}, {-1, 0, 4}}, shifted = {{101, 102, 103}, {-51, -50, -46}};
  EXPECT_DOUBLE_EQ(EvaluateClasses(Logits(rows), Labels{0, 1})->log_loss,
                   EvaluateClasses(Logits(shifted), Labels{0, 1})->log_loss);
}

TEST(EvaluateClassesTest, IsFiniteAndExactForTheLargestLogits) {
  const float largest = std::numeric_limits<float>::max();
  EXPECT_EQ(EvaluateClasses(Logits({{largest, -largest, 0}}), Labels{0})->log_loss, 0);
  EXPECT_DOUBLE_EQ(EvaluateClasses(Logits({{1000, -1000, 0}}), Labels{1})->log_loss, 2000);
  EXPECT_DOUBLE_EQ(EvaluateClasses(Logits({{0, -100, -100}}), Labels{0})->log_loss, 2 * std::exp(-100.0));
}

TEST(EvaluateClassesTest, TwoClassesAreTheBinaryFigures) {
  const std::vector<float> logits = {2, -1, 0.5F, -3, 0.25F};
  const Labels labels = {1, 0, 0, 1, 1};
  Rows rows;
  for (const float logit : logits) {
    rows.push_back({0, logit});
  }
  const Evaluation binary = *Evaluate(logits, labels), classes = *EvaluateClasses(Logits(rows), labels);
  EXPECT_NEAR(classes.log_loss, binary.log_loss, 1e-12);
  EXPECT_NEAR(classes.auc, binary.auc, 1e-12);  // Either class against the other has the same.
  EXPECT_EQ(classes.accuracy, binary.accuracy);
}

TEST(EvaluateClassesTest, MacroAucIsTheMeanOverClassesAndPairs) {
  std::mt19937 random(5);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  for (int classes = 2; classes < 7; ++classes) {
    std::normal_distribution<float> normal;
    Rows rows;
    Labels labels;
    for (int i = 0; i < 60; ++i) {
      std::vector<float> row;
      for (int k = 0; k < classes; ++k) {
        row.push_back(normal(random));
      }
      rows.push_back(i < 9 ? row : rows[random() % 9]);  // Many rows tie.
      labels.push_back(static_cast<uint8_t>(random() % static_cast<unsigned>(classes)));
    }
    EXPECT_NEAR(EvaluateClasses(Logits(rows), labels)->auc, BruteForceMacroAuc(rows, labels), 1e-9) << classes;
  }
}

// A class without members, or of which all rows are, has no AUC and does not count.
// The same number, to the last bit, as sorting all rows once a class, and in less than half the time.
TEST(EvaluateClassesTest, HundredsOfClassesNeedNoSortOfAllRowsEach) {
  constexpr int64_t kRows = 8000, kClasses = 256;
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  Matrix logits(kRows, kClasses);
  std::generate_n(logits.data(), logits.size(), [&] { return std::round(normal(random) * 1000) / 1000; });
  Labels labels;
  for (int64_t i = 0; i < kRows; ++i) {
    labels.push_back(static_cast<uint8_t>(random() % kClasses));
    logits.row(i)[labels.back()] += 3;
  }
  const std::clock_t begun = std::clock();  // Processor time: it stands still while others run.
  const double found = EvaluateClasses(logits, labels)->auc;
  const std::clock_t taken = std::clock() - begun;

  std::vector<double> totals;
  for (int64_t i = 0; i < kRows; ++i) {
    const auto row = logits.row(i);
    const size_t best = std::max_element(row.begin(), row.end()) - row.begin();
    double rest = 0;
    for (size_t k = 0; k < row.size(); ++k) {
      rest += k == best ? 0 : std::exp(double{row[k]} - double{row[best]});
    }
    totals.push_back(double{row[best]});
    totals.push_back(std::log1p(rest));
  }
  double sum = 0;
  for (int64_t label = 0; label < kClasses; ++label) {
    std::vector<std::pair<double, bool>> ranked;
    for (int64_t i = 0; i < kRows; ++i) {
      ranked.emplace_back(double{logits.row(i)[label]} - totals[2 * i] - totals[2 * i + 1], labels[i] == label);
    }
    std::sort(ranked.begin(), ranked.end());
    double right = 0, others = 0, members = 0;
    for (size_t begin = 0, end = 0; begin < ranked.size(); begin = end) {
      double tied[2] = {};
      for (; end < ranked.size() && ranked[end].first == ranked[begin].first; ++end) {
        tied[ranked[end].second ? 1 : 0] += 1;
      }
      right += tied[1] * (others + tied[0] / 2);
      others += tied[0];
      members += tied[1];
    }
    sum += right / (members * others);
  }
  EXPECT_EQ(found, sum / kClasses);
  EXPECT_LT(taken, (std::clock() - begun - taken) / 2);
}

TEST(EvaluateClassesTest, MacroAucIsOfTheClassesThatArePresent) {
  const Rows rows = {{2, 0, 5}, {1, 0, 5}, {0, 1, 5}, {0, 2, 5}, {3, 0, 5}};
  const Labels labels = {0, 0, 1, 1, 1};
  EXPECT_NEAR(EvaluateClasses(Logits(rows), labels)->auc, 4.0 / 6, 1e-12);  // Only the last row is ranked wrongly.
  EXPECT_TRUE(std::isnan(EvaluateClasses(Logits(rows), Labels{2, 2, 2, 2, 2})->auc));
  EXPECT_EQ(EvaluateClasses(Logits(rows), Labels{2, 2, 2, 2, 2})->accuracy, 1);
}

// Probabilities that round to 1 still rank.
TEST(EvaluateClassesTest, MacroAucTellsProbabilitiesNextToOneApart) {
  const Rows rows = {{80, 0, 0}, {70, 0, 0}, {60, 0, 0}, {50, 0, 0}};
  EXPECT_EQ(EvaluateClasses(Logits(rows), Labels{0, 0, 1, 1})->auc, 1);
}

TEST(EvaluateClassesTest, AccuracyTakesTheFirstOfTheLargest) {
  const Rows rows = {{1, 1, 0}, {1, 1, 0}, {0, 2, 2}, {0, 0, 0}};
  EXPECT_EQ(EvaluateClasses(Logits(rows), Labels{0, 1, 1, 2})->accuracy, 0.5);
}

TEST(EvaluateClassesTest, HasNoOtherFigures) {
  const Evaluation evaluation = *EvaluateClasses(Logits({{1, 0, 0}, {0, 1, 0}}), Labels{0, 1});
  EXPECT_TRUE(std::isnan(evaluation.calibration_error));
  EXPECT_TRUE(std::isnan(evaluation.rmse));
  EXPECT_TRUE(std::isnan(evaluation.r_squared));
}

TEST(EvaluateClassesTest, FailsForWhatIsNoPrediction) {
  const auto refused = [](ConstMatrixView logits, const Labels& labels) {
    return EvaluateClasses(logits, labels).status().code() == absl::StatusCode::kInvalidArgument;
  };
  EXPECT_TRUE(refused({}, {}));
  EXPECT_TRUE(refused(Logits({{1, 2, 3}}), Labels{0, 1}));
  EXPECT_TRUE(refused(Logits({{1}}), Labels{0}));
  EXPECT_TRUE(refused(Logits({{1, 2, 3}}), Labels{3}));
  EXPECT_TRUE(refused(Logits({{1, std::nanf(""), 3}}), Labels{0}));
  EXPECT_TRUE(refused(Logits({{1, 2, std::numeric_limits<float>::infinity()}}), Labels{0}));
}

}  // namespace
}  // namespace splitveil
