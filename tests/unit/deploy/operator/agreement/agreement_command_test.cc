#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/process/file.h"
#include "tests/unit/deploy/operator/operator_tool.h"

namespace splitveil::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kProposal[] =
    "run_name: \"June\" cut_layer: \"second\" cut_width: 64 batch_size: 64 epochs: 2 test_fraction: 0.2\n";

// A non-label party that has prepared its table, and a proposal.
class AgreementCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string table = "id,age\n";
    for (int row = 0; row < 300; ++row) {
      table += "c" + std::to_string(row) + "," + std::to_string(row % 70) + "\n";
    }
    WriteText(At("shop.csv"), table);
    WriteText(At("schema.textproto"), "columns { name: \"id\" kind: ID } columns { name: \"age\" kind: NUMERIC }");
    ExpectDone({"prepare", "--format=table", "--party=nonlabel_party", "--schema=" + At("schema.textproto"),
                "--input=" + At("shop.csv"), "--out=" + folder_.path(), "--test_fraction=0.2"});
    WriteText(At("proposal.textproto"), kProposal);
    WriteText(At("party.textproto"), NonLabelConfigOfPreset());
  }

  static std::string NonLabelConfigOfPreset() {
    return "party { identity { own_name: \"shop.example\" peer_name: \"bank.example\" certificate_path: \"own.pem\" "
           "private_key_path: \"own.key\" authority_path: \"peer.pem\" } dataset { path: \"nonlabel_party.data\" } "
           "optimizer { adam {} } ledger_path: \"ledger.db\" }\n"
           "peer_address: \"bank.example:7443\" model { preset: MULTILAYER_PERCEPTRON }\n";
  }

  std::string At(const std::string& name) const { return folder_.File(name); }
  std::vector<std::string> Accept(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"agreement", "accept", "--proposal=" + At("proposal.textproto"),
                                      "--config=" + At("party.textproto")};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // Of what `show` prints.
  std::string Fingerprint() const {
    const std::string shown = ExpectDone({"agreement", "show", "--agreement=" + At("proposal.textproto")});
    const size_t at = shown.find("\nfingerprint  ") + 14;
    return shown.substr(at, shown.find('\n', at) - at);
  }

  const TempFolder folder_;
};

TEST_F(AgreementCommandTest, BothPartiesSeeTheSameValuesAndFingerprint) {
  const std::string fingerprint = Fingerprint();
  const std::string accepted = ExpectDone(Accept({"--fingerprint=" + fingerprint}));
  EXPECT_THAT(accepted, AllOf(HasSubstr("* epochs"), HasSubstr("2 (default 5)"), HasSubstr("run.textproto: accepted\n"),
                              HasSubstr("fingerprint  " + fingerprint + "\n")));
  EXPECT_EQ(ReadFile(At("run.textproto")).value(), kProposal);
  EXPECT_THAT(ExpectDone({"validate", "--agreement=" + At("run.textproto")}), HasSubstr(fingerprint));
  ExpectDone(Accept());  // Once more is no harm.
}

TEST_F(AgreementCommandTest, ShowSaysWhetherAPartyCanKeepIt) {
  EXPECT_THAT(
      ExpectDone({"agreement", "show", "--agreement=" + At("proposal.textproto"), "--config=" + At("party.textproto")}),
      HasSubstr("party.textproto: can keep it\n"));
}

TEST_F(AgreementCommandTest, AProposalThatTheOtherPartyDoesNotMeanIsRefused) {
  const std::string fingerprint = Fingerprint();
  std::string changed = kProposal;
  changed.replace(changed.find("epochs: 2"), 9, "epochs: 9");
  WriteText(At("proposal.textproto"), changed);
  EXPECT_THAT(ExpectError(2, Accept({"--fingerprint=" + fingerprint})),
              HasSubstr("expected the fingerprint " + fingerprint));
  EXPECT_FALSE(std::filesystem::exists(At("run.textproto")));
}

TEST_F(AgreementCommandTest, AProposalThatTellsMoreOfOnesDataIsRefusedUnlessAllowed) {
  WriteText(At("proposal.textproto"),
            "run_name: \"June\" cut_layer: \"embedding\" cut_width: 1 batch_size: 64 epochs: 2 test_fraction: 0.2\n");
  EXPECT_THAT(ExpectError(2, Accept()), AllOf(HasSubstr("cut_layer: these values may reveal more"),
                                              HasSubstr("accept them with --allow=cut_layer")));
  EXPECT_FALSE(std::filesystem::exists(At("run.textproto")));
  EXPECT_THAT(ExpectDone(Accept({"--allow=cut_layer"})),
              HasSubstr("! cut_layer tells more of the non-label party's features than the default does\n"));
}

TEST_F(AgreementCommandTest, ARefusalNamesAllThatWouldHaveToBeAllowed) {
  WriteText(At("proposal.textproto"),
            "run_name: \"June\" cut_layer: \"embedding\" cut_width: 1 batch_size: 64 epochs: 2 test_fraction: 0.2 "
            "alignment { max_ids: 1000000000 }\n");
  EXPECT_THAT(ExpectError(2, Accept()), HasSubstr("accept them with --allow=alignment.max_ids,cut_layer"));
  EXPECT_THAT(ExpectDone(Accept({"--allow=alignment.max_ids,cut_layer"})),
              HasSubstr("! alignment.max_ids tells more of either party's data than the default does\n"));
}

// A pipe gives its bytes once.
TEST_F(AgreementCommandTest, WhatIsKeptIsWhatWasChecked) {
  ExpectDone({"agreement", "accept", "--proposal=/dev/stdin", "--config=" + At("party.textproto")}, kProposal);
  EXPECT_EQ(ReadFile(At("run.textproto")).value(), kProposal);
}

TEST_F(AgreementCommandTest, AProposalThatOnesDataOrModelCannotKeepIsRefused) {
  std::string changed = kProposal;
  changed.replace(changed.find("0.2"), 3, "0.3");
  WriteText(At("proposal.textproto"), changed);
  EXPECT_THAT(ExpectError(2, Accept()), HasSubstr("test_fraction: expected data prepared for 0.3"));
  changed = kProposal;
  changed.replace(changed.find("second"), 6, "ninth");
  WriteText(At("proposal.textproto"), changed);
  EXPECT_THAT(ExpectError(2, Accept()), HasSubstr("party.textproto: model.layers: expected one named \"ninth\""));
  EXPECT_FALSE(std::filesystem::exists(At("run.textproto")));
}

TEST_F(AgreementCommandTest, AnotherAgreementIsReplacedOnlyWhenAsked) {
  WriteText(At("run.textproto"), "another");
  EXPECT_THAT(ExpectError(2, Accept()), HasSubstr("run.textproto: holds a different agreement already"));
  EXPECT_EQ(ReadFile(At("run.textproto")).value(), "another");
  ExpectDone(Accept({"--force"}));
  EXPECT_EQ(ReadFile(At("run.textproto")).value(), kProposal);
}

}  // namespace
}  // namespace splitveil::testing
