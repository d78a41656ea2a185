#include "common/config/text_config.h"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/config/message_validator.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/options.pb.h"
#include "splitveil/v1/party.pb.h"
#include "splitveil/v1/sweep.pb.h"
#include "splitveil/v1/table_schema.pb.h"

namespace splitveil {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using ::testing::HasSubstr;

// A complete label party; the tests change one thing in it.
constexpr char kLabelParty[] = R"(party {
  identity {
    own_name: "label.test"
    peer_name: "nonlabel.test"
    certificate_path: "c.pem"
    private_key_path: "k.pem"
    authority_path: "a.pem"
  }
  dataset { path: "data.data" }
  optimizer { learning_rate: 0.001 adam {} }
  ledger_path: "label.db"
}
model { layers { name: "top" units: 8 } }
protection { marvell { s: 4 } }
)";

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

// The error of a label party's configuration in which `from` stands as `to`.
std::string LabelPartyError(const std::string& from, const std::string& to) {
  v1::LabelPartyConfig config;
  const absl::Status status = ParseTextConfig(Replaced(kLabelParty, from, to), "f", config);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

std::string AgreementError(const std::string& text) {
  v1::RunAgreement agreement;
  const absl::Status status = ParseTextConfig(text, "run.textproto", agreement);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(status.message());
}

TEST(TextConfigTest, ReadsACompleteConfiguration) {
  v1::LabelPartyConfig config;
  ASSERT_EQ(ParseTextConfig(kLabelParty, "f", config), absl::OkStatus());
  EXPECT_EQ(config.party().identity().own_name(), "label.test");
  EXPECT_EQ(config.protection().marvell().s(), 4);
  EXPECT_EQ(config.listen_address(), "0.0.0.0:7443");
}

TEST(TextConfigTest, ReadsEveryNotationOfTextFormat) {
  v1::RunAgreement agreement;
  const absl::Status status = ParseTextConfig(
      "# a comment\nrun_name: 'a' \"b\"; cut_width: 0x20, audit: < layers: ['first', 'cut'] attacks: [NORM, 2] >\n"
      "test_fraction: 2e-1 deadlines { connect_seconds: 1 }",
      "f", agreement);
  ASSERT_EQ(status, absl::OkStatus());
  EXPECT_EQ(agreement.run_name(), "ab");
  EXPECT_EQ(agreement.cut_width(), 32);
  EXPECT_EQ(agreement.audit().attacks(1), v1::COSINE);
}

TEST(TextConfigTest, UnknownFieldNamesTheNearest) {
  EXPECT_EQ(AgreementError("run_name: 'x'\ncut_width: 4\n  batchsize: 8\n"),
            "run.textproto:3:3: batchsize: expected a field of RunAgreement, perhaps batch_size, found \"batchsize\"");
  EXPECT_EQ(LabelPartyError("own_name", "own_nam"),
            "f:3:5: party.identity.own_nam: expected a field of Identity, perhaps own_name, found \"own_nam\"");
}

TEST(TextConfigTest, UnknownFieldFarFromAllNamesAll) {
  EXPECT_EQ(LabelPartyError("path: \"data", "zzzzzzzzzz: \"data"),
            "f:9:13: party.dataset.zzzzzzzzzz: expected a field of Dataset (path), found \"zzzzzzzzzz\"");
  EXPECT_EQ(LabelPartyError("marvell { s: 4 }", "max_norm { s: 4 }"),
            "f:14:25: protection.max_norm.s: expected no field, for MaxNorm has none, found \"s\"");
}

TEST(TextConfigTest, WrongTypeNamesWhatFits) {
  EXPECT_EQ(AgreementError("cut_width: \"4\""),
            "run.textproto:1:12: cut_width: expected a whole number, at least 1 and at most 1048576, found the string "
            "\"4\"");
  EXPECT_EQ(AgreementError("cut_width: 4.5"),
            "run.textproto:1:12: cut_width: expected a whole number, at least 1 and at most 1048576, found \"4.5\"");
  EXPECT_EQ(AgreementError("test_fraction: half"),
            "run.textproto:1:16: test_fraction: expected a number, found \"half\"");
  EXPECT_EQ(AgreementError("run_name: x"), "run.textproto:1:11: run_name: expected a string in quotes, found \"x\"");
  EXPECT_EQ(AgreementError("run_name \"x\""),
            "run.textproto:1:10: run_name: malformed text: Expected \":\", found \"\"x\"\".");
  EXPECT_EQ(AgreementError("audit: 3"),
            "run.textproto:1:8: audit: expected \"{\" and the fields of AuditAgreement, found \"3\"");
}

TEST(TextConfigTest, NumberTooLargeForItsTypeNamesTheLimits) {
  EXPECT_EQ(AgreementError("cut_width: 2147483648"),
            "run.textproto:1:12: cut_width: expected a whole number, at least 1 and at most 1048576, found "
            "\"2147483648\"");
  EXPECT_EQ(LabelPartyError("ledger_path", "reproducible_seed: -1 ledger_path"),
            "f:11:22: party.reproducible_seed: expected a whole number of at least 0, found \"-\"");
}

TEST(TextConfigTest, UnknownEnumValueNamesTheKnown) {
  EXPECT_EQ(AgreementError("wire_dtype: FLOAT64"),
            "run.textproto:1:13: wire_dtype: expected FLOAT32, BFLOAT16 or FLOAT16, found \"FLOAT64\"");
  EXPECT_EQ(AgreementError("audit { disclosure: 9 }"),
            "run.textproto:1:21: audit.disclosure: expected LABEL_SIDE_ONLY, ROUNDED or ORACLE, found \"9\"");
}

TEST(TextConfigTest, UnspecifiedEnumValueIsRefused) {
  EXPECT_EQ(AgreementError("run_name: 'x' cut_width: 4 wire_dtype: DATA_TYPE_UNSPECIFIED"),
            "run.textproto:1:28: wire_dtype: expected FLOAT32, BFLOAT16 or FLOAT16, found DATA_TYPE_UNSPECIFIED");
}

TEST(TextConfigTest, RepeatedSingularFieldIsRefused) {
  EXPECT_EQ(AgreementError("cut_width: 4\ncut_width: 4"),
            "run.textproto:2:1: cut_width: the field is set twice: keep one");
  EXPECT_EQ(AgreementError("audit { } audit { }"), "run.textproto:1:11: audit: the field is set twice: keep one");
}

TEST(TextConfigTest, SecondMemberOfAOneofIsRefused) {
  EXPECT_EQ(LabelPartyError("marvell {", "none {} marvell {"),
            "f:14:22: protection.marvell: expected only one of none, iso, max_norm, marvell, label_dp, sparsify, "
            "discretize or gaussian_label_dp, found marvell beside none");
}

TEST(TextConfigTest, MissingRequiredFieldIsReportedWhereItsMessageStarts) {
  EXPECT_EQ(LabelPartyError("    own_name: \"label.test\"\n", ""),
            "f:2:3: party.identity.own_name: expected a value, for it has no default, found none");
  EXPECT_EQ(AgreementError("cut_width: 4"),
            "run.textproto:1:1: run_name: expected a value, for it has no default, found none");
  EXPECT_EQ(AgreementError(""), "run.textproto:1:1: run_name: expected a value, for it has no default, found none");
}

TEST(TextConfigTest, MissingRequiredMessageAndRepeatedFieldAreReported) {
  EXPECT_EQ(LabelPartyError("protection { marvell { s: 4 } }", ""),
            "f:1:1: protection: expected a value, for it has no default, found none");
  v1::SweepConfig config;
  EXPECT_EQ(
      ParseTextConfig("agreement_path: 'a' label_config_path: 'b' nonlabel_config_path: 'c'", "f", config).message(),
      "f:1:1: seeds: expected at least one element, found none");
}

TEST(TextConfigTest, EmptyRequiredStringIsRefused) {
  EXPECT_EQ(LabelPartyError("\"label.test\"", "\"\""),
            "f:3:5: party.identity.own_name: expected a string that is not empty, found \"\"");
}

TEST(TextConfigTest, MissingMemberOfARequiredOneofIsReported) {
  EXPECT_EQ(LabelPartyError("marvell { s: 4 }", ""),
            "f:14:1: protection.method: expected one of none, iso, max_norm, marvell, label_dp, sparsify, "
            "discretize or gaussian_label_dp, found none");
  EXPECT_EQ(LabelPartyError("s: 4", ""),
            "f:14:14: protection.marvell.strength: expected one of s, sum_kl, detection_error or run_budget, "
            "found none");
  EXPECT_EQ(LabelPartyError("adam {}", ""),
            "f:10:3: party.optimizer.method: expected one of adam, adamw, sgd or adagrad, found none");
}

TEST(TextConfigTest, NumberOutOfRangeNamesTheRange) {
  EXPECT_EQ(AgreementError("run_name: 'x'\n  cut_width: 0"),
            "run.textproto:2:3: cut_width: expected at least 1 and at most 1048576, found 0");
  EXPECT_EQ(AgreementError("run_name: 'x' cut_width: 1 alignment { max_ids: 4000000001 }"),
            "run.textproto:1:40: alignment.max_ids: expected at least 1 and at most 4000000000, found 4000000001");
  EXPECT_EQ(LabelPartyError("learning_rate: 0.001", "learning_rate: 0"),
            "f:10:15: party.optimizer.learning_rate: expected above 0 and at most 100, found 0");
  EXPECT_EQ(LabelPartyError("adam {}", "adam { beta2: 1 }"),
            "f:10:43: party.optimizer.adam.beta2: expected at least 0 and at most 0.9999999, found 1");
}

TEST(TextConfigTest, FlagThatNeedsANumberIsRefusedWithoutIt) {
  EXPECT_EQ(LabelPartyError("adam {}", "sgd { nesterov: true }"),
            "f:10:42: party.optimizer.sgd.nesterov: expected a momentum above 0 with it, found 0");
  for (const char* fitting : {"sgd { momentum: 0.9 nesterov: true }", "sgd { nesterov: false }"}) {
    v1::LabelPartyConfig config;
    EXPECT_TRUE(ParseTextConfig(Replaced(kLabelParty, "adam {}", fitting), "f", config).ok()) << fitting;
  }
}

TEST(TextConfigTest, NumberThatIsNoneIsOutOfEveryRange) {
  EXPECT_EQ(AgreementError("run_name: 'x' cut_width: 1 test_fraction: nan"),
            "run.textproto:1:28: test_fraction: expected at least 0 and at most 0.9, found nan");
  EXPECT_EQ(LabelPartyError("s: 4", "s: inf"),
            "f:14:24: protection.marvell.s: expected above 0 and at most 1000000000, found inf");
}

TEST(TextConfigTest, NumberWithoutARangeMustBeOne) {
  for (const char* number : {"nan", "inf", "-inf"}) {
    v1::TableSchema schema;
    const absl::Status status =
        ParseTextConfig(absl::StrCat("columns { name: 'y' kind: TARGET } target_minimum: ", number), "f", schema);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("target_minimum: expected a finite number, found "));
  }
  EXPECT_EQ(LabelPartyError("protection {",
                            "privacy_account { path: 'a' label_set: 'b' max_lifetime_auc_bound: nan }\n"
                            "protection {"),
            "f:14:44: privacy_account.max_lifetime_auc_bound: expected at least 0.5 and at most 1, found nan");
}

TEST(TextConfigTest, ErrorInAnElementCarriesItsIndex) {
  EXPECT_EQ(LabelPartyError("layers { name: \"top\" units: 8 }", "layers { name: 'a' units: 8 }\nlayers { units: 8 }"),
            "f:14:1: model.layers[1].name: expected a value, for it has no default, found none");
}

TEST(TextConfigTest, MalformedTextNamesPlaceAndField) {
  EXPECT_EQ(AgreementError("run_name: \"x\ncut_width: 4"),
            "run.textproto:1:13: run_name: malformed text: String literals cannot cross line boundaries.");
  EXPECT_EQ(AgreementError("audit { disclosure: ORACLE"),
            "run.textproto:1:27: audit.disclosure: malformed text: Expected identifier, got: the end of the file");
  EXPECT_EQ(AgreementError("{}"), "run.textproto:1:1: malformed text: Expected identifier, got: {");
  EXPECT_EQ(AgreementError("audit { layers: ['a' 'b' 3] }"),
            "run.textproto:1:26: audit.layers: malformed text: Expected \",\", found \"3\".");
}

TEST(TextConfigTest, BinaryRubbishIsOneLineWithoutEscapes) {
  for (const std::string& rubbish :
       {std::string("\x00\x01\xff\x1b[31m\n{{{", 12), std::string("\x7f"), std::string("cut_width: '\x1b[31m'")}) {
    for (const char c : AgreementError(rubbish)) {
      EXPECT_TRUE(c >= 0x20 && c != 0x7f) << static_cast<int>(c);
    }
  }
}

TEST(TextConfigTest, LoadReadsAFileAndNamesItInErrors) {
  std::string folder = (std::filesystem::temp_directory_path() / "splitveil_config_XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/party.textproto";
  v1::LabelPartyConfig config;
  EXPECT_EQ(LoadTextConfig(path, config).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(LoadTextConfig(folder, config).code(), absl::StatusCode::kInvalidArgument);
  std::ofstream(path) << kLabelParty;
  EXPECT_EQ(LoadTextConfig(path, config), absl::OkStatus());
  EXPECT_EQ(config.party().ledger_path(), folder + "/label.db");
  std::ofstream(path) << "oops: 1";
  EXPECT_EQ(LoadTextConfig(path, config).message().find(path + ":1:1: oops: expected"), 0);
  std::ofstream(path) << std::string(5 << 20, ' ');
  EXPECT_EQ(LoadTextConfig(path, config).code(), absl::StatusCode::kInvalidArgument);
  std::filesystem::remove_all(folder);
}

// Every default of the schema must itself be acceptable, or a configuration that leaves a field out would be refused
// only after canonicalisation.
void ExpectAcceptableDefaults(const Descriptor& type) {
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      ExpectAcceptableDefaults(*field.message_type());
    } else if (field.has_default_value() && field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
      EXPECT_FALSE(IsUnspecified(*field.default_value_enum())) << field.full_name();
    } else if (field.has_default_value() && field.options().HasExtension(v1::range)) {
      const v1::Range& range = field.options().GetExtension(v1::range);
      const double value = field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE ? field.default_value_double()
                           : field.cpp_type() == FieldDescriptor::CPPTYPE_INT64
                               ? static_cast<double>(field.default_value_int64())
                               : static_cast<double>(field.default_value_int32());
      EXPECT_GE(value, range.min()) << field.full_name();
      EXPECT_LE(value, range.max()) << field.full_name();
    }
  }
}

TEST(TextConfigTest, DefaultsOfTheSchemaAreAcceptable) {
  ExpectAcceptableDefaults(*v1::RunAgreement::descriptor());
  ExpectAcceptableDefaults(*v1::LabelPartyConfig::descriptor());
  ExpectAcceptableDefaults(*v1::NonLabelPartyConfig::descriptor());
}

}  // namespace
}  // namespace splitveil
