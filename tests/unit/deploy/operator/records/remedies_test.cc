#include "deploy/operator/records/remedies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace splitveil {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(RemediesTest, NameWhatTheProtectionHas) {
  EXPECT_THAT(RemedyForLeak("none"), HasSubstr("Set a protection"));
  EXPECT_THAT(RemedyForLeak("sparsify(keep=0.1)"), HasSubstr("Set a protection"));
  EXPECT_THAT(RemedyForLeak(""), HasSubstr("the label party's ledger says"));
  EXPECT_THAT(RemedyForLeak("marvell(s=4)"), HasSubstr("orthogonal_noise_ratio: 4"));
  EXPECT_THAT(RemedyForLeak("marvell(s=4,orthogonal_noise_ratio=4)"), HasSubstr("Raise marvell's s"));
  EXPECT_THAT(RemedyForLeak("iso(t=1)"), HasSubstr("iso's t"));
}

TEST(RemediesTest, DoNotAskForNoiseAcrossThatIsAlreadyThere) {
  EXPECT_THAT(RemedyForExceededBound("marvell(s=4)"), HasSubstr("orthogonal_noise_ratio: 4 helps"));
  EXPECT_THAT(RemedyForExceededBound("marvell(s=4,orthogonal_noise_ratio=4)"), Not(HasSubstr("ratio: 4 helps")));
  EXPECT_THAT(RemedyForExceededBound("iso(t=1)"), HasSubstr("gaussian_label_dp"));
}

TEST(RemediesTest, AgainstWhatAddsUpIsFewerEpochsOrABudget) {
  EXPECT_THAT(RemedyForCumulativeLeak(), HasSubstr("run_budget"));
}

}  // namespace
}  // namespace splitveil
