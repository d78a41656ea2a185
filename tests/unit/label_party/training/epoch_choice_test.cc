#include "label_party/training/epoch_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <utility>
#include <vector>

namespace splitveil {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Epochs trained until the stopper says so, with these metrics after each; 0: never.
int StopsAfter(const v1::EarlyStopping& config, const std::vector<double>& values) {
  EarlyStopper stopper(config, "test");
  for (size_t epoch = 0; epoch < values.size(); ++epoch) {
    TestMetrics metrics;
    metrics.epoch = static_cast<int64_t>(epoch);
    (config.metric() == v1::EarlyStopping::LOG_LOSS ? metrics.log_loss : metrics.auc) = values[epoch];
    if (stopper.ShouldStop(metrics)) {
      return static_cast<int>(epoch) + 1;
    }
  }
  return 0;
}

v1::EarlyStopping Config(int patience, double min_delta = 0,
                         v1::EarlyStopping::Metric metric = v1::EarlyStopping::AUC) {
  v1::EarlyStopping config;
  config.set_patience(patience);
  config.set_min_delta(min_delta);
  config.set_metric(metric);
  return config;
}

TEST(EarlyStopperTest, WaitsForPatienceEpochsInARow) {
  EXPECT_EQ(StopsAfter(Config(2), {0.6, 0.7, 0.69, 0.71, 0.70, 0.705, 0.72}), 6);
  EXPECT_EQ(StopsAfter(Config(1), {0.6, 0.5}), 2);
  EXPECT_EQ(StopsAfter(Config(3), {0.6, 0.5, 0.5}), 0);
}

TEST(EarlyStopperTest, ImprovesOnlyByMoreThanMinDelta) {
  EXPECT_EQ(StopsAfter(Config(1, 0.25), {0.25, 0.5}), 2);  // By as much exactly.
  EXPECT_EQ(StopsAfter(Config(1, 0.125), {0.25, 0.5}), 0);
  EXPECT_EQ(StopsAfter(Config(1), {0.5, 0.5}), 2);
}

TEST(EarlyStopperTest, SmallStepsAddUpAgainstTheBest) {
  EXPECT_EQ(StopsAfter(Config(2, 0.05), {0.60, 0.63, 0.66, 0.69, 0.70}), 5);
}

TEST(EarlyStopperTest, LogLossImprovesDownwards) {
  EXPECT_EQ(StopsAfter(Config(1, 0, v1::EarlyStopping::LOG_LOSS), {0.6, 0.5, 0.4, 0.45}), 4);
}

TEST(EarlyStopperTest, WhatIsNoNumberIsNoImprovement) {
  EXPECT_EQ(StopsAfter(Config(2), {kNan, kNan}), 2);
  EXPECT_EQ(StopsAfter(Config(2), {kNan, 0.5, kNan, 0.6, kNan, kNan}), 6);
}

TEST(EarlyStopperTest, SaysWhy) {
  EarlyStopper stopper(Config(1), "validation");
  TestMetrics metrics;
  metrics.epoch = 3;
  metrics.auc = 0.70125;
  EXPECT_FALSE(stopper.ShouldStop(metrics));
  metrics.epoch = 4;
  EXPECT_TRUE(stopper.ShouldStop(metrics));
  EXPECT_EQ(stopper.Reason(), "validation AUC 0.7013 of epoch 4 not bettered for 1 epochs");
}

// Answers to evaluations with these AUCs; the epoch that is kept.
std::pair<std::vector<v1::EvaluateResponse::Kept>, int64_t> KeptOf(KeepBy by, const std::vector<double>& aucs) {
  KeptEpoch kept(by, v1::EarlyStopping::AUC);
  std::vector<v1::EvaluateResponse::Kept> answers;
  for (const double auc : aucs) {
    TestMetrics metrics;
    metrics.auc = auc;
    kept.Take(metrics);
    answers.push_back(kept.answer());
  }
  return {answers, kept.index()};
}

constexpr auto kLatest = v1::EvaluateResponse::LATEST, kThese = v1::EvaluateResponse::THESE,
               kEarlier = v1::EvaluateResponse::EARLIER;

TEST(KeptEpochTest, IsTheFirstOfTheBestOrTheLast) {
  using Answers = std::vector<v1::EvaluateResponse::Kept>;
  EXPECT_EQ(KeptOf(KeepBy::kTest, {0.6, 0.7, 0.7, 0.65}),
            std::pair(Answers({kThese, kThese, kEarlier, kEarlier}), int64_t{1}));
  EXPECT_EQ(KeptOf(KeepBy::kLast, {0.6, 0.7, 0.65}), std::pair(Answers({kLatest, kLatest, kLatest}), int64_t{2}));
  // What is no number is never kept, and the last one is where there was none.
  EXPECT_EQ(KeptOf(KeepBy::kValidation, {kNan, 0.4, kNan}),
            std::pair(Answers({kLatest, kThese, kEarlier}), int64_t{1}));
  EXPECT_EQ(KeptOf(KeepBy::kValidation, {kNan, kNan}), std::pair(Answers({kLatest, kLatest}), int64_t{1}));
}

TEST(KeptEpochTest, ComparesByTheMetricOfStopping) {
  KeptEpoch kept(KeepBy::kValidation, v1::EarlyStopping::LOG_LOSS);
  kept.Take({0, 0.5, 0.7});
  kept.Take({1, 0.4, 0.6});
  kept.Take({2, 0.6, 0.8});
  EXPECT_EQ(kept.index(), 1);
}

TEST(KeptEpochTest, OfNumbersByTheSquaredError) {
  KeptEpoch kept(KeepBy::kValidation, v1::EarlyStopping::AUC);
  for (const double rmse : {0.3, 0.2, 0.25}) {
    TestMetrics metrics{0, kNan, kNan, kNan, kNan};
    metrics.rmse = rmse;
    kept.Take(metrics);
  }
  EXPECT_EQ(kept.index(), 1);
}

// RMSE is in the target's unit: min_delta is not.
TEST(EarlyStopperTest, OfNumbersMinDeltaIsOfTargetsScaledToOne) {
  const auto stops_after = [](double rmse) {
    EarlyStopper stopper(Config(1, /*min_delta=*/0.01, v1::EarlyStopping::LOG_LOSS), "test");
    for (int epoch = 0; epoch < 2; ++epoch) {
      TestMetrics metrics{epoch, kNan, kNan, kNan, kNan};
      metrics.rmse = epoch == 0 ? 300 : rmse;  // Squared errors: 0.09 at first, of a range of 1000.
      metrics.target_range = 1000;
      if (stopper.ShouldStop(metrics)) {
        return epoch + 1;
      }
    }
    return 0;
  };
  EXPECT_EQ(stops_after(290), 2) << "0.0059 better";
  EXPECT_EQ(stops_after(270), 0) << "0.0171 better";
}

}  // namespace
}  // namespace splitveil
