#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/process/file.h"
#include "tests/unit/deploy/operator/operator_tool.h"
#include "tests/unit/deploy/operator/report/plausible_ledger.h"

namespace splitveil::testing {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

class AuditCommandTest : public ::testing::Test {
 protected:
  AuditCommandTest() {
    run_.epochs = 2;
    run_.steps_per_epoch = 5;
    run_.sum_kl = 0.7;  // Below what the gate warns of.
    WriteText(policy_, "max_measured_leak { max_mean: 0.8 } require_proved_bound: false");
  }

  ChildResult Audit(const std::string& more = "") {
    std::vector<std::string> arguments = {"audit", "--ledger=" + ledger_, "--policy=" + policy_};
    if (!more.empty()) {
      arguments.push_back(more);
    }
    return RunTool(arguments);
  }

  TempFolder folder_;
  const std::string ledger_ = folder_.File("label_party.db"), policy_ = folder_.File("policy.textproto");
  PlausibleRun run_;
};

TEST_F(AuditCommandTest, ARunThatMeetsThePolicyEndsWithZero) {
  ASSERT_TRUE(WriteLabelPartyLedger(ledger_, run_).ok());
  const ChildResult result = Audit("--verbose");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("PASS  mean AUC: all attacks"));
  EXPECT_THAT(result.out,
              EndsWith("\npolicy met by this run against the attacks that were run: 7 criteria; not against a peer "
                       "that reads a label from what it does to the top model, and so to later steps: only "
                       "noise on labels bounds that\n"));
}

TEST_F(AuditCommandTest, AConditionalBoundEndsWithTenUnlessThePolicyAcceptsIt) {
  ASSERT_TRUE(WriteLabelPartyLedger(ledger_, run_).ok());
  WriteText(policy_, "max_measured_leak { max_mean: 0.8 }");
  const ChildResult result = Audit();
  EXPECT_EQ(result.exit_code, 10);
  EXPECT_THAT(result.out, HasSubstr("FAIL  bound proved for any adversary"));
  EXPECT_THAT(result.out, EndsWith("\npolicy not met: 1 of 8 criteria failed\n"));
}

TEST_F(AuditCommandTest, ARunThatDoesNotEndsWithTenAndIsNoError) {
  run_.cosine_auc = 0.95;
  ASSERT_TRUE(WriteLabelPartyLedger(ledger_, run_).ok());
  const ChildResult result = Audit();
  EXPECT_EQ(result.exit_code, 10);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, HasSubstr("FAIL  mean AUC: all attacks"));
  EXPECT_THAT(result.out, HasSubstr("policy not met: "));
}

TEST_F(AuditCommandTest, ARunThatItsOwnScoresRefuteIsBrokenWhateverThePolicySays) {
  WriteText(policy_, "require_no_bound_exceeded: false require_proved_bound: false");
  ASSERT_TRUE(WriteLabelPartyLedger(ledger_, run_).ok());
  EXPECT_EQ(Audit().exit_code, 0);
  run_.run_id = "run-2";
  run_.mu_lower = 9;
  ASSERT_TRUE(WriteLabelPartyLedger(ledger_, run_).ok());
  const ChildResult result = Audit();
  EXPECT_EQ(result.exit_code, 10);
  EXPECT_THAT(result.out, HasSubstr("verdict: broken\n"));
  EXPECT_THAT(result.out, HasSubstr("FAIL  claimed mu not refuted by the run's own scores"));
}

TEST_F(AuditCommandTest, OneOfTwoRunsThatDoesNotEndsWithTen) {
  ASSERT_TRUE(WriteLabelPartyLedger(ledger_, run_).ok());
  run_.run_id = "run-2";
  run_.status = "halted";
  ASSERT_TRUE(WriteLabelPartyLedger(ledger_, run_).ok());
  const ChildResult result = Audit();
  EXPECT_EQ(result.exit_code, 10);
  EXPECT_THAT(result.out, HasSubstr(" failed, in 1 of 2 runs\n"));
}

TEST_F(AuditCommandTest, TheNonLabelPartysLedgerAloneIsNotEnough) {
  ASSERT_TRUE(WriteNonLabelPartyLedger(ledger_, run_).ok());
  const ChildResult result = Audit();
  EXPECT_EQ(result.exit_code, 10);
  EXPECT_THAT(result.out, HasSubstr("not measurable from this ledger"));
  EXPECT_THAT(result.out, HasSubstr("policy not decided: "));
  EXPECT_THAT(result.out, Not(HasSubstr("FAIL")));
}

TEST_F(AuditCommandTest, WritesThePageWhateverTheVerdict) {
  run_.cosine_auc = 0.95;
  ASSERT_TRUE(WriteLabelPartyLedger(ledger_, run_).ok());
  const std::string page = folder_.File("audit.html");
  EXPECT_EQ(Audit("--report=" + page).exit_code, 10);
  EXPECT_THAT(ReadFile(page).value(), HasSubstr("policy not met"));
}

TEST_F(AuditCommandTest, AMissingLedgerIsAnError) {
  EXPECT_THAT(ExpectError(2, {"audit", "--ledger=" + ledger_, "--policy=" + policy_}), HasSubstr(ledger_));
}

TEST_F(AuditCommandTest, AMissingPolicyIsAnError) {
  ASSERT_TRUE(WriteLabelPartyLedger(ledger_, run_).ok());
  EXPECT_THAT(ExpectError(2, {"audit", "--ledger=" + ledger_}), HasSubstr("expected --policy, found none"));
  EXPECT_THAT(ExpectError(2, {"audit", "--ledger=" + ledger_, "--policy=" + folder_.File("none")}), HasSubstr("none"));
}

TEST_F(AuditCommandTest, AMalformedPolicyIsAnErrorWithItsPlace) {
  ASSERT_TRUE(WriteLabelPartyLedger(ledger_, run_).ok());
  WriteText(policy_, "min_audited_share: 0.9\nmax_measured_leak { max_p95: 7 }");
  EXPECT_THAT(ExpectError(2, {"audit", "--ledger=" + ledger_, "--policy=" + policy_}),
              HasSubstr(policy_ + ":2:21: max_measured_leak[0].max_p95: expected "));
}

TEST_F(AuditCommandTest, APageThatCannotBeWrittenIsAnErrorWithoutAVerdict) {
  ASSERT_TRUE(WriteLabelPartyLedger(ledger_, run_).ok());
  EXPECT_THAT(ExpectError(2, {"audit", "--ledger=" + ledger_, "--policy=" + policy_,
                              "--report=" + folder_.File("none/audit.html")}),
              HasSubstr("none"));
}

}  // namespace
}  // namespace splitveil::testing
