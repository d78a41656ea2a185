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

TEST_F(InitCommandTest, SaysHowManyRowsAreLeftOutAndWhy) {
  const std::string bank = *ReadFile(At("bank.csv"));
  const size_t first = bank.find('\n') + 1;
  const std::string row = bank.substr(first, bank.find('\n', first) + 1 - first);
  WriteText(At("bank.csv"), bank + row + row.substr(row.find(',')));
  const std::string id = "--id=" + bank.substr(0, bank.find(','));
  EXPECT_THAT(
      ExpectDone(Bank({id, "--skip_bad_rows"})),
      AllOf(HasSubstr("\nleft out: missing id: 1 rows\nleft out: repeated id: 1 rows (the first of each id is kept)\n"),
            HasSubstr("label_party.data: 400 rows")));
}

TEST_F(InitCommandTest, FromATableToAPartyWhoseFilesFitTogether) {
  const std::string bank = ExpectDone(Bank());
  EXPECT_THAT(bank,
              AllOf(HasSubstr("bank.csv: 400 rows; separator comma, header line\n"),
                    HasSubstr("  customer   ID           a different value in each row; capitals are small letters\n"),
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
  EXPECT_EQ(ModeOf(At("bank")), 0755) << "a user who may write to it may replace the certificate";
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

// Both tables with a patient number, which repeats three times, and a day.
class SplitInitTest : public InitCommandTest {
 protected:
  void SetUp() override {
    InitCommandTest::SetUp();
    std::string bank = "customer,patient_nbr,day,income,defaulted\n", shop = "customer;PatientNbr;when;visits\n";
    for (int row = 0; row < 400; ++row) {
      const std::string id = "kunde" + std::to_string(row), patient = std::to_string(70 + 13 * (row / 3));
      const std::string day = absl::StrCat("2024-0", 1 + row % 5, "-1", row % 7);
      bank += absl::StrCat(id, ",", patient, ",", day, ",", 1000 + row % 37, ",", row % 4 == 0 ? "yes" : "no", "\n");
      shop += absl::StrCat(id, ";", patient, ";", day, ";", row % 11, ".5\n");
    }
    WriteText(At("bank.csv"), bank);
    WriteText(At("shop.csv"), shop);
  }
  std::vector<std::string> Accept() const {
    return {"agreement", "accept", "--proposal=" + At("bank/run.textproto"), "--config=" + At("shop/party.textproto")};
  }
};

TEST_F(SplitInitTest, ANumberThatRepeatsIsNoFeatureAndTheFlagIsNamed) {
  EXPECT_THAT(
      ExpectDone(Bank()),
      AllOf(HasSubstr("  patient_nbr  IGNORE       repeats as the number of a person does, 134 distinct; "
                      "--group keeps a person's rows on one side"),
            HasSubstr("  day          IGNORE       dates, 35 distinct; --time with --test_after splits by it")));
  EXPECT_THAT(ReadFile(At("bank/run.textproto")).value(), Not(HasSubstr("split_by_group")));
}

TEST_F(SplitInitTest, TheSecondPartyFollowsASplitByGroup) {
  EXPECT_THAT(ExpectDone(Bank({"--group=patient_nbr"})), HasSubstr("  patient_nbr  GROUP        all rows of a value"));
  EXPECT_THAT(ReadFile(At("bank/run.textproto")).value(), HasSubstr("\nsplit_by_group: true\n"));
  // No flag: the only column that looks like it.
  EXPECT_THAT(ExpectDone(Shop({"--proposal=" + At("bank/run.textproto")})), HasSubstr("  PatientNbr  GROUP  "));
  ExpectDone(Accept());
}

TEST_F(SplitInitTest, TheSecondPartySaysAtOnceWhatASplitByGroupLacks) {
  ExpectDone(Bank({"--group=patient_nbr"}));
  WriteText(At("shop.csv"), "customer;visits\nkunde0;1.5\nkunde1;2.5\nkunde2;1.5\n");
  const std::string proposal = "--proposal=" + At("bank/run.textproto");
  EXPECT_THAT(ExpectError(2, Shop({proposal})),
              HasSubstr("shop.csv: the rows are to be split by groups (split_by_group), so this table needs the column "
                        "with the same groups as the other party's; none looks like it. Set --group=COLUMN, or agree "
                        "on another split"));
  EXPECT_FALSE(std::filesystem::exists(At("shop")));
  std::string two = "customer;client;member;visits\n";
  for (int row = 0; row < 200; ++row) {
    two += absl::StrCat("kunde", row, ";c", row / 2, ";m", row / 3, ";", row % 9, ".5\n");
  }
  WriteText(At("shop.csv"), two);
  EXPECT_THAT(ExpectError(2, Shop({proposal})), HasSubstr("several look like it: \"client\", \"member\". Set --group"));
  ExpectDone(Shop({proposal, "--group=member"}));
  ExpectDone(Accept());
}

TEST_F(SplitInitTest, TheSecondPartyFollowsASplitByTime) {
  EXPECT_THAT(ExpectDone(Bank({"--time=day", "--test_after=2024-05-01"})), HasSubstr("  day          TIME  "));
  EXPECT_THAT(ReadFile(At("bank/run.textproto")).value(), HasSubstr("\ntest_after: \"2024-05-01\"\n"));
  EXPECT_THAT(ExpectDone(Shop({"--proposal=" + At("bank/run.textproto")})), HasSubstr("  when        TIME  "));
  ExpectDone(Accept());
}

TEST_F(SplitInitTest, FailsForASplitThatIsNotProposedOrNotWhole) {
  EXPECT_THAT(ExpectError(2, Bank({"--time=day"})), HasSubstr("expected --test_after, found none"));
  EXPECT_THAT(ExpectError(2, Bank({"--group=patient_nbr", "--test_after=2024-05-01"})),
              HasSubstr("--group: expected one split, found --time or --test_after beside it"));
  EXPECT_THAT(ExpectError(2, Bank({"--group=patient"})), HasSubstr("--group: expected a column of"));
  ExpectDone(Bank());
  const std::string proposal = "--proposal=" + At("bank/run.textproto");
  EXPECT_THAT(ExpectError(2, Shop({proposal, "--group=PatientNbr"})),
              HasSubstr("--group: expected a proposal that splits the rows so (split_by_group), found "));
  EXPECT_THAT(ExpectError(2, Shop({proposal, "--test_after=2024-05-01"})), HasSubstr("--test_after: has no effect"));
}

TEST_F(InitCommandTest, BothPartiesKeepTheirAlignmentForTheNextRun) {
  ExpectDone(Bank());
  ExpectDone(Shop({"--proposal=" + At("bank/run.textproto")}));
  for (const char* party : {"bank", "shop"}) {
    EXPECT_THAT(ReadFile(At(std::string(party) + "/party.textproto")).value(),
                HasSubstr("\n  alignment_cache_path: \"alignment\"\n"));
  }
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
              HasSubstr("--protection: marvell needs a label of two values, and branch is none"));
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
  EXPECT_THAT(ReadFile(At("bank/schema.textproto")).value(),
              HasSubstr("kind: ID id_form: UNICODE_NFC id_form: CASE_FOLD }"));
  const std::vector<std::string> shop = Shop({"--proposal=" + At("bank/run.textproto")});
  EXPECT_THAT(RunTool(shop).err, Not(HasSubstr("ids")));
  std::vector<std::string> again = shop;
  again.push_back("--force");
  const auto rename = [&](const std::string& prefix) {
    std::string table = "client;visits\n";
    for (int row = 0; row < 400; ++row) {
      table += prefix + std::to_string(row) + ";" + std::to_string(row % 11) + "\n";
    }
    WriteText(At("shop.csv"), table);
    return RunTool(again).err;
  };
  // Capitals are small letters in the form that the proposal gives ids without capitals.
  EXPECT_THAT(rename("KUNDE"),
              AllOf(HasSubstr("the other party's ids are in its column \"customer\", this table's in \"client\""),
                    Not(HasSubstr("look like"))));
  EXPECT_THAT(rename("KUNDE-"),
              AllOf(HasSubstr("look like 100% a9{6-8}; this table's like 100% a{5}-9{1-3}"), Not(HasSubstr("KUNDE"))));
}

TEST_F(InitCommandTest, CapitalsInSomeIdsAreAnErrorUntilBothPartiesFoldThem) {
  std::string bank = "customer,income,defaulted\n", shop = "customer,visits\n";
  const char* const names[] = {"José", "Zoë", "Anna"};
  const char* const capitals[] = {"JOSÉ", "ZOË", "ANNA"};
  for (int row = 0; row < 400; ++row) {
    const std::string number = "-" + std::to_string(row);
    bank += names[row % 3] + number + "," + std::to_string(1000 + row % 37) + "," + std::to_string(row % 2) + "\n";
    shop += (row % 5 == 0 ? capitals : names)[row % 3] + number + "," + std::to_string(row % 11) + "\n";
  }
  WriteText(At("bank.csv"), bank);
  WriteText(At("shop.csv"), shop);
  ExpectDone(Bank());
  EXPECT_THAT(ExpectError(2, Shop({"--proposal=" + At("bank/run.textproto")})),
              AllOf(HasSubstr("80 in capitals, first in line 2; 320 with capitals in front of words, first in line 3"),
                    HasSubstr("--id_form=CASE_FOLD"), Not(HasSubstr("Zo"))));
  ExpectDone(Bank({"--id_form=CASE_FOLD", "--force"}));
  EXPECT_THAT(RunTool(Shop({"--proposal=" + At("bank/run.textproto")})).err, Not(HasSubstr("look like")));
}

TEST_F(InitCommandTest, SeveralTablesAreOne) {
  std::string more = "customer;visits;region\n";
  for (int row = 400; row < 500; ++row) {
    more += "kunde" + std::to_string(row) + ";" + std::to_string(row % 11) + ".5;hidden_east\n";
  }
  WriteText(At("more.csv"), more);
  EXPECT_THAT(ExpectDone(Shop({"--table=" + At("more.csv")})),
              AllOf(HasSubstr("shop.csv: 500 rows in 2 files; "), HasSubstr("nonlabel_party.data: 500 rows")));
  EXPECT_THAT(ReadFile(At("shop/schema.textproto")).value(), Not(HasSubstr("optional")));
  const ChildResult twice = RunTool(Shop({"--table=" + At("shop.csv"), "--force"}));  // Each id once.
  EXPECT_EQ(twice.exit_code, 2);
  EXPECT_THAT(twice.err, HasSubstr("shop.csv"));
}

TEST_F(InitCommandTest, BothPartiesCheckTheAgreedPatternOfIds) {
  std::string bank = "customer,income,defaulted\n", shop = "customer,visits\n";
  for (int row = 0; row < 400; ++row) {
    bank += "C-" + std::to_string(7000 + 37 * row % 400) + "," + std::to_string(1000 + row % 37) + "," +
            std::to_string(row % 2) + "\n";
    shop +=
        "C-" + std::to_string(7000 + 37 * row % 400) + (row == 280 ? "x" : "") + "," + std::to_string(row % 11) + "\n";
  }
  WriteText(At("bank.csv"), bank);
  WriteText(At("shop.csv"), shop);
  ExpectDone(Bank({"--id_pattern=c-\\d{4}", "--id_form=CASE_FOLD"}));
  EXPECT_THAT(ReadFile(At("bank/run.textproto")).value(), HasSubstr("id_pattern: \"c-\\\\d{4}\""));
  const ChildResult odd = RunTool(Shop({"--proposal=" + At("bank/run.textproto")}));
  EXPECT_EQ(odd.exit_code, 2);
  EXPECT_THAT(odd.err,
              HasSubstr("1 row with an id that the agreed id_pattern \"c-\\d{4}\" does not describe: correct or remove "
                        "them (line 282)"));
  WriteText(At("shop.csv"), shop.replace(shop.find('x'), 1, ""));
  ExpectDone(Shop({"--proposal=" + At("bank/run.textproto"), "--force"}));
  ExpectDone(
      {"agreement", "accept", "--proposal=" + At("bank/run.textproto"), "--config=" + At("shop/party.textproto")});
}

TEST_F(InitCommandTest, TheSecondPartyTakesTheAgreedFormOfIds) {
  std::string bank = "customer,income,defaulted\n", shop = "customer,visits\n";
  for (int row = 0; row < 400; ++row) {
    bank += std::to_string(7000 + 37 * row % 400) + "," + std::to_string(1000 + row % 37) + "," +
            std::to_string(row % 2) + "\n";
    shop += std::to_string(7000 + 37 * row % 400) + (row < 280 ? "" : ".0") + "," + std::to_string(row % 11) + "\n";
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

// As `--table=<(zcat shop.csv.gz)` in a shell: the table is read several times, the pipe gives it once.
TEST_F(InitCommandTest, TakesTheTableFromAPipeWithAName) {
  const std::string table = ReadFile(At("shop.csv")).value();
  EXPECT_THAT(ExpectDone(Changed(Shop(), "--table=" + At("shop.csv"), "--table=/dev/fd/0"), table),
              HasSubstr("nonlabel_party.data: 400 rows"));
}

TEST_F(InitCommandTest, AProfileReplacesNothingButAProfile) {
  const std::string table = ReadFile(At("shop.csv")).value();
  for (const char* file : {"shop.csv", "profile.json", "profile.json", "profile.html", "profile.html"}) {
    const ChildResult result = RunTool(Shop({"--profile=" + At(file), "--force"}));
    EXPECT_EQ(result.exit_code, std::string(file) == "shop.csv" ? 2 : 0) << file << result.err;
  }
  EXPECT_THAT(RunTool(Shop({"--profile=" + At("shop.csv"), "--force"})).err,
              HasSubstr("shop.csv: expected no file of this name"));
  EXPECT_EQ(ReadFile(At("shop.csv")).value(), table);
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
