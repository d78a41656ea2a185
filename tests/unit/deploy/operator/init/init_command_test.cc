#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/process/file.h"
#include "tests/unit/deploy/operator/operator_tool.h"

namespace splitveil::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class InitCommandTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string bank = "customer,income,branch,defaulted\n", shop = "customer;visits;region\n";
    for (int row = 0; row < 400; ++row) {
      const std::string id = "kunde" + std::to_string(row);
      bank += id + "," + std::to_string(1000 + row % 37) + ",b" + std::to_string(row % 3) + "," +
              (row % 4 == 0 ? "yes" : "no") + "\n";
      shop += id + ";" + std::to_string(row % 11) + ".5;" + (row % 2 == 0 ? "hidden_north" : "hidden_south") + "\n";
    }
    WriteText(At("bank.csv"), bank);
    WriteText(At("shop.csv"), shop);
  }

  std::string At(const std::string& name) const { return folder_.File(name); }
  std::vector<std::string> Bank(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"init",
                                      "--role=label_party",
                                      "--table=" + At("bank.csv"),
                                      "--label=defaulted",
                                      "--own_name=bank.example",
                                      "--peer_name=shop.example",
                                      "--out=" + At("bank")};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::vector<std::string> Shop(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"init",
                                      "--role=nonlabel_party",
                                      "--table=" + At("shop.csv"),
                                      "--own_name=shop.example",
                                      "--peer_name=bank.example",
                                      "--out=" + At("shop")};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  static std::vector<std::string> Changed(std::vector<std::string> words, const std::string& from,
                                          const std::string& to) {
    std::replace(words.begin(), words.end(), from, to);
    return words;
  }
  static mode_t ModeOf(const std::string& path) {
    struct stat state = {};
    EXPECT_EQ(stat(path.c_str(), &state), 0) << path;
    return state.st_mode & 0777;
  }

  const TempFolder folder_;
};

TEST_F(InitCommandTest, FromATableToAPartyWhoseFilesFitTogether) {
  const std::string bank = ExpectDone(Bank());
  EXPECT_THAT(bank, AllOf(HasSubstr("bank.csv: 400 rows; separator comma, header line\n"),
                          HasSubstr("  customer   ID           a different value in each row\n"),
                          HasSubstr("  income     NUMERIC      numbers, 37 distinct\n"),
                          HasSubstr("  branch     CATEGORICAL  texts, 3 distinct\n"),
                          HasSubstr("  defaulted  LABEL        two values, 25.0% positive\n"),
                          HasSubstr("label_party.data: 400 rows")));
  ExpectDone(Shop({"--proposal=" + At("bank/run.textproto"), "--peer_certificate=" + At("bank/own.pem")}));
  std::filesystem::copy(At("shop/own.pem"), At("bank/peer.pem"));
  ExpectDone(
      {"agreement", "accept", "--proposal=" + At("bank/run.textproto"), "--config=" + At("shop/party.textproto")});
  EXPECT_THAT(ExpectDone({"validate", "--agreement=" + At("shop/run.textproto"),
                          "--config=" + At("bank/party.textproto"), "--config=" + At("shop/party.textproto")}),
              HasSubstr("valid"));
  for (const std::string party : {"label_party", "nonlabel_party"}) {
    const std::string folder = At(party == "label_party" ? "bank" : "shop");
    const ChildResult checked = RunChild({BinDir() + "/" + party, "--agreement=" + folder + "/run.textproto",
                                          "--config=" + folder + "/party.textproto", "--dry_run"});
    // Port 7443 may be taken on this machine: all else must be in order.
    EXPECT_TRUE(checked.exit_code == 0 || checked.err.find("listen_address") != std::string::npos) << checked.out;
    EXPECT_THAT(checked.out, AllOf(HasSubstr("ok       data"), HasSubstr("ok       certificates")));
  }
}

TEST_F(InitCommandTest, PrivateFilesAreTheOwnersAlone) {
  const mode_t before = umask(0);
  ExpectDone(Bank());
  umask(before);
  for (const char* name : {"own.key", "party.textproto", "schema.textproto", "label_party.data"}) {
    EXPECT_EQ(ModeOf(At(std::string("bank/") + name)), 0600) << name;
  }
  for (const char* name : {"own.pem", "run.textproto"}) {
    EXPECT_EQ(ModeOf(At(std::string("bank/") + name)), 0644) << name;
  }
  EXPECT_EQ(ModeOf(At("bank")), 0755) << "whoever may write to it may replace the certificate";
}

TEST_F(InitCommandTest, PrintsNoCellOfTheTable) {
  for (const std::string& out : {ExpectDone(Bank()), ExpectDone(Shop())}) {
    EXPECT_THAT(out, AllOf(Not(HasSubstr("kunde")), Not(HasSubstr("hidden")), Not(HasSubstr("yes"))));
  }
}

// Names of columns stand in the table, which may be anybody's.
TEST_F(InitCommandTest, NamesCannotSteerTheTerminal) {
  std::string table = "customer,in\x1b[31mcome,bra\xc2\x9bnch\n";
  for (int row = 0; row < 100; ++row) {
    table += "kunde" + std::to_string(row) + "," + std::to_string(row % 37) + ".5,b" + std::to_string(row % 3) + "\n";
  }
  WriteText(At("shop.csv"), table);
  const std::string out = ExpectDone(Shop());
  EXPECT_THAT(out,
              AllOf(HasSubstr("  in [31mcome  NUMERIC      numbers"), HasSubstr("  bra nch      CATEGORICAL  texts"),
                    Not(HasSubstr("\x1b")), Not(HasSubstr("\xc2\x9b"))));
}

TEST_F(InitCommandTest, SaysThatLinesEndInCarriageReturnsAlone) {
  std::string table = ReadFile(At("bank.csv")).value();
  std::replace(table.begin(), table.end(), '\n', '\r');
  WriteText(At("bank.csv"), table);
  EXPECT_THAT(ExpectError(2, Bank()), HasSubstr("bank.csv:1: expected lines that end in LF or CR LF, found ones that "
                                                "end in CR alone; `tr '\\r' '\\n'` converts it"));
}

TEST_F(InitCommandTest, FilesAreCommentedAndSayWhatWasAskedFor) {
  ExpectDone(Bank(
      {"--protection=marvell", "--max_run_auc_bound=0.65", "--model=WIDE_AND_DEEP", "--epochs=3", "--run_name=June"}));
  EXPECT_THAT(ReadFile(At("bank/party.textproto")).value(),
              AllOf(HasSubstr("marvell { run_budget { max_run_auc_bound: 0.65 }"), HasSubstr("# Private configuration"),
                    HasSubstr("preset: WIDE_AND_DEEP")));
  EXPECT_THAT(ReadFile(At("bank/run.textproto")).value(),
              AllOf(HasSubstr("run_name: \"June\""), HasSubstr("epochs: 3"), HasSubstr("cut_layer: \"third\""),
                    HasSubstr("# Proposal of the agreement")));
  EXPECT_THAT(ReadFile(At("bank/schema.textproto")).value(),
              HasSubstr("columns { name: \"income\" kind: NUMERIC }  # numbers, 37 distinct"));
}

// Older activations cost quality where epochs are short.
TEST_F(InitCommandTest, ProposesToMeasureTheLinkWhereThereAreManyBatches) {
  ExpectDone(Bank());
  EXPECT_THAT(ReadFile(At("bank/run.textproto")).value(),
              AllOf(HasSubstr("in_flight_batches: 1\n"), HasSubstr("batch_size: 256\n")));
  std::string table = "customer,income,branch,defaulted\n";
  for (int row = 0; row < 50'000; ++row) {
    absl::StrAppend(&table, "kunde", row, ",", row % 37, ",b", row % 3, ",", row % 4 == 0 ? "yes" : "no", "\n");
  }
  WriteText(At("bank.csv"), table);
  ExpectDone(Bank({"--force"}));
  EXPECT_THAT(ReadFile(At("bank/run.textproto")).value(),
              AllOf(HasSubstr("in_flight_batches: 0\n"), HasSubstr("batch_size: 1024\n")));
  ExpectDone({"validate", "--agreement=" + At("bank/run.textproto"), "--config=" + At("bank/party.textproto")});
  ExpectDone(Bank({"--force", "--batch_size=10000"}));
  EXPECT_THAT(ReadFile(At("bank/run.textproto")).value(), HasSubstr("in_flight_batches: 1\n"));
}

TEST_F(InitCommandTest, ReplacesNothingUnlessForcedAndAKeyNever) {
  ExpectDone(Bank());
  const std::string key = ReadFile(At("bank/own.key")).value();
  EXPECT_THAT(ExpectError(2, Bank()), HasSubstr("bank/schema.textproto: expected no file of this name"));
  EXPECT_THAT(ExpectDone(Bank({"--force", "--ignore=branch"})), HasSubstr("own.key: kept"));
  EXPECT_EQ(ReadFile(At("bank/own.key")).value(), key);
  EXPECT_THAT(ReadFile(At("bank/schema.textproto")).value(), HasSubstr("\"branch\" kind: IGNORE"));
}

TEST_F(InitCommandTest, MakesARequestForAnAuthorityInstead) {
  EXPECT_THAT(ExpectDone(Bank({"--certificate=request"})), HasSubstr("splitveil certificates sign"));
  EXPECT_TRUE(std::filesystem::exists(At("bank/own.csr")));
  EXPECT_FALSE(std::filesystem::exists(At("bank/own.pem")));
  EXPECT_THAT(ReadFile(At("bank/party.textproto")).value(), HasSubstr("authority_path: \"authority.pem\""));
}

TEST_F(InitCommandTest, PreparesForTheProposalsSplit) {
  ExpectDone(Bank({"--test_fraction=0.3"}));
  ExpectDone(Shop({"--proposal=" + At("bank/run.textproto")}));
  ExpectDone(
      {"agreement", "accept", "--proposal=" + At("bank/run.textproto"), "--config=" + At("shop/party.textproto")});
}

TEST_F(InitCommandTest, AsksAtATerminalForWhatIsMissing) {
  ChildOptions options;
  options.standard_input = "label_party\n" + At("bank.csv") + "\ndefaulted\nbank.example\nshop.example\n\nmarvell\n" +
                           "0.6\n" + At("asked") + "\n";
  // script(1) of bsdutils gives the program a terminal.
  const ChildResult result = RunChild(
      {"/usr/bin/script", "--quiet", "--return", "--command", BinDir() + "/splitveil init", "/dev/null"}, options);
  EXPECT_EQ(result.exit_code, 0) << result.out;
  EXPECT_THAT(result.out, AllOf(HasSubstr("Which party is this (label_party, nonlabel_party): "),
                                HasSubstr("Where to listen [0.0.0.0:7443]: ")));
  EXPECT_THAT(ReadFile(At("asked/party.textproto")).value(),
              HasSubstr("marvell { run_budget { max_run_auc_bound: 0.6 }"));
}

TEST_F(InitCommandTest, FailsWithOneLineThatNamesTheFlag) {
  EXPECT_THAT(ExpectError(2, {"init"}), HasSubstr("expected --role, found none"));
  EXPECT_THAT(ExpectError(2, {"init", "--role=label_party", "--table=x.csv"}), HasSubstr("expected --label"));
  EXPECT_THAT(ExpectError(2, Bank({"--max_run_auc_bound=0.4"})), HasSubstr("--max_run_auc_bound: expected"));
  EXPECT_THAT(ExpectError(2, Shop({"--peer_certificate=" + At("shop.csv")})),
              HasSubstr("shop.csv: expected certificates in PEM"));
  EXPECT_THAT(ExpectError(2, Bank({"--listen_address=foo"})), HasSubstr("--listen_address: expected"));
  EXPECT_THAT(ExpectError(2, Shop({"--peer_address=foo"})), HasSubstr("--peer_address: expected"));
  EXPECT_THAT(ExpectError(2, Changed(Bank(), "--peer_name=shop.example", "--peer_name=bank.example")),
              HasSubstr("--peer_name: expected a different name from --own_name"));
  EXPECT_FALSE(std::filesystem::exists(At("bank")));
  EXPECT_FALSE(std::filesystem::exists(At("shop/own.key")));
}

TEST_F(InitCommandTest, FailsForAProtectionThatTheLabelCannotHave) {
  EXPECT_THAT(RunTool(Changed(Bank({"--class=b0", "--class=b1", "--class=b2", "--protection=marvell"}),
                              "--label=defaulted", "--label=branch"))
                  .err,
              HasSubstr("--protection: expected gaussian_label_dp, or none, as branch is no label of two values"));
  EXPECT_FALSE(std::filesystem::exists(At("bank")));
}

TEST_F(InitCommandTest, AFailureLeavesNothingThatStopsTheNextTry) {
  // ExpectError wants nothing on standard output, but what was found of the table is printed by then.
  EXPECT_THAT(RunTool(Bank({"--batch_size=1"})).err, HasSubstr("batch_size: expected"));
  EXPECT_FALSE(std::filesystem::exists(At("bank")));
  WriteText(At("bank.csv"), "customer,income,defaulted\na,1,yes\nb,2,no\nc,3,no\n");  // Too few to be tested on.
  EXPECT_EQ(RunTool(Bank({"--batch_size=4"})).exit_code, 2);
  EXPECT_FALSE(std::filesystem::exists(At("bank")));
  SetUp();
  std::filesystem::create_directories(At("bank/party.textproto/full"));  // Cannot be replaced by a file.
  EXPECT_EQ(RunTool(Bank({"--force"})).exit_code, 2);
  EXPECT_FALSE(std::filesystem::exists(At("bank/label_party.data")));
  std::filesystem::remove_all(At("bank"));
  ExpectDone(Bank());
}

TEST_F(InitCommandTest, ABadLabelIsNamedByItsLineAndLeftOutWhereThatIsAskedFor) {
  WriteText(At("bank.csv"), ReadFile(At("bank.csv")).value() + "last,1000,b1,hidden\n");
  EXPECT_THAT(ExpectError(2, Bank()), HasSubstr("the rarest in 1 of 401 rows, first in line 402"));
  EXPECT_THAT(ExpectDone(Bank({"--skip_bad_rows"})),
              AllOf(HasSubstr("label_party.data: 400 rows"), Not(HasSubstr("hidden"))));
}

TEST_F(InitCommandTest, ACertificateOfThePeersThatIsThereAlreadyIsNoHarm) {
  ExpectDone(Bank());
  const std::string peer = "--peer_certificate=" + At("bank/own.pem");
  ExpectDone(Shop({peer}));
  ExpectDone(Shop({peer, "--force"}));
  WriteText(At("shop/peer.pem"), "another");
  EXPECT_THAT(RunTool(Shop({peer, "--force"})).err,
              HasSubstr("shop/peer.pem: expected no file of this name, found one; keys and certificates are never"));
}

TEST_F(InitCommandTest, FailsForFlagsThatWouldHaveNoEffect) {
  EXPECT_THAT(ExpectError(2, Bank({"--peer_address=x:1"})),
              HasSubstr("--peer_address: has no effect at the label party"));
  EXPECT_THAT(ExpectError(2, Bank({"--protection=none", "--max_run_auc_bound=0.7"})),
              HasSubstr("--max_run_auc_bound: has no effect beside --protection=none"));
  EXPECT_THAT(ExpectError(2, Shop({"--protection=none"})), HasSubstr("--protection: has no effect at the non-label"));
  EXPECT_THAT(ExpectError(2, Shop({"--proposal=x", "--epochs=3"})),
              HasSubstr("--epochs: has no effect beside --proposal"));
}

TEST_F(InitCommandTest, TheNonLabelPartyMayProposeToo) {
  ExpectDone(Shop({"--model=WIDE_AND_DEEP", "--test_fraction=0.2"}));
  ExpectDone(Bank({"--proposal=" + At("shop/run.textproto"), "--peer_certificate=" + At("shop/own.pem")}));
  EXPECT_THAT(ReadFile(At("bank/party.textproto")).value(), HasSubstr("preset: WIDE_AND_DEEP"));
  ExpectDone(
      {"agreement", "accept", "--proposal=" + At("shop/run.textproto"), "--config=" + At("bank/party.textproto")});
}

TEST_F(InitCommandTest, FailsForAPeersCertificateOfAnotherNameOrOfAnAuthority) {
  ExpectDone(Bank());
  EXPECT_THAT(
      ExpectError(2,
                  {"init", "--role=nonlabel_party", "--table=" + At("shop.csv"), "--own_name=shop.example",
                   "--peer_name=mallory.example", "--out=" + At("shop"), "--peer_certificate=" + At("bank/own.pem")}),
      HasSubstr(
          "this must be the self-signed certificate of mallory.example, but it is self-signed and has the DNS names "
          "bank.example"));
}

TEST_F(InitCommandTest, FailsForAModelThatCannotKeepTheProposal) {
  ExpectDone(Bank());
  EXPECT_THAT(ExpectError(2, Shop({"--proposal=" + At("bank/run.textproto"), "--model=WIDE_AND_DEEP"})),
              HasSubstr("--model: expected a model with layer \"second\" of 64 numbers"));
}

// The second party learns before a run what an alignment would hide.
TEST_F(InitCommandTest, TheProposalSaysHowIdsLookAndTheSecondPartyIsWarnedOfADifference) {
  ExpectDone(Bank());
  EXPECT_THAT(
      ReadFile(At("bank/run.textproto")).value(),
      AllOf(HasSubstr("id_column: \"customer\""), HasSubstr("id_shape: \"100% a9{6-8}\""), Not(HasSubstr("kunde"))));
  EXPECT_THAT(ReadFile(At("bank/schema.textproto")).value(), HasSubstr("kind: ID id_form: UNICODE_NFC }"));
  const std::vector<std::string> shop = Shop({"--proposal=" + At("bank/run.textproto")});
  EXPECT_THAT(RunTool(shop).err, Not(HasSubstr("ids")));
  std::string capitals = "client;visits\n";
  for (int row = 0; row < 400; ++row) {
    capitals += "KUNDE" + std::to_string(row) + ";" + std::to_string(row % 11) + "\n";
  }
  WriteText(At("shop.csv"), capitals);
  std::vector<std::string> again = shop;
  again.push_back("--force");
  EXPECT_THAT(RunTool(again).err,
              AllOf(HasSubstr("the other party's ids are in its column \"customer\", this table's in \"client\""),
                    HasSubstr("look like 100% a9{6-8}; this table's like 100% A9{6-8}"), Not(HasSubstr("KUNDE"))));
}

TEST_F(InitCommandTest, TheSecondPartyTakesTheAgreedFormOfIds) {
  std::string bank = "customer,income,defaulted\n", shop = "customer,visits\n";
  for (int row = 0; row < 400; ++row) {
    bank += std::to_string(7000 + row) + "," + std::to_string(1000 + row % 37) + "," + std::to_string(row % 2) + "\n";
    shop += std::to_string(7000 + row) + (row < 280 ? "" : ".0") + "," + std::to_string(row % 11) + "\n";
  }
  WriteText(At("bank.csv"), bank);
  WriteText(At("shop.csv"), shop);
  ExpectDone(Bank());
  EXPECT_THAT(ReadFile(At("bank/run.textproto")).value(), HasSubstr("id_form: UNICODE_NFC id_form: INTEGER"));
  EXPECT_THAT(RunTool(Shop()).err, HasSubstr("280 without a fraction, first in line 2; 120 with .0"));
  ExpectDone(Shop({"--proposal=" + At("bank/run.textproto")}));
  ExpectDone(
      {"agreement", "accept", "--proposal=" + At("bank/run.textproto"), "--config=" + At("shop/party.textproto")});
  EXPECT_THAT(ExpectError(2, Shop({"--proposal=" + At("bank/run.textproto"), "--id_form=INTEGER", "--force"})),
              HasSubstr("--id_form: has no effect"));
}

TEST_F(InitCommandTest, TakesTheTableFromStandardInput) {
  const std::string table = ReadFile(At("shop.csv")).value();
  std::vector<std::string> words = Changed(Shop(), "--table=" + At("shop.csv"), "--table=-");
  EXPECT_THAT(ExpectDone(words, table), HasSubstr("nonlabel_party.data: 400 rows"));
  EXPECT_THAT(ExpectError(2, Changed(words, "--out=" + At("shop"), "--out=" + At("other")), ""),
              HasSubstr("expected a table, found an empty file"));
}

// Amounts over four orders of magnitude, which are scaled by a logarithm: differences are those of the amounts.
TEST_F(InitCommandTest, WarnsOfColumnsThatAreMadeFromTheLabel) {
  std::string table = "customer,before,after,defaulted\n";
  for (int row = 0; row < 2000; ++row) {
    const int before = static_cast<int>(std::exp(4.6 + 6.9 * (row * 7919 % 2003) / 2003));
    table += "kunde" + std::to_string(row) + "," + std::to_string(before) + "," +
             std::to_string(before - (row % 4 == 0 ? 17 : 3) - row % 5) + (row % 4 == 0 ? ",yes\n" : ",no\n");
  }
  WriteText(At("bank.csv"), table);
  const ChildResult result = RunTool(Bank({"--protection=none"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("scaled as logarithms"));
  EXPECT_THAT(result.err, HasSubstr("the difference of columns before and after ranks the labels at AUC 0.9"));
}

}  // namespace
}  // namespace splitveil::testing
