#include "label_party/audit/label_side_audit.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <set>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace splitveil {
namespace {

using ::testing::Each;

constexpr int64_t kWidth = 8;
constexpr int kRows = 200;

// A head of `outputs` outputs whose directions, predictions and noised labels are known: what it releases is computed
// here by the sum that defines it.
struct KnownHead {
  KnownHead(int64_t outputs, double sigma, uint32_t seed) : random(seed), outputs(outputs) {
    std::normal_distribution<float> normal;
    directions = Matrix(kRows, outputs * kWidth);
    std::generate_n(directions.data(), directions.size(), [&] { return normal(random); });
    released = Matrix(kRows, kWidth);
    for (int64_t j = 0; j < kRows; ++j) {
      double sum = 0;
      std::vector<float> shares(static_cast<size_t>(outputs));
      for (float& share : shares) {
        sum += share = 0.2F + std::abs(normal(random));
      }
      const auto label = static_cast<int64_t>(random() % static_cast<uint32_t>(outputs));
      labels.push_back(static_cast<float>(label));
      for (int64_t k = 0; k < outputs; ++k) {
        predictions.push_back(static_cast<float>(shares[static_cast<size_t>(k)] / sum));
        targets.push_back((k == label ? 1.0F : 0.0F) + static_cast<float>(sigma) * normal(random));
      }
    }
  }

  // gradient = sum over k of (prediction - target) direction.
  void Release(const std::vector<float>& to) {
    for (int64_t j = 0; j < kRows; ++j) {
      for (int64_t k = 0; k < outputs; ++k) {
        const float residual = predictions[j * outputs + k] - to[j * outputs + k];
        for (int64_t i = 0; i < kWidth; ++i) {
          released.row(j)[i] += residual * directions.row(j)[k * kWidth + i];
        }
      }
    }
  }
  std::vector<LabelCandidates> Candidates(const Task& task) const {
    std::vector<LabelCandidates> candidates;
    for (uint32_t j = 0; j < kRows; ++j) {
      candidates.push_back(CandidatesOf(task, labels[j], j));
    }
    return candidates;
  }
  // Of labels with noise of `mu`.
  CandidateEvidence Evidence(double mu = 1) const { return {released, directions, predictions, mu}; }

  std::mt19937 random;
  const int64_t outputs;
  Matrix directions, released;
  std::vector<float> labels, predictions, targets;
};

TEST(LabelCandidatesTest, OneOfThemIsTheLabelAndTheOtherAnyOtherClass) {
  const Task task = {Task::Kind::kMultiClass, 5};
  std::set<float> others;
  for (uint32_t position = 0; position < 200; ++position) {
    const LabelCandidates pair = CandidatesOf(task, 2, position);
    EXPECT_LT(pair.low, pair.high);
    EXPECT_TRUE(pair.low == 2 || pair.high == 2);
    others.insert(pair.low == 2 ? pair.high : pair.low);
    EXPECT_EQ(CandidatesOf(task, 2, position).low, pair.low);  // In every epoch alike.
  }
  EXPECT_EQ(others, (std::set<float>{0, 1, 3, 4}));
}

TEST(LabelCandidatesTest, ANumberIsHeldAgainstTheFartherEnd) {
  const Task task = {Task::Kind::kRegression, 0};
  EXPECT_EQ(CandidatesOf(task, 0.2F, 7).low, 0.2F);
  EXPECT_EQ(CandidatesOf(task, 0.2F, 7).high, 1);
  EXPECT_EQ(CandidatesOf(task, 0.7F, 7).low, 0);
  EXPECT_EQ(CandidatesOf(task, 0.7F, 7).high, 0.7F);
}

TEST(LabelCandidatesTest, PlacesGiveTheNoisedLabelBack) {
  const Task task = {Task::Kind::kMultiClass, 5};
  KnownHead head(5, /*sigma=*/2, /*seed=*/1);
  head.Release(head.targets);
  const std::vector<LabelCandidates> candidates = head.Candidates(task);
  const CandidatePlaces found = PlacesBetween(candidates, head.Evidence());
  int exact = 0;
  for (size_t j = 0; j < kRows; ++j) {
    const auto low = static_cast<size_t>(candidates[j].low), high = static_cast<size_t>(candidates[j].high);
    const double place = 0.5 + (head.targets[5 * j + high] - head.targets[5 * j + low]) / 2;
    exact += found.exact[j];
    if (found.exact[j] != 0) {
      EXPECT_NEAR(found.places[j], place, 0.02) << j;
    }
  }
  EXPECT_GT(exact, kRows * 9 / 10);  // Of eight random numbers a direction, few are near to dependent.
  EXPECT_THAT(found.separations, Each(1.0F));
}

TEST(LabelCandidatesTest, PlacesOfAPosteriorAreThoseOfItsEvidence) {
  constexpr double kSigma = 2;
  const Task task = {Task::Kind::kMultiClass, 4};
  KnownHead head(4, kSigma, /*seed=*/2);
  std::vector<float> posterior;
  for (size_t j = 0; j < kRows; ++j) {
    std::vector<double> shares;
    double sum = 0;
    for (size_t k = 0; k < 4; ++k) {
      sum += shares.emplace_back(head.predictions[4 * j + k] * std::exp(head.targets[4 * j + k] / (kSigma * kSigma)));
    }
    for (const double share : shares) {
      posterior.push_back(static_cast<float>(share / sum));
    }
  }
  head.Release(posterior);
  const std::vector<LabelCandidates> candidates = head.Candidates(task);
  CandidateEvidence evidence = head.Evidence();
  evidence.label_mu = std::sqrt(2) / kSigma;
  evidence.releases_posterior = true;
  const CandidatePlaces found = PlacesBetween(candidates, evidence);
  for (size_t j = 0; j < kRows; ++j) {
    const auto low = static_cast<size_t>(candidates[j].low), high = static_cast<size_t>(candidates[j].high);
    if (found.exact[j] != 0) {
      EXPECT_NEAR(found.places[j], 0.5 + (head.targets[4 * j + high] - head.targets[4 * j + low]) / 2, 0.05) << j;
    }
  }
  EXPECT_GT(std::count(found.exact.begin(), found.exact.end(), 1), kRows * 9 / 10);
}

// Also with more classes than numbers in a gradient.
TEST(LabelCandidatesTest, WithoutNoiseTheLabelIsReadOffTheGradient) {
  for (const int64_t classes : {5, 40}) {
    KnownHead head(classes, /*sigma=*/0, /*seed=*/4);
    head.Release(head.targets);
    const std::vector<LabelCandidates> candidates = head.Candidates({Task::Kind::kMultiClass, classes});
    const CandidatePlaces found = PlacesBetween(candidates, head.Evidence(/*mu=*/0));
    for (size_t j = 0; j < kRows; ++j) {
      EXPECT_NEAR(found.places[j], candidates[j].high == head.labels[j] ? 1 : 0, 1e-3) << j;
    }
  }
}

// Residuals of 120 outputs are not to be had from 8 numbers.
TEST(LabelCandidatesTest, MoreClassesThanNumbersInAGradientAreNotExact) {
  KnownHead head(120, /*sigma=*/1, /*seed=*/5);
  head.Release(head.targets);
  EXPECT_THAT(PlacesBetween(head.Candidates({Task::Kind::kMultiClass, 120}), head.Evidence()).exact, Each(0));
}

// Their residuals would take the cube of the classes to solve for, under the session's lock.
TEST(LabelCandidatesTest, WhatCannotBeToldApartTakesNoTimeToSolve) {
  const auto seconds = [](int64_t classes) {
    KnownHead head(classes, /*sigma=*/1, /*seed=*/6);
    head.Release(head.targets);
    const std::vector<LabelCandidates> candidates = head.Candidates({Task::Kind::kMultiClass, classes});
    absl::Duration least = absl::InfiniteDuration();
    for (int repeat = 0; repeat < 5; ++repeat) {
      const absl::Time begun = absl::Now();
      (void)PlacesBetween(candidates, head.Evidence());
      least = std::min(least, absl::Now() - begun);
    }
    return absl::ToDoubleSeconds(least);
  };
  EXPECT_LT(seconds(128), 16 * seconds(kWidth)) << "as many more classes";
}

TEST(LabelCandidatesTest, DirectionsThatDependOnEachOtherAreNotExact) {
  KnownHead head(3, 1, /*seed=*/3);
  for (int64_t j = 0; j < kRows; ++j) {
    std::copy_n(head.directions.row(j).data(), kWidth, head.directions.row(j).data() + kWidth);
  }
  head.Release(head.targets);
  const CandidatePlaces found = PlacesBetween(head.Candidates({Task::Kind::kMultiClass, 3}), head.Evidence());
  EXPECT_THAT(found.exact, Each(0));
}

// The targets of one row by Gauss's elimination on the normal equations.
std::vector<double> PlainTargets(const CandidateEvidence& evidence, int64_t row, size_t outputs) {
  const absl::Span<const float> released = evidence.released.row(row), v = evidence.output_directions.row(row);
  const size_t d = released.size();
  std::vector<std::vector<double>> rows(outputs, std::vector<double>(outputs + 1));
  double trace = 0;
  for (size_t i = 0; i < outputs; ++i) {
    for (size_t c = 0; c < d; ++c) {
      rows[i][outputs] += static_cast<double>(v[i * d + c]) * released[c];
      for (size_t j = 0; j < outputs; ++j) {
        rows[i][j] += static_cast<double>(v[i * d + c]) * v[j * d + c];
      }
    }
    trace += rows[i][i];
  }
  for (size_t i = 0; i < outputs; ++i) {
    rows[i][i] += 1e-6 * trace;
  }
  for (size_t i = 0; i < outputs; ++i) {
    for (size_t j = 0; j < outputs; ++j) {
      const double factor = rows[j][i] / rows[i][i];
      for (size_t c = i; j != i && c <= outputs; ++c) {
        rows[j][c] -= factor * rows[i][c];
      }
    }
  }
  std::vector<double> targets(outputs);
  for (size_t i = 0; i < outputs; ++i) {
    targets[i] = evidence.predictions[static_cast<size_t>(row) * outputs + i] - rows[i][outputs] / rows[i][i];
  }
  return targets;
}

// So many rows that they are shared out among threads; some with the directions of the row before.
TEST(LabelCandidatesTest, PlacesOfManyClassesAreThoseOfThePlainEquations) {
  constexpr size_t kMany = 1100, kClasses = 24, kNumbers = 90;
  std::mt19937 random(10);
  std::normal_distribution<float> normal;
  Matrix released(kMany, kNumbers), directions(kMany, kClasses * kNumbers);
  ASSERT_GT(directions.size(), 2 << 20);
  std::vector<float> predictions(kMany * kClasses, 1.0F / kClasses);
  std::vector<LabelCandidates> candidates;
  for (int64_t j = 0; j < static_cast<int64_t>(kMany); ++j) {
    std::generate(released.row(j).begin(), released.row(j).end(), [&] { return normal(random); });
    if (j % 3 == 2) {
      directions.SetBlock(j, ConstMatrixView(directions.row(j - 1).data(), 1, kClasses * kNumbers));
    } else {
      std::generate(directions.row(j).begin(), directions.row(j).end(), [&] { return normal(random); });
    }
    candidates.push_back({static_cast<float>(j % 5), static_cast<float>(5 + j % 19)});
  }
  const CandidateEvidence evidence = {released, directions, predictions, /*label_mu=*/1};
  const CandidatePlaces found = PlacesBetween(candidates, evidence);
  for (size_t j = 0; j < kMany; ++j) {
    const std::vector<double> targets = PlainTargets(evidence, static_cast<int64_t>(j), kClasses);
    const auto low = static_cast<size_t>(candidates[j].low), high = static_cast<size_t>(candidates[j].high);
    ASSERT_EQ(found.exact[j], 1) << j;
    EXPECT_NEAR(found.places[j], 0.5 + (targets[high] - targets[low]) / 2, 1e-5) << j;
  }
}

TEST(LabelCandidatesTest, ANumberLiesWhereItsNoisedLabelLies) {
  const Task task = {Task::Kind::kRegression, 0};
  const std::vector<LabelCandidates> candidates = {CandidatesOf(task, 0.25F, 0), CandidatesOf(task, 0.75F, 1),
                                                   CandidatesOf(task, 0.5F, 2)};
  const std::vector<float> predictions = {0.4F, 0.9F, 0.1F};
  const std::vector<float> directions = {2, -1, 0.5F, 0.5F, 0, 0};
  // (prediction - target) direction of targets -1, 2 and 5.
  const std::vector<float> released = {2.8F, -1.4F, -0.55F, -0.55F, 0, 0};
  const CandidatePlaces found =
      PlacesBetween(candidates, {{released.data(), 3, 2}, {directions.data(), 3, 2}, predictions});
  EXPECT_NEAR(found.places[0], (-1 - 0.25) / 0.75, 1e-5);
  EXPECT_NEAR(found.places[1], 2 / 0.75, 1e-5);
  EXPECT_TRUE(std::isnan(found.places[2]));  // Its label moves nothing.
  EXPECT_THAT(found.exact, ::testing::ElementsAre(1, 1, 0));
  EXPECT_THAT(found.separations, ::testing::ElementsAre(0.75F, 0.75F, 0.5F));
}

}  // namespace

}  // namespace splitveil
