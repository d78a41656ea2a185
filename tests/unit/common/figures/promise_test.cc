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

TEST(PromiseTest, AMeasurementAboveAProvedLimitIsSaidToBeSoByChance) {
  EXPECT_THAT(PromiseSentence(Of(PrivacyVerdict::kGuaranteed, 0.7, 0.7004)), Not(HasSubstr("by chance")));
  EXPECT_THAT(PromiseSentence(Of(PrivacyVerdict::kGuaranteed, 0.7, 0.704)),
              HasSubstr("70.4%, above the limit by chance."));
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
