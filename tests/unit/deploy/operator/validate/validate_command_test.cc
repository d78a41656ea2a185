#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/process/file.h"
#include "tests/unit/deploy/operator/operator_tool.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

class ValidateTest : public ::testing::Test {
 protected:
  ValidateTest() {
    WriteText(agreement_,
              "run_name: \"demo\"\ncut_width: 16\naudit { layers: \"first\" layers: \"cut\" attacks: NORM }\n");
    WriteText(label_, LabelConfig());
    WriteText(nonlabel_, NonLabelConfig());
  }

  std::vector<std::string> All() const {
    return {"validate", "--agreement=" + agreement_, "--label_config=" + label_, "--nonlabel_config=" + nonlabel_};
  }

  TempFolder folder_;
  const std::string agreement_ = folder_.File("run.textproto");
  const std::string label_ = folder_.File("label_party.textproto");
  const std::string nonlabel_ = folder_.File("nonlabel_party.textproto");
};

TEST_F(ValidateTest, AcceptsFilesThatFitAndPrintsTheDigest) {
  const std::string out = ExpectDone(All());
  EXPECT_THAT(out, HasSubstr(agreement_ + ": valid, SHA-256 "));
  EXPECT_THAT(out, HasSubstr(label_ + ": valid\n"));
  EXPECT_THAT(out, HasSubstr(nonlabel_ + ": valid\n"));
}

TEST_F(ValidateTest, AcceptsEachFileAlone) {
  WriteText(agreement_, "run_name: \"demo\"\ncut_width: 16\n");
  EXPECT_THAT(ExpectDone({"validate", "--agreement=" + agreement_}),
              MatchesRegex(".*: valid, SHA-256 [0-9a-f]+\n.*: fingerprint, to compare by voice: [0-9 ]{35}\n"));
  EXPECT_EQ(ExpectDone({"validate", "--label_config=" + label_}), label_ + ": valid\n");
  EXPECT_EQ(ExpectDone({"validate", "--nonlabel_config=" + nonlabel_}), nonlabel_ + ": valid\n");
}

TEST_F(ValidateTest, SaysWhichLayersAnAgreementAloneCannotConfirm) {
  WriteText(agreement_,
            "run_name: \"demo\"\ncut_width: 16\ncut_layer: \"sceond\"\naudit { layers: \"cut\" layers: \"first\" }");
  EXPECT_THAT(
      ExpectDone({"validate", "--agreement=" + agreement_}),
      HasSubstr(agreement_ + ": not checked: cut_layer \"sceond\", audit.layers[1] \"first\"; the layers are in the "
                             "non-label party's configuration (--config=FILE)\n"));
  EXPECT_EQ(
      ExpectError(2, {"validate", "--agreement=" + agreement_, "--config=" + nonlabel_}),
      nonlabel_ + ": model.layers: expected one named \"sceond\", the agreement's cut_layer, found first, second\n");
}

TEST_F(ValidateTest, TellsWhoseConfigurationItIs) {
  EXPECT_EQ(ExpectDone({"validate", "--config=" + nonlabel_, "--config=" + label_}),
            label_ + ": valid\n" + nonlabel_ + ": valid\n");
  WriteText(agreement_, "run_name: \"demo\"\ncut_width: 17\n");
  EXPECT_THAT(ExpectError(2, {"validate", "--agreement=" + agreement_, "--config=" + nonlabel_}),
              HasSubstr("expected 17, the agreed cut width, found 16"));
}

TEST_F(ValidateTest, FailsOnTwoConfigurationsOfOneParty) {
  EXPECT_EQ(ExpectError(2, {"validate", "--config=" + label_, "--label_config=" + label_}),
            "command line: expected one configuration of each party, found " + label_ + " and " + label_ + "\n");
}

TEST_F(ValidateTest, FailsOnNothingToValidate) {
  EXPECT_THAT(ExpectError(2, {"validate"}), StartsWith("command line: expected --agreement or --config, "));
}

TEST_F(ValidateTest, FailsOnAMissingFile) {
  EXPECT_THAT(ExpectError(2, {"validate", "--agreement=" + folder_.File("none")}), StartsWith(folder_.File("none")));
}

TEST_F(ValidateTest, FailsOnAnUnknownFieldWithItsPlace) {
  WriteText(agreement_, "run_name: \"demo\"\ncut_width: 16\n  batchsize: 4\n");
  const std::string error = ExpectError(2, All());
  EXPECT_THAT(error, StartsWith(agreement_ + ":3:3: "));
  EXPECT_THAT(error, HasSubstr("batchsize"));
}

TEST_F(ValidateTest, FailsOnAValueOutOfRangeWithItsPlace) {
  WriteText(agreement_, "run_name: \"demo\"\ncut_width: 0\n");
  const std::string error = ExpectError(2, All());
  EXPECT_THAT(error, StartsWith(agreement_ + ":2:"));
  EXPECT_THAT(error, HasSubstr("cut_width"));
}

TEST_F(ValidateTest, FailsOnNesterovWithoutMomentumAtEitherParty) {
  for (const std::string& file : {label_, nonlabel_}) {
    const std::string whole = *ReadFile(file);
    WriteText(file, absl::StrReplaceAll(whole, {{"adam {}", "sgd { nesterov: true }"}}));
    const std::string error = ExpectError(2, All());
    EXPECT_THAT(error, StartsWith(file + ":"));
    EXPECT_THAT(error, HasSubstr("party.optimizer.sgd.nesterov: expected a momentum above 0 with it, found 0"));
    WriteText(file, whole);
  }
}

TEST_F(ValidateTest, FailsBetweenFieldsOfTheAgreement) {
  WriteText(agreement_, "run_name: \"demo\"\ncut_width: 16\nbatch_size: 8\nminimum_batch_size: 9\n");
  EXPECT_THAT(ExpectError(2, All()), HasSubstr("minimum_batch_size"));
}

TEST_F(ValidateTest, FailsOnAnotherPartysConfiguration) {
  EXPECT_THAT(ExpectError(2, {"validate", "--label_config=" + nonlabel_}), StartsWith(nonlabel_ + ":"));
}

TEST_F(ValidateTest, FailsWhereTheBottomModelDoesNotFitTheCut) {
  WriteText(agreement_, "run_name: \"demo\"\ncut_width: 17\n");
  EXPECT_EQ(ExpectError(2, All()),
            nonlabel_ + ": model.layers[1].units: expected 17, the agreed cut width, found 16\n");
}

TEST_F(ValidateTest, FailsOnAnAuditedLayerThatTheModelLacks) {
  WriteText(agreement_, "run_name: \"demo\"\ncut_width: 16\naudit { layers: \"third\" attacks: NORM }\n");
  EXPECT_THAT(ExpectError(2, All()), HasSubstr("expected one named \"third\", which the agreement audits"));
}

TEST_F(ValidateTest, FailsWherePartiesExpectOtherNames) {
  WriteText(nonlabel_, absl::StrReplaceAll(NonLabelConfig(),
                                           {{absl::StrCat("own_name: \"", kNonLabelName), "own_name: \"stranger"}}));
  EXPECT_THAT(ExpectError(2, All()),
              HasSubstr("party.identity.own_name: expected the label party's peer_name " + std::string(kNonLabelName)));
  WriteText(nonlabel_, absl::StrReplaceAll(NonLabelConfig(),
                                           {{absl::StrCat("peer_name: \"", kLabelName), "peer_name: \"stranger"}}));
  EXPECT_THAT(ExpectError(2, All()), HasSubstr("party.identity.peer_name: expected the label party's own_name"));
}

}  // namespace
}  // namespace splitveil::testing
