#include "label_party/training/batch_source.h"

#include <array>
#include <atomic>
#include <cmath>
#include <gtest/gtest.h>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "common/checkpoint/progress_archive.h"
#include "label_party/label_privacy/noised_labels.h"
#include "tests/testing/small_run.h"

namespace splitveil::testing {
namespace {

constexpr uint32_t kRows = 400;
constexpr int64_t kBatch = 20;
constexpr int64_t kEpochs = 2;

// Counts what is drawn.
class CountedTargets final : public LabelTargets {
 public:
  absl::Status Count(absl::string_view, absl::Span<const NoiseRow>, absl::Span<const float>) override {
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<float>> TrainingTargets(absl::Span<const NoiseRow>, absl::Span<const float> labels,
                                                     uint32_t) override {
    drawn_examples += static_cast<int64_t>(labels.size());
    return std::vector<float>(labels.begin(), labels.end());
  }
  uint32_t draws() const override { return 100; }
  bool drawn() const override { return drawn_examples > 0; }
  bool needs_release_head() const override { return true; }
  double target_noise(uint32_t) const override { return 1; }
  std::optional<AccountedReleases> accounted() const override { return std::nullopt; }

  std::atomic<int64_t> drawn_examples = 0;
};

class BatchSourceTest : public ::testing::Test {
 protected:
  BatchSourceTest() : run_(kRows), data_(run_.LabelDataset()) {}

  static std::shared_ptr<NoisedLabels> Noised(char key, const v1::GradientProtection::GaussianLabelDp& config) {
    return *NoisedLabels::Create(config, Task(), SecretKey(std::array<uint8_t, 32>{static_cast<uint8_t>(key)}));
  }
  // Trains on all rows from the tenth on.
  std::unique_ptr<BatchSource> Source(std::shared_ptr<LabelTargets> targets, bool keeps_targets = false) const {
    std::vector<uint32_t> rows(kRows), train(kRows - 10);
    std::iota(rows.begin(), rows.end(), 0);
    std::iota(train.begin(), train.end(), 10);
    TrainingData data{std::make_unique<FeatureTable>(data_, rows),
                      Task(),
                      AuditedSide(),
                      std::move(targets),
                      *Schedule::Create(JointSeed{3}, train, {kBatch, 10, kEpochs}),
                      {},
                      0};
    BatchSource::Options options;
    options.batch_size = kBatch;
    options.keeps_targets = keeps_targets;
    return std::make_unique<BatchSource>(std::move(data), options);
  }

  SmallRun run_;
  const std::shared_ptr<const Dataset> data_;
  v1::GradientProtection::GaussianLabelDp config_ = [] {
    v1::GradientProtection::GaussianLabelDp config;
    config.set_mu(1);
    config.set_planned_epochs(2);
    return config;
  }();
};

TEST_F(BatchSourceTest, TargetsAreThoseOfTheirExamplesInTheirEpoch) {
  const std::shared_ptr<NoisedLabels> alone = Noised('k', config_);
  const std::unique_ptr<BatchSource> source = Source(Noised('k', config_));
  for (const uint32_t epoch : {0, 1, 4}) {
    for (uint32_t batch = 0; batch < source->batches_per_epoch(); ++batch) {
      const LocalBatch own = source->Take(epoch, batch);
      EXPECT_EQ(own.target_noise, alone->sigma(epoch));
      ASSERT_EQ(own.targets.size(), own.released.positions.size());
      for (size_t i = 0; i < own.targets.size(); ++i) {
        const uint32_t position = own.released.positions[i];
        const std::vector<NoiseRow> example = {NoiseRow::OfId(data_->ids()[position])};
        EXPECT_EQ(own.targets[i], alone->TrainingTargets(example, {own.labels[i]}, epoch)->front());
      }
    }
  }
}

TEST_F(BatchSourceTest, NoBatchWaitsForTheDrawsOfAnEpoch) {
  const auto targets = std::make_shared<CountedTargets>();
  const std::unique_ptr<BatchSource> source = Source(targets);
  EXPECT_EQ(targets->drawn_examples, 0);
  int64_t taken = 0;
  for (const uint32_t epoch : {0, 1}) {
    for (uint32_t batch = 0; batch < source->batches_per_epoch(); ++batch) {
      taken += static_cast<int64_t>(source->Take(epoch, batch).targets.size());
      EXPECT_LE(targets->drawn_examples, taken + 2 * kBatch) << epoch << ", " << batch;
    }
  }
  EXPECT_EQ(targets->drawn_examples, taken) << "none twice, none that no batch has";
}

TEST_F(BatchSourceTest, TheFirstBatchOfARunAndOfAnEpochIsDrawnBeforeItIsAskedFor) {
  const auto targets = std::make_shared<CountedTargets>();
  {
    const std::unique_ptr<BatchSource> source = Source(targets);
    source->GatherAhead(0, 0);
  }  // Waits for the thread.
  EXPECT_EQ(targets->drawn_examples, kBatch);
  {
    const std::unique_ptr<BatchSource> source = Source(targets);
    (void)source->Take(0, static_cast<uint32_t>(source->batches_per_epoch() - 1));
  }
  const int64_t last_of_epoch = (kRows - 10) % kBatch;
  EXPECT_EQ(targets->drawn_examples, kBatch + last_of_epoch + kBatch);
  {
    const std::unique_ptr<BatchSource> source = Source(targets);
    source->GatherAhead(kEpochs, 0);
  }
  EXPECT_EQ(targets->drawn_examples, kBatch + last_of_epoch + kBatch) << "the run has no such epoch";
}

TEST_F(BatchSourceTest, ABatchThatIsAskedForInsteadOfTheNextOneIsTheSame) {
  const std::unique_ptr<BatchSource> in_order = Source(Noised('k', config_));
  const std::unique_ptr<BatchSource> jumps = Source(Noised('k', config_));
  (void)jumps->Take(0, 0);  // Batch 1 is being gathered.
  (void)in_order->Take(0, 4);
  EXPECT_EQ(jumps->Take(0, 5).targets, in_order->Take(0, 5).targets);
  EXPECT_EQ(jumps->Gathered(1, 2).released.positions, in_order->Gathered(1, 2).released.positions);
}

// Drawn under a key that is gone with its process.
TEST_F(BatchSourceTest, TargetsThatACheckpointKeepsOutliveTheirKey) {
  config_.set_noise_draws(v1::GradientProtection::GaussianLabelDp::ONE_DRAW);
  const std::unique_ptr<BatchSource> first = Source(Noised('k', config_), /*keeps_targets=*/true);
  const std::unique_ptr<BatchSource> resumed = Source(Noised('l', config_), /*keeps_targets=*/true);
  const std::vector<float> drawn = first->Take(0, 3).targets;
  EXPECT_EQ(drawn, Source(Noised('k', config_))->Take(0, 3).targets);
  EXPECT_NE(resumed->Gathered(0, 3).targets, drawn);
  ASSERT_TRUE(LoadProgress(SaveProgress(*first), *resumed).ok());
  EXPECT_EQ(resumed->Take(1, 2).targets, first->Take(1, 2).targets);
}

}  // namespace
}  // namespace splitveil::testing
