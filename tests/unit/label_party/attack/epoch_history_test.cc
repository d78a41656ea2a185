#include <algorithm>
#include <gtest/gtest.h>
#include <vector>

#include "common/checkpoint/progress_archive.h"
#include "label_party/attack/attribute_decoder.h"

namespace splitveil {
namespace {

// Two examples of width 1: the epoch, and minus the epoch.
Matrix RowsOfEpoch(int epoch) {
  Matrix rows(2, 1);
  rows.data()[0] = static_cast<float>(epoch);
  rows.data()[1] = static_cast<float>(-epoch);
  return rows;
}

TEST(EpochHistoryTest, KeepsEpochsSideBySide) {
  EpochHistory history(3, 2);
  for (int epoch = 0; epoch < 3; ++epoch) {
    Matrix rows(3, 2);
    for (int k = 0; k < 6; ++k) {
      rows.data()[k] = static_cast<float>(10 * epoch + k);
    }
    history.Add(rows);
  }
  EXPECT_EQ(history.width(), 6);
  const Matrix last = history.Rows(1, 2);
  const std::vector<float> expected = {2, 3, 12, 13, 22, 23, 4, 5, 14, 15, 24, 25};
  ASSERT_EQ(last.size(), 12);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), last.data()));
}

// However many epochs: no more columns than the limit, each the mean of as many neighbouring epochs, the last of those
// there are.
TEST(EpochHistoryTest, ForgetsNoEpochAndStaysWithinItsLimit) {
  EpochHistory history(2, 1);
  for (int epoch = 0; epoch < 5 * EpochHistory::kSlots; ++epoch) {
    history.Add(RowsOfEpoch(epoch));
    const int epochs = epoch + 1;
    int stride = 1;
    while (epochs > stride * EpochHistory::kSlots) {
      stride *= 2;
    }
    const Matrix rows = history.Rows(0, 2);
    ASSERT_EQ(rows.cols(), (epochs + stride - 1) / stride);
    for (int64_t slot = 0; slot < rows.cols(); ++slot) {
      const int first = static_cast<int>(slot) * stride, last = std::min(first + stride, epochs) - 1;
      ASSERT_NEAR(rows.row(0)[slot], (first + last) / 2.0, 1e-4) << epoch;
      ASSERT_NEAR(rows.row(1)[slot], -(first + last) / 2.0, 1e-4) << epoch;
    }
  }
}

TEST(EpochHistoryTest, GoesOnFromItsBytes) {
  EpochHistory history(2, 1);
  for (int epoch = 0; epoch < 3 * EpochHistory::kSlots + 1; ++epoch) {
    EpochHistory continued(2, 1);
    ASSERT_TRUE(LoadProgress(SaveProgress(history), continued).ok());
    for (EpochHistory* const each : {&history, &continued}) {
      each->Add(RowsOfEpoch(epoch));
    }
    ASSERT_EQ(ConstMatrixView(continued.Rows(0, 2)).values(), ConstMatrixView(history.Rows(0, 2)).values());
  }
  EpochHistory of_more(3, 1), wider(2, 2);
  EXPECT_EQ(LoadProgress(SaveProgress(history), of_more).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(LoadProgress(SaveProgress(history), wider).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace splitveil
