#include "nonlabel_party/protection/privacy_objective.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <vector>

#include "common/dataset/features.h"

namespace splitveil {
namespace {

using Target = SimulatedAdversary::Target;

struct Batch {
  Matrix sent;
  std::vector<uint8_t> numbers;
};

// Values whose activations lie two apart on an axis of their own.
Batch RandomBatch(int64_t rows, int64_t values, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  Batch batch{Matrix(rows, 4), {}};
  for (int64_t i = 0; i < rows; ++i) {
    batch.numbers.push_back(static_cast<uint8_t>(random() % values));
    for (int64_t k = 0; k < 4; ++k) {
      batch.sent.row(i)[k] = normal(random) + (k == batch.numbers.back() ? 2.0f : 0.0f);
    }
  }
  return batch;
}

std::unique_ptr<SimulatedAdversary> Make(int64_t values) {
  absl::StatusOr<std::unique_ptr<SimulatedAdversary>> adversary = SimulatedAdversary::Create(4, values, 1);
  EXPECT_TRUE(adversary.ok()) << adversary.status();
  return *std::move(adversary);
}

TEST(SimulatedAdversaryTest, DerivativeByCentralDifferences) {
  for (const Target target : {Target::kTrue, Target::kFlipped}) {
    const std::unique_ptr<SimulatedAdversary> adversary = Make(3);
    Batch batch = RandomBatch(12, 3, 2);
    batch.numbers[5] = kUnknownAttribute;
    const BatchAttribute attribute = {batch.numbers, 3};
    const Matrix gradient = adversary->CrossEntropy(batch.sent, attribute, target)->gradient;
    double largest = 0;
    for (int64_t k = 0; k < gradient.size(); ++k) {
      largest = std::max(largest, std::abs(double{gradient.data()[k]}));
    }
    int64_t far = 0;
    for (int64_t k = 0; k < batch.sent.size(); ++k) {
      float& component = batch.sent.data()[k];
      const float before = component;
      component = before + 1.0f / 128;
      const double above = adversary->CrossEntropy(batch.sent, attribute, target)->value;
      component = before - 1.0f / 128;
      const double below = adversary->CrossEntropy(batch.sent, attribute, target)->value;
      component = before;
      far += std::abs(gradient.data()[k] - (above - below) * 64) > 0.02 * largest ? 1 : 0;
    }
    EXPECT_LE(far, batch.sent.size() / 10);  // Where a step crosses a kink of the network it says nothing.
  }
}

TEST(SimulatedAdversaryTest, LearnsToReadTheAttribute) {
  const std::unique_ptr<SimulatedAdversary> adversary = Make(2);
  for (uint64_t step = 0; step < 500; ++step) {
    const Batch batch = RandomBatch(128, 2, 10 + step);
    ASSERT_TRUE(adversary->Learn(batch.sent, {batch.numbers, 2}).ok());
  }
  const Batch fresh = RandomBatch(2000, 2, 3);
  // Of two Gaussians 2 sqrt 2 apart the Bayes risk in nats is about 0.19; guessing has ln 2.
  EXPECT_LT(adversary->CrossEntropy(fresh.sent, {fresh.numbers, 2}, Target::kTrue)->value, 0.3);
  EXPECT_GT(adversary->CrossEntropy(fresh.sent, {fresh.numbers, 2}, Target::kFlipped)->value, 1);
}

TEST(SimulatedAdversaryTest, GoesOnFromItsState) {
  const std::unique_ptr<SimulatedAdversary> one = Make(2), other = Make(2);
  const Batch batch = RandomBatch(64, 2, 4);
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE(one->Learn(batch.sent, {batch.numbers, 2}).ok());
  }
  ASSERT_TRUE(other->SetTrainingState(one->TrainingState()).ok());
  for (SimulatedAdversary* each : {one.get(), other.get()}) {
    ASSERT_TRUE(each->Learn(batch.sent, {batch.numbers, 2}).ok());
  }
  EXPECT_EQ(one->TrainingState(), other->TrainingState());
}

}  // namespace
}  // namespace splitveil
