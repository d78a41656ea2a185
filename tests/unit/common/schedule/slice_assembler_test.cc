#include "common/schedule/slice_assembler.h"

#include <cmath>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <string>

#include "common/transport/tensor_codec.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(BatchSlicesTest, CoverTheBatchInOrderWithinTheLimits) {
  for (const int64_t rows : {1, 255, 256, 257, 400, 511, 512, 513, 1024, 8191, 8192, 8193, 32768, 1000003}) {
    for (const int64_t in_flight : {1, 2, 16}) {
      int64_t end = 0;
      const BatchSlices slices(rows, in_flight);
      for (const RowRange& slice : slices.all()) {
        EXPECT_EQ(slice.first, end);
        EXPECT_GE(slice.rows, 1);
        EXPECT_LE(slice.rows, kMostSliceRows);
        if (slice.end() < rows) {
          EXPECT_GE(slice.rows, kLeastSliceRows);
          EXPECT_EQ(slice.rows, slices.all().front().rows);
        }
        end = slice.end();
      }
      EXPECT_EQ(end, rows);
      EXPECT_EQ(slices.rows(), rows);
    }
  }
}

TEST(BatchSlicesTest, OfWhatTheProtocolSays) {
  EXPECT_EQ(BatchSlices(200, 1).all().size(), 1);
  EXPECT_EQ(BatchSlices(300, 1).all().front().rows, 256);
  EXPECT_EQ(BatchSlices(1024, 1).all().front().rows, 342);
  EXPECT_EQ(BatchSlices(1026, 1).all().front().rows, 342);
  EXPECT_EQ(BatchSlices(1027, 1).all().front().rows, 343);
  EXPECT_EQ(BatchSlices(32768, 1).all().size(), 32);
  EXPECT_EQ(BatchSlices(1024, 2).all().size(), 1);
  EXPECT_EQ(BatchSlices(32768, 2).all().size(), 32);
}

TEST(BatchSlicesTest, OfSomeRowsOnlyThoseThatAreWhole) {
  const BatchSlices slices(700, 1);  // 256, 256, 188.
  EXPECT_THAT(slices.Within({0, 700}), ElementsAre(RowRange{0, 256}, RowRange{256, 256}, RowRange{512, 188}));
  EXPECT_THAT(slices.Within({256, 256}), ElementsAre(RowRange{256, 256}));
  EXPECT_THAT(slices.Within({0, 511}), ElementsAre(RowRange{0, 256}));
  EXPECT_THAT(slices.Within({1, 255}), IsEmpty());
  EXPECT_THAT(slices.Computed(/*needs_whole_batch=*/true), ElementsAre(RowRange{0, 700}));
  EXPECT_EQ(slices.Computed(/*needs_whole_batch=*/false), slices.all());
}

// A batch of 700 x 3 that comes in slices of 256, 256 and 188 rows.
class SliceAssemblerTest : public ::testing::Test {
 protected:
  SliceAssemblerTest() : batch_(700, 3) {
    for (int64_t i = 0; i < batch_.size(); ++i) {
      batch_.data()[i] = static_cast<float>(std::sin(static_cast<double>(i)));
    }
  }

  v1::Tensor Rows(int64_t first, int64_t rows, v1::DataType dtype = v1::FLOAT32) const {
    v1::Tensor tensor;
    EXPECT_TRUE(EncodeMatrix(batch_.block(first, rows), dtype, tensor).ok());
    return tensor;
  }

  static SliceAssembler Assembler(bool needs_whole_batch) {
    return {{"activations", v1::FLOAT32, 3}, BatchSlices(700, 1), needs_whole_batch};
  }

  Matrix batch_;
};

TEST_F(SliceAssemblerTest, RowsAreUsableAsSoonAsTheirSliceHasCome) {
  SliceAssembler assembler = Assembler(/*needs_whole_batch=*/false);
  EXPECT_EQ(assembler.NextReady(), std::nullopt);
  for (const RowRange& slice : BatchSlices(700, 1).all()) {
    EXPECT_FALSE(assembler.complete());
    ASSERT_TRUE(assembler.Add(slice.first, Rows(slice.first, slice.rows)).ok());
    EXPECT_EQ(assembler.received_rows(), slice.end());
    EXPECT_EQ(assembler.NextReady(), slice);
    EXPECT_EQ(assembler.NextReady(), std::nullopt);  // Once.
    EXPECT_EQ(assembler.block(slice).values(), batch_.block(slice.first, slice.rows).values());
  }
  ASSERT_TRUE(assembler.complete());
  EXPECT_EQ(ConstMatrixView(assembler.Take()).values(), ConstMatrixView(batch_).values());
}

TEST_F(SliceAssemblerTest, AModelThatNeedsTheWholeBatchGetsItAtOnce) {
  SliceAssembler assembler = Assembler(/*needs_whole_batch=*/true);
  for (const RowRange& slice : BatchSlices(700, 1).all()) {
    EXPECT_EQ(assembler.NextReady(), std::nullopt);
    ASSERT_TRUE(assembler.Add(slice.first, Rows(slice.first, slice.rows)).ok());
  }
  EXPECT_EQ(assembler.NextReady(), (RowRange{0, 700}));
  EXPECT_EQ(assembler.NextReady(), std::nullopt);
}

TEST_F(SliceAssemblerTest, RowsThatHaveNotComeAreOutOfReach) {
  SliceAssembler assembler = Assembler(/*needs_whole_batch=*/false);
  ASSERT_TRUE(assembler.Add(0, Rows(0, 256)).ok());
  EXPECT_DEATH((void)assembler.block({0, 257}), "rows received");
  EXPECT_DEATH((void)assembler.Take(), "whole batch");
}

struct BadSlice {
  const char* name;
  int64_t first_row;
  std::function<void(v1::Tensor&)> spoil;  // Of rows [256, 512), which are due.
  const char* message;                     // Field, expected, found.
};

void SetFloat(v1::Tensor& tensor, size_t at, float value) {
  tensor.mutable_data()->replace(at, sizeof(value), reinterpret_cast<const char*>(&value), sizeof(value));
}

const BadSlice kBadSlices[] = {
    {"before", 0, [](v1::Tensor&) {}, "activations.first_row: expected 256, found 0"},
    {"beyond", 512, [](v1::Tensor&) {}, "activations.first_row: expected 256, found 512"},
    {"negative", -256, [](v1::Tensor&) {}, "activations.first_row: expected 256, found -256"},
    {"type", 256, [](v1::Tensor& t) { t.set_dtype(v1::FLOAT16); },
     "activations.dtype: expected FLOAT32, found FLOAT16"},
    {"rows", 256, [](v1::Tensor& t) { t.set_shape(0, 257); }, "activations.shape: expected [256, 3], found [257, 3]"},
    {"columns", 256, [](v1::Tensor& t) { t.set_shape(1, 4); }, "activations.shape: expected [256, 3], found [256, 4]"},
    {"no_shape", 256, [](v1::Tensor& t) { t.clear_shape(); }, "activations.shape: expected [256, 3], found []"},
    {"short", 256, [](v1::Tensor& t) { t.mutable_data()->pop_back(); },
     "activations.data: expected 3072 bytes, found 3071"},
    {"long", 256, [](v1::Tensor& t) { t.mutable_data()->push_back('x'); },
     "activations.data: expected 3072 bytes, found 3073"},
    {"nan", 256, [](v1::Tensor& t) { SetFloat(t, 3068, std::numeric_limits<float>::quiet_NaN()); },
     "activations.data: expected finite values, found an infinity or NaN"},
    {"infinity", 256, [](v1::Tensor& t) { SetFloat(t, 0, std::numeric_limits<float>::infinity()); },
     "activations.data: expected finite values, found an infinity or NaN"},
};

TEST_F(SliceAssemblerTest, ARefusedSliceChangesNothing) {
  for (const BadSlice& bad : kBadSlices) {
    SCOPED_TRACE(bad.name);
    SliceAssembler assembler = Assembler(/*needs_whole_batch=*/false);
    ASSERT_TRUE(assembler.Add(0, Rows(0, 256)).ok());
    EXPECT_EQ(assembler.NextReady(), (RowRange{0, 256}));
    v1::Tensor tensor = Rows(256, 256);
    bad.spoil(tensor);
    const absl::Status refused = assembler.Add(bad.first_row, tensor);
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(refused.message(), bad.message);
    EXPECT_EQ(assembler.received_rows(), 256);
    EXPECT_EQ(assembler.NextReady(), std::nullopt);
    EXPECT_EQ(assembler.block({0, 256}).values(), batch_.block(0, 256).values());
    // The right ones may follow.
    ASSERT_TRUE(assembler.Add(256, Rows(256, 256)).ok());
    ASSERT_TRUE(assembler.Add(512, Rows(512, 188)).ok());
    EXPECT_EQ(ConstMatrixView(assembler.Take()).values(), ConstMatrixView(batch_).values());
  }
}

TEST_F(SliceAssemblerTest, NothingFollowsACompleteBatch) {
  SliceAssembler assembler = Assembler(/*needs_whole_batch=*/false);
  for (const RowRange& slice : BatchSlices(700, 1).all()) {
    ASSERT_TRUE(assembler.Add(slice.first, Rows(slice.first, slice.rows)).ok());
  }
  const absl::Status refused = assembler.Add(700, Rows(0, 1));
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("this batch is complete, but more rows came"));
  EXPECT_TRUE(assembler.complete());
}

TEST_F(SliceAssemblerTest, HalfPrecisionIsRoundedAsTheWireIs) {
  SliceAssembler assembler({"gradients", v1::BFLOAT16, 3}, BatchSlices(100, 1), /*needs_whole_batch=*/false);
  const v1::Tensor tensor = Rows(0, 100, v1::BFLOAT16);
  ASSERT_TRUE(assembler.Add(0, tensor).ok());
  const absl::StatusOr<Matrix> decoded = DecodeMatrix(tensor, {"gradients", v1::BFLOAT16, 100, 3});
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(ConstMatrixView(assembler.Take()).values(), ConstMatrixView(*decoded).values());
}

}  // namespace
}  // namespace splitveil
