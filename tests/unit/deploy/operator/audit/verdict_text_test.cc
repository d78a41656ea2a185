#include "deploy/operator/audit/verdict_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "deploy/operator/audit/audit_policy.h"

#include "tests/unit/deploy/operator/audit/recorded_run.h"

namespace splitveil {
namespace {

using testing::HasSubstr;
using testing::Not;

RunVerdict Verdict(std::vector<Finding> findings) { return {"run-1", "marvell(s=4)", std::move(findings)}; }

TEST(VerdictTextTest, AlignsItsColumns) {
  EXPECT_EQ(VerdictText({Verdict({{Outcome::kMet, "ended", "completed", "completed", ""},
                                  {Outcome::kNotMet, "mean leak", "at most 0.6", "0.71", "norm at cut"},
                                  {Outcome::kNotMeasured, "p95", "at most 0.7", "not measured", ""}})}),
            "run run-1, marvell(s=4)\n"
            "PASS  ended      completed    completed\n"
            "FAIL  mean leak  at most 0.6  0.71          norm at cut\n"
            "FAIL  p95        at most 0.7  not measured\n"
            "policy not met: 2 of 3 criteria, 1 of 1 run\n");
}

TEST(VerdictTextTest, ClosesWithAllThatWasMet) {
  const RunVerdict met = Verdict({{Outcome::kMet, "ended", "completed", "completed", ""}});
  EXPECT_THAT(VerdictText({met}), HasSubstr("\npolicy met: 1 criterion, 1 run\n"));
  EXPECT_THAT(VerdictText({met, met}), HasSubstr("\npolicy met: 2 criteria, 2 runs\n"));
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
      {Verdict({{Outcome::kMet, std::string(500, 'x'), "a", "b", "c"}, {Outcome::kMet, "short", "a", "b", "c"}})});
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
  SetListDefaults(policy);
  const std::vector<RunVerdict> verdicts = JudgeRuns({RecordedRun()}, policy);
  EXPECT_TRUE(PolicyMet(verdicts)) << VerdictText(verdicts);
}

TEST(AuditVerdictTest, TheNonLabelPartysLedgerAloneMeetsNoFigure) {
  RunRecords run = RecordedRun();
  run.parties.front().record.run.role = "nonlabel_party";
  for (const char* criterion :
       {"gradient protection", "release gate", "audited", "beyond what the noise", "mean leak"}) {
    const Finding finding = Judge(run, "max_measured_leak { max_mean: 1 }", criterion);
    EXPECT_EQ(finding.outcome, Outcome::kNotMeasured) << criterion;
    EXPECT_THAT(finding.where, HasSubstr("label party's ledger"));
  }
  EXPECT_EQ(Judge(run, "", "disclosure").outcome, Outcome::kMet);
}

}  // namespace
}  // namespace splitveil
