#include <gtest/gtest.h>
#include <string>

#include "common/operations/run_summary.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil {
namespace {

class UntoldEndTest : public ::testing::Test {
 protected:
  const testing::TempFolder folder_;
  const std::string ledger_ = folder_.File("party.db");
  v1::RunAgreement agreement_;
};

TEST_F(UntoldEndTest, IsFoundUntilItIsToldOrForgotten) {
  EXPECT_FALSE(FindUntoldEnd(ledger_, agreement_).has_value());
  for (const bool told : {true, false}) {
    ASSERT_TRUE(KeepUntoldEnd(ledger_, agreement_, {"run-1", "RESULT {}"}).ok());
    const std::optional<UntoldEnd> end = FindUntoldEnd(ledger_, agreement_);
    ASSERT_TRUE(end.has_value());
    EXPECT_EQ(end->run_id, "run-1");
    EXPECT_EQ(end->result, "RESULT {}");
    told ? TellOf(*end, ledger_) : ForgetUntoldEnd(ledger_);
    EXPECT_FALSE(FindUntoldEnd(ledger_, agreement_).has_value());
  }
  ForgetUntoldEnd(ledger_);
}

TEST_F(UntoldEndTest, IsOfItsAgreementAlone) {
  ASSERT_TRUE(KeepUntoldEnd(ledger_, agreement_, {"run-1", ""}).ok());
  agreement_.set_epochs(7);
  EXPECT_FALSE(FindUntoldEnd(ledger_, agreement_).has_value());
}

TEST_F(UntoldEndTest, AnErrorNamesWhereItCannotBeKept) {
  const absl::Status status = KeepUntoldEnd(folder_.File("absent/party.db"), agreement_, {"run-1", ""});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

}  // namespace
}  // namespace splitveil
