// Every batch and evaluation that is not due.
#include "label_party/training/training_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace splitveil {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kEpochs = 2;
constexpr uint32_t kBatches = 3;

TrainingOrder::Options SmallOptions() {
  TrainingOrder::Options options;
  options.epochs = kEpochs;
  options.batches_per_epoch = kBatches;
  options.test_examples = 10;
  return options;
}

void TrainEpoch(TrainingOrder& order) {
  for (uint32_t batch = 0; batch < kBatches; ++batch) {
    ASSERT_TRUE(order.CheckBatch(order.epoch(), batch).ok());
    order.SliceTaken(/*last=*/true);
  }
}

// Whether a first test batch may come; a whole evaluation counts then, and no other.
bool MayEvaluate(const TrainingOrder& order, uint32_t epoch) {
  const bool may = order.CheckTestBatch(epoch, 0, 0).ok();
  EXPECT_EQ(order.CheckEvaluation(epoch, 10).ok(), may);
  EXPECT_FALSE(order.CheckTestBatch(epoch, 1, 0).ok());
  for (const int64_t examples : {0, 9, 11}) {
    EXPECT_FALSE(order.CheckEvaluation(epoch, examples).ok());
  }
  return may;
}

TEST(TrainingOrderTest, ExactlyTheNextBatchIsDue) {
  TrainingOrder order(SmallOptions());
  for (uint32_t epoch = 0; epoch < kEpochs; ++epoch) {
    for (uint32_t batch = 0; batch < kBatches; ++batch) {
      for (uint32_t e = 0; e <= kEpochs; ++e) {
        for (uint32_t b = 0; b <= kBatches; ++b) {
          EXPECT_EQ(order.CheckBatch(e, b).ok(), e == epoch && b == batch) << e << " " << b;
        }
      }
      EXPECT_EQ(order.at_epoch_start(), batch == 0);
      order.SliceTaken(/*last=*/false);
      EXPECT_TRUE(order.batch_begun());
      EXPECT_TRUE(order.CheckBatch(epoch, batch).ok());
      order.SliceTaken(/*last=*/true);
      EXPECT_FALSE(order.batch_begun());
    }
  }
  EXPECT_TRUE(order.trained());
  EXPECT_EQ(order.CheckBatch(kEpochs, 0).message(),
            "batch: expected epoch 2 batch 0 of 2 epochs, found epoch 2 batch 0");
}

TEST(TrainingOrderTest, AnEvaluationIsDueBetweenEpochsOnceAndOfTheLastOneOnly) {
  TrainingOrder order(SmallOptions());
  EXPECT_FALSE(MayEvaluate(order, 0));
  TrainEpoch(order);
  EXPECT_TRUE(MayEvaluate(order, 0));
  EXPECT_FALSE(MayEvaluate(order, 1));
  order.Evaluated(0);
  EXPECT_FALSE(MayEvaluate(order, 0));
  order.SliceTaken(/*last=*/false);
  EXPECT_FALSE(MayEvaluate(order, 0));
  order.SliceTaken(/*last=*/true);
  EXPECT_FALSE(MayEvaluate(order, 0));
}

TEST(TrainingOrderTest, RefusedEvaluationsNameWhatWasExpected) {
  TrainingOrder order(SmallOptions());
  TrainEpoch(order);
  EXPECT_EQ(order.CheckTestBatch(0, 2, 1).message(),
            "evaluation: expected the epoch just trained and test batch 1, found epoch 0 batch 2");
  EXPECT_EQ(order.CheckEvaluation(0, 9).message(),
            "evaluation: expected the epoch just trained and 10 test examples, found epoch 0 and 9");
}

TEST(TrainingOrderTest, AnEvaluationMayBeLeftOutButNotOnceTheNextEpochHasBegun) {
  TrainingOrder order(SmallOptions());
  TrainEpoch(order);
  EXPECT_TRUE(order.CheckBatch(1, 0).ok());
  order.SliceTaken(/*last=*/false);
  EXPECT_FALSE(MayEvaluate(order, 0));
}

TEST(TrainingOrderTest, EarlyStoppingNeedsEveryEvaluation) {
  TrainingOrder::Options options = SmallOptions();
  options.stops_early = true;
  TrainingOrder order(options);
  TrainEpoch(order);
  EXPECT_THAT(std::string(order.CheckBatch(1, 0).message()), HasSubstr("expected the evaluation of the epoch before"));
  order.Evaluated(0);
  EXPECT_TRUE(order.CheckBatch(1, 0).ok());
}

TEST(TrainingOrderTest, AfterAnEarlyStopNoBatchIsDueAndTheRunIsComplete) {
  TrainingOrder::Options options = SmallOptions();
  options.stops_early = true;
  TrainingOrder order(options);
  TrainEpoch(order);
  order.Evaluated(0);
  EXPECT_FALSE(order.CheckComplete().ok());
  EXPECT_FALSE(order.stopped_early());
  order.StopTraining();
  EXPECT_TRUE(order.stopped_early());
  EXPECT_TRUE(order.trained());
  EXPECT_EQ(order.CheckBatch(1, 0).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(order.CheckTrained("Call").ok());
  EXPECT_TRUE(order.CheckComplete().ok());
}

TEST(TrainingOrderTest, ProgressiveValidationComesBeforeTheFirstBatchAndOnce) {
  TrainingOrder::Options options = SmallOptions();
  options.progressive_validation = true;
  TrainingOrder order(options);
  EXPECT_THAT(std::string(order.CheckBatch(0, 0).message()), HasSubstr("progressive_validation"));
  EXPECT_FALSE(MayEvaluate(order, 1));
  ASSERT_TRUE(MayEvaluate(order, 0));
  order.Evaluated(0);
  EXPECT_FALSE(MayEvaluate(order, 0));
  EXPECT_FALSE(order.evaluates_epochs());
  TrainEpoch(order);
  EXPECT_FALSE(MayEvaluate(order, 0));
  TrainEpoch(order);
  EXPECT_TRUE(order.CheckComplete().ok());
}

TEST(TrainingOrderTest, CompleteMeansTrainedAndEvaluated) {
  TrainingOrder order(SmallOptions());
  EXPECT_EQ(order.CheckTrained("Call").message(), "Call: expected 2 epochs trained, found 0");
  TrainEpoch(order);
  order.Evaluated(0);
  TrainEpoch(order);
  EXPECT_TRUE(order.CheckTrained("Call").ok());
  EXPECT_EQ(order.CheckComplete().message(), "Close: expected 2 epochs trained and evaluated, found 2 and 1");
  order.Evaluated(1);
  EXPECT_TRUE(order.CheckComplete().ok());
}

TEST(TrainingOrderTest, WhereNothingIsHeldOutNoEvaluationIsMissed) {
  TrainingOrder::Options options = SmallOptions();
  options.test_examples = 0;
  TrainingOrder order(options);
  TrainEpoch(order);
  EXPECT_FALSE(order.CheckComplete().ok());
  TrainEpoch(order);
  EXPECT_TRUE(order.CheckComplete().ok());
}

}  // namespace

}  // namespace splitveil
