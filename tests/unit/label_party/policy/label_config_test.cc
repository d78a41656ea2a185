// What the label party's configuration is refused for before a run.
#include "label_party/policy/label_config.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <string>

#include "absl/strings/str_cat.h"

#include "common/leakage/attack_traits.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// `fields` beside the required ones, which the schema's own checks have seen to.
absl::Status Verdict(const std::string& fields, int batch_size = 1024) {
  v1::LabelPartyConfig config;
  google::protobuf::TextFormat::Parser parser;
  parser.AllowPartialMessage(true);
  EXPECT_TRUE(parser.ParseFromString(fields, &config)) << fields;
  v1::RunAgreement agreement;
  agreement.set_batch_size(batch_size);
  return ValidateLabelConfig(config, agreement);
}

TEST(ValidateLabelConfigTest, TakesEveryAttackOnBatchesTogether) {
  std::string attacks;
  for (const AttackTraits& traits : AllAttackTraits()) {
    if (!traits.once_per_run()) {
      attacks += "attacks: " + v1::Attack_Name(traits.attack) + " ";
    }
  }
  EXPECT_TRUE(Verdict("label_side_audit { " + attacks + "}").ok());
  EXPECT_TRUE(Verdict("label_side_audit { every_batches: 7 }").ok());
  EXPECT_TRUE(Verdict("").ok());
}

TEST(ValidateLabelConfigTest, RefusesAttacksThatRunOncePerRun) {
  for (const std::string attack : {"MODEL_COMPLETION", "FEATURES_ONLY"}) {
    const absl::Status status = Verdict("label_side_audit { attacks: NORM attacks: " + attack + " }");
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), "label_side_audit.attacks[1]: expected an attack that scores batches, found " + attack +
                                    ", once per run");
  }
}

TEST(ValidateLabelConfigTest, RefusesAnAttackTwice) {
  EXPECT_EQ(Verdict("label_side_audit { attacks: NORM attacks: COSINE attacks: NORM }").message(),
            "label_side_audit.attacks[2]: expected each attack once, found NORM again");
}

TEST(ValidateLabelConfigTest, RefusesAHintCountTwice) {
  EXPECT_TRUE(Verdict("label_side_audit { hint_counts: [5, 2] }").ok());
  EXPECT_EQ(Verdict("label_side_audit { hint_counts: [5, 2, 5] }").message(),
            "label_side_audit.hint_counts[2]: expected each number once, found 5 again");
}

TEST(ValidateLabelConfigTest, RefusesAnAttackThatIsNone) {
  EXPECT_EQ(Verdict("label_side_audit { attacks: ATTACK_UNSPECIFIED }").message(),
            "label_side_audit.attacks[0]: expected an attack of leak_audit.proto, found number 0");
}

// An open enumeration lets numbers through that have no name.
TEST(ValidateLabelConfigTest, RefusesANumberWithoutAnAttack) {
  v1::LabelPartyConfig config;
  config.mutable_label_side_audit()->mutable_attacks()->Add(v1::Attack_MAX + 1);
  EXPECT_THAT(std::string(ValidateLabelConfig(config, v1::RunAgreement()).message()),
              HasSubstr("label_side_audit.attacks[0]: expected an attack"));
}

TEST(ValidateLabelConfigTest, AttacksOnAttributesNeedWhatTheyKnowAndNothingElseDoes) {
  v1::RunAgreement agreement;
  v1::LabelPartyConfig config;
  EXPECT_TRUE(ValidateLabelConfig(config, agreement).ok());
  config.mutable_attribute_attack()->mutable_auxiliary()->set_path("known.data");
  EXPECT_THAT(std::string(ValidateLabelConfig(config, agreement).message()),
              HasSubstr("attribute_attack is set, but the agreement has no attribute_audit.attacks"));
  agreement.mutable_attribute_audit()->add_attributes("sex");
  agreement.mutable_attribute_audit()->add_attacks(v1::BASIC);
  EXPECT_TRUE(ValidateLabelConfig(config, agreement).ok());
  config.mutable_attribute_attack()->mutable_shadow_model();
  EXPECT_THAT(std::string(ValidateLabelConfig(config, agreement).message()),
              HasSubstr("attribute_attack.shadow_model: expected none without the agreed attack SIMULATOR, found one"));
  agreement.mutable_attribute_audit()->add_attacks(v1::SIMULATOR);
  EXPECT_TRUE(ValidateLabelConfig(config, agreement).ok());
  config.mutable_attribute_attack()->clear_shadow_model();
  EXPECT_THAT(std::string(ValidateLabelConfig(config, agreement).message()),
              HasSubstr("attribute_attack.shadow_model: expected one beside the agreed attack SIMULATOR, found none"));
  config.clear_attribute_attack();
  EXPECT_THAT(std::string(ValidateLabelConfig(config, agreement).message()),
              HasSubstr("attribute_attack: the agreement has attribute_audit.attacks: set what"));
}

TEST(ValidateLabelConfigTest, LimitsTheBatchOfADistanceCorrelation) {
  const std::string regularised = "protection { none {} distance_correlation { weight: 0.1 } }";
  EXPECT_TRUE(Verdict(regularised, 16384).ok());
  const absl::Status status = Verdict(regularised, 16385);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "protection.distance_correlation: expected an agreement with a batch_size of at most 16384, found 16385");
}

TEST(ValidateLabelConfigTest, LeavesTheBatchOfOtherMethodsAlone) {
  EXPECT_TRUE(Verdict("protection { marvell { s: 4 } }", 1048576).ok());
}

TEST(ValidateLabelConfigTest, RefusesEarlyStoppingWithoutTestExamples) {
  EXPECT_TRUE(Verdict("early_stopping {}").ok());
  v1::LabelPartyConfig config;
  config.mutable_early_stopping();
  v1::RunAgreement agreement;
  agreement.set_test_fraction(0);
  EXPECT_TRUE(ValidateLabelConfig(config, agreement).ok());  // The validation part serves.
  agreement.set_validation_fraction(0);
  EXPECT_EQ(ValidateLabelConfig(config, agreement).message(),
            "early_stopping: expected an agreement with a validation_fraction or a test_fraction above 0, found 0");
}

TEST(ValidateLabelConfigTest, KeepsTheBestEpochWhereNothingGuaranteedTellsOfIt) {
  const std::string guaranteed =
      "protection { gaussian_label_dp { sigma: 2 } } privacy_account { path: 'a.db' label_set: 'clicks' } ";
  const auto kept = [](const std::string& text, const v1::RunAgreement& agreement = {}) {
    v1::LabelPartyConfig config;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config));
    return std::string(KeepName(KeepByOf(config, agreement)));
  };
  EXPECT_EQ(kept("protection { none {} }"), "validation");
  EXPECT_EQ(kept("protection { marvell {} }"), "last");  // Not unasked: it tells of held-out labels.
  EXPECT_EQ(kept("protection { marvell {} } keep: BEST"), "validation");
  EXPECT_EQ(kept("protection { none {} } keep: LAST"), "last");
  EXPECT_EQ(kept(guaranteed), "last");
  EXPECT_EQ(kept("protection { label_dp {} }"), "last");
  v1::RunAgreement agreement;
  agreement.set_validation_fraction(0);
  EXPECT_EQ(kept("protection { none {} }", agreement), "test");
  agreement.set_test_fraction(0);
  EXPECT_EQ(kept("protection { none {} }", agreement), "last");
  v1::LabelPartyConfig config;
  config.set_keep(v1::LabelPartyConfig::BEST);
  EXPECT_THAT(std::string(ValidateLabelConfig(config, agreement).message()), HasSubstr("keep: expected LAST"));
  agreement = {};
  agreement.set_progressive_validation(true);
  EXPECT_EQ(kept("protection { none {} }", agreement), "last");
  EXPECT_TRUE(Verdict("keep: BEST").ok());
  EXPECT_THAT(std::string(Verdict(guaranteed + "keep: BEST").message()), HasSubstr("keep: expected LAST"));
  EXPECT_THAT(std::string(Verdict("protection { label_dp {} } keep: BEST").message()),
              HasSubstr("keep: expected LAST"));
}

// Whatever else would let true labels move what the peer receives.
TEST(ValidateLabelConfigTest, GaussianLabelDpLeavesNoSideDoor) {
  const std::string protection =
      "protection { gaussian_label_dp { sigma: 2 } } privacy_account { path: 'a.db' label_set: 'clicks' } ";
  EXPECT_TRUE(Verdict(protection).ok());
  EXPECT_THAT(std::string(Verdict(protection + "early_stopping {}").message()),
              HasSubstr("early_stopping: expected none"));
  EXPECT_THAT(std::string(Verdict(protection + "release { max_measured_leak: 0.7 }").message()),
              HasSubstr("release.max_measured_leak: expected 1"));
  EXPECT_THAT(std::string(Verdict(protection + "model { torchscript_path: 'top.pt' }").message()),
              HasSubstr("model.torchscript_path: expected none"));
  EXPECT_THAT(
      std::string(
          Verdict("protection { gaussian_label_dp { sigma: 2 } distance_correlation { weight: 1 } } privacy_account {}")
              .message()),
      HasSubstr("protection.distance_correlation: expected none"));
  v1::LabelPartyConfig config;
  config.mutable_protection()->mutable_gaussian_label_dp()->set_sigma(2);
  config.mutable_privacy_account();
  v1::RunAgreement agreement;
  for (v1::DisclosureLevel disclosure : {v1::ROUNDED, v1::ORACLE}) {
    agreement.mutable_audit()->set_disclosure(disclosure);
    EXPECT_THAT(std::string(ValidateLabelConfig(config, agreement).message()), HasSubstr("LABEL_SIDE_ONLY"));
  }
}

TEST(ValidateLabelConfigTest, AWorstCaseIsBoundedWhereTheNoiseIsStated) {
  const std::string limit = " release { max_worst_case_auc_bound: 0.75 action: HALT }";
  for (const char* protection : {"iso { t: 1 }", "marvell { s: 4 orthogonal_noise_ratio: 4 }"}) {
    EXPECT_TRUE(Verdict(absl::StrCat("protection { ", protection, " }", limit)).ok()) << protection;
  }
  for (const char* protection : {"none {}", "max_norm {}", "label_dp { epsilon: 1 }", "sparsify { keep: 0.5 }"}) {
    EXPECT_THAT(std::string(Verdict(absl::StrCat("protection { ", protection, " }", limit)).message()),
                HasSubstr("release.max_worst_case_auc_bound: expected 1, or protection iso or marvell"))
        << protection;
  }
  EXPECT_THAT(
      std::string(Verdict("protection { marvell { s: 4 } distance_correlation { weight: 1 } }" + limit).message()),
      HasSubstr("release.max_worst_case_auc_bound: expected 1 beside protection.distance_correlation"));
  EXPECT_THAT(
      std::string(Verdict("protection { iso { t: 1 } } model { torchscript_path: 'top.pt' }" + limit).message()),
      HasSubstr("expected 1 beside a TorchScript model"));
}

TEST(ValidateLabelConfigTest, EveryReleasedEpochNeedsNoiseOfItsOwn) {
  const auto verdict = [](const std::string& how) {
    return Verdict("protection { gaussian_label_dp { sigma: 2 " + how +
                   " } } privacy_account { path: 'a.db' label_set: 'clicks' } ");
  };
  EXPECT_TRUE(verdict("").ok());
  EXPECT_TRUE(verdict("planned_epochs: 5 noise_growth_per_epoch: 2").ok());
  EXPECT_TRUE(verdict("planned_epochs: 1 released_epochs: 1").ok());
  EXPECT_THAT(std::string(verdict("planned_epochs: 4").message()),
              HasSubstr("planned_epochs: expected 0, or at least the 5 epochs that are released, found 4"));
  for (const std::string beside : {"planned_epochs: 2", "noise_growth_per_epoch: 2"}) {
    EXPECT_THAT(std::string(verdict("noise_draws: ONE_DRAW " + beside).message()),
                HasSubstr("noise_draws: expected EVERY_EPOCH"))
        << beside;
  }
}

TEST(ValidateLabelConfigTest, NothingBesideLabelDpMovesTheMessagesByTrueLabels) {
  const std::string protection = "protection { label_dp {} } ";
  EXPECT_THAT(std::string(Verdict(protection + "early_stopping {}").message()),
              HasSubstr("early_stopping: expected none beside protection.label_dp"));
  EXPECT_THAT(std::string(Verdict(protection + "release { max_measured_leak: 0.7 action: HALT }").message()),
              HasSubstr("release.max_measured_leak: expected 1"));
  EXPECT_THAT(std::string(Verdict(protection + "model { torchscript_path: \"head.pt\" }").message()),
              HasSubstr("model.torchscript_path: expected none beside protection.label_dp"));
  EXPECT_THAT(std::string(Verdict("protection { label_dp {} distance_correlation { weight: 1 } }").message()),
              HasSubstr("distance_correlation: expected none beside protection.label_dp"));
}

TEST(ValidateLabelConfigTest, AnswersToScoresAreNotMadeOfWhatLabelDpProtects) {
  v1::LabelPartyConfig config;
  config.mutable_protection()->mutable_label_dp();
  v1::RunAgreement agreement;
  for (const v1::DisclosureLevel disclosure : {v1::ROUNDED, v1::ORACLE}) {
    agreement.mutable_audit()->set_disclosure(disclosure);
    EXPECT_THAT(std::string(ValidateLabelConfig(config, agreement).message()),
                HasSubstr("protection.label_dp: expected"));
  }
  agreement.mutable_audit()->set_disclosure(v1::LABEL_SIDE_ONLY);
  EXPECT_THAT(std::string(ValidateLabelConfig(config, agreement).message()), Not(HasSubstr("label_dp")));
}

TEST(ValidateLabelConfigTest, AnAccountAndGaussianLabelDpNeedEachOther) {
  EXPECT_THAT(std::string(Verdict("protection { gaussian_label_dp { sigma: 2 } }").message()),
              HasSubstr("privacy_account: expected one beside gaussian_label_dp"));
  for (const char* protection : {"none {}", "iso { t: 1 }", "marvell { s: 4 }"}) {
    EXPECT_THAT(std::string(Verdict(absl::StrCat("protection { ", protection, " } privacy_account {}")).message()),
                HasSubstr("privacy_account: expected none"));
  }
  // Without an account a run's flips are its own, which an audit adds up.
  EXPECT_TRUE(Verdict("protection { label_dp { epsilon: 1 } } privacy_account {}").ok());
  EXPECT_TRUE(Verdict("protection { label_dp { epsilon: 1 } }").ok());
}

}  // namespace
}  // namespace splitveil
