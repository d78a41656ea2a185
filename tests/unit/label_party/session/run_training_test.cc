#include "label_party/session/run_training.h"

#include <gtest/gtest.h>
#include <memory>
#include <string>

namespace splitveil {
namespace {

v1::CutActivations Slice(uint32_t epoch, uint32_t batch, uint32_t first_row, const std::string& bytes) {
  v1::CutActivations slice;
  slice.set_epoch(epoch);
  slice.set_batch(batch);
  slice.set_first_row(first_row);
  slice.mutable_activations()->set_data(bytes);
  return slice;
}

SharedGradients Gradients(const std::string& bytes) {
  auto message = std::make_shared<v1::CutGradients>();
  message->mutable_gradients()->set_data(bytes);
  return {message};
}

// Keeps a complete batch of one slice.
void KeepBatch(uint32_t epoch, uint32_t batch, ReplayCache& cache) {
  cache.Keep(Slice(epoch, batch, 0, "z"), Gradients("g"), /*last=*/true);
}

TEST(ReplayCacheTest, ASliceThatComesAgainGetsWhatItGot) {
  ReplayCache cache(1);
  ASSERT_TRUE(cache.Find(Slice(0, 0, 0, "z0")).ok());
  EXPECT_FALSE(cache.Find(Slice(0, 0, 0, "z0"))->has_value());
  const SharedGradients answer = Gradients("g");
  cache.Keep(Slice(0, 0, 0, "z0"), {}, /*last=*/false);
  cache.Keep(Slice(0, 0, 256, "z1"), answer, /*last=*/true);
  EXPECT_EQ(**cache.Find(Slice(0, 0, 0, "z0")), SharedGradients());
  EXPECT_EQ(**cache.Find(Slice(0, 0, 256, "z1")), answer);  // The same messages, not copies.
}

TEST(ReplayCacheTest, OtherActivationsAreRefusedAndLeaveTheAnswer) {
  ReplayCache cache(1);
  cache.Keep(Slice(0, 0, 0, "z"), Gradients("g"), /*last=*/false);
  EXPECT_EQ(cache.Find(Slice(0, 0, 0, "y")).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(cache.Find(Slice(0, 0, 0, "")).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(cache.Find(Slice(0, 0, 0, "z"))->has_value());
}

TEST(ReplayCacheTest, ASliceThatACompleteBatchNeverHadIsRefused) {
  ReplayCache cache(1);
  cache.Keep(Slice(0, 0, 0, "z0"), {}, /*last=*/false);
  EXPECT_FALSE(cache.Find(Slice(0, 0, 100, "z1"))->has_value());  // It may come.
  cache.Keep(Slice(0, 0, 256, "z1"), Gradients("g"), /*last=*/true);
  EXPECT_EQ(cache.Find(Slice(0, 0, 100, "z1")).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ReplayCacheTest, AsManyBatchesAreKeptAsMayBeUnderWay) {
  ReplayCache cache(2);
  KeepBatch(0, 0, cache);
  KeepBatch(0, 1, cache);
  cache.Keep(Slice(0, 2, 0, "z"), {}, /*last=*/false);
  for (const uint32_t batch : {0, 1, 2}) {
    EXPECT_TRUE(cache.Find(Slice(0, batch, 0, "z"))->has_value()) << batch;
  }
  cache.Keep(Slice(0, 2, 256, "z"), Gradients("g"), /*last=*/true);
  EXPECT_FALSE(cache.Find(Slice(0, 0, 0, "z"))->has_value());  // Forgotten, so the schedule refuses it.
  EXPECT_TRUE(cache.Find(Slice(0, 1, 0, "z"))->has_value());
  EXPECT_FALSE(cache.Find(Slice(1, 1, 0, "z"))->has_value());  // Of another epoch.
}

}  // namespace
}  // namespace splitveil
