#include "label_party/audit/measured_leak.h"

#include <algorithm>
#include <cstdint>
#include <gtest/gtest.h>
#include <iterator>
#include <utility>
#include <vector>

namespace splitveil {
namespace {

ReleasedBatch Batch(std::vector<uint8_t> labels, bool hinted) {
  ReleasedBatch batch;
  batch.labels = std::move(labels);
  if (hinted) {
    batch.hint_rows = {0};
  }
  return batch;
}

TEST(MeasuredLeakTest, IsTheStrongestAttackInEitherDirection) {
  const float values[] = {1, 0, 1, 0, -3, 0, -3, 0.5f};
  Matrix gradients(4, 2);
  std::copy(std::begin(values), std::end(values), gradients.data());
  // Negatives have the larger norm: an AUC of 0, which an adversary turns round.
  EXPECT_EQ(MeasuredLeak(gradients, gradients, Batch({1, 1, 0, 0}, false)), 1);
  EXPECT_EQ(MeasuredLeak(gradients, gradients, Batch({1, 1, 0, 0}, true)), 1);
}

TEST(MeasuredLeakTest, IsOneHalfWhereNothingCanBeTold) {
  EXPECT_EQ(MeasuredLeak(Matrix(4, 2), Matrix(4, 2), Batch({0, 0, 0, 0}, false)), 0.5);
  EXPECT_EQ(MeasuredLeak(Matrix(4, 2), Matrix(4, 2), Batch({1, 1, 0, 0}, false)), 0.5);
}

}  // namespace
}  // namespace splitveil
