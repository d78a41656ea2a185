
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "deploy/operator/audit/audit_report.h"

#include "tests/unit/deploy/operator/audit/recorded_run.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

RunVerdict Verdict(std::vector<Finding> findings) { return {"run-1", "marvell(s=4)", std::move(findings)}; }

TEST(VerdictTextTest, AlignsItsColumns) {
  EXPECT_EQ(VerdictText({Verdict({{Outcome::kMet, "ended", "completed", "completed", ""},
                                  {Outcome::kNotMet, "mean leak", "at most 0.6", "0.71", "norm at cut"},
                                  {Outcome::kNotMeasured, "p95", "at most 0.7", "not measured", ""}})}),
            "run run-1, marvell(s=4)\n"
            "verdict: not known\n"
            "promise: This ledger cannot answer: only the label party's states what its run promises.\n"
            "FAIL  mean leak  at most 0.6  0.71          norm at cut\n"
            "FAIL  p95        at most 0.7  not measured\n"
            "1 criterion holds; --verbose lists what holds\n"
            "policy not met: 2 of 3 criteria failed\n");
}

TEST(VerdictTextTest, ListsWhatHoldsAfterWhatFailsIfAsked) {
  const std::string text = VerdictText({Verdict({{Outcome::kMet, "ended", "completed", "completed", ""},
                                                 {Outcome::kNotMet, "mean leak", "at most 0.6", "0.71", ""}})},
                                       /*verbose=*/true);
  EXPECT_THAT(text, HasSubstr("\nFAIL  mean leak  at most 0.6  0.71\nPASS  ended      completed    completed\n"));
  EXPECT_THAT(text, HasSubstr("\nstrongest attack on gradients: none measured\n"));
}

TEST(VerdictTextTest, ClosesWithAllThatWasMet) {
  const RunVerdict met = Verdict({{Outcome::kMet, "ended", "completed", "completed", ""}});
  EXPECT_THAT(VerdictText({met}),
              HasSubstr("\npolicy met by this run against the attacks that were run: 1 criterion\n"));
  EXPECT_THAT(VerdictText({met, met}),
              HasSubstr("\npolicy met by these 2 runs against the attacks that were run: 2 criteria\n"));
}

TEST(VerdictTextTest, TextOfALedgerCannotForgeALine) {
  const std::string text =
      VerdictText({{"run\nPASS", "x\033[2J", {{Outcome::kNotMet, "a", "b", "c", "d\npolicy met"}}}});
  EXPECT_THAT(text, Not(HasSubstr("\nPASS")));
  EXPECT_THAT(text, Not(HasSubstr("\npolicy met")));
  EXPECT_THAT(text, Not(HasSubstr("\033")));
}

TEST(VerdictTextTest, ALongNameDoesNotPushTheOtherLines) {
  const std::string text = VerdictText(
      {Verdict({{Outcome::kMet, std::string(500, 'x'), "a", "b", "c"}, {Outcome::kMet, "short", "a", "b", "c"}})},
      true);
  EXPECT_LT(text.substr(text.find("PASS  short")).size(), 150);
}

TEST(AuditVerdictTest, EveryCriterionMustBeMet) {
  EXPECT_TRUE(Verdict({{Outcome::kMet, "", "", "", ""}}).met());
  EXPECT_FALSE(Verdict({{Outcome::kMet, "", "", "", ""}, {Outcome::kNotMeasured, "", "", "", ""}}).met());
  EXPECT_FALSE(Verdict({{Outcome::kNotMet, "", "", "", ""}}).met());
}

TEST(AuditVerdictTest, NothingJudgedIsNothingMet) {
  EXPECT_FALSE(Verdict({}).met());
  EXPECT_FALSE(PolicyMet({}));
}

TEST(AuditVerdictTest, OneRunThatFailsFailsThePolicy) {
  const RunVerdict met = Verdict({{Outcome::kMet, "", "", "", ""}}),
                   failed = Verdict({{Outcome::kNotMet, "", "", "", ""}});
  EXPECT_TRUE(PolicyMet({met, met}));
  EXPECT_FALSE(PolicyMet({met, failed, met}));
}

TEST(AuditVerdictTest, ARunThatMeetsAnEmptyPolicyPasses) {
  v1::AuditPolicy policy;
  policy.set_require_proved_bound(false);
  SetListDefaults(policy);
  const std::vector<RunVerdict> verdicts = JudgeRuns({RecordedRun()}, policy);
  EXPECT_TRUE(PolicyMet(verdicts)) << VerdictText(verdicts);
}

// What `splitveil predict` leaves.
LedgerRun Prediction() {
  LedgerRun run = RecordedRun();
  PartyRecords& party = run.parties.front();
  party.record.run.run_id = "run-1-predict";
  party.record.run.protection = "none";
  party.record.run.config_json = R"({"agreement":{"mode":"PREDICT"}})";
  party.steps.clear();
  party.protections.clear();
  party.leaks.clear();
  party.epoch_leaks.clear();
  return run;
}

v1::AuditPolicy StrictPolicy() {
  v1::AuditPolicy policy;
  policy.add_max_measured_leak()->set_max_mean(0.6);
  policy.set_max_run_auc_bound(0.8);
  policy.set_min_final_test_auc(0.7);
  policy.set_require_proved_bound(false);
  SetListDefaults(policy);
  return policy;
}

TEST(AuditVerdictTest, ARunThatOnlyPredictsIsListedAndHeldToNothing) {
  const std::vector<RunVerdict> verdicts = JudgeRuns({RecordedRun(), Prediction()}, StrictPolicy());
  EXPECT_TRUE(PolicyMet(verdicts)) << VerdictText(verdicts);
  EXPECT_THAT(VerdictText(verdicts),
              HasSubstr("run run-1-predict, marvell(s=4)\npredicts only: nothing was released by "
                        "the label party\npolicy met by this run against"));
}

TEST(AuditVerdictTest, APredictionMakesNoFailureGood) {
  LedgerRun failed = RecordedRun();
  failed.parties.front().record.status = "failed";
  EXPECT_TRUE(PolicyFailed(JudgeRuns({failed, Prediction()}, StrictPolicy())));
}

TEST(AuditVerdictTest, PredictionsAloneDecideNothing) {
  const std::vector<RunVerdict> verdicts = JudgeRuns({Prediction()}, StrictPolicy());
  EXPECT_FALSE(PolicyMet(verdicts));
  EXPECT_FALSE(PolicyFailed(verdicts));
  EXPECT_EQ(VerdictSummary(verdicts), "policy not decided: no run trained");
}

// The ledger must show it: an agreement with mode PREDICT beside any trace of a step, or no step of an agreement that
// trains, is no prediction.
TEST(AuditVerdictTest, OnlyARunWithoutAnyStepPredictsOnly) {
  const LedgerRun trained = RecordedRun();
  const PartyRecords& of_steps = trained.parties.front();
  std::vector<LedgerRun> runs(6, Prediction());
  runs[0].parties.front().steps = of_steps.steps;
  runs[1].parties.front().protections = of_steps.protections;
  runs[2].parties.front().leaks = of_steps.leaks;
  runs[3].parties.front().epoch_leaks = of_steps.epoch_leaks;
  runs[4].parties.front().record.run.config_json = R"({"agreement":{"mode":"TRAIN","epochs":2}})";
  runs[5].parties.push_back(of_steps);  // The peer knows of steps.
  runs[5].parties.back().record.run.role = "nonlabel_party";
  for (const LedgerRun& run : runs) {
    EXPECT_FALSE(run.only_predicts());
    EXPECT_TRUE(PolicyFailed(JudgeRuns({trained, run}, StrictPolicy())));
  }
}

// Activations are sent to be predicted from, too.
TEST(AuditVerdictTest, APolicyThatBoundsActivationsBoundsThoseOfPredictions) {
  LedgerRun run = Prediction();
  run.parties.front().record.run.role = "nonlabel_party";
  v1::AuditPolicy policy = StrictPolicy();
  policy.set_max_attribute_auc(0.6);
  policy.set_max_activation_auc_bound(0.6);
  const std::vector<RunVerdict> verdicts = JudgeRuns({run}, policy);
  EXPECT_TRUE(PolicyFailed(verdicts));
  EXPECT_THAT(VerdictText(verdicts), HasSubstr("FAIL  bound on any attribute per run (proved)"));
  EXPECT_THAT(VerdictText(verdicts), Not(HasSubstr("AUC of attacks")));
}

RunVerdict WithoutTheLabelParty() {
  LedgerRun run = RecordedRun();
  run.parties.front().record.run.role = "nonlabel_party";
  v1::AuditPolicy policy;
  policy.add_max_measured_leak()->set_max_mean(1);
  SetListDefaults(policy);
  return JudgeRuns({run}, policy).front();
}

TEST(AuditVerdictTest, TheNonLabelPartysLedgerAloneFailsNothingItCannotShow) {
  const RunVerdict verdict = WithoutTheLabelParty();
  EXPECT_FALSE(verdict.met());
  EXPECT_FALSE(verdict.failed());
  int64_t met = 0, open = 0;
  for (const Finding& finding : verdict.findings) {
    met += finding.outcome == Outcome::kMet ? 1 : 0;
    open += finding.outcome == Outcome::kNotMeasurable ? 1 : 0;
    EXPECT_EQ(finding.remedy, "") << finding.criterion;
  }
  EXPECT_EQ(met, 2);  // How it ended, and what was disclosed.
  EXPECT_EQ(open, 6);
  EXPECT_FALSE(PolicyMet({verdict}));
  EXPECT_FALSE(PolicyFailed({verdict}));
}

TEST(VerdictTextTest, WhatALedgerCannotShowIsOneLineAndNoFailure) {
  const std::string text = VerdictText({WithoutTheLabelParty()});
  EXPECT_THAT(text, Not(HasSubstr("FAIL")));
  EXPECT_THAT(text, HasSubstr("not measurable from this ledger, only from the label party's (6 criteria): gradient"));
  EXPECT_THAT(text, HasSubstr("policy not decided: 2 of 8 criteria met; 6 not measurable from the ledgers given\n"));
}

TEST(AuditVerdictTest, WhatTheNonLabelPartysLedgerShowsIsJudged) {
  LedgerRun run = RecordedRun();
  run.parties.front().record.run.role = "nonlabel_party";
  run.parties.front().record.status = "failed";
  v1::AuditPolicy policy;
  SetListDefaults(policy);
  const std::vector<RunVerdict> verdicts = JudgeRuns({run}, policy);
  EXPECT_TRUE(PolicyFailed(verdicts));
  EXPECT_THAT(VerdictSummary(verdicts), HasSubstr("policy not met: 1 of 7 criteria failed; 5 not measurable"));
}

TEST(VerdictTextTest, ClosesWithWhatHelpsEachOnce) {
  const RunVerdict verdict = Verdict({{Outcome::kNotMet, "mean AUC", "at most 0.6", "0.7", "", "More noise."},
                                      {Outcome::kNotMet, "p95 AUC", "at most 0.6", "0.7", "", "More noise."},
                                      {Outcome::kNotMet, "ended", "completed", "failed", "", "Run it again."}});
  const std::vector<Remedy> remedies = Remedies(verdict);
  ASSERT_EQ(remedies.size(), 2);
  EXPECT_EQ(remedies[0].words, "More noise.");
  EXPECT_THAT(remedies[0].criteria, ::testing::ElementsAre("mean AUC", "p95 AUC"));
  EXPECT_THAT(VerdictText({verdict}),
              HasSubstr("what helps: More noise.\n  for: mean AUC\n  for: p95 AUC\nwhat helps: Run it again.\n  for: "
                        "ended\n"));
}

TEST(VerdictTextTest, NamesTheStrongestAttackAndTheBoundsState) {
  v1::AuditPolicy policy;
  SetListDefaults(policy);
  EXPECT_THAT(
      VerdictText(JudgeRuns({RecordedRun()}, policy), /*verbose=*/true),
      HasSubstr(
          "strongest attack on gradients: Line between the classes, accumulated (cumulative_direction) at the cut "
          "layer, "
          "AUC 0.640\n"
          "bound: not exceeded by the attacks run here\n"
          "proved: nothing; conditional: AUC at most 0.720 over the whole run\n"
          "worst case measured: Best guess knowing the model, accumulated (cumulative_conditional_likelihood_ratio) at "
          "the cut layer, AUC 0.630\n"
          "practical, without side information: Gradient length (norm) at the cut layer, AUC 0.580\n"
          "with side information: Line between the classes, accumulated (cumulative_direction) at the cut layer, AUC "
          "0.640\n"
          "practical attack beside features alone: not measured: neither features_only nor activation_clusters was "
          "run\n"
          "guessing: p95 0.541\n"));
}

TEST(VerdictTextTest, OfSeveralRunsSaysHowManyFailed) {
  const RunVerdict met = Verdict({{Outcome::kMet, "ended", "completed", "completed", ""}}),
                   failed = Verdict({{Outcome::kNotMet, "ended", "completed", "failed", ""}});
  EXPECT_EQ(VerdictSummary({met, failed}), "policy not met: 1 of 2 criteria failed, in 1 of 2 runs");
}

}  // namespace
}  // namespace splitveil
