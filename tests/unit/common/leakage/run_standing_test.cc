#include "common/leakage/run_standing.h"

#include <gtest/gtest.h>

namespace splitveil {
namespace {

StandingFacts Proved() {
  StandingFacts facts;
  facts.claims_bound = facts.proved = facts.worst_case_tested = facts.claim_checked = true;
  return facts;
}

TEST(RunStandingTest, OnlyWhatIsProvedIsGuaranteed) {
  StandingFacts facts = Proved();
  EXPECT_EQ(StandingWords(StandingOf(facts)), "guaranteed");
  facts.worst_case_tested = false;  // A proof needs no attack,
  EXPECT_EQ(StandingWords(StandingOf(facts)), "guaranteed");
  facts.claim_checked = false;  // but a look whether the programs keep it.
  EXPECT_EQ(StandingWords(StandingOf(facts)), "proved, not checked");
  facts.proved = false;
  EXPECT_EQ(StandingWords(StandingOf(facts)), "claimed, the worst case was not measured");
  facts.worst_case_tested = true;
  EXPECT_EQ(StandingWords(StandingOf(facts)), "holds as far as measured");
}

TEST(RunStandingTest, WhatIsMeasuredAgainstABoundBreaksItHoweverItWasProved) {
  StandingFacts facts = Proved();
  facts.exceeded = true;
  EXPECT_EQ(StandingOf(facts), RunStanding::kBroken);
  facts = Proved();
  facts.claim_refuted = true;
  EXPECT_EQ(StandingOf(facts), RunStanding::kBroken);
}

TEST(RunStandingTest, WhereNothingIsClaimedOrNothingLeftThereIsNoVerdict) {
  StandingFacts facts = Proved();
  facts.claims_bound = false;
  EXPECT_EQ(StandingWords(StandingOf(facts)), "nothing claimed");
  facts.released = false;
  EXPECT_EQ(StandingWords(StandingOf(facts)), "no gradient left");
  EXPECT_EQ(StandingWords(RunStanding::kNotKnown), "not known");
}

TEST(RunStandingTest, TheWorstCaseKnowsAllButTheLabel) {
  EXPECT_TRUE(IsWorstCase("conditional_likelihood_ratio"));
  EXPECT_TRUE(IsWorstCase("cumulative_conditional_likelihood_ratio"));
  EXPECT_FALSE(IsWorstCase("likelihood_ratio"));
}

}  // namespace
}  // namespace splitveil
