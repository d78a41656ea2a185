// Both directions' accounts in one audit.
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "deploy/operator/audit/audit_report.h"
#include "deploy/operator/audit/criteria.h"

#include "common/privacy/gaussian_privacy.h"
#include "tests/unit/deploy/operator/audit/recorded_run.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

double AucBoundOf(double sum_of_squares) { return GaussianPrivacy::FromMu(std::sqrt(sum_of_squares))->AucBound(); }

// A run that `account` has counted up to this sum; none where it is empty.
LedgerRun RunOf(const std::string& account, double sum_of_squares) {
  LedgerRun run = RecordedRun();
  run.parties.emplace_back();
  PartyRecords& party = run.parties.back();
  party.record.run = run.parties.front().record.run;
  party.record.run.role = "nonlabel_party";
  party.events = {{"", kReleasesFollow, "1000 examples"}};
  if (!account.empty()) {
    party.all_runs = AllRunsRow{account, 1000, AucBoundOf(sum_of_squares)};
  }
  return run;
}

Finding Judge(const std::vector<LedgerRun>& runs, double limit) {
  v1::AuditPolicy policy;
  policy.set_max_lifetime_activation_auc_bound(limit);
  const std::vector<Finding> findings = LifetimeFindings(runs, runs.back(), policy);
  EXPECT_EQ(findings.size(), 1);
  return findings.empty() ? Finding() : findings.front();
}

TEST(LifetimeCriteriaTest, OneAccountHoldsAllRunsToTheLimit) {
  const std::vector<LedgerRun> runs = {RunOf("first account", 0.25), RunOf("first account", 0.5)};
  Finding finding = Judge(runs, 0.7);  // 0.691.
  EXPECT_EQ(finding.outcome, Outcome::kMet);
  EXPECT_THAT(finding.found, HasSubstr("0.692: guaranteed given the bottom model"));
  EXPECT_THAT(finding.where, HasSubstr("by privacy account first ac"));
  EXPECT_EQ(Judge(runs, AucBoundOf(0.5)).outcome, Outcome::kMet);
  EXPECT_EQ(Judge(runs, AucBoundOf(0.49)).outcome, Outcome::kNotMet);
  EXPECT_EQ(Judge({runs.back(), runs.front()}, 0.69).outcome, Outcome::kNotMet);  // Whichever run is judged.
}

// The account's file was lost between two runs: each says 0.691, both together 0.760.
TEST(LifetimeCriteriaTest, AccountsThatDifferAddUp) {
  const std::vector<LedgerRun> runs = {RunOf("first account", 0.5), RunOf("second account", 0.5)};
  const Finding finding = Judge(runs, 0.75);
  EXPECT_EQ(finding.outcome, Outcome::kNotMet);
  EXPECT_THAT(finding.found, HasSubstr("0.76"));
  EXPECT_EQ(Judge(runs, AucBoundOf(1) + 1e-9).outcome, Outcome::kMet);
}

// An older copy of the account was put back: the second run's figure is that of the first again.
TEST(LifetimeCriteriaTest, AnAccountThatHasCountedLessThanItsRunsSentLeavesItOpen) {
  std::vector<LedgerRun> runs = {RunOf("account", 0.25), RunOf("account", 0.25)};
  for (LedgerRun& run : runs) {
    run.parties.back().activation_bound = ActivationBoundRow{2, 0.5, AucBoundOf(0.25)};
  }
  const Finding finding = Judge(runs, AucBoundOf(0.3));
  EXPECT_EQ(finding.outcome, Outcome::kOpen);
  EXPECT_THAT(finding.found, HasSubstr("0.638 by the account, up to 0.691 if these runs sent the same examples"));
  EXPECT_THAT(LifetimeLine(runs, runs.back(), 1), HasSubstr("up to 0.692"));
  EXPECT_EQ(Judge(runs, AucBoundOf(0.5) + 1e-9).outcome, Outcome::kMet);
  EXPECT_EQ(Judge(runs, AucBoundOf(0.2)).outcome, Outcome::kNotMet);
  runs.back().parties.back().all_runs->auc_bound = AucBoundOf(0.5);  // As it should have been.
  EXPECT_EQ(Judge(runs, AucBoundOf(0.5)).outcome, Outcome::kMet);
  EXPECT_THAT(LifetimeLine(runs, runs.back(), 1), Not(HasSubstr("up to")));
}

// What it had counted by then stands in no other ledger: 0.25 of a run that is not shown, then two of 0.1 and 0.05, of
// which a copy has forgotten the former.
TEST(LifetimeCriteriaTest, WhatAnOlderCopyForgotAddsToWhatWasCountedBefore) {
  std::vector<LedgerRun> runs = {RunOf("account", 0.35), RunOf("account", 0.3)};
  runs[0].parties.back().activation_bound = ActivationBoundRow{2, std::sqrt(0.1), AucBoundOf(0.1)};
  runs[1].parties.back().activation_bound = ActivationBoundRow{2, std::sqrt(0.05), AucBoundOf(0.05)};
  EXPECT_EQ(Judge(runs, AucBoundOf(0.39)).outcome, Outcome::kOpen);
  EXPECT_EQ(Judge(runs, AucBoundOf(0.4) + 1e-9).outcome, Outcome::kMet);
  // Of runs that began in another order than they were counted in, nothing is forgotten; of a copy with a ledger of its
  // own, what it counts falls.
  runs[0].parties.back().all_runs->auc_bound = AucBoundOf(0.4);
  runs[0].parties.back().events.front().at = "2026-01-01T00:00:00.002Z";
  runs[1].parties.back().events.front().at = "2026-01-01T00:00:00.001Z";
  EXPECT_EQ(Judge(runs, AucBoundOf(0.4)).outcome, Outcome::kMet);
  runs[1].parties.back().events.front().at = "2026-01-01T00:00:00.003Z";
  EXPECT_EQ(Judge(runs, AucBoundOf(0.44)).outcome, Outcome::kOpen);
}

// A run was interrupted, another one ran, and the first went on: each figure contains both.
TEST(LifetimeCriteriaTest, ARunThatGoesOnAfterAnotherOneCountsOnce) {
  std::vector<LedgerRun> runs = {RunOf("account", 0.15), RunOf("account", 0.15)};
  runs[0].parties.back().activation_bound = ActivationBoundRow{2, std::sqrt(0.1), AucBoundOf(0.1)};
  runs[1].parties.back().activation_bound = ActivationBoundRow{2, std::sqrt(0.05), AucBoundOf(0.05)};
  std::vector<EventRow>& events = runs[0].parties.back().events;
  events.push_back(events.front());
  events[0].at = "2026-01-01T00:00:00.001Z";
  runs[1].parties.back().events.front().at = "2026-01-01T00:00:00.002Z";
  events[1].at = "2026-01-01T00:00:00.003Z";
  EXPECT_EQ(Judge(runs, AucBoundOf(0.15)).outcome, Outcome::kMet);
  events.pop_back();
  EXPECT_EQ(Judge(runs, AucBoundOf(0.15)).outcome, Outcome::kOpen);  // Its figure was counted before the second run.
}

TEST(LifetimeCriteriaTest, ARunThatNoAccountCountsHasNoBound) {
  std::vector<LedgerRun> runs = {RunOf("", 0), RunOf("first account", 0.5)};
  Finding finding = Judge(runs, 0.99);
  EXPECT_EQ(finding.outcome, Outcome::kNotMet);
  EXPECT_THAT(finding.found, HasSubstr("no bound: no account counts the activations of "));
  EXPECT_THAT(LifetimeLine(runs, runs.back(), 1), HasSubstr("features none proved"));
  // One that ended before the alignment has sent nothing.
  runs.front().parties.back().events.clear();
  EXPECT_EQ(Judge(runs, 0.99).outcome, Outcome::kMet);
}

TEST(LifetimeCriteriaTest, WithoutTheLedgerNothingIsDecidedAndWithoutALimitNothingIsAsked) {
  v1::AuditPolicy policy;
  EXPECT_THAT(LifetimeFindings({RunOf("first account", 9)}, RunOf("first account", 9), policy), IsEmpty());
  policy.set_max_lifetime_activation_auc_bound(0.7);
  const std::vector<RunVerdict> verdicts = JudgeRuns({RecordedRun()}, policy);
  EXPECT_EQ(verdicts.front().findings.back().outcome, Outcome::kNotMeasurable);
  EXPECT_EQ(LifetimeLine({RecordedRun()}, RecordedRun(), 1), "");
}

TEST(LifetimeCriteriaTest, TheVerdictShowsBothDirectionsSideBySide) {
  LedgerRun run = RunOf("features", 0.5);
  EXPECT_THAT(VerdictText(JudgeRuns({run}, v1::AuditPolicy())),
              HasSubstr("life-long bounds on the AUC: of a label none proved; of an example's features 0.692 given the "
                        "bottom model, by the non-label party's account\n"));
  run.parties.front().record.run.protection = "gaussian_label_dp(sigma=2)";
  run.parties.front().all_runs = AllRunsRow{"labels", 1000, 0.7234};
  EXPECT_THAT(VerdictText(JudgeRuns({run}, v1::AuditPolicy())),
              HasSubstr("of a label 0.724, over all runs on these labels; of an example's features 0.692"));
}

}  // namespace
}  // namespace splitveil
