#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "common/leakage/bounds.h"
#include "label_party/marvell/marvell_planner.h"
#include "label_party/marvell/marvell_solver.h"
#include "label_party/protection/protection_factory.h"
#include "tests/unit/label_party/protection/protection_fixture.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

v1::GradientProtection::RunBudget Budget(const std::string& text) {
  v1::GradientProtection::RunBudget budget;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &budget)) << text;
  return budget;
}

double Total(const std::vector<double>& shares) { return std::accumulate(shares.begin(), shares.end(), 0.0); }

// Quantiles of the normal distribution from the tables (Abramowitz and Stegun, table 26.5).
TEST(SumKlForRunAucTest, IsTwiceTheSquaredNormalQuantile) {
  for (const auto& [auc, quantile] :
       {std::pair{0.6, 0.2533471031}, {0.7, 0.5244005127}, {0.9, 1.2815515655}, {0.99, 2.3263478740}}) {
    EXPECT_NEAR(SumKlForRunAuc(auc), 2 * quantile * quantile, 1e-8) << auc;
  }
}

TEST(SumKlForRunAucTest, InvertsTheGaussianAucFromBelow) {
  for (double auc = 0.501; auc < 1; auc += 0.0173) {
    EXPECT_LE(GaussianAucBound(SumKlForRunAuc(auc)), auc);
    EXPECT_GT(GaussianAucBound(SumKlForRunAuc(auc) * (1 + 1e-9)), auc - 1e-15);
  }
}

TEST(SumKlForRunAucTest, IsNothingAtChanceAndEverythingAtOne) {
  EXPECT_EQ(SumKlForRunAuc(0.5), 0);
  EXPECT_EQ(SumKlForRunAuc(0.2), 0);
  EXPECT_EQ(SumKlForRunAuc(std::nan("")), 0);
  EXPECT_EQ(SumKlForRunAuc(1), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isfinite(SumKlForRunAuc(std::nextafter(1.0, 0))));
}

TEST(PlanRunBudgetTest, SharesTheBudgetAmongThePlannedEpochs) {
  for (const char* growth : {"1", "1.5", "0.5"}) {
    const auto shares = *PlanRunBudget(
        Budget(std::string("max_run_auc_bound: 0.7 planned_epochs: 7 noise_growth_per_epoch: ") + growth));
    ASSERT_EQ(shares.size(), 7);
    EXPECT_NEAR(Total(shares), (1 - kSafetyShare) * SumKlForRunAuc(0.7), 1e-6);
    EXPECT_NEAR(GaussianAucBound(Total(shares)), 0.6945, 1e-4);  // What is kept back.
    for (size_t e = 1; e < shares.size(); ++e) {
      // Without spread sum_kl = 1/s, so that s grows by noise_growth_per_epoch.
      EXPECT_NEAR(shares[e - 1] / shares[e], std::stod(growth), 1e-12) << e;
    }
  }
}

TEST(PlanRunBudgetTest, LeavesAnEighthWhereLaterEpochsGetHalfOfWhatIsLeft) {
  const auto shares = *PlanRunBudget(Budget("max_run_auc_bound: 0.8 planned_epochs: 3 when_spent: RAISE_NOISE"));
  EXPECT_NEAR(Total(shares), 0.875 * (1 - kSafetyShare) * SumKlForRunAuc(0.8), 1e-6);
}

// What `splitveil marvell --epochs` prints: s = 1/share is enough for classes without spread, and no less is where both
// are as many.
TEST(PlanRunBudgetTest, SharesAreReachedAtTheirInverseForClassesWithoutSpread) {
  const std::vector<double> shares = *PlanRunBudget(Budget("planned_epochs: 4 noise_growth_per_epoch: 2"));
  for (double share : shares) {
    for (double p : {0.5, 0.25, 0.01}) {
      MarvellProblem problem;
      problem.d = 9;
      problem.g = 0.37;
      problem.p = p;
      const double s = LeastMarvellPower(problem, share)->power / problem.g;
      EXPECT_LE(s, (1 + 1e-8) / share);
      if (p == 0.5) {
        EXPECT_NEAR(s, 1 / share, 1e-8 / share);
      }
    }
  }
}

TEST(PlanRunBudgetTest, FailsForABudgetThatIsNone) {
  for (const char* auc : {"0.5", "1", "nan", "0.2"}) {
    EXPECT_EQ(PlanRunBudget(Budget(std::string("planned_epochs: 2 max_run_auc_bound: ") + auc)).status().code(),
              absl::StatusCode::kInvalidArgument)
        << auc;
  }
}

TEST(PlanRunBudgetTest, FailsWithoutEpochs) {
  EXPECT_THAT(std::string(PlanRunBudget(Budget("")).status().message()), HasSubstr("planned_epochs: expected"));
  EXPECT_FALSE(PlanRunBudget(Budget("planned_epochs: -3")).ok());
}

TEST(PlanRunBudgetTest, FailsForAGrowthThatStarvesAnEpoch) {
  for (const char* growth : {"0", "-1", "inf", "nan", "20", "0.05", "1e-300", "1e300"}) {
    const absl::Status status =
        PlanRunBudget(Budget(std::string("planned_epochs: 9 noise_growth_per_epoch: ") + growth)).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << growth;
    EXPECT_THAT(std::string(status.message()), HasSubstr("noise_growth_per_epoch: expected")) << growth;
  }
}

TEST(PlanRunBudgetTest, FailsForMoreEpochsThanNoiseCanTellApart) {
  EXPECT_FALSE(PlanRunBudget(Budget("planned_epochs: 100000 max_run_auc_bound: 0.5001")).ok());
}

TEST(FillPlannedEpochsTest, NoiseIsDrawnForTheEpochsThatAreReleased) {
  v1::GradientProtection config;
  auto& labels = *config.mutable_gaussian_label_dp();
  labels.set_noise_draws(v1::GradientProtection::GaussianLabelDp::ONE_DRAW);
  FillPlannedEpochs(5, config);
  EXPECT_EQ(labels.planned_epochs(), 0);
  labels.clear_noise_draws();
  labels.set_released_epochs(2);
  FillPlannedEpochs(5, config);
  EXPECT_EQ(labels.planned_epochs(), 2);
  labels.set_planned_epochs(0);
  labels.set_released_epochs(9);
  FillPlannedEpochs(5, config);
  EXPECT_EQ(labels.planned_epochs(), 5);
  FillPlannedEpochs(7, config);
  EXPECT_EQ(labels.planned_epochs(), 5);
}

TEST(FillPlannedEpochsTest, FillsOnlyWhatIsLeftOpen) {
  v1::GradientProtection open = ProtectionConfig("marvell { run_budget {} }");
  FillPlannedEpochs(5, open);
  EXPECT_EQ(open.marvell().run_budget().planned_epochs(), 5);
  v1::GradientProtection set = ProtectionConfig("marvell { run_budget { planned_epochs: 3 } }");
  FillPlannedEpochs(5, set);
  EXPECT_EQ(set.marvell().run_budget().planned_epochs(), 3);
  v1::GradientProtection other = ProtectionConfig("marvell { s: 4 }");
  FillPlannedEpochs(5, other);
  EXPECT_EQ(other.DebugString(), "marvell {\n  s: 4\n}\n");
}

TEST(RunBudgetStrengthTest, MarvellSpendsTheEpochsShareAndTheLastOnesAfterThePlan) {
  const auto protection = MakeProtection("marvell { run_budget { planned_epochs: 2 noise_growth_per_epoch: 3 } }");
  EXPECT_EQ(protection->name(), "marvell(max_run_auc_bound=0.7)");
  const auto shares = *PlanRunBudget(Budget("planned_epochs: 2 noise_growth_per_epoch: 3"));
  const LabelledBatch batch = MakeLabelledBatch(64, 8);
  Matrix out;
  for (uint32_t epoch = 0; epoch < 4; ++epoch) {
    const auto report = PerturbRows(*protection, batch.gradients, batch.labels, {epoch, 0, 0}, out);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_NEAR(report->sum_kl, shares[std::min(epoch, 1u)], 1e-8);
  }
}

}  // namespace
}  // namespace splitveil
