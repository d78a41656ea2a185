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

}  // namespace
}  // namespace splitveil
