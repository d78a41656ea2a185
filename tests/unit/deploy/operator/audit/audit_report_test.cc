#include "deploy/operator/audit/audit_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "absl/time/clock.h"

#include "common/process/file.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil {
namespace {

TEST(AuditReportTest, NamesEveryFileByItsDigest) {
  const testing::TempFolder folder;
  ASSERT_TRUE(WriteFile(folder.File("policy.textproto"), "abc").ok());
  ASSERT_TRUE(WriteFile(folder.File("a.db"), std::string(3 << 20, 'x')).ok());
  const absl::StatusOr<AuditSubject> subject =
      DescribeAuditSubject(folder.File("policy.textproto"), {folder.File("a.db")}, absl::FromUnixSeconds(1700000000));
  ASSERT_TRUE(subject.ok()) << subject.status();
  EXPECT_EQ(subject->policy.name, "policy.textproto");
  // FIPS 180-2, appendix B.1.
  EXPECT_EQ(subject->policy.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  ASSERT_EQ(subject->ledgers.size(), 1);
  EXPECT_EQ(subject->ledgers[0].name, "a.db");
  EXPECT_EQ(subject->ledgers[0].sha256.size(), 64);
  EXPECT_EQ(subject->judged_at, "2023-11-14T22:13:20Z");
}

TEST(AuditReportTest, RefusesAFileThatIsNotThere) {
  const testing::TempFolder folder;
  EXPECT_EQ(DescribeAuditSubject(folder.File("absent"), {}, absl::Now()).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(WriteFile(folder.File("policy.textproto"), "").ok());
  EXPECT_EQ(
      DescribeAuditSubject(folder.File("policy.textproto"), {folder.File("absent.db")}, absl::Now()).status().code(),
      absl::StatusCode::kNotFound);
}

using ::testing::HasSubstr;

absl::StatusOr<v1::AuditPolicy> Load(const std::string& text) {
  const testing::TempFolder folder;
  const std::string path = folder.File("policy.textproto");
  EXPECT_TRUE(WriteFile(path, text).ok());
  return LoadAuditPolicy(path);
}

void ExpectRefused(const std::string& text, const std::string& words) {
  const absl::StatusOr<v1::AuditPolicy> policy = Load(text);
  EXPECT_EQ(policy.status().code(), absl::StatusCode::kInvalidArgument) << text;
  EXPECT_THAT(std::string(policy.status().message()), HasSubstr(words));
}

TEST(AuditPolicyTest, AnEmptyPolicyHasItsDefaults) {
  const absl::StatusOr<v1::AuditPolicy> policy = Load("");
  ASSERT_TRUE(policy.ok()) << policy.status();
  EXPECT_EQ(policy->allowed_disclosures_size(), 2);
  EXPECT_EQ(policy->allowed_gate_decisions_size(), 3);
  EXPECT_EQ(policy->min_audited_share(), 0.9);
  EXPECT_TRUE(policy->require_completed());
  EXPECT_TRUE(policy->require_no_bound_exceeded());
}

TEST(AuditPolicyTest, ListsThatAreSetReplaceTheDefaults) {
  const absl::StatusOr<v1::AuditPolicy> policy = Load("allowed_disclosures: ORACLE allowed_gate_decisions: WARN");
  ASSERT_TRUE(policy.ok()) << policy.status();
  ASSERT_EQ(policy->allowed_disclosures_size(), 1);
  EXPECT_EQ(policy->allowed_disclosures(0), v1::ORACLE);
  EXPECT_EQ(policy->allowed_gate_decisions_size(), 1);
}

TEST(AuditPolicyTest, TheDemosPolicyIsValid) {
  const absl::StatusOr<v1::AuditPolicy> policy = LoadAuditPolicy("deploy/demo/policy.textproto");
  EXPECT_TRUE(policy.ok()) << policy.status();
}

TEST(AuditPolicyTest, ErrorsSayLineAndColumn) {
  ExpectRefused("min_audited_share: 0.5\nmax_measured_tpr_at_1pct_fpr: 2", ":2:1: max_measured_tpr_at_1pct_fpr");
  ExpectRefused("max_measured_leak {\n  max_p95: 0.4\n}", ":2:3: max_measured_leak[0].max_p95");
  ExpectRefused("\n\nmax_lek { }", ":3:");
  ExpectRefused("allowed_disclosures: EVERYTHING", ":1:");
}

TEST(AuditPolicyTest, UnspecifiedValuesAreRefused) {
  ExpectRefused("allowed_disclosures: DISCLOSURE_LEVEL_UNSPECIFIED", "allowed_disclosures");
  ExpectRefused("allowed_gate_decisions: GATE_ACTION_UNSPECIFIED", "allowed_gate_decisions");
}

TEST(AuditPolicyTest, ALimitThatLimitsNothingIsRefused) {
  ExpectRefused("max_measured_leak { max_mean: 0.6 }\nmax_measured_leak { attack: \"norm\" }",
                "max_measured_leak[1]: expected max_mean");
}

TEST(AuditPolicyTest, AMissingPolicyIsNotFound) {
  EXPECT_EQ(LoadAuditPolicy("/nonexistent/policy.textproto").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace

}  // namespace splitveil
