#include <algorithm>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <map>
#include <string>

#include "deploy/operator/agreement/agreement_command.h"

#include "common/config/agreement.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::RunAgreement Agreement() {
  v1::RunAgreement agreement;
  agreement.set_run_name("June");
  agreement.set_cut_width(64);
  Canonicalize(agreement);
  return agreement;
}

std::map<std::string, AgreedValue> ByField(const v1::RunAgreement& agreement) {
  std::map<std::string, AgreedValue> fields;
  for (const AgreedValue& value : AgreedValues(agreement)) {
    fields[value.field] = value;
  }
  return fields;
}

TEST(AgreedValuesTest, EveryFieldOfTheSchemaHasAMeaning) {
  for (const AgreedValue& value : AgreedValues(Agreement())) {
    EXPECT_STRNE(value.meaning, "") << value.field << ": say in agreed_values.cc what it means or discloses";
  }
}

TEST(AgreedValuesTest, TellsDefaultsFromOthers) {
  v1::RunAgreement agreement = Agreement();
  agreement.set_epochs(7);
  const auto fields = ByField(agreement);
  EXPECT_EQ(fields.at("epochs").value, "7");
  EXPECT_EQ(fields.at("epochs").default_value, "5");
  EXPECT_FALSE(fields.at("epochs").is_default);
  EXPECT_TRUE(fields.at("batch_size").is_default);
  EXPECT_EQ(fields.at("run_name").default_value, "") << "it has none";
  EXPECT_EQ(fields.at("cut_layer").value, "none");
  EXPECT_EQ(fields.at("deadlines.connect_seconds").value, "60");
}

TEST(AgreedValuesTest, DefaultsDiscloseNoMoreThanThemselves) {
  for (const AgreedValue& value : AgreedValues(Agreement())) {
    EXPECT_EQ(value.discloses_more, Concern::kNone) << value.field;
  }
}

TEST(AgreedValuesTest, FlagsWhatTellsMoreOfLabelsAndOfFeatures) {
  v1::RunAgreement agreement = Agreement();
  agreement.mutable_audit()->set_disclosure(v1::ORACLE);
  agreement.mutable_audit()->set_auxiliary_labels(10);
  agreement.set_minimum_batch_size(4);
  agreement.set_cut_layer("embedding");
  agreement.mutable_attribute_audit()->set_embed_auxiliary(true);
  agreement.mutable_attribute_audit()->add_attributes("sex");
  const auto fields = ByField(agreement);
  for (const char* field : {"audit.disclosure", "audit.auxiliary_labels", "minimum_batch_size"}) {
    EXPECT_EQ(fields.at(field).discloses_more, Concern::kLabels) << field;
  }
  for (const char* field : {"cut_layer", "attribute_audit.embed_auxiliary", "attribute_audit.attributes"}) {
    EXPECT_EQ(fields.at(field).discloses_more, Concern::kFeatures) << field;
  }
}

TEST(AgreedValuesTest, RoundedAnswersAreFlaggedWhereTheyTellMoreThanByDefault) {
  v1::RunAgreement agreement = Agreement();
  agreement.mutable_audit()->mutable_rounded()->set_mu(0.5);
  EXPECT_EQ(ByField(agreement).at("audit.rounded.mu").discloses_more, Concern::kNone) << "nothing is answered";
  agreement.mutable_audit()->set_disclosure(v1::ROUNDED);
  EXPECT_EQ(ByField(agreement).at("audit.rounded.mu").discloses_more, Concern::kLabels);
  EXPECT_EQ(ByField(agreement).at("audit.rounded.minimum_batch").discloses_more, Concern::kNone);
}

TEST(AgreedValuesTest, EachPartyIsAskedForItsOwnSecretsAlone) {
  v1::RunAgreement agreement = Agreement();
  agreement.mutable_audit()->set_disclosure(v1::ORACLE);
  agreement.set_cut_layer("embedding");
  const auto values = AgreedValues(agreement);
  EXPECT_THAT(NotAllowed(values, v1::LabelPartyConfig(), {}), ElementsAre("audit.disclosure"));
  EXPECT_THAT(NotAllowed(values, v1::NonLabelPartyConfig(), {}), ElementsAre("cut_layer"));
  EXPECT_THAT(NotAllowed(values, v1::LabelPartyConfig(), {"audit.disclosure"}), IsEmpty());
  EXPECT_THAT(NotAllowed(values, v1::LabelPartyConfig(), {"cut_layer"}), ElementsAre("audit.disclosure"));
}

v1::LabelPartyConfig Protected(const char* protection) {
  v1::LabelPartyConfig config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(protection, config.mutable_protection())) << protection;
  return config;
}

TEST(AgreedValuesTest, ManyEpochsAreAskedForWhereNoiseIsStatedPerRelease) {
  v1::RunAgreement agreement = Agreement();
  agreement.set_epochs(10);  // As `splitveil init` proposes for a small table.
  EXPECT_THAT(NotAllowed(AgreedValues(agreement), Protected("none {}"), {}), IsEmpty());
  agreement.set_epochs(100'000);
  const auto values = AgreedValues(agreement);
  for (const char* per_release : {"none {}", "iso { t: 1 }", "max_norm {}", "marvell { s: 4 }",
                                  "sparsify { keep: 0.1 }", "discretize { bins: 4 }"}) {
    EXPECT_THAT(NotAllowed(values, Protected(per_release), {}), ElementsAre("epochs")) << per_release;
    EXPECT_THAT(NotAllowed(values, Protected(per_release), {"epochs"}), IsEmpty()) << per_release;
  }
  for (const char* whole_run :
       {"marvell { run_budget {} }", "gaussian_label_dp { mu: 1 }", "label_dp { epsilon: 1 }"}) {
    EXPECT_THAT(NotAllowed(values, Protected(whole_run), {}), IsEmpty()) << whole_run;
  }
  v1::NonLabelPartyConfig features;
  EXPECT_THAT(NotAllowed(values, features, {}), IsEmpty()) << "activations leave without noise from the first epoch on";
  features.mutable_protection();
  EXPECT_THAT(NotAllowed(values, features, {}), ElementsAre("epochs"));
}

TEST(AgreedValuesTest, ALargerTableOfThePeersIsAskedForAtBothParties) {
  v1::RunAgreement agreement = Agreement();
  agreement.mutable_alignment()->set_max_ids(100'000'001);
  const auto values = AgreedValues(agreement);
  EXPECT_THAT(NotAllowed(values, v1::LabelPartyConfig(), {}), ElementsAre("alignment.max_ids"));
  EXPECT_THAT(NotAllowed(values, v1::NonLabelPartyConfig(), {}), ElementsAre("alignment.max_ids"));
}

TEST(AgreedValuesTest, TheTableMarksWhatIsNotTheDefault) {
  v1::RunAgreement agreement = Agreement();
  agreement.set_epochs(7);
  agreement.mutable_audit()->set_disclosure(v1::ORACLE);
  const std::string text = AgreedValuesText(AgreedValues(agreement));
  EXPECT_THAT(text, HasSubstr("\n* epochs"));
  EXPECT_THAT(text, HasSubstr("7 (default 5)"));
  EXPECT_THAT(text, HasSubstr("\n! audit.disclosure"));
  EXPECT_THAT(text, HasSubstr("\n  batch_size"));
}

}  // namespace
}  // namespace splitveil
