#include "common/figures/run_figures.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "common/leakage/bounds.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;

EpochLeakRow Row(int64_t epoch, const std::string& attack, double auc, double bound) {
  EpochLeakRow row;
  row.epoch = epoch;
  row.observer = "label_party";
  row.layer = "cut";
  row.attack = attack;
  row.auc = auc;
  row.examples = 40'960;
  row.positives = 10'240;
  row.auc_low = auc - 0.01;
  row.auc_high = auc + 0.01;
  row.gaussian_auc_bound = bound;
  return row;
}

AttackFigure Attack(const std::string& layer, const std::string& attack, double p95) {
  return {layer, attack, "", {0.5, 0, p95, 10}};
}

// Of a claim that would have been refuted by half of the noise.
RunFigures Proved() {
  RunFigures figures;
  figures.of_label_party = true;
  figures.protection = "gaussian_label_dp(sigma=1.348)";
  figures.run_auc_bound = figures.step_auc_bound_p95 = 0.7;
  figures.claim_check.emplace();
  figures.claim_check->claimed_mu = 0.742;
  figures.claim_check->mu_lower = 0.6;
  figures.claim_check->failing_mu_lower = 0.5;
  figures.claim_check->half_noise_mu_lower = 1.2;
  return figures;
}

RunFigures Conditional() {
  RunFigures figures = Proved();
  figures.protection = "marvell(s=4)";
  figures.worst_case = Attack("cut", "conditional_likelihood_ratio", 0.6);
  return figures;
}

TEST(PrivacyVerdictTest, OnlyWhatEnoughScoresWereHeldAgainstIsGuaranteed) {
  RunFigures figures = Proved();
  EXPECT_EQ(figures.verdict(), PrivacyVerdict::kGuaranteed);
  figures.claim_check->half_noise_mu_lower = 0.74;
  EXPECT_EQ(figures.verdict(), PrivacyVerdict::kUnchecked);
  figures.claim_check.reset();  // A label-side audit that was cut down, gradients that were clipped.
  EXPECT_EQ(figures.verdict(), PrivacyVerdict::kUnchecked);
  figures.worst_case = Conditional().worst_case;  // A proof needs no attack, but a look whether the programs keep it.
  EXPECT_EQ(figures.verdict(), PrivacyVerdict::kUnchecked);
}

TEST(PrivacyVerdictTest, WhatIsNotProvedHoldsAtMostAsFarAsMeasured) {
  RunFigures figures = Conditional();
  EXPECT_EQ(figures.verdict(), PrivacyVerdict::kHolds);
  figures.worst_case.reset();
  EXPECT_EQ(figures.verdict(), PrivacyVerdict::kUntested);
}

TEST(PrivacyVerdictTest, ARunFailsByTheBoundThatHoldsNearlyAlways) {
  RunFigures figures = Proved();
  figures.claim_check->mu_lower = 0.75;  // Of honest runs, one in twenty.
  EXPECT_EQ(figures.verdict(), PrivacyVerdict::kGuaranteed);
  figures.claim_check->failing_mu_lower = 0.75;
  EXPECT_EQ(figures.verdict(), PrivacyVerdict::kBroken);
  figures.claim_check->half_noise_mu_lower = 0;
  EXPECT_EQ(figures.verdict(), PrivacyVerdict::kBroken);
}

TEST(PrivacyVerdictTest, WhatIsMeasuredAgainstABoundBreaksItHoweverItWasProved) {
  RunFigures figures = Proved();
  figures.bound_exceeded = 1;
  EXPECT_EQ(figures.verdict(), PrivacyVerdict::kBroken);
  EXPECT_EQ(figures.bound(), BoundState::kExceeded);
}

// A bound that is printed as 1.000.
TEST(PrivacyVerdictTest, ABoundNearOneClaimsNothing) {
  RunFigures figures = Proved();
  figures.run_auc_bound = figures.step_auc_bound_p95 = 0.9996;
  EXPECT_FALSE(figures.states_bound());
  EXPECT_EQ(figures.verdict(), PrivacyVerdict::kNothingClaimed);
  EXPECT_EQ(figures.bound(), BoundState::kNoneStated);
  EXPECT_EQ(figures.checked_claim(), nullptr);
  EXPECT_FALSE(figures.proved_auc_bound().has_value());
  figures.run_auc_bound = figures.step_auc_bound_p95 = std::nullopt;
  EXPECT_EQ(figures.verdict(), PrivacyVerdict::kNothingClaimed);
  figures.step_auc_bound_p95 = 0.9;
  EXPECT_FALSE(figures.states_run_bound());
  EXPECT_TRUE(figures.states_bound());
}

// As of noisy activations, whose gradients overlap by class, and which an attack reads at 1.000 all the same.
TEST(PrivacyVerdictTest, WithoutNoiseNothingIsClaimedWhateverTheClassesAllow) {
  RunFigures figures = Conditional();
  figures.protection = "none";
  EXPECT_FALSE(figures.states_bound());
  EXPECT_FALSE(figures.states_run_bound());
  EXPECT_EQ(figures.verdict(), PrivacyVerdict::kNothingClaimed);
}

TEST(PrivacyVerdictTest, WithoutAReleaseOrTheLabelPartysRecordsThereIsNone) {
  RunFigures figures = Proved();
  figures.may_have_released = false;
  EXPECT_EQ(figures.verdict(), PrivacyVerdict::kNothingReleased);
  EXPECT_EQ(figures.bound(), BoundState::kNothingReleased);
  figures.gate = {{v1::FREEZE_BOTTOM, 3}};  // It sent something before it went back to its checkpoint.
  figures.may_have_released = true;
  EXPECT_FALSE(figures.released_nothing());
  figures.only_predicts = true;
  EXPECT_TRUE(figures.released_nothing());
  figures.of_label_party = false;
  EXPECT_EQ(figures.verdict(), PrivacyVerdict::kNotKnown);
  EXPECT_EQ(figures.bound(), BoundState::kNotInLedger);
}

TEST(RunFiguresTest, TheStrongestIsTheFirstOfEachKindAndTheStrongerOfTheTwo) {
  RunFigures figures;
  figures.attacks = {Attack("cut", "cosine", 0.9), Attack("first", "norm", 0.8)};
  EXPECT_EQ(figures.practical(), &figures.attacks[1]);
  EXPECT_EQ(figures.with_side_information(), &figures.attacks[0]);
  EXPECT_EQ(figures.strongest(), &figures.attacks[0]);
  figures.attacks[1] = Attack("first", "norm", 0.9);  // What needs less stands for both.
  EXPECT_EQ(figures.strongest(), &figures.attacks[1]);
  figures.attacks.erase(figures.attacks.begin());
  EXPECT_EQ(figures.strongest(), &figures.attacks[0]);
  EXPECT_EQ(figures.with_side_information(), nullptr);
}

TEST(RunFiguresTest, TheStrongestReadsGradientsAndNoGivenLabels) {
  RunFigures figures;
  EXPECT_EQ(figures.strongest(), nullptr);
  figures.attacks = {Attack("cut", "activation_clusters", 0.99), Attack("cut", "model_completion", 0.99)};
  EXPECT_EQ(figures.strongest(), nullptr);
  EXPECT_EQ(figures.no_gradient(), &figures.attacks[0]);
  EXPECT_EQ(figures.baseline(), &figures.attacks[0]);
  figures.attacks.push_back(Attack("cut", "features_only", 0.6));
  EXPECT_EQ(figures.baseline(), &figures.attacks[2]);
}

TEST(RunFiguresTest, OfTwoObserversTheStrongerBatchesCountOnce) {
  RunFigures figures;
  figures.attacks = {Attack("cut", "norm", 0.9), {"cut", "model_completion"}, Attack("cut", "norm", 0.8)};
  EXPECT_THAT(figures.over_batches(), ElementsAre(&figures.attacks[0]));
}

TEST(RunFiguresTest, AModelIsComparedByTheFiguresOfItsTask) {
  ModelFigures model;
  EXPECT_FALSE(model.quality().has_value());
  model.auc = 0.7;
  model.log_loss = 0.5;
  EXPECT_EQ(model.quality(), 0.7);
  EXPECT_EQ(model.loss(), 0.5);
  model.r_squared = 0.4;
  model.rmse = 0.1;
  EXPECT_EQ(model.quality(), 0.4);
  EXPECT_EQ(model.loss(), 0.1);
}

TEST(RunFiguresTest, TheWidestExcessOfEachAttackIsKeptTheStrongestFirst) {
  std::vector<BoundExcess> excesses;
  for (const EpochLeakRow& row : {Row(0, "norm", 0.7, 0.65), Row(1, "norm", 0.75, 0.65), Row(2, "norm", 0.6, 0.65),
                                  Row(1, "direction", 0.9, 0.65)}) {
    AddExcess(row, excesses);
  }
  ASSERT_EQ(excesses.size(), 2);
  EXPECT_EQ(excesses[0].attack, "direction");
  EXPECT_EQ(excesses[1].auc_at_least, CertainAuc({"norm", 1, 0.75, 40'960, 10'240}));
  EXPECT_THAT(excesses[1].epochs, ElementsAre(1, 2));
  EXPECT_EQ(excesses[1].worst_epoch, 2);
  EpochLeakRow submitted = Row(0, "norm", 0.9, 0.65);
  submitted.observer = "nonlabel_party";  // Its scores may be made of anything.
  EXPECT_FALSE(ExceedsBound(submitted));
  EXPECT_FALSE(IsHeldAgainstBound(submitted));
}

TEST(RunFiguresTest, GuessingIsKnownOnlyOfAKnownBatchAndShare) {
  EXPECT_EQ(GuessingInBatches(std::optional(1024.0), std::optional(0.25))->p95, GuessingOver(256, 768).p95);
  EXPECT_FALSE(GuessingInBatches(std::nullopt, std::optional(0.25)).has_value());
  EXPECT_FALSE(GuessingInBatches(std::optional(1024.0), std::nullopt).has_value());
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A run whose steps nearly all allow anything is not held by the one that does not.
TEST(StatedBoundTest, OneStepWithABoundSpeaksForNoRun) {
  std::vector<RepeatedValue> steps = {{1, 39}, {0.6}};
  EXPECT_EQ(StepAucBoundP95(steps), 1);
  EXPECT_EQ(StepAucBoundP95({{0.6, 39}, {0.9}}), 0.6);
  // More than 5% of the steps, and without a bound.
  EXPECT_EQ(StepAucBoundP95({{0.9}, {kNan, 3}, {0.6, 36}}), 1);
  EXPECT_FALSE(StepAucBoundP95({}).has_value());
}

TEST(StatedBoundTest, AStepIsBoundedByWhatEitherBoundAllows) {
  EXPECT_EQ(StepAucBound(0.8, kNan), 0.8);
  EXPECT_EQ(StepAucBound(1, std::numeric_limits<double>::infinity()), 1);
  EXPECT_NEAR(StepAucBound(1, 4), 0.5 * std::erfc(-1), 1e-12);  // Theorem 1 says nothing from 4 on.
  EXPECT_NEAR(StepAucBound(kNan, 4), 0.5 * std::erfc(-1), 1e-12);
  EXPECT_TRUE(std::isnan(StepAucBound(kNan, kNan)));
}

TEST(StatedBoundTest, WhatDoesNotExistOrIsPrintedAsOnePromisesNothing) {
  EXPECT_TRUE(Promises(0.7));
  EXPECT_FALSE(Promises(0.9996));
  EXPECT_FALSE(Promises(std::nullopt));
  EXPECT_FALSE(Promises(kNan));
}

TEST(StatedBoundTest, NoiseOnLabelsAloneIsProved) {
  EXPECT_TRUE(IsBoundProved("gaussian_label_dp(sigma=2)"));
  EXPECT_TRUE(IsBoundProved("label_dp(epsilon=1)"));
  for (const char* conditional : {"marvell(s=4)", "label_dp(epsilon=1)+distance_correlation(weight=1)", "none", ""}) {
    EXPECT_FALSE(IsBoundProved(conditional)) << conditional;
  }
}

}  // namespace
}  // namespace splitveil
