#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>
#include <string>

#include "common/figures/figure_words.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Promise Of(PrivacyVerdict standing, std::optional<double> bound, std::optional<double> measured) {
  Promise promise;
  promise.verdict = standing;
  promise.run_auc_bound = bound;
  promise.measured_auc = measured;
  return promise;
}

constexpr PrivacyVerdict kAllStandings[] = {PrivacyVerdict::kNotKnown,       PrivacyVerdict::kNothingReleased,
                                            PrivacyVerdict::kNothingClaimed, PrivacyVerdict::kUntested,
                                            PrivacyVerdict::kHolds,          PrivacyVerdict::kUnchecked,
                                            PrivacyVerdict::kGuaranteed,     PrivacyVerdict::kBroken};

TEST(PromiseTest, AGuaranteeIsOneSentenceWithBothNumbers) {
  EXPECT_EQ(PromiseSentence(Of(PrivacyVerdict::kGuaranteed, 0.7, 0.699)),
            "Whatever the partner does with what it received, it can tell apart two customers who differ only in "
            "their label with at most 70% certainty. The worst case measured reached 69.9%.");
}

TEST(PromiseTest, OnlyAProvedBoundIsToldAsAPromise) {
  for (PrivacyVerdict standing : kAllStandings) {
    const std::string words = PromiseSentence(Of(standing, 0.7, 0.69));
    const bool promised = standing == PrivacyVerdict::kGuaranteed || standing == PrivacyVerdict::kUnchecked;
    EXPECT_EQ(words.find("at most") != std::string::npos, promised) << words;
  }
  EXPECT_THAT(PromiseSentence(Of(PrivacyVerdict::kUnchecked, 0.7, 0.69)), HasSubstr("too little to check"));
}

TEST(PromiseTest, AConditionalBoundComesWithItsConditions) {
  for (PrivacyVerdict standing : {PrivacyVerdict::kHolds, PrivacyVerdict::kUntested}) {
    const std::string words = PromiseSentence(Of(standing, 0.786, 0.741));
    EXPECT_THAT(words, HasSubstr("Not a promise: "));
    EXPECT_THAT(words,
                HasSubstr("A limit of 78.6% is computed only for Gaussian classes and adversaries that use class "
                          "moments alone, given the top model."));
  }
  EXPECT_THAT(PromiseSentence(Of(PrivacyVerdict::kHolds, 0.9998, 0.741)), Not(HasSubstr("100%")));
}

TEST(PromiseTest, OnlyAGuaranteeMayBePromised) {
  for (PrivacyVerdict standing : kAllStandings) {
    EXPECT_EQ(PromiseHeadline(Of(standing, 0.7, 0.6)) == "May be promised to anyone",
              standing == PrivacyVerdict::kGuaranteed);
    EXPECT_NE(PromiseHeadline(Of(standing, 0.9997, 0.6)), "May be promised to anyone");  // No bound over the run.
    EXPECT_THAT(PromiseSentence(Of(standing, 0.9997, 0.6)), Not(HasSubstr("at most")));
  }
}

TEST(PromiseTest, ABoundIsRoundedUpAndNotByWhatItLostWhenStored) {
  EXPECT_EQ(BoundCertainty(0.7), "70%");
  EXPECT_EQ(BoundCertainty(0.70000001), "70%");
  EXPECT_EQ(BoundCertainty(0.7002), "70.1%");
  EXPECT_EQ(MeasuredCertainty(0.70046), "70%");
}

// A reader must not find 73.2% in one line and 0.731 in the next.
TEST(PromiseTest, AsAnAucABoundIsTheSameNumber) {
  EXPECT_EQ(BoundText(0.7), "0.700");
  EXPECT_EQ(BoundText(0.70000001), "0.700");
  const double bound = 0.73106;  // Of flips at epsilon 1.
  EXPECT_EQ(BoundCertainty(bound), "73.2%");
  EXPECT_EQ(BoundText(bound), "0.732");
  EXPECT_EQ(BoundText(1), "1.000");
}

TEST(PromiseTest, AMeasurementAboveAProvedLimitIsSaidToBeSoByChance) {
  EXPECT_THAT(PromiseSentence(Of(PrivacyVerdict::kGuaranteed, 0.7, 0.7004)), Not(HasSubstr("by chance")));
  EXPECT_THAT(PromiseSentence(Of(PrivacyVerdict::kGuaranteed, 0.7, 0.704)),
              HasSubstr("70.4%, above the limit by chance."));
}

// An attack that stays below the limit contradicts nothing: it is the claim check that does.
TEST(PromiseTest, ABrokenPromiseNamesTheCheckThatBrokeIt) {
  RunFigures figures;
  figures.of_label_party = figures.bound_tested = true;
  figures.protection = "gaussian_label_dp(sigma=1.141)";
  figures.run_auc_bound = 0.732;
  figures.worst_case.emplace();
  figures.worst_case->attack = "cumulative_conditional_likelihood_ratio";
  figures.worst_case->layer = "cut";
  figures.worst_case->last_epoch.emplace();
  figures.worst_case->last_epoch->auc = 0.729;
  figures.claim_check.emplace();
  figures.claim_check->claimed_mu = 0.876;
  figures.claim_check->failing_mu_lower = 1.02;
  ASSERT_EQ(figures.verdict(), PrivacyVerdict::kBroken);
  EXPECT_EQ(PromiseSentence(PromiseOf(figures)),
            "Do not rely on the limit of 73.2% that this run states: the claim check found mu at least 1.020, and the "
            "run claims 0.876.");
  EXPECT_EQ(BoundStateWords(figures), "not exceeded by the attacks run here but refuted by the claim check");
}

TEST(PromiseTest, ABrokenPromiseNamesTheAttackThatBrokeIt) {
  RunFigures figures;
  figures.of_label_party = figures.bound_tested = true;
  figures.protection = "gaussian_label_dp(sigma=1.141)";
  figures.run_auc_bound = 0.7;
  figures.bound_exceeded = 1;
  figures.excesses = {{"cut", "norm", 0.76, 0.65}};
  EXPECT_EQ(PromiseSentence(PromiseOf(figures)),
            "Do not rely on the limit of 70% that this run states: Gradient length (norm) at the cut layer reached an "
            "AUC of at least 0.760, and the noise allows 0.650.");
  figures.excesses = {{"cut", "norm"}};  // Known by an event alone.
  EXPECT_THAT(PromiseSentence(PromiseOf(figures)), HasSubstr("states: an attack has read more than it allows."));
  EXPECT_THAT(PromiseSentence(Of(PrivacyVerdict::kBroken, 0.7, 0.78)), HasSubstr("Here the worst attack measured"));
}

TEST(PromiseTest, EarlierRunsOfTheAccountCount) {
  Promise promise = Of(PrivacyVerdict::kGuaranteed, 0.7, 0.69);
  promise.all_runs_auc_bound = 0.7;
  EXPECT_THAT(PromiseSentence(promise), Not(HasSubstr("earlier")));
  promise.all_runs_auc_bound = 0.77;
  EXPECT_THAT(PromiseSentence(promise), HasSubstr("(77% together with the earlier runs"));
}

}  // namespace
}  // namespace splitveil
