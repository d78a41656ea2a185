// A configuration of an earlier version is refused with the new name of what it says.
#include "common/config/renamed_names.h"

#include <gtest/gtest.h>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "common/config/text_config.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/audit_policy.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {
namespace {

template <typename Message>
std::string ErrorOf(const std::string& text) {
  Message message;
  const absl::Status status = ParseTextConfig(text, "run.textproto", message);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(status.message());
}

TEST(RenamedNamesTest, AnOldFieldIsRefusedWithPlaceAndNewName) {
  EXPECT_EQ(ErrorOf<v1::RunAgreement>("run_name: 'x'\naudit {\n  grant: ORACLE\n}\n"),
            "run.textproto:3:3: audit.grant: was renamed to disclosure");
  EXPECT_EQ(ErrorOf<v1::RunAgreement>("predict_first: true"),
            "run.textproto:1:1: predict_first: was renamed to progressive_validation");
  EXPECT_EQ(ErrorOf<v1::LabelPartyConfig>("audit { every_batches: 4 }"),
            "run.textproto:1:1: audit: was renamed to label_side_audit");
  EXPECT_EQ(ErrorOf<v1::LabelPartyConfig>("protection { marvell { run_budget { s_growth: 2 } } }"),
            "run.textproto:1:37: protection.marvell.run_budget.s_growth: was renamed to noise_growth_per_epoch");
  EXPECT_EQ(ErrorOf<v1::AuditPolicy>("max_remembered_auc: 0.7"),
            "run.textproto:1:1: max_remembered_auc: was renamed to max_measured_cumulative_auc");
}

TEST(RenamedNamesTest, AnOldValueIsRefusedWithPlaceAndNewName) {
  EXPECT_EQ(ErrorOf<v1::RunAgreement>("audit { attacks: HINT_DISTANCE_3 }"),
            "run.textproto:1:18: audit.attacks: HINT_DISTANCE_3 was renamed to HINT_DISTANCE with hint_counts: 3");
  EXPECT_EQ(ErrorOf<v1::RunAgreement>("audit { attacks: [NORM, REMEMBERED_SPECTRAL] }"),
            "run.textproto:1:25: audit.attacks: REMEMBERED_SPECTRAL was renamed to CUMULATIVE_SPECTRAL");
  // The number of an attack that is no more.
  EXPECT_NE(ErrorOf<v1::RunAgreement>("audit { attacks: 5 }").find("audit.attacks: expected NORM, "),
            std::string::npos);
}

TEST(RenamedNamesTest, ANameIsOldOnlyWhereItWasUsed) {
  EXPECT_NE(ErrorOf<v1::LabelPartyConfig>("grant: 3").find("expected a field of LabelPartyConfig"), std::string::npos);
  EXPECT_NE(ErrorOf<v1::RunAgreement>("wire_dtype: HINT_DISTANCE_3").find("expected FLOAT32"), std::string::npos);
  v1::RunAgreement agreement;  // The agreement's audit is still called so.
  EXPECT_TRUE(ParseTextConfig("run_name: 'x' cut_width: 1 audit { every_batches: 2 }", "f", agreement).ok());
}

// Whether `owner` has the name, as a field or a value.
bool Has(const google::protobuf::DescriptorPool& pool, const RenamedName& renamed, const std::string& name) {
  const std::string owner = absl::StrCat("splitveil.v1.", std::string(renamed.owner));
  if (const google::protobuf::Descriptor* message = pool.FindMessageTypeByName(owner); message != nullptr) {
    return message->FindFieldByName(name) != nullptr;
  }
  const google::protobuf::EnumDescriptor* type = pool.FindEnumTypeByName(owner);
  EXPECT_NE(type, nullptr) << owner;
  return type != nullptr && type->FindValueByName(name) != nullptr;
}

TEST(RenamedNamesTest, EveryLineOfTheTableNamesWhatTheSchemaHas) {
  v1::LabelPartyConfig::descriptor();  // Links the schemas in.
  v1::AuditPolicy::descriptor();
  const auto& pool = *google::protobuf::DescriptorPool::generated_pool();
  std::set<std::pair<std::string, std::string>> seen;
  for (const RenamedName& renamed : RenamedNames()) {
    const std::string old_name(renamed.old_name);
    const std::vector<std::string> words = absl::StrSplit(renamed.new_name, ' ');
    EXPECT_FALSE(Has(pool, renamed, old_name)) << renamed.owner << " still has " << old_name;
    EXPECT_TRUE(Has(pool, renamed, words[0])) << renamed.owner << " has no " << words[0];
    EXPECT_TRUE(seen.emplace(renamed.owner, old_name).second) << old_name;
  }
}

}  // namespace
}  // namespace splitveil
