// Mistakes that new users made, played through the real programs: none ends well, and each is told in one line that
// says what was found and what to set. Those with agreements, identities, ports and absent peers: two_processes_test.cc
// and check_test.cc.
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "tests/testing/process/child_process.h"
#include "tests/testing/two_party_run.h"
#include "tests/unit/deploy/operator/preparation/gzip_bytes.h"

namespace splitveil::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kRows = 400;
constexpr char kLabelSchema[] = R"(columns { name: "id" kind: ID } columns { name: "bought" kind: LABEL }
    columns { name: "age" kind: NUMERIC } columns { name: "town" kind: CATEGORICAL }
)";
constexpr char kNonLabelSchema[] = R"(columns { name: "id" kind: ID } columns { name: "age" kind: NUMERIC }
    columns { name: "town" kind: CATEGORICAL }
)";

// A table of a party: row i has id `prefix` and i, and where it has labels, every third is 1.
std::string Table(const std::string& prefix, bool labels) {
  std::string text = labels ? "id,bought,age,town\n" : "id,age,town\n";
  for (int i = 0; i < kRows; ++i) {
    absl::StrAppend(&text, prefix, i, labels ? (i % 3 == 0 ? ",1" : ",0") : "", ",", 20 + i % 50, ",town ", i % 7,
                    "\n");
  }
  return text;
}

void Write(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

// UTF-16, low byte first, as Windows programs save it.
std::string Utf16(const std::string& ascii) {
  std::string bytes = "\xff\xfe";
  for (const char c : ascii) {
    bytes += c;
    bytes += '\0';
  }
  return bytes;
}

std::string Replaced(const std::string& text, const std::string& from, const std::string& to) {
  return absl::StrReplaceAll(text, {{from, to}});
}

// What `splitveil prepare` says to the label party's table.
class PrepareMistakesTest : public ::testing::Test {
 protected:
  PrepareMistakesTest() { Write(folder_.File("schema"), kLabelSchema); }

  ChildResult Prepare(const std::string& table, const std::vector<std::string>& more = {}) {
    Write(folder_.File("table"), table);
    std::vector<std::string> words = {BinDir() + "/splitveil",
                                      "prepare",
                                      "--format=table",
                                      "--party=label_party",
                                      "--schema=" + folder_.File("schema"),
                                      "--input=" + folder_.File("table"),
                                      "--out=" + folder_.File("out")};
    words.insert(words.end(), more.begin(), more.end());
    return RunChild(words);
  }

  void ExpectAccepted(const std::string& table, const std::vector<std::string>& more = {}) {
    const ChildResult result = Prepare(table, more);
    EXPECT_EQ(result.exit_code, 0) << result.err;
  }

  // Exit code 2, one line with `phrase`, and no data.
  void ExpectRefused(const std::string& phrase, const std::string& table, const std::vector<std::string>& more = {}) {
    const ChildResult result = Prepare(table, more);
    EXPECT_EQ(result.exit_code, 2) << phrase;
    EXPECT_THAT(result.err, HasSubstr(phrase));
    EXPECT_EQ(result.err.find('\n') + 1, result.err.size()) << result.err;
    EXPECT_FALSE(std::filesystem::exists(folder_.File("out/label_party.data"))) << phrase;
  }

  const std::string table_ = Table("a", true);
  TempFolder folder_;
};

TEST_F(PrepareMistakesTest, AnotherSeparatorIsNamed) {
  ExpectRefused(
      "found one without \"id\", \"bought\", \"age\", \"town\"; its separator seems to be \";\", the schema says "
      "\",\": with "
      "separator: "
      "\";\" in the schema it has 4 columns",
      Replaced(table_, ",", ";"));
  ExpectRefused("with separator: \"\\t\" in the schema it has 4 columns", Replaced(table_, ",", "\t"));
  // In a row only, and where the quotes of the other separator's cells are in the way.
  ExpectRefused(
      "table:2:1: expected 4 columns, found 1; its separator seems to be \";\", the schema says \",\": with "
      "separator: \";\" in the schema it has 4 columns",
      "id,bought,age,town\na;1;20;x\n");
  ExpectRefused("table:1:1: expected a quoted cell to end, found none that does; its separator seems to be \";\"",
                "\"id\";\"bought\";\"age\";\"town\"\n");
}

TEST_F(PrepareMistakesTest, AMissingRenamedOrFurtherColumnIsNamed) {
  ExpectRefused("expected a column \"bought\" in the header line, found none", "id,age,town\na,1,x\n");
  ExpectRefused("table:1:3: expected a column of the schema (\"age\" not found), found \"years\"",
                Replaced(table_, "age", "years"));
  ExpectRefused(
      "table:1:4: expected a column of the schema (\"town\" not found), found \"towm\"; if it is \"town\", rename one "
      "of them; a column to leave out has kind: IGNORE",
      Replaced(table_, "town\n", "towm\n"));
  ExpectRefused("found \"phone\"; a column to leave out has kind: IGNORE", "phone," + table_);
}

TEST_F(PrepareMistakesTest, LabelsThatTheSchemaDoesNotKnowSayWhichItDoes) {
  ExpectRefused(
      "table:2:2: bought: expected \"1\" (positive) or \"0\" (negative), as the schema says, found a different text; "
      "its "
      "`positive` and `negative` name others",
      "id,bought,age,town\na,yes,1,x\nb,no,2,y\n");
}

TEST_F(PrepareMistakesTest, ARepeatedIdSaysWhereItWasFirst) {
  ExpectRefused("table:402:1: expected distinct ids, found one again; first in " + folder_.File("table") + ":9",
                table_ + "a7,1,30,x\n");
}

TEST_F(PrepareMistakesTest, AFileCutShortIsRefusedAlsoWhereBadRowsAreSkipped) {
  const std::string whole = GzipBytes(table_);
  const std::string cut = whole.substr(0, whole.size() * 3 / 10);
  ExpectRefused("the gzip stream is cut short", cut);
  ExpectRefused(
      "the gzip stream is cut short; the number of lost rows is unknown: get the whole file, or give the table's row "
      "count with --rows",
      cut, {"--skip_bad_rows"});
  ExpectRefused("expected at least 95% of the 400 rows to be usable, found ", cut, {"--skip_bad_rows", "--rows=400"});
  ExpectAccepted(cut, {"--skip_bad_rows", "--rows=400", "--min_usable_share=0.1"});
}

TEST_F(PrepareMistakesTest, TooManyBadRowsAreRefusedAndTheirFaultNamed) {
  ExpectRefused("expected at least 95% of the 400 rows to be usable, found 266; most often unknown label, first " +
                    folder_.File("table") + ":2:2: bought: expected",
                Replaced(table_, ",1,", ",yes,"), {"--skip_bad_rows"});
}

TEST_F(PrepareMistakesTest, WhatOtherProgramsPutIntoTextsIsReadOrNamed) {
  ExpectAccepted("\xef\xbb\xbf" + table_);         // A byte order mark.
  ExpectAccepted(Replaced(table_, "\n", "\r\n"));  // Of Windows.
  ASSERT_TRUE(std::filesystem::remove_all(folder_.File("out")) > 0);
  ExpectRefused("table:1: expected text in UTF-8, found the byte order mark of UTF-16; `iconv -f UTF-16 -t UTF-8`",
                Utf16(table_));
  ExpectRefused("found a zero byte, of which UTF-16 is full; `iconv -f UTF-16LE -t UTF-8`", Utf16(table_).substr(2));
  ExpectRefused("expected a quoted cell to end with its quote on the same line", table_ + "b,1,30,\"two\nlines\"\n");
  ExpectRefused("expected a header line, found an empty file", "");
}

TEST_F(PrepareMistakesTest, LabelsThatAreAllAlikeAreRefused) {
  ExpectRefused("expected labels that differ among the training rows, found ", Replaced(table_, ",1,", ",0,"));
  // A dozen rows: in the test part there are not two classes.
  ExpectRefused("expected labels that differ among the test rows, found 0, which test_fraction 0.001 keeps for testing",
                table_.substr(0, 200 + table_.substr(200).find('\n') + 1), {"--test_fraction=0.001"});
}

TEST_F(PrepareMistakesTest, AnOutputFolderThatCannotBeMadeIsNamed) {
  Write(folder_.File("out"), "");
  ExpectRefused(folder_.File("out") + ": cannot be made a folder", table_);
}

// A run of both programs.
class RunMistakesTest : public ::testing::Test {
 protected:
  // Replaces a party's data by those of `table`.
  void Prepare(const std::string& party, const std::string& table) {
    const std::string schema = run_.folder + "/" + party + ".schema", input = run_.folder + "/" + party + ".csv";
    Write(schema, party == "label_party" ? kLabelSchema : kNonLabelSchema);
    Write(input, table);
    ASSERT_EQ(TwoPartyRun::Tool({"prepare", "--format=table", "--party=" + party, "--schema=" + schema,
                                 "--input=" + input, "--out=" + run_.folder}),
              0);
  }

  void StartBoth() {
    run_.StartLabelParty();
    run_.StartNonLabelParty();
  }

  void SetEpochs(int epochs) {
    run_.label_agreement.set_epochs(epochs);
    run_.nonlabel_agreement.set_epochs(epochs);
  }

  // Both ended, with these codes, and neither speaks of a complete run.
  void ExpectEnds(int label, int nonlabel) {
    EXPECT_EQ(run_.nonlabel->Wait(), nonlabel) << run_.nonlabel->Errors();
    EXPECT_EQ(run_.label->Wait(), label) << run_.label->Errors();
    EXPECT_THAT(run_.label->Output(), Not(HasSubstr("RESULT")));
  }

  // The label party's configuration as it stands is refused, with exit code 2 and `phrase`: by --check, and so without.
  void ExpectCheckRefuses(const std::string& phrase, bool also_run = false) {
    run_.WriteLabelPartyFiles();
    std::vector<std::string> words = {BinDir() + "/label_party", "--agreement=" + run_.folder + "/label_run.textproto",
                                      "--config=" + run_.folder + "/label_party.textproto", "--check"};
    for (int i = 0; i < (also_run ? 2 : 1); ++i) {
      const ChildResult result = RunChild(words);
      EXPECT_EQ(result.exit_code, 2) << result.err;
      EXPECT_THAT(result.err, HasSubstr(phrase));
      words.pop_back();
    }
  }

  TwoPartyRun run_{2000};
};

TEST_F(RunMistakesTest, IdsThatNeverMeetAreRefusedByBothWithWhatToLookAt) {
  Prepare("label_party", Table("a", true));
  Prepare("nonlabel_party", Table("b", false));
  StartBoth();
  ExpectEnds(2, 2);
  for (const RunningProgram* party : {run_.label.get(), run_.nonlabel.get()}) {
    EXPECT_THAT(party->Errors(),
                AllOf(HasSubstr("alignment: expected at least minimum_batch_size = 16 shared examples, found 0 of 400 "
                                "own ids and 400 of the peer's"),
                      HasSubstr("an id must be the same bytes at both parties"), HasSubstr("`splitveil align`")));
  }
}

TEST_F(RunMistakesTest, IdsOfWhichFewMeetAreAWarningAtBothWithTheLikelyReasons) {
  Prepare("label_party", Table("a", true));
  std::string table = "id,age,town\n";
  for (int i = 0; i < kRows; ++i) {
    absl::StrAppend(&table, i % 10 == 0 ? "a" : "0a", i, ",30,x\n");
  }
  Prepare("nonlabel_party", table);
  StartBoth();
  run_.nonlabel->Wait();
  run_.label->Wait();
  for (const RunningProgram* party : {run_.label.get(), run_.nonlabel.get()}) {
    EXPECT_THAT(party->Errors(),
                AllOf(HasSubstr("only 40 of 400 own ids and 400 of the peer's are shared, 10.0% of the "
                                "smaller table (low_shared_share: 0.2)"),
                      HasSubstr("leading zeros")));
  }
}

// A status that says the label, as every third code: no rank, and no account of labels that would ask.
TEST_F(RunMistakesTest, AColumnMadeFromTheLabelIsAWarningUnderEveryProtection) {
  run_.label_config.mutable_protection()->mutable_none();
  std::string table = "id,bought,age,town\n";
  for (int i = 0; i < kRows; ++i) {
    const bool bought = i % 3 == 0;
    absl::StrAppend(&table, "a", i, bought ? ",1," : ",0,", 3 * (i * 7 % 11) + (bought ? 1 : 0), ",town\n");
  }
  Prepare("label_party", table);
  Prepare("nonlabel_party", Table("a", false));
  StartBoth();
  EXPECT_EQ(run_.nonlabel->Wait(), 0);
  EXPECT_EQ(run_.label->Wait(), 0);
  EXPECT_THAT(run_.label->Errors(),
              HasSubstr("own features: column age alone, value by value, ranks the labels at AUC 1.000"));
}

TEST_F(RunMistakesTest, SharedExamplesOfOneClassAreNoSuccessAndThePeerIsNotTold) {
  Prepare("label_party", Table("a", true));
  std::string table = "id,age,town\n";
  for (int i = 0; i < kRows; ++i) {
    absl::StrAppend(&table, i % 3 == 0 ? "" : absl::StrCat("a", i, ",30,x\n"));  // Of customers who bought nothing.
  }
  Prepare("nonlabel_party", table);
  StartBoth();
  ExpectEnds(0, 0);
  EXPECT_EQ(run_.label->Output(), "");  // No RESULT.
  EXPECT_THAT(run_.label->Errors(),
              AllOf(HasSubstr("ERROR no result: "),
                    HasSubstr("expected labels that differ among the shared training examples, found ")));
}

TEST_F(RunMistakesTest, ColumnsThatNoLayerReadsAreRefused) {
  run_.label_config.mutable_model()->clear_wide();
  ExpectCheckRefuses(
      "model: expected own_features, wide or a file of further arguments, as the label party's data have 13 numeric "
      "and "
      "26 categorical columns, found none that would read them; columns that are not to be used have kind: IGNORE",
      /*also_run=*/true);
}

TEST_F(RunMistakesTest, FilesThatAreNotThereOrOfTheOtherPartyAreNamed) {
  v1::Dataset& dataset = *run_.label_config.mutable_party()->mutable_dataset();
  dataset.set_path("nonlabel_party.data");
  ExpectCheckRefuses("nonlabel_party.data: has no labels, so it is not the label party's data");
  dataset.set_path("absent.data");
  ExpectCheckRefuses("absent.data: cannot be opened: No such file or directory");
  dataset.set_path("label_party.data");
  v1::Identity& identity = *run_.label_config.mutable_party()->mutable_identity();
  for (const auto& [path, what] : {std::pair(identity.mutable_certificate_path(), "this party's certificate"),
                                   {identity.mutable_private_key_path(), "this party's private key"},
                                   {identity.mutable_authority_path(),
                                    "the peer's certificate (the own.pem that it "
                                    "sends) or its authority's"}}) {
    const std::string before = *path;
    *path = "absent.pem";
    ExpectCheckRefuses(absl::StrCat("absent.pem: expected a PEM file, ", what, ", found no file of this name"));
    *path = before;
  }
  identity.set_private_key_path("nonlabel_party.key");
  ExpectCheckRefuses("nonlabel_party.key: expected the private key of");
}

TEST_F(RunMistakesTest, ARunInterruptedByHandIsNoSuccess) {
  SetEpochs(100000);
  for (const bool label_party : {false, true}) {
    StartBoth();
    ASSERT_TRUE(run_.nonlabel->WaitForError("training")) << run_.nonlabel->Errors();
    (label_party ? run_.label : run_.nonlabel)->Signal(SIGINT);
    ExpectEnds(label_party ? 6 : 3, label_party ? 3 : 6);
    EXPECT_THAT((label_party ? run_.label : run_.nonlabel)->Errors(),
                HasSubstr("error: stopped on request, before the run was complete"));
  }
}

TEST_F(RunMistakesTest, ARunInterruptedByHandGoesOnFromItsCheckpoint) {
  SetEpochs(100000);
  v1::PartyCommon* const parties[] = {run_.label_config.mutable_party(), run_.nonlabel_config.mutable_party()};
  parties[0]->set_checkpoint_path("label_party.checkpoint");
  parties[1]->set_checkpoint_path("nonlabel_party.checkpoint");
  StartBoth();
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  for (const v1::PartyCommon* party : parties) {
    while (!std::filesystem::exists(run_.folder + "/" + party->checkpoint_path())) {
      ASSERT_LT(absl::Now(), deadline) << run_.nonlabel->Errors();
      absl::SleepFor(absl::Milliseconds(10));
    }
  }
  run_.label->Signal(SIGTERM);
  ExpectEnds(6, 3);
  SetEpochs(1);
  for (v1::PartyCommon* party : parties) {
    party->set_initial_checkpoint(party->checkpoint_path());
  }
  StartBoth();
  EXPECT_EQ(run_.nonlabel->Wait(), 0) << run_.nonlabel->Errors();
  EXPECT_EQ(run_.label->Wait(), 0) << run_.label->Errors();
  EXPECT_THAT(run_.label->Output(), HasSubstr("\"resumed_from\":\"test-"));
}

TEST_F(RunMistakesTest, AFullDiskEndsTheRunWithThePathAndThePeerIsTold) {
  SetEpochs(100000);
  for (const bool label_party : {true, false}) {
    StartBoth();
    ASSERT_TRUE(run_.nonlabel->WaitForError("training")) << run_.nonlabel->Errors();
    RunningProgram& full = label_party ? *run_.label : *run_.nonlabel;
    full.LimitFileBytes(256 << 10);  // Soon less than the ledger holds.
    RunningProgram& other = label_party ? *run_.nonlabel : *run_.label;
    EXPECT_EQ(full.Wait(), 1) << full.Errors();
    EXPECT_THAT(
        full.Errors(),
        HasSubstr(absl::StrCat("error: ", run_.ledger(label_party ? "label_party" : "nonlabel_party"), ": SQLite: ")));
    EXPECT_EQ(other.Wait(), 3) << other.Errors();
    EXPECT_THAT(other.Errors(), AnyOf(HasSubstr("the label party failed; its own log says why"),
                                      HasSubstr("the label party has ended the"),
                                      HasSubstr("the peer ended the run before it was complete")));
    EXPECT_THAT(run_.label->Output(), Not(HasSubstr("RESULT")));
    // What was there before is still a ledger.
    EXPECT_EQ(TwoPartyRun::Tool(
                  {"report", "--ledger=" + run_.ledger("label_party"), "--out=" + run_.folder + "/report.html"}),
              0);
  }
}

// What fails last: the figures, once the training is complete.
TEST_F(RunMistakesTest, AResultThatCannotBeKeptIsNoSuccessOfEitherParty) {
  SetEpochs(100);  // Some seconds, in which the folder goes.
  ASSERT_EQ(mkdir((run_.folder + "/results").c_str(), 0700), 0);
  run_.label_config.set_result_path("results/result.json");
  StartBoth();
  ASSERT_TRUE(run_.nonlabel->WaitForError("aligned")) << run_.nonlabel->Errors();
  std::filesystem::remove(run_.folder + "/results");
  ExpectEnds(2, 3);
  EXPECT_THAT(run_.label->Errors(), HasSubstr("results/result.json: cannot be created: No such file or directory"));
}

TEST_F(RunMistakesTest, AnExportThatCannotBeKeptIsNoSuccessOfEitherParty) {
  SetEpochs(100);
  run_.nonlabel_config.mutable_party()->set_export_dir("export");
  StartBoth();
  ASSERT_TRUE(run_.nonlabel->WaitForError("aligned")) << run_.nonlabel->Errors();
  std::filesystem::remove(run_.folder + "/export");
  Write(run_.folder + "/export", "");
  EXPECT_NE(run_.nonlabel->Wait(), 0) << run_.nonlabel->Errors();
  EXPECT_THAT(run_.nonlabel->Errors(), HasSubstr("export"));
  EXPECT_EQ(run_.label->Wait(), 3) << run_.label->Errors();
  EXPECT_THAT(run_.label->Errors(), HasSubstr("the peer ended the run before it was complete"));
}

}  // namespace
}  // namespace splitveil::testing
