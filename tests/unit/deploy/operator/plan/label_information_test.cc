#include <cmath>
#include <limits>

#include "deploy/operator/plan/privacy_plan.h"
#include "gtest/gtest.h"

namespace splitveil {
namespace {

struct Known {
  double sigma, positives, kept;
};

// The left side of the definition, Var(P(y = 1 | noised)) / (p (1 - p)), by Simpson's rule with 200,000 intervals in
// another program.
TEST(LabelInformationKeptTest, IsTheVarianceOfThePosterior) {
  for (const Known& known :
       {Known{2.79, 0.25, 0.0238746281908}, Known{1.348, 0.25, 0.0985892580364}, Known{1, 0.5, 0.204054265633},
        Known{0.3, 0.1, 0.792378817564}, Known{0.15, 0.5, 0.9986759216}, Known{20, 0.25, 0.000468676594208},
        Known{2.79, 0.01, 0.00135139518421}}) {
    EXPECT_NEAR(LabelInformationKept(known.sigma, known.positives), known.kept, 1e-9 * known.kept)
        << known.sigma << " " << known.positives;
  }
}

TEST(LabelInformationKeptTest, IsTheSameForBothClasses) {
  EXPECT_NEAR(LabelInformationKept(1.3, 0.2), LabelInformationKept(1.3, 0.8), 1e-12);
}

TEST(LabelInformationKeptTest, IsAllWithoutNoiseAndFallsWithItsVarianceForMuch) {
  EXPECT_EQ(LabelInformationKept(0, 0.3), 1);
  EXPECT_NEAR(LabelInformationKept(1. / 128, 0.3), 1, 1e-9);
  EXPECT_NEAR(LabelInformationKept(2000, 0.3) * 2000 * 2000, 0.21, 1e-6);
}

TEST(LabelInformationKeptTest, IsNaNOutsideItsRange) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  for (const double positives : {0., 1., -0.1, kNone}) {
    EXPECT_TRUE(std::isnan(LabelInformationKept(1, positives))) << positives;
  }
  for (const double sigma : {-1., kNone, std::numeric_limits<double>::infinity()}) {
    EXPECT_TRUE(std::isnan(LabelInformationKept(sigma, 0.5))) << sigma;
  }
}

}  // namespace
}  // namespace splitveil
