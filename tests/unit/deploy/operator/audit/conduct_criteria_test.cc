#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <string>

#include "deploy/operator/audit/criteria.h"

#include "tests/unit/deploy/operator/audit/recorded_run.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

class ConductCriteriaTest : public ::testing::Test {
 protected:
  PartyRecords& party() { return run_.parties.front(); }
  Finding Judge(const std::string& criterion, const std::string& policy = "") {
    return splitveil::Judge(run_, policy, criterion);
  }

  LedgerRun run_ = RecordedRun();
};

TEST_F(ConductCriteriaTest, ACompletedRunPasses) { EXPECT_EQ(Judge("ended as agreed").outcome, Outcome::kMet); }

TEST_F(ConductCriteriaTest, ARunThatEndedOtherwiseFails) {
  for (const char* status : {"running", "stopped", "failed", "halted", ""}) {
    party().record.status = status;
    const Finding finding = Judge("ended as agreed");
    EXPECT_EQ(finding.outcome, Outcome::kNotMet) << status;
    EXPECT_EQ(finding.found, status);
  }
}

TEST_F(ConductCriteriaTest, OnePartyThatFailedFailsTheRun) {
  run_.parties.push_back(run_.parties.front());
  run_.parties.back().record.run.role = "nonlabel_party";
  run_.parties.back().record.status = "failed";
  const Finding finding = Judge("ended as agreed");
  EXPECT_EQ(finding.outcome, Outcome::kNotMet);
  EXPECT_THAT(finding.where, HasSubstr("non-label party's ledger"));
}

TEST_F(ConductCriteriaTest, AnUnfinishedRunPassesWhereThePolicySaysSo) {
  party().record.status = "stopped";
  v1::AuditPolicy policy;
  policy.set_require_completed(false);
  for (const Finding& finding : ConductFindings(run_, policy)) {
    EXPECT_NE(finding.criterion, "ended as agreed");
  }
}

TEST_F(ConductCriteriaTest, DisclosuresAreHeldToTheList) {
  EXPECT_EQ(Judge("disclosure").outcome, Outcome::kMet);
  party().events = {{"", "disclosure", "attack module reads: ORACLE"}};
  EXPECT_EQ(Judge("disclosure").outcome, Outcome::kNotMet);
  EXPECT_EQ(Judge("disclosure").found, "oracle");
  EXPECT_EQ(Judge("disclosure", "allowed_disclosures: ORACLE").outcome, Outcome::kMet);
}

TEST_F(ConductCriteriaTest, ALevelAllowsWhatTellsLess) {
  for (const char* level : {"LABEL_SIDE_ONLY", "ROUNDED", "ORACLE"}) {
    party().events = {{"", "disclosure", std::string("attack module reads: ") + level}};
    EXPECT_EQ(Judge("disclosure", "allowed_disclosures: ORACLE").outcome, Outcome::kMet) << level;
  }
  EXPECT_EQ(Judge("disclosure", "allowed_disclosures: ORACLE").limit, "at most oracle");
  party().events = {{"", "disclosure", "attack module reads: ROUNDED"}};
  EXPECT_EQ(Judge("disclosure", "allowed_disclosures: LABEL_SIDE_ONLY").outcome, Outcome::kNotMet);
  EXPECT_EQ(Judge("disclosure", "allowed_disclosures: LABEL_SIDE_ONLY").limit, "label_side_only");
}

TEST_F(ConductCriteriaTest, OneForbiddenDisclosureOfSeveralFails) {
  party().events.push_back({"", "disclosure", "attack module reads: ORACLE"});
  EXPECT_EQ(Judge("disclosure").outcome, Outcome::kNotMet);
}

TEST_F(ConductCriteriaTest, ADisclosureNobodyKnowsFails) {
  party().events = {{"", "disclosure", "everything"}};
  EXPECT_EQ(Judge("disclosure").outcome, Outcome::kNotMet);
}

TEST_F(ConductCriteriaTest, NoDisclosureRecordedIsNotMeasured) {
  party().events.clear();
  EXPECT_EQ(Judge("disclosure").outcome, Outcome::kNotMeasured);
}

TEST_F(ConductCriteriaTest, AnyProtectionButNonePassesByDefault) {
  EXPECT_EQ(Judge("gradient protection").outcome, Outcome::kMet);
  party().record.run.protection = "none";
  EXPECT_EQ(Judge("gradient protection").outcome, Outcome::kNotMet);
  party().record.run.protection = "";
  EXPECT_EQ(Judge("gradient protection").outcome, Outcome::kNotMet);
}

TEST_F(ConductCriteriaTest, ProtectionsAreHeldToTheListWithoutTheirParameters) {
  EXPECT_EQ(Judge("gradient protection", "allowed_protections: 'marvell'").outcome, Outcome::kMet);
  EXPECT_EQ(Judge("gradient protection", "allowed_protections: 'iso'").outcome, Outcome::kNotMet);
  EXPECT_EQ(Judge("gradient protection", "allowed_protections: 'mar'").outcome, Outcome::kNotMet);
}

TEST_F(ConductCriteriaTest, ARegulariserIsNoProtectionOfTheGradients) {
  party().record.run.protection = "none+distance_correlation(weight=0.1)";
  EXPECT_EQ(Judge("gradient protection").outcome, Outcome::kNotMet);
  party().record.run.protection = "max_norm+distance_correlation(weight=0.1)";
  for (ProtectionRow& row : party().protections) {
    row.method = "max_norm";
  }
  EXPECT_EQ(Judge("gradient protection", "allowed_protections: 'max_norm'").outcome, Outcome::kMet);
}

TEST_F(ConductCriteriaTest, OneStepThatLeftUnprotectedFails) {
  party().protections[7].method = "none";
  EXPECT_EQ(Judge("gradient protection").outcome, Outcome::kNotMet);
  EXPECT_EQ(Judge("gradient protection").where, "step 7");
  party().protections[7].gate = v1::FREEZE_BOTTOM;  // It did not leave.
  EXPECT_EQ(Judge("gradient protection").outcome, Outcome::kMet);
}

TEST_F(ConductCriteriaTest, AFallbackOfAnAllowedProtectionPasses) {
  party().protections[0].method = "marvell+fallback";
  EXPECT_EQ(Judge("gradient protection", "allowed_protections: 'marvell'").outcome, Outcome::kMet);
}

TEST_F(ConductCriteriaTest, NoStepIsNotMeasured) {
  party().protections.clear();
  EXPECT_EQ(Judge("gradient protection").outcome, Outcome::kNotMeasured);
  EXPECT_EQ(Judge("release gate").outcome, Outcome::kNotMeasured);
}

// Nobody can mend that ledger any more.
TEST_F(ConductCriteriaTest, ARunThatWasKilledBeforeItBeganHasReleasedNothing) {
  const RunRecord record = party().record;
  party() = PartyRecords();
  party().record = record;
  party().record.status = "running";
  party().record.finished_at.clear();
  for (const char* const criterion : {"gradient protection", "release gate"}) {
    EXPECT_EQ(Judge(criterion).outcome, Outcome::kMet);
    EXPECT_EQ(Judge(criterion).found, "no gradient was released");
    party().events = {{"", kReleasesFollow, "1000 examples"}};
    EXPECT_EQ(Judge(criterion).outcome, Outcome::kNotMeasured);  // It may have.
    party().events.clear();
  }
}

TEST_F(ConductCriteriaTest, GateDecisionsAreHeldToTheList) {
  EXPECT_EQ(Judge("release gate").outcome, Outcome::kMet);
  EXPECT_EQ(Judge("release gate").found, "release 20");
  party().protections[3].gate = v1::WARN;
  EXPECT_EQ(Judge("release gate").outcome, Outcome::kNotMet);
  EXPECT_EQ(Judge("release gate").where, "warn first at step 3");
  EXPECT_EQ(Judge("release gate", "allowed_gate_decisions: RELEASE allowed_gate_decisions: WARN").outcome,
            Outcome::kMet);
}

TEST_F(ConductCriteriaTest, WhatKeepsToTheLimitsPassesByDefault) {
  party().protections[3].gate = v1::RAISE_NOISE;
  party().protections[19].gate = v1::FREEZE_BOTTOM;
  EXPECT_EQ(Judge("release gate").outcome, Outcome::kMet);
  party().protections[19].gate = v1::HALT;
  EXPECT_EQ(Judge("release gate").outcome, Outcome::kNotMet);
}

TEST_F(ConductCriteriaTest, TheLastEvaluationIsJudged) {
  EXPECT_EQ(Judge("test examples", "min_final_test_auc: 0.75").outcome, Outcome::kMet);
  party().evaluations[1].auc = 0.7;
  party().evaluations[0].auc = 0.9;
  EXPECT_EQ(Judge("test examples", "min_final_test_auc: 0.75").outcome, Outcome::kNotMet);
}

TEST_F(ConductCriteriaTest, NoEvaluationOfTestExamplesIsNotMeasured) {
  party().evaluations = {{20, "train", 0.5, 0.9, 0.9, 0.01},
                         {20, "test", 0.5, std::numeric_limits<double>::quiet_NaN(), 0.9, 0.01}};
  EXPECT_EQ(Judge("test examples", "min_final_test_auc: 0.7").outcome, Outcome::kNotMeasured);
}

}  // namespace
}  // namespace splitveil
