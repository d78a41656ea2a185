#include "deploy/operator/plan/privacy_plan.h"

#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace splitveil {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kCurves[] =
    "positives,0.25\nrows,epochs,max_run_auc_bound,seeds,none_test_auc,frozen_test_auc,loss,loss_min,loss_max\n"
    "1000,5,0.6,3,0.75,0.60,0.08,0.07,0.09\n1000,5,0.8,3,0.75,0.60,0.04,0.03,0.05\n"
    "10000,5,0.6,3,0.75,0.62,0.06,0.05,0.07\n10000,5,0.8,3,0.75,0.62,0.02,0.01,0.03\n";

LossCurves Curves() { return LossCurves::Parse(kCurves).value(); }

double Phi(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

TEST(PrivacyPlanTest, IsTheGaussianMechanismOfTheBound) {
  const auto plan = MakePrivacyPlan({10000, 0.25, 5, 0.6, 1e-5}, Curves());
  ASSERT_TRUE(plan.ok()) << plan.status();
  // mu = sqrt 2 Phi^-1(0.6), with the quantile 0.2533471031 of the tables; sigma is rounded up to the grid of 2^-20.
  const double mu = std::sqrt(2.0) * 0.2533471031358;
  EXPECT_NEAR(plan->privacy.mu(), mu, 1e-6);
  EXPECT_GE(plan->sigma, 1 / mu - 1e-12);
  EXPECT_NEAR(plan->sigma, 1 / mu, std::ldexp(1, -20));
  EXPECT_LE(plan->privacy.AucBound(), 0.6 + 1e-9);
  // Phi(Phi^-1(FPR) + mu), with the quantiles -2.3263478740 and -3.0902323062.
  EXPECT_NEAR(plan->privacy.TprBound(0.01), Phi(-2.3263478740 + mu), 1e-7);
  EXPECT_NEAR(plan->privacy.TprBound(0.001), Phi(-3.0902323062 + mu), 1e-7);
  // At this epsilon the mechanism's delta is the one asked for (Balle and Wang, ICML 2018, theorem 8).
  const double epsilon = plan->privacy.EpsilonAt(1e-5);
  EXPECT_NEAR(Phi(-epsilon / mu + mu / 2) - std::exp(epsilon) * Phi(-epsilon / mu - mu / 2), 1e-5, 1e-9);
  EXPECT_NEAR(plan->information_kept, 0.25 * 0.75 * mu * mu, 0.02 * 0.1875 * mu * mu);  // Large sigma.
  ASSERT_TRUE(plan->loss.ok()) << plan->loss.status();
  EXPECT_NEAR(plan->loss->loss, 0.06, 1e-12);
}

TEST(PrivacyPlanTest, TextHasEveryFigure) {
  const auto plan = MakePrivacyPlan({10000, 0.25, 5, 0.6, 0}, Curves());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->options.delta, 1e-4);
  const std::string text = PrivacyPlanText(*plan, Curves());
  EXPECT_THAT(
      text,
      AllOf(
          HasSubstr("gaussian_label_dp { max_run_auc_bound: 0.6 } } on 10000 rows, 25% positive, 5 epochs\n"),
          HasSubstr(
              "2.79106, of the noise on a label that is 0 or 1, drawn once; drawn in each of 5 epochs, about 6.241\n"),
          HasSubstr("0.358287, for all epochs together\n"), HasSubstr("at delta 0.0001\n"),
          HasSubstr("at most 0.6000, beyond")));
  // Phi(-2.32635 + 0.35829) = 0.02453; of them 0.02453 x 0.25 / (0.02453 x 0.25 + 0.01 x 0.75) = 45.0% are positive.
  EXPECT_THAT(text,
              HasSubstr("TPR at 1% false positives          at most 2.45% (precision at most 45%; base rate 25%)"));
  // 0.0238746 of 10,000 rows (LabelInformationKeptTest), with three digits.
  EXPECT_THAT(text, HasSubstr("2.39%, worth about 239 rows with true labels"));
  // Phi(-3.09023 + 0.35829) = 0.003148.
  EXPECT_THAT(text, HasSubstr("TPR at 0.1% false positives        at most 0.315%"));
  EXPECT_THAT(text, HasSubstr("0.060 (0.050 to 0.070 over 3 seeds or more) of 0.750 without protection; 0.620 with"));
  EXPECT_THAT(text, HasSubstr("1,000 to 10,000 rows, 25% positive, 5 epochs, bounds 0.6 to 0.8; generated data"));
}

TEST(PrivacyPlanTest, SaysWhatRestsOnOneSeed) {
  const LossCurves curves =
      LossCurves::Parse(
          "positives,0.25\n"
          "rows,epochs,max_run_auc_bound,seeds,none_test_auc,frozen_test_auc,loss,loss_min,loss_max\n"
          "1000,5,0.6,3,0.75,0.60,0.08,0.07,0.09\n1000,5,0.8,3,0.75,0.60,0.04,0.03,0.05\n"
          "10000,5,0.6,1,0.75,0.62,0.06,0.06,0.06\n10000,5,0.8,1,0.75,0.62,0.02,0.02,0.02\n")
          .value();
  const auto text = [&](int64_t rows) {
    return PrivacyPlanText(MakePrivacyPlan({rows, 0.25, 5, 0.6, 0}, curves).value(), curves);
  };
  // One seed of 10,000 rows scatters as three of 1,000 do.
  EXPECT_THAT(text(10000), HasSubstr("0.060 (0.050 to 0.070 partly of one seed, with the scatter of the fewest rows"));
  EXPECT_THAT(text(2000), HasSubstr("partly of one seed"));
  EXPECT_THAT(text(1000), HasSubstr("0.080 (0.070 to 0.090 over 3 seeds or more)"));
}

TEST(PrivacyPlanTest, SaysWhereALossWasReadBetweenPointsOrOfAnotherShare) {
  const auto text = [&](int64_t rows, double positives) {
    return PrivacyPlanText(MakePrivacyPlan({rows, positives, 5, 0.6, 0}, Curves()).value(), Curves());
  };
  EXPECT_THAT(text(1000, 0.25), HasSubstr("bottom model frozen\n"));
  EXPECT_THAT(text(2000, 0.25), HasSubstr("bottom model frozen; read between points measured\n"));
  EXPECT_THAT(text(1000, 0.22), HasSubstr("bottom model frozen; measured at 25% positive\n"));
}

// Of 0.75 without protection 0.06 is lost where there is 0.25 to lose: 0.024 of 0.1.
TEST(PrivacyPlanTest, WhatOwnColumnsReachIsNotLost) {
  PlanOptions options = {10000, 0.25, 5, 0.6, 0, /*own_features_auc=*/0.7, /*unprotected_auc=*/0.8};
  const auto plan = MakePrivacyPlan(options, Curves());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_NEAR(plan->loss->loss, 0.024, 1e-9);
  EXPECT_THAT(PrivacyPlanText(*plan, Curves()),
              AllOf(HasSubstr("0.024 (0.020 to 0.028 over 3 seeds or more) of about 0.800 without protection"),
                    HasSubstr("AUC 0.700 alone, trained with the true labels")));
  options.own_features_auc = 0.8;
  EXPECT_EQ(MakePrivacyPlan(options, Curves()).status().code(), absl::StatusCode::kInvalidArgument);
}

// Runs of both programs as `init` proposes them, on a table with columns at both parties that the curves know nothing
// of: 16,000 training rows, 11% positive, ten epochs. Own columns reach 0.643, all 0.755 without protection; the mean
// of four runs at 0.70 is 0.731, of two at 0.60 it is 0.712.
TEST(PrivacyPlanTest, TheIntervalHoldsForRunsOnATableWithColumnsAtBothParties) {
  const LossCurves curves = LossCurves::Embedded().value();
  for (const auto& [bound, lost] : {std::pair(0.7, 0.024), std::pair(0.6, 0.043)}) {
    const auto plan = MakePrivacyPlan({16000, 0.111, 10, bound, 0, 0.643, 0.755}, curves);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_GE(lost, plan->loss->loss_min) << bound;
    EXPECT_LE(lost, plan->loss->loss_max) << bound;
  }
}

TEST(PrivacyPlanTest, SaysWhyThereIsNoExpectedLoss) {
  const auto plan = MakePrivacyPlan({100000000, 0.25, 5, 0.6, 0}, Curves());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(PrivacyPlanText(*plan, Curves()),
              AllOf(HasSubstr("not known: predicted for 1,000 to 10,000 rows, asked for 100,000,000\n"),
                    HasSubstr("at most 0.6000")));
}

TEST(PrivacyPlanTest, FiguresDependOnNeitherRowsNorEpochs) {
  const auto one = MakePrivacyPlan({1000, 0.25, 1, 0.7, 1e-6}, Curves());
  const auto many = MakePrivacyPlan({1000000, 0.25, 100, 0.7, 1e-6}, Curves());
  ASSERT_TRUE(one.ok() && many.ok());
  EXPECT_EQ(one->sigma, many->sigma);
  EXPECT_EQ(one->privacy.mu(), many->privacy.mu());
}

TEST(PrivacyPlanTest, FailsOnOptionsOutOfRange) {
  const auto error = [](const PlanOptions& options) {
    const absl::Status status = MakePrivacyPlan(options, Curves()).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(error({0, 0.25, 5, 0.6, 0}), "rows: expected at least 1, found 0");
  EXPECT_EQ(error({10, 0, 5, 0.6, 0}), "positives: expected a share above 0 and below 1, found 0");
  EXPECT_EQ(error({10, 0.25, 0, 0.6, 0}), "epochs: expected 1 to 100000, found 0");
  EXPECT_EQ(error({10, 0.25, 5, 0.5, 0}),
            "max_run_auc_bound: expected a number above 0.5 and at most 0.999999, found 0.5");
  EXPECT_EQ(error({10, 0.25, 5, 1, 0}), "max_run_auc_bound: expected a number above 0.5 and at most 0.999999, found 1");
  EXPECT_EQ(error({10, 0.25, 5, 0.9999999, 0}),
            "max_run_auc_bound: expected a number above 0.5 and at most 0.999999, found 0.9999999");
  EXPECT_EQ(error({10, 0.25, 5, 0.6, 1}), "delta: expected a number from 0 to below 1, found 1");
  // More noise than can be drawn: 1 / (sqrt 2 Phi^-1(0.5001)) = 2821, and 28.206 sqrt 10,000 = 2821.
  EXPECT_THAT(error({10, 0.25, 5, 0.5001, 0}),
              AllOf(HasSubstr("--max_run_auc_bound=0.5001 over --epochs=1: expected noise of sigma below 2048"),
                    HasSubstr("found 2821")));
  EXPECT_THAT(error({10, 0.25, 10000, 0.51, 0}),
              AllOf(HasSubstr("--max_run_auc_bound=0.51 over --epochs=10000: expected"), HasSubstr("found 2821")));
}

}  // namespace
}  // namespace splitveil
