#include "deploy/operator/records/remedies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

namespace splitveil {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(RemediesTest, NameWhatTheProtectionHas) {
  EXPECT_THAT(RemedyForLeak("none"), HasSubstr("Set a protection"));
  EXPECT_THAT(RemedyForLeak("sparsify(keep=0.1)"), HasSubstr("Set a protection"));
  EXPECT_THAT(RemedyForLeak(""), HasSubstr("the label party's ledger says"));
  EXPECT_THAT(RemedyForLeak("marvell(s=4)"), HasSubstr("orthogonal_noise_ratio: 4"));
  EXPECT_THAT(RemedyForLeak("marvell(s=4,orthogonal_noise_ratio=4)"), HasSubstr("Raise marvell's s"));
  EXPECT_THAT(RemedyForLeak("iso(t=1)"), HasSubstr("iso's t"));
}

TEST(RemediesTest, ConditionalBoundThatIsExceededTakesAProvedOne) {
  for (const char* protection : {"marvell(s=4)", "marvell(s=4,orthogonal_noise_ratio=4)", "iso(t=1)", "max_norm"}) {
    EXPECT_THAT(RemedyForExceededBound(protection), StartsWith(RemedyForConditionalBound())) << protection;
  }
  EXPECT_THAT(RemedyForConditionalBound(), HasSubstr("gaussian_label_dp"));
}

TEST(RemediesTest, DoNotAskForNoiseAcrossThatIsAlreadyThere) {
  EXPECT_THAT(RemedyForExceededBound("marvell(s=4)"), HasSubstr("orthogonal_noise_ratio: 4 helps"));
  EXPECT_THAT(RemedyForExceededBound("marvell(s=4,orthogonal_noise_ratio=4)"), Not(HasSubstr("ratio: 4 helps")));
  EXPECT_THAT(RemedyForExceededBound("iso(t=1)"), Not(HasSubstr("orthogonal_noise_ratio")));
}

TEST(RemediesTest, NoConfigurationHelpsWhereAProvedBoundIsExceeded) {
  const std::string remedy = RemedyForExceededBound("gaussian_label_dp(sigma=1)");
  EXPECT_THAT(remedy, HasSubstr("stop using this run's model and gradients, and report it"));
  EXPECT_THAT(remedy, Not(HasSubstr("Set ")));
}

TEST(RemediesTest, AgainstWhatAddsUpIsFewerEpochsOrABudget) {
  EXPECT_THAT(RemedyForCumulativeLeak("marvell(s=4)"), HasSubstr("let run_budget"));
  EXPECT_THAT(RemedyForCumulativeLeak("marvell(max_run_auc_bound=0.8)"), HasSubstr("lower the run_budget's"));
}

TEST(RemediesTest, NoiseOnLabelsThatIsDrawnInEveryEpochIsNotSaidToBeTheSame) {
  const std::string remedy = RemedyForCumulativeLeak("gaussian_label_dp(sigma=3.015, draws=5)");
  EXPECT_THAT(remedy, HasSubstr("does not help: the bound already covers all draws together."));
  EXPECT_THAT(remedy, Not(HasSubstr("same noised labels")));
}

TEST(RemediesTest, AgainstWhatAddsUpNameOnlyFieldsOfTheProtection) {
  EXPECT_THAT(RemedyForCumulativeLeak("iso(t=1)"), HasSubstr("iso's t"));
  EXPECT_THAT(RemedyForCumulativeLeak("max_norm"), HasSubstr("no noise to raise"));
  EXPECT_THAT(RemedyForCumulativeLeak("label_dp(epsilon=1)"), HasSubstr("epsilon"));
  EXPECT_THAT(RemedyForCumulativeLeak("gaussian_label_dp(sigma=1.348)"),
              AllOf(HasSubstr("lower max_run_auc_bound"), HasSubstr("every epoch uses the same noised labels")));
  for (const char* protection : {"max_norm", "label_dp(epsilon=1)", "gaussian_label_dp(sigma=1)", "none", ""}) {
    EXPECT_THAT(RemedyForCumulativeLeak(protection), Not(HasSubstr("run_budget"))) << protection;
  }
  EXPECT_EQ(RemedyForCumulativeLeak("none"), RemedyForLeak("none"));
  EXPECT_EQ(RemedyForCumulativeLeak(""), RemedyForLeak(""));
}

}  // namespace
}  // namespace splitveil
