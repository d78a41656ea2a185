#include "common/figures/figure_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace splitveil {
namespace {

RunFigures Stated(const char* protection) {
  RunFigures figures;
  figures.of_label_party = figures.bound_tested = true;
  figures.protection = protection;
  figures.run_auc_bound = 0.7;
  return figures;
}

TEST(FigureWordsTest, EveryVerdictHasItsWords) {
  EXPECT_EQ(VerdictWords(PrivacyVerdict::kNotKnown), "not known");
  EXPECT_EQ(VerdictWords(PrivacyVerdict::kNothingReleased), "no gradient released");
  EXPECT_EQ(VerdictWords(PrivacyVerdict::kNothingClaimed), "nothing claimed");
  EXPECT_EQ(VerdictWords(PrivacyVerdict::kUntested), "claimed, the worst case was not measured");
  EXPECT_EQ(VerdictWords(PrivacyVerdict::kHolds), "not refuted");
  EXPECT_EQ(VerdictWords(PrivacyVerdict::kUnchecked), "proved, not checked");
  EXPECT_EQ(VerdictWords(PrivacyVerdict::kGuaranteed), "guaranteed");
  EXPECT_EQ(VerdictWords(PrivacyVerdict::kBroken), "broken");
}

TEST(FigureWordsTest, WhatExceedsABoundIsNamedAsTheReaderKnowsIt) {
  RunFigures figures = Stated("marvell(s=4)");
  EXPECT_EQ(BoundStateWords(figures), "not exceeded by the attacks run here");
  figures.bound_exceeded = 3;
  EXPECT_EQ(BoundStateWords(figures), "exceeded");
  figures.excesses = {{"cut", "norm"}, {"first", "norm"}};
  EXPECT_EQ(BoundStateWords(figures), "exceeded by Gradient length and 1 more");
  EXPECT_EQ(BoundStateWords(figures, AttackNaming::kName), "exceeded by norm at cut and 1 more");
}

TEST(FigureWordsTest, AConditionalBoundProvesNothing) {
  RunFigures figures = Stated("marvell(s=4)");
  EXPECT_EQ(BoundKindName(figures), "conditional");
  EXPECT_EQ(ProvedWords(figures), "nothing; conditional: AUC at most 0.700 over the whole run");
  figures.protection = "gaussian_label_dp(sigma=2)";
  figures.all_runs_auc_bound = 0.8;
  EXPECT_EQ(BoundKindName(figures), "proved");
  EXPECT_EQ(
      ProvedWords(figures),
      "AUC at most 0.700 over the whole run and 0.800 over all runs up to it, for any adversary, beyond what both "
      "parties' features tell");
  figures.own_features = 0.62;
  EXPECT_THAT(ProvedWords(figures), ::testing::EndsWith("beyond what both parties' features tell (own features: AUC "
                                                        "0.620)"));
  figures.test.r_squared = 0.4;
  EXPECT_THAT(ProvedWords(figures), ::testing::EndsWith("(own features: R^2 0.620)"));
  figures.run_auc_bound.reset();
  EXPECT_EQ(BoundKindName(figures), "none");
  EXPECT_EQ(ProvedWords(figures), "nothing");
}

TEST(FigureWordsTest, ACheckedClaimStatesWhatWasMeasuredAndWhetherItCouldHaveFailed) {
  ClaimCheckRow check{1.5, 4, 1.25, 2.5, 0.0625, 0.95, "own", 2000, 500, 0.75, 0.125, 1, 0.9999, 2};
  EXPECT_EQ(
      DescribeClaimCheck(check),
      "claimed mu 1.500; measured mu at least 1.250 (95% confidence), at least 1.000 (99.99%): claim not refuted");
  check.half_noise_mu_lower = 1.5;
  EXPECT_EQ(
      DescribeClaimCheck(check),
      "claimed mu 1.500; measured mu at least 1.250 (95% confidence), at least 1.000 (99.99%): claim not refuted; "
      "too few examples, or rounded too coarsely, to detect noise at half the claimed strength");
  check.failing_mu_lower = 1.6;
  EXPECT_THAT(DescribeClaimCheck(check), ::testing::HasSubstr("at least 1.600 (99.99%): claim refuted"));
}

}  // namespace
}  // namespace splitveil
