#include "common/monitoring/monitoring_plan.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "common/crypto/sha256.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class MonitoringPlanTest : public ::testing::Test {
 protected:
  MonitoringPlanTest() { WriteToken("0123456789abcdef\n"); }

  void WriteToken(const std::string& token, std::filesystem::perms mode = std::filesystem::perms(0600)) {
    std::ofstream(folder_.File("token")) << token;
    std::filesystem::permissions(folder_.File("token"), mode);
  }
  absl::StatusOr<std::optional<MonitoringPlan>> Plan(const std::string& address, const std::string& token = "") {
    v1::PartyCommon party;
    party.mutable_monitoring()->set_listen_address(address);
    party.mutable_monitoring()->set_token_path(token.empty() ? "" : folder_.File(token));
    return PlanMonitoring(party, config_, TlsIdentity());
  }
  void ExpectRefused(const absl::StatusOr<std::optional<MonitoringPlan>>& plan, const std::string& text) {
    EXPECT_THAT(std::string(plan.status().message()),
                AllOf(StartsWith(config_ + ": party.monitoring."), HasSubstr(text)));
  }

  const testing::TempFolder folder_;
  const std::string config_ = folder_.File("party.textproto");
};

TEST_F(MonitoringPlanTest, NoneIsConfigured) {
  const absl::StatusOr<std::optional<MonitoringPlan>> plan = PlanMonitoring(v1::PartyCommon(), config_, TlsIdentity());
  ASSERT_TRUE(plan.ok());
  EXPECT_FALSE(plan->has_value());
}

TEST_F(MonitoringPlanTest, LoopbackNeedsNoToken) {
  for (const char* address : {"127.0.0.1:9443", "127.8.8.8:0", "[::1]:9443"}) {
    const absl::StatusOr<std::optional<MonitoringPlan>> plan = Plan(address);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_TRUE((*plan)->is_loopback);
    EXPECT_FALSE((*plan)->token_sha256.has_value());
  }
}

TEST_F(MonitoringPlanTest, AnyOtherAddressDoes) {
  for (const char* address : {"0.0.0.0:9443", "[::]:9443", "192.168.0.1:9443", "[::2]:1"}) {
    ExpectRefused(Plan(address), "expected a token file for an address that others can reach");
    const absl::StatusOr<std::optional<MonitoringPlan>> plan = Plan(address, "token");
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_FALSE((*plan)->is_loopback);
    EXPECT_EQ((*plan)->token_sha256, Sha256("0123456789abcdef"));
  }
}

TEST_F(MonitoringPlanTest, ANameIsNoAddress) {
  ExpectRefused(Plan("localhost:9443"), "expected an IPv4 or IPv6 address with a port, found \"localhost\"");
  ExpectRefused(Plan("127.0.0.1"), "expected host:port");
}

TEST_F(MonitoringPlanTest, ATokenIsALineOfItsOwnersAlone) {
  WriteToken("0123456789abcdef", std::filesystem::perms(0640));
  ExpectRefused(Plan("127.0.0.1:1", "token"), "users other than its owner may read this token (mode 640)");
  for (const char* bad : {"short\n", "0123456789abcdef \n", "0123456789abcdef\nmore\n", ""}) {
    WriteToken(bad);
    ExpectRefused(Plan("127.0.0.1:1", "token"), "expected one line of 16 to 256 printable characters");
  }
  WriteToken("0123456789abcdef\r\n");
  ExpectRefused(Plan("127.0.0.1:1", "token"), "found a carriage return at its end");
  ExpectRefused(Plan("127.0.0.1:1", "none"), "none");
}

// Not even the size and place in a message tell what it is.
TEST_F(MonitoringPlanTest, NoErrorHoldsTheToken) {
  WriteToken("secret words here\n");
  EXPECT_EQ(Plan("127.0.0.1:1", "token").status().message().find("secret"), std::string::npos);
}

}  // namespace
}  // namespace splitveil
