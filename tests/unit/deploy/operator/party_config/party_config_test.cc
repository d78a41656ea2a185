#include "deploy/operator/party_config/party_config.h"

#include <string>
#include <variant>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/testing/process/temp_folder.h"
#include "tests/unit/deploy/operator/operator_tool.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class PartyConfigTest : public ::testing::Test {
 protected:
  absl::StatusOr<PartyConfig> Load(const std::string& text, const std::string& role = "") const {
    WriteText(path_, text);
    return LoadPartyConfig(path_, role);
  }
  // The message of the refusal.
  std::string Refusal(const std::string& text, const std::string& role = "") const {
    const absl::Status status = Load(text, role).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  }

  TempFolder folder_;
  const std::string path_ = folder_.File("party.textproto");
};

TEST_F(PartyConfigTest, TheFieldsTellTheRole) {
  EXPECT_TRUE(std::holds_alternative<v1::LabelPartyConfig>(Load(LabelConfig()).value()));
  EXPECT_TRUE(std::holds_alternative<v1::NonLabelPartyConfig>(Load(NonLabelConfig()).value()));
}

TEST_F(PartyConfigTest, AGivenRoleIsHeldTo) {
  EXPECT_TRUE(Load(LabelConfig(), kLabelPartyRole).ok());
  EXPECT_THAT(Refusal(LabelConfig(), kNonLabelPartyRole), HasSubstr("protection"));
  EXPECT_THAT(Refusal(NonLabelConfig(), kLabelPartyRole), HasSubstr("peer_address"));
}

TEST_F(PartyConfigTest, TheErrorIsThatOfThePartyTheFileSeemsToBeOf) {
  EXPECT_THAT(Refusal(LabelConfig("protecton { none {} }\n")), HasSubstr("protecton"));
  EXPECT_THAT(Refusal(NonLabelConfig("listen_adress: \"x\"\n")), HasSubstr("listen_adress"));
  EXPECT_THAT(Refusal(absl::StrReplaceAll(NonLabelConfig(), {{"adam {}", ""}})), HasSubstr("optimizer"));
  EXPECT_THAT(Refusal(absl::StrReplaceAll(LabelConfig(), {{"adam {}", ""}})), HasSubstr("optimizer"));
}

TEST_F(PartyConfigTest, AFileOfNeitherPartyIsRefused) {
  EXPECT_EQ(Refusal("run_name: \"demo\"\ncut_width: 16\n"),
            path_ +
                ": expected a party's configuration, with protection (label party) or peer_address (non-label "
                "party), found neither");
}

TEST_F(PartyConfigTest, TextThatIsNoneIsRefusedWithItsPlace) {
  EXPECT_THAT(Refusal("party {\n"), StartsWith(path_ + ":"));
  EXPECT_THAT(Refusal("\x01\x02"), StartsWith(path_ + ":"));
}

TEST_F(PartyConfigTest, AMissingFileIsNotFound) {
  EXPECT_EQ(LoadPartyConfig(folder_.File("none")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(LoadPartyConfig(folder_.File("none"), kNonLabelPartyRole).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace splitveil::testing
