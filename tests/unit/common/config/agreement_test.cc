#include "common/config/agreement.h"

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/config/message_validator.h"
#include "common/config/text_config.h"
#include "common/crypto/sha256.h"
#include "tests/testing/hex.h"

#include "splitveil/v1/party.pb.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

v1::RunAgreement Minimal() {
  v1::RunAgreement agreement;
  agreement.set_run_name("demo");
  agreement.set_cut_width(128);
  return agreement;
}

v1::RunAgreement Canonical(const std::function<void(v1::RunAgreement&)>& change = {}) {
  v1::RunAgreement agreement = Minimal();
  if (change) {
    change(agreement);
  }
  Canonicalize(agreement);
  return agreement;
}

// What another implementation writes for the minimal agreement: every field with its default, in field-number order,
// encoded by hand from the wire format's definition.
constexpr char kCanonicalHex[] =
    "0a0464656d6f"                                                // 1: "demo"
    "108001"                                                      // 2: 128
    "188008"                                                      // 3: 1024
    "2010"                                                        // 4: 16
    "2805"                                                        // 5: 5
    "319a9999999999b93f"                                          // 6: 0.1
    "3801"                                                        // 7: FLOAT32
    "4001"                                                        // 8: 1
    "4a2108011080c2d72f188020"                                    // 9: RISTRETTO255_DH, 100000000, 4096,
    "20002880d0acf30e3a00499a9999999999c93f"                      //    0, 4000000000, "", 0.2,
    "50808040"                                                    //    1048576
    "521d180120012800300130033005"                                // 10: LABEL_SIDE_ONLY, 1, 0, hint counts 1, 3, 5,
    "3a0f099a9999999999b93f10e807188002"                          //     rounded: 0.1, 1000, 256
    "5a24090000000000004e40110000000000005e40190000000000c08240"  // 11: 60, 120, 600,
    "210000000000c07240"                                          //     300
    "6200"                                                        // 12: ""
    "6a00"                                                        // 13: ""
    "7000"                                                        // 14: false
    "7800"                                                        // 15: 0
    "8201161800210000000000000000"                                // 16: false, 0,
    "299a9999999999a93f3001"                                      //     0.05, 1
    "89019a9999999999b93f"                                        // 17: 0.1
    "900100"                                                      // 18: false
    "9a0100"                                                      // 19: ""
    "a00120"                                                      // 20: 32
    "a80101";                                                     // 21: TRAIN

// "NORM, COSINE, ... or HINT_INNER_PRODUCT", as the validator lists them.
std::string AttackNames() {
  std::string names;
  const google::protobuf::EnumDescriptor& attacks = *v1::Attack_descriptor();
  for (int i = 1; i < attacks.value_count(); ++i) {
    absl::StrAppend(&names, i == 1 ? "" : i + 1 < attacks.value_count() ? ", " : " or ", attacks.value(i)->name());
  }
  return names;
}

TEST(AgreementTest, CanonicalFormIsTheDocumentedBytes) {
  EXPECT_EQ(absl::BytesToHexString(Canonical().SerializeAsString()), kCanonicalHex);
}

TEST(AgreementTest, DigestIsThatOfTheCanonicalBytes) {
  const Digest expected = Sha256(BytesFromHex(kCanonicalHex));
  EXPECT_EQ(AgreementSha256(Canonical()), expected);
}

TEST(AgreementTest, DefaultWrittenOutAndLeftOutHaveOneDigest) {
  const auto written = Canonical([](v1::RunAgreement& agreement) {
    agreement.set_batch_size(1024);
    agreement.mutable_deadlines()->set_step_seconds(120);
  });
  EXPECT_EQ(AgreementSha256(written), AgreementSha256(Canonical()));
  EXPECT_EQ(FirstDifference(written, Canonical()), "");
}

TEST(AgreementTest, CanonicalFormIsAFixedPointAndValid) {
  v1::RunAgreement twice = Canonical();
  Canonicalize(twice);
  EXPECT_EQ(twice.SerializeAsString(), Canonical().SerializeAsString());
  EXPECT_EQ(ValidateAgreement(twice), absl::OkStatus());
  EXPECT_EQ(ValidateAgreement(Minimal()), absl::OkStatus());
}

struct Difference {
  std::function<void(v1::RunAgreement&)> change;
  std::string text;
};

TEST(AgreementTest, EveryFieldChangesTheDigestAndIsNamed) {
  const std::vector<Difference> differences = {
      {[](auto& a) { a.set_run_name("other"); }, "run_name: ours \"demo\", theirs \"other\""},
      {[](auto& a) { a.set_cut_width(64); }, "cut_width: ours 128, theirs 64"},
      {[](auto& a) { a.set_batch_size(512); }, "batch_size: ours 1024, theirs 512"},
      {[](auto& a) { a.set_minimum_batch_size(8); }, "minimum_batch_size: ours 16, theirs 8"},
      {[](auto& a) { a.set_epochs(6); }, "epochs: ours 5, theirs 6"},
      {[](auto& a) { a.set_test_fraction(0.2); }, "test_fraction: ours 0.1, theirs 0.2"},
      {[](auto& a) { a.set_validation_fraction(0.2); }, "validation_fraction: ours 0.1, theirs 0.2"},
      {[](auto& a) { a.set_split_by_group(true); }, "split_by_group: ours false, theirs true"},
      {[](auto& a) { a.set_test_after("2024-06-01"); }, "test_after: ours \"\", theirs \"2024-06-01\""},
      {[](auto& a) { a.set_wire_dtype(v1::FLOAT16); }, "wire_dtype: ours FLOAT32, theirs FLOAT16"},
      {[](auto& a) { a.set_in_flight_batches(2); }, "in_flight_batches: ours 1, theirs 2"},
      {[](auto& a) { a.mutable_alignment()->set_max_ids(7); }, "alignment.max_ids: ours 100000000, theirs 7"},
      {[](auto& a) { a.mutable_alignment()->set_min_shared_ids(7); }, "alignment.min_shared_ids: ours 0, theirs 7"},
      {[](auto& a) { a.mutable_audit()->mutable_rounded()->set_max_answers(7); },
       "audit.rounded.max_answers: ours 1000, theirs 7"},
      {[](auto& a) { a.mutable_alignment()->set_chunk_ids(7); }, "alignment.chunk_ids: ours 4096, theirs 7"},
      {[](auto& a) { a.mutable_audit()->add_layers("cut"); }, "audit.layers: ours [], theirs [\"cut\"]"},
      {[](auto& a) { a.mutable_audit()->add_attacks(v1::NORM); }, "audit.attacks: ours [], theirs [NORM]"},
      {[](auto& a) { a.mutable_audit()->set_disclosure(v1::ORACLE); },
       "audit.disclosure: ours LABEL_SIDE_ONLY, theirs ORACLE"},
      {[](auto& a) { a.mutable_audit()->set_every_batches(3); }, "audit.every_batches: ours 1, theirs 3"},
      {[](auto& a) { a.mutable_audit()->add_hint_counts(2); }, "audit.hint_counts: ours [1, 3, 5], theirs [2]"},
      {[](auto& a) { a.mutable_attribute_audit()->set_auxiliary_fraction(0.5); },
       "attribute_audit.auxiliary_fraction: ours 0, theirs 0.5"},
      {[](auto& a) { a.mutable_deadlines()->set_connect_seconds(1); }, "deadlines.connect_seconds: ours 60, theirs 1"},
      {[](auto& a) { a.mutable_deadlines()->set_step_seconds(1); }, "deadlines.step_seconds: ours 120, theirs 1"},
      {[](auto& a) { a.mutable_deadlines()->set_alignment_chunk_seconds(1); },
       "deadlines.alignment_chunk_seconds: ours 600, theirs 1"}};
  std::set<Digest> digests = {AgreementSha256(Canonical())};
  for (const Difference& difference : differences) {
    const v1::RunAgreement theirs = Canonical(difference.change);
    EXPECT_EQ(FirstDifference(Canonical(), theirs), difference.text);
    EXPECT_TRUE(digests.insert(AgreementSha256(theirs)).second) << difference.text;
  }
}

TEST(AgreementTest, FirstDifferenceIsTheOneOfTheLowestFieldNumber) {
  const auto theirs = Canonical([](v1::RunAgreement& agreement) {
    agreement.mutable_deadlines()->set_step_seconds(1);
    agreement.set_epochs(9);
  });
  EXPECT_EQ(FirstDifference(Canonical(), theirs), "epochs: ours 5, theirs 9");
}

TEST(AgreementTest, FirstDifferenceShortensLongValuesButComparesThemWhole) {
  const auto with_name = [](const std::string& name) {
    return Canonical([&](v1::RunAgreement& agreement) { agreement.set_run_name(name); });
  };
  const std::string difference =
      FirstDifference(with_name(std::string(500, 'a') + "b"), with_name(std::string(501, 'a')));
  EXPECT_THAT(difference, HasSubstr("run_name: ours"));
  EXPECT_LT(difference.size(), 250);
}

TEST(AgreementTest, UnknownFieldOfThePeerIsADifferenceAndInvalid) {
  v1::RunAgreement theirs = Canonical();
  theirs.GetReflection()->MutableUnknownFields(theirs.mutable_audit())->AddVarint(99, 1);
  EXPECT_EQ(FirstDifference(Canonical(), theirs), "audit: ours has 0 unknown fields, theirs 1");
  EXPECT_EQ(ValidateAgreement(theirs).message(),
            "audit: expected fields and values of the schema only, found field number 99 with an unknown meaning");
}

TEST(AgreementTest, UnknownEnumValueOfThePeerIsInvalid) {
  v1::RunAgreement theirs;
  std::string bytes = Canonical().SerializeAsString();
  bytes += std::string("\x38\x09", 2);  // wire_dtype: 9
  ASSERT_TRUE(theirs.ParseFromString(bytes));
  EXPECT_EQ(ValidateAgreement(theirs).code(), absl::StatusCode::kInvalidArgument);
}

TEST(AgreementTest, ValidationNamesFieldExpectedAndFound) {
  const std::vector<Difference> invalid = {
      {[](auto& a) { a.clear_run_name(); }, "run_name: expected a value, for it has no default, found none"},
      {[](auto& a) { a.set_run_name(""); }, "run_name: expected a string that is not empty, found \"\""},
      {[](auto& a) { a.set_run_name(std::string(129, 'x')); }, "run_name: expected 1 to 128 bytes, found 129"},
      {[](auto& a) { a.set_run_name("a\nb"); }, "run_name: expected printable ASCII characters, found byte 10"},
      {[](auto& a) { a.set_cut_width(-1); }, "cut_width: expected at least 1 and at most 1048576, found -1"},
      {[](auto& a) { a.set_minimum_batch_size(1); },
       "minimum_batch_size: expected at least 2 and at most 1048576, found 1"},
      {[](auto& a) { a.set_progressive_validation(true); },
       "progressive_validation: expected false unless test_fraction is 0 and there is no test_after, found true beside "
       "test_fraction 0.1"},
      {[](auto& a) {
         a.set_progressive_validation(true);
         a.set_test_fraction(0);
       },
       "progressive_validation: expected false unless validation_fraction is 0, found true beside validation_fraction "
       "0.1"},
      {[](auto& a) {
         a.set_split_by_group(true);
         a.set_test_after("7");
       },
       "split_by_group, test_after: expected one of them at most, found both"},
      {[](auto& a) { a.set_test_after("soon"); },
       "test_after: expected a number or a date such as 2024-06-01 or 2024-06-01T12:30:00Z, found \"soon\""},
      {[](auto& a) { a.set_validation_fraction(0.86); },
       "test_fraction, attribute_audit.auxiliary_fraction, validation_fraction: expected at most 0.95 together, found "
       "0.1, 0 and 0.86"},
      {[](auto& a) { a.set_minimum_batch_size(1025); },
       "minimum_batch_size: expected at most batch_size 1024, found 1025"},
      {[](auto& a) { a.set_test_fraction(-0.1); }, "test_fraction: expected at least 0 and at most 0.9, found -0.1"},
      {[](auto& a) { a.set_wire_dtype(v1::DATA_TYPE_UNSPECIFIED); },
       "wire_dtype: expected FLOAT32, BFLOAT16 or FLOAT16, found DATA_TYPE_UNSPECIFIED"},
      {[](auto& a) { a.mutable_alignment()->set_protocol(v1::AlignmentAgreement::PROTOCOL_UNSPECIFIED); },
       "alignment.protocol: expected RISTRETTO255_DH, found PROTOCOL_UNSPECIFIED"},
      {[](auto& a) { a.mutable_audit()->add_attacks(v1::COSINE); },
       "audit.attacks[0]: expected COSINE under audit.disclosure ORACLE only, found audit.disclosure LABEL_SIDE_ONLY"},
      {[](auto& a) {
         a.mutable_audit()->add_attacks(v1::NORM);
         a.mutable_audit()->add_attacks(v1::NORM);
       },
       "audit.attacks[1]: expected each attack once, found NORM again"},
      {[](auto& a) { a.mutable_audit()->add_attacks(v1::ATTACK_UNSPECIFIED); },
       absl::StrCat("audit.attacks[0]: expected ", AttackNames(), ", found ATTACK_UNSPECIFIED")},
      {[](auto& a) { a.mutable_audit()->add_attacks(v1::HINT_INNER_PRODUCT); },
       "audit.attacks[0]: expected HINT_INNER_PRODUCT under audit.disclosure ORACLE only, found audit.disclosure "
       "LABEL_SIDE_ONLY"},
      {[](auto& a) { a.mutable_audit()->add_attacks(v1::LIKELIHOOD_RATIO); },
       "audit.attacks[0]: expected an attack on every batch that needs no true class moments, found LIKELIHOOD_RATIO"},
      {[](auto& a) { a.mutable_audit()->add_attacks(v1::FEATURES_ONLY); },
       "audit.attacks[0]: expected an attack on every batch that needs no true class moments, found FEATURES_ONLY"},
      {[](auto& a) { a.mutable_audit()->add_attacks(v1::ACTIVATION_CLUSTERS); },
       "audit.attacks[0]: expected ACTIVATION_CLUSTERS with \"cut\" among audit.layers only, found audit.layers "
       "without it"},
      {[](auto& a) { a.mutable_audit()->add_hint_counts(6); },
       "audit.hint_counts[0]: expected at least 1 and at most 5, found 6"},
      {[](auto& a) {
         a.mutable_audit()->add_hint_counts(3);
         a.mutable_audit()->add_hint_counts(3);
       },
       "audit.hint_counts[1]: expected each number once, found 3 again"},
      {[](auto& a) { a.mutable_audit()->set_auxiliary_labels(10); },
       "audit.auxiliary_labels: expected 0 unless audit.disclosure is ORACLE, found 10"},
      {[](auto& a) {
         a.mutable_audit()->add_layers("cut");
         a.mutable_audit()->add_layers("cut");
       },
       "audit.layers[1]: expected each layer once, found \"cut\" again"},
      {[](auto& a) { a.mutable_audit()->add_layers(""); }, "audit.layers[0]: expected 1 to 128 bytes, found 0"},
      {[](auto& a) { a.mutable_deadlines()->set_step_seconds(0); },
       "deadlines.step_seconds: expected at least 0.1 and at most 86400, found 0"}};
  for (const Difference& difference : invalid) {
    v1::RunAgreement agreement = Minimal();
    difference.change(agreement);
    const absl::Status status = ValidateAgreement(agreement);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), difference.text);
  }
}

v1::RunAgreement Prediction() {
  v1::RunAgreement agreement = Minimal();
  agreement.set_mode(v1::RunAgreement::PREDICT);
  return agreement;
}

TEST(AgreementTest, APredictionSaysNothingOfWhatOnlyTrainingUses) {
  v1::RunAgreement agreement = Prediction();
  EXPECT_EQ(ValidateAgreement(agreement), absl::OkStatus());
  Canonicalize(agreement);
  EXPECT_EQ(ValidateAgreement(agreement), absl::OkStatus());
  EXPECT_FALSE(agreement.has_epochs() || agreement.has_test_fraction() || agreement.has_audit());
  EXPECT_TRUE(agreement.has_batch_size() && agreement.has_deadlines() && agreement.has_alignment());
}

TEST(AgreementTest, APredictionRefusesWhatOnlyTrainingUses) {
  const std::vector<std::pair<std::string, std::function<void(v1::RunAgreement&)>>> refused = {
      {"epochs", [](auto& a) { a.set_epochs(5); }},
      {"test_fraction", [](auto& a) { a.set_test_fraction(0.1); }},
      {"audit", [](auto& a) { a.mutable_audit()->add_layers("cut"); }},
      {"attribute_audit", [](auto& a) { a.mutable_attribute_audit(); }},
      {"progressive_validation", [](auto& a) { a.set_progressive_validation(true); }},
      {"test_after", [](auto& a) { a.set_test_after("2026-01-01"); }}};
  for (const auto& [field, change] : refused) {
    v1::RunAgreement agreement = Prediction();
    change(agreement);
    EXPECT_EQ(ValidateAgreement(agreement).message(),
              field + ": mode PREDICT trains nothing and has no use for it: remove it, or set mode TRAIN");
  }
  v1::RunAgreement nothing = Minimal();
  nothing.set_epochs(0);
  EXPECT_THAT(std::string(ValidateAgreement(nothing).message()), HasSubstr("epochs: expected at least 1"));
}

TEST(AgreementTest, APartyConfiguresWhatTheModeNeedsAndNothingElse) {
  const v1::RunAgreement prediction = Prediction();
  v1::NonLabelPartyConfig nonlabel;
  EXPECT_EQ(CheckFitsMode(Minimal(), nonlabel), absl::OkStatus());
  EXPECT_THAT(std::string(CheckFitsMode(prediction, nonlabel).message()),
              HasSubstr("party.initial_checkpoint: mode PREDICT needs the checkpoint of the trained model"));
  nonlabel.mutable_party()->set_initial_checkpoint("nonlabel_party.checkpoint");
  nonlabel.set_versions_path("versions");
  EXPECT_EQ(CheckFitsMode(prediction, nonlabel), absl::OkStatus());
  EXPECT_THAT(std::string(CheckFitsMode(Minimal(), nonlabel).message()),
              HasSubstr("versions_path: mode TRAIN predicts nothing"));
  nonlabel.mutable_party()->set_checkpoint_path("nonlabel_party.checkpoint");
  EXPECT_THAT(std::string(CheckFitsMode(prediction, nonlabel).message()),
              HasSubstr("party.checkpoint_path: mode PREDICT trains nothing"));

  v1::LabelPartyConfig label;
  label.mutable_party()->set_initial_checkpoint("label_party.checkpoint");
  label.mutable_protection()->mutable_none();
  EXPECT_EQ(CheckFitsMode(Minimal(), label), absl::OkStatus());
  EXPECT_THAT(std::string(CheckFitsMode(prediction, label).message()),
              HasSubstr("predictions_path: mode PREDICT needs the file"));
  label.set_predictions_path("predictions.csv");
  EXPECT_EQ(CheckFitsMode(prediction, label), absl::OkStatus());
  EXPECT_THAT(std::string(CheckFitsMode(Minimal(), label).message()),
              HasSubstr("predictions_path: mode TRAIN predicts nothing"));
  label.mutable_label_side_audit();
  EXPECT_THAT(std::string(CheckFitsMode(prediction, label).message()),
              HasSubstr("label_side_audit: mode PREDICT trains nothing"));
  label.mutable_protection()->mutable_iso();
  EXPECT_THAT(std::string(CheckFitsMode(prediction, label).message()),
              HasSubstr("protection: mode PREDICT sends no gradient to protect"));
}

TEST(AgreementTest, CosineUnderOracleIsValid) {
  v1::RunAgreement agreement = Minimal();
  agreement.mutable_audit()->set_disclosure(v1::ORACLE);
  agreement.mutable_audit()->add_attacks(v1::NORM);
  agreement.mutable_audit()->add_attacks(v1::COSINE);
  agreement.mutable_audit()->add_layers("first");
  EXPECT_EQ(ValidateAgreement(agreement), absl::OkStatus());
}

TEST(AgreementTest, EveryAttackIsScoredAtEveryLayerButThatOnActivations) {
  v1::AuditAgreement audit;
  audit.add_layers("first");
  audit.add_layers("cut");
  audit.add_attacks(v1::ACTIVATION_CLUSTERS);
  audit.add_attacks(v1::SPECTRAL);
  std::vector<std::pair<std::string, v1::Attack>> scores;
  for (const AgreedScore& score : AgreedScores(audit)) {
    scores.emplace_back(score.layer, score.attack.attack);
  }
  EXPECT_THAT(scores, ::testing::ElementsAre(::testing::Pair("first", v1::SPECTRAL),
                                             ::testing::Pair("cut", v1::ACTIVATION_CLUSTERS),
                                             ::testing::Pair("cut", v1::SPECTRAL)));
}

TEST(AgreementTest, HintAttacksAreScoredOnceForEachHintCount) {
  v1::AuditAgreement audit;
  audit.add_layers("cut");
  audit.add_attacks(v1::HINT_DISTANCE);
  audit.add_attacks(v1::NORM);
  const auto names = [&] {
    std::vector<std::string> all;
    for (const AgreedScore& score : AgreedScores(audit)) {
      all.push_back(AttackName(score.attack));
    }
    return all;
  };
  EXPECT_THAT(names(), ::testing::ElementsAre("hint_distance_1", "hint_distance_3", "hint_distance_5", "norm"));
  audit.add_hint_counts(4);
  EXPECT_THAT(names(), ::testing::ElementsAre("hint_distance_4", "norm"));
}

TEST(AgreementTest, TooManyLayersAreInvalid) {
  v1::RunAgreement agreement = Minimal();
  for (int i = 0; i < 257; ++i) {
    agreement.mutable_audit()->add_layers("layer" + std::to_string(i));
  }
  EXPECT_EQ(ValidateAgreement(agreement).message(), "audit.layers: expected at most 256, found 257");
}

TEST(AgreementTest, BatchAboveGrpcsLimitIsInvalid) {
  v1::RunAgreement agreement = Minimal();
  agreement.set_batch_size(1 << 20);
  agreement.set_cut_width(1 << 20);
  EXPECT_EQ(ValidateAgreement(agreement).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(ValidateAgreement(agreement).message()), HasSubstr("batch_size: expected batches whose"));
}

TEST(AgreementTest, MessageLimitCoversTheLargestBatchWithItsHint) {
  for (const v1::DataType dtype : {v1::FLOAT32, v1::BFLOAT16, v1::FLOAT16}) {
    const auto agreement = Canonical([&](v1::RunAgreement& a) {
      a.set_wire_dtype(dtype);
      a.set_batch_size(1000);
      a.set_minimum_batch_size(100);
    });
    const int64_t element_bytes = dtype == v1::FLOAT32 ? 4 : 2;
    const int64_t payload = 1099 * 128 * element_bytes + int64_t{128} * 4;
    EXPECT_GE(MaxMessageBytes(agreement), payload + 1024) << dtype;
    EXPECT_LE(MaxMessageBytes(agreement), payload + int64_t{128} * 1024) << dtype;
  }
}

TEST(AgreementTest, MessageLimitCoversScoresAndAlignmentChunks) {
  const auto narrow = Canonical([](v1::RunAgreement& a) {
    a.set_cut_width(1);
    a.mutable_audit()->set_disclosure(v1::ORACLE);
    for (int i = 0; i < 10; ++i) {
      a.mutable_audit()->add_layers("layer" + std::to_string(i));
    }
    a.mutable_audit()->add_attacks(v1::NORM);
    a.mutable_audit()->add_attacks(v1::COSINE);
    a.set_batch_size(100000);
  });
  EXPECT_GE(MaxMessageBytes(narrow), 10 * 2 * 100015 * 4);
  const auto chunky = Canonical([](v1::RunAgreement& a) { a.mutable_alignment()->set_chunk_ids(65536); });
  EXPECT_GE(MaxMessageBytes(chunky), 65536 * 32 + 1024);
}

TEST(AgreementTest, LoadFailsForAMissingFile) {
  EXPECT_EQ(LoadAgreement("/nonexistent/run.textproto").status().code(), absl::StatusCode::kNotFound);
}

// Of both fractions 0.1, one attribute and one attack that needs queries.
v1::RunAgreement WithAttributeAudit(const std::function<void(v1::AttributeAuditAgreement&)>& change = {}) {
  v1::RunAgreement agreement = Minimal();
  v1::AttributeAuditAgreement& audit = *agreement.mutable_attribute_audit();
  audit.add_attributes("sex");
  audit.add_attacks(v1::BASIC);
  audit.set_embed_auxiliary(true);
  audit.set_auxiliary_fraction(0.1);
  if (change) {
    change(audit);
  }
  return agreement;
}

TEST(AgreementTest, TakesAttacksOnAttributesWithWhatTheyNeed) {
  EXPECT_EQ(ValidateAgreement(WithAttributeAudit()), absl::OkStatus());
  EXPECT_EQ(ValidateAgreement(WithAttributeAudit([](auto& a) {
              a.add_attacks(v1::POISON);
              a.add_attacks(v1::SIMULATOR);
              a.add_attacks(v1::LINEAR_PROBE);
              a.add_attributes("relationship");
            })),
            absl::OkStatus());
  EXPECT_EQ(ValidateAgreement(WithAttributeAudit([](auto& a) {
              a.clear_attributes();
              a.clear_attacks();
              a.set_embed_auxiliary(false);
            })),
            absl::OkStatus());
}

TEST(AgreementTest, RefusesAttacksOnAttributesWithoutWhatTheyNeed) {
  const std::vector<std::pair<std::function<void(v1::AttributeAuditAgreement&)>, std::string>> invalid = {
      {[](auto& a) { a.clear_attributes(); }, "expected both or neither, found attacks and no attributes"},
      {[](auto& a) { a.clear_attacks(); }, "expected both or neither, found attributes and no attacks"},
      {[](auto& a) { a.add_attributes("sex"); },
       "attribute_audit.attributes[1]: expected each attribute once, found \"sex\" again"},
      {[](auto& a) { a.add_attributes("a\nb"); },
       "attribute_audit.attributes[1]: expected printable ASCII characters, found byte 10"},
      {[](auto& a) { a.add_attributes(""); }, "attribute_audit.attributes[1]: expected 1 to 128 bytes, found 0"},
      {[](auto& a) { a.add_attacks(v1::BASIC); },
       "attribute_audit.attacks[1]: expected each attack once, found BASIC again"},
      {[](auto& a) { a.add_attacks(v1::ATTRIBUTE_ATTACK_UNSPECIFIED); }, "attribute_audit.attacks[1]: expected BASIC"},
      {[](auto& a) { a.set_embed_auxiliary(false); },
       "attribute_audit.attacks[0]: expected BASIC beside attribute_audit.embed_auxiliary only, found embed_auxiliary "
       "false"},
      {[](auto& a) { a.set_auxiliary_fraction(0); }, "attribute_audit.embed_auxiliary: expected"},
      {[](auto& a) { a.set_attacks(0, v1::POISON); },
       "attribute_audit.embed_auxiliary: expected false unless an attack (BASIC, LINEAR_PROBE) reads them, found true"},
      {[](auto& a) {
         a.add_attacks(v1::POISON);
         a.set_marked_fraction(0);
       },
       "attribute_audit.attacks[1]: expected POISON beside an attribute_audit.marked_fraction above 0 only"},
      {[](auto& a) {
         a.add_attacks(v1::CUMULATIVE_POISON);
         a.set_marked_fraction(0);
       },
       "attribute_audit.attacks[1]: expected CUMULATIVE_POISON beside an attribute_audit.marked_fraction above 0"},
      {[](auto& a) { a.set_auxiliary_fraction(0.86); },
       "test_fraction, attribute_audit.auxiliary_fraction, validation_fraction: expected at most 0.95 together, found "
       "0.1, 0.86 and 0.1"},
      {[](auto& a) { a.set_auxiliary_fraction(0.95); }, "attribute_audit.auxiliary_fraction: expected at least 0"},
      {[](auto& a) { a.set_every_epochs(0); }, "attribute_audit.every_epochs: expected at least 1"}};
  for (const auto& [change, message] : invalid) {
    const absl::Status status = ValidateAgreement(WithAttributeAudit(change));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }
  v1::RunAgreement progressive = WithAttributeAudit();
  progressive.set_test_fraction(0);
  progressive.set_validation_fraction(0);
  progressive.set_progressive_validation(true);
  EXPECT_THAT(std::string(ValidateAgreement(progressive).message()),
              HasSubstr("attribute_audit.attacks: expected none without test examples"));
}

TEST(AgreementTest, AMessageOfGuessesFitsEvenWhereBatchesAreSmall) {
  v1::RunAgreement agreement = WithAttributeAudit();
  agreement.set_cut_width(1);
  agreement.set_batch_size(2);
  agreement.set_minimum_batch_size(2);
  agreement.mutable_alignment()->set_chunk_ids(1);
  EXPECT_GE(MaxMessageBytes(agreement), 1024 * 254 * 4);
}

TEST(AgreementTest, RefusesAPatternOfIdsThatIsNone) {
  v1::RunAgreement agreement = Minimal();
  agreement.mutable_alignment()->add_id_pattern("[A-Z]{2}[0-9]+");
  EXPECT_TRUE(ValidateAgreement(agreement).ok());
  agreement.mutable_alignment()->add_id_pattern("[0-9");
  EXPECT_THAT(std::string(ValidateAgreement(agreement).message()),
              HasSubstr("alignment.id_pattern[1]: expected a regular expression as RE2 has them, found \"[0-9\": "));
}

TEST(AgreementTest, RefusesFormsOfKeyColumnsBesideFormsOfAll) {
  v1::RunAgreement agreement = Minimal();
  agreement.mutable_alignment()->add_key_column()->add_id_form(v1::DIGITS);
  EXPECT_TRUE(ValidateAgreement(agreement).ok());
  agreement.mutable_alignment()->add_id_form(v1::CASE_FOLD);
  EXPECT_THAT(std::string(ValidateAgreement(agreement).message()),
              HasSubstr("alignment.key_column: alignment.id_form is set as well"));
}

TEST(AgreementTest, RefusesMoreSharedIdsAtLeastThanAtMost) {
  v1::RunAgreement agreement = Minimal();
  agreement.mutable_alignment()->set_min_shared_ids(8);
  agreement.mutable_alignment()->set_max_shared_ids(8);
  EXPECT_TRUE(ValidateAgreement(agreement).ok());
  agreement.mutable_alignment()->set_max_shared_ids(7);
  EXPECT_THAT(std::string(ValidateAgreement(agreement).message()),
              HasSubstr("alignment.min_shared_ids: expected at most max_shared_ids 7, found 8"));
}

TEST(AgreementTest, RefusesRoundedAnswersOnSmallBatches) {
  v1::RunAgreement agreement = Minimal();
  agreement.mutable_audit()->set_disclosure(v1::ROUNDED);
  agreement.set_batch_size(256);
  EXPECT_TRUE(ValidateAgreement(agreement).ok());
  agreement.set_batch_size(255);
  EXPECT_THAT(std::string(ValidateAgreement(agreement).message()),
              HasSubstr("audit.disclosure: expected LABEL_SIDE_ONLY, or batches of at least "
                        "audit.rounded.minimum_batch 256, found ROUNDED with batch_size 255"));
}

}  // namespace
}  // namespace splitveil
