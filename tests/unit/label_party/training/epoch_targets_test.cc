#include <array>
#include <cmath>
#include <gtest/gtest.h>
#include <memory>
#include <vector>

#include "common/process/exit_code.h"
#include "label_party/label_privacy/noised_labels.h"
#include "label_party/training/batch_source.h"
#include "tests/testing/scratch_folder.h"

namespace splitveil {
namespace {

class EpochTargetsTest : public ::testing::Test {
 protected:
  EpochTargetsTest() {
    config_.set_mu(1);
    config_.set_planned_epochs(2);
  }

  std::shared_ptr<NoisedLabels> Source() const {
    return *NoisedLabels::Create(config_, Task(), SecretKey(std::array<uint8_t, 32>{'e', 'p', 'o', 'c', 'h'}));
  }
  // Of examples 0, 1 and 2 at the aligned positions 4, 0 and 3 of five.
  static std::unique_ptr<EpochTargets> Make(std::shared_ptr<LabelTargets> source, uint32_t first_epoch = 0) {
    EpochTargets::Options options;
    options.source = std::move(source);
    options.examples = NumberedNoiseRows(3);
    options.labels = {1, 0, 1};
    options.positions = {4, 0, 3};
    options.aligned = 5;
    options.first_epoch = first_epoch;
    return *EpochTargets::Create(std::move(options));
  }
  std::vector<float> Drawn(uint32_t epoch) const {
    return *Source()->TrainingTargets(NumberedNoiseRows(3), {1, 0, 1}, epoch);
  }

  v1::GradientProtection::GaussianLabelDp config_;
};

TEST_F(EpochTargetsTest, AreThoseOfTheEpochAtTheAlignedPositions) {
  const std::unique_ptr<EpochTargets> targets = Make(Source());
  EXPECT_EQ(targets->At(4)[0], Drawn(0)[0]);
  EXPECT_EQ(targets->At(0)[0], Drawn(0)[1]);
  EXPECT_EQ(targets->At(3)[0], Drawn(0)[2]);
  EXPECT_TRUE(std::isnan(targets->At(1)[0]));
  EXPECT_NEAR(targets->noise(), std::sqrt(2), 1e-5);
  targets->BeginEpoch(1);
  EXPECT_NE(Drawn(1), Drawn(0));
  EXPECT_EQ(targets->At(0)[0], Drawn(1)[1]);
  targets->BeginEpoch(5);  // Nothing leaves any more.
  EXPECT_EQ(targets->At(0)[0], Drawn(1)[1]);
}

TEST_F(EpochTargetsTest, ARunThatGoesOnBeginsWithItsEpochs) {
  EXPECT_EQ(Make(Source(), /*first_epoch=*/1)->At(3)[0], Drawn(1)[2]);
}

TEST_F(EpochTargetsTest, OneDrawServesAllEpochs) {
  config_.set_noise_draws(v1::GradientProtection::GaussianLabelDp::ONE_DRAW);
  const std::unique_ptr<EpochTargets> targets = Make(Source());
  const float first = targets->At(0)[0];
  targets->BeginEpoch(1);
  EXPECT_EQ(targets->At(0)[0], first);
  EXPECT_NEAR(targets->noise(), 1, 1e-5);
}

TEST_F(EpochTargetsTest, TheAccountsHaltIsItsOwn) {
  const ScratchFolder folder;
  auto account = PrivacyAccount::Open({folder.Path("labels.account.db"), "clicks", /*max_lifetime_auc_bound=*/0.6});
  ASSERT_TRUE(account.ok()) << account.status();
  EpochTargets::Options options;
  options.source = *NoisedLabels::Create(config_, Task(), *std::move(account));
  options.examples = NumberedNoiseRows(1);
  options.labels = {1};
  options.positions = {0};
  options.aligned = 1;
  const absl::Status status = EpochTargets::Create(std::move(options)).status();
  EXPECT_TRUE(IsHalt(status)) << status;
}

}  // namespace
}  // namespace splitveil
