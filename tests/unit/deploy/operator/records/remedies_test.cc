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

// A report shows a marvell run that is broken beside the unprotected one: the latter's card must not advise it.
TEST(RemediesTest, NeverNameAMethodWhoseBoundIsConditional) {
  for (const char* protection :
       {"none", "marvell(s=4)", "marvell(s=4,orthogonal_noise_ratio=4)", "marvell(max_run_auc_bound=0.8)", "iso(t=1)",
        "max_norm", "sparsify(keep=0.1)", "discretize(levels=4)"}) {
    for (const std::string& remedy :
         {RemedyForLeak(protection), RemedyForCumulativeLeak(protection), RemedyForExceededBound(protection)}) {
      EXPECT_THAT(remedy, HasSubstr("gaussian_label_dp { max_run_auc_bound: 0.7 }")) << protection;
      for (const char* conditional : {"marvell", "Marvell", "iso", "max_norm", "run_budget", "orthogonal"}) {
        EXPECT_THAT(remedy, Not(HasSubstr(conditional))) << protection;
      }
    }
  }
  EXPECT_THAT(RemedyForLeak(""), HasSubstr("the label party's ledger says"));
}

TEST(RemediesTest, ConditionalBoundThatIsExceededTakesAProvedOne) {
  for (const char* protection : {"marvell(s=4)", "marvell(s=4,orthogonal_noise_ratio=4)", "iso(t=1)", "max_norm"}) {
    EXPECT_THAT(RemedyForExceededBound(protection), StartsWith(RemedyForConditionalBound())) << protection;
  }
  EXPECT_THAT(RemedyForConditionalBound(), HasSubstr("gaussian_label_dp"));
}

TEST(RemediesTest, NoConfigurationHelpsWhereAProvedBoundIsExceeded) {
  const std::string remedy = RemedyForExceededBound("gaussian_label_dp(sigma=1)");
  EXPECT_THAT(remedy, HasSubstr("stop using this run's model and gradients, and report it"));
  EXPECT_THAT(remedy, Not(HasSubstr("Set ")));
}

TEST(RemediesTest, NoiseOnLabelsThatIsDrawnInEveryEpochIsNotSaidToBeTheSame) {
  const std::string remedy = RemedyForCumulativeLeak("gaussian_label_dp(sigma=3.015, draws=5)");
  EXPECT_THAT(remedy, HasSubstr("does not help: the bound already covers all draws together."));
  EXPECT_THAT(remedy, Not(HasSubstr("same noised labels")));
}

TEST(RemediesTest, AgainstWhatAddsUpNameOnlyFieldsOfTheProtection) {
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
