// `splitveil align` of both parties: two processes, mutual TLS, real data, no run.
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "common/dataset/dataset.h"
#include "tests/testing/process/child_process.h"
#include "tests/testing/two_party_run.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

class AlignTest : public ::testing::Test {
 protected:
  AlignTest() { Write("run.textproto", run_.label_agreement); }

  void Write(const std::string& name, const google::protobuf::Message& message) const {
    std::string text;
    google::protobuf::TextFormat::PrintToString(message, &text);
    std::ofstream(run_.folder + "/" + name) << text;
  }

  std::vector<std::string> Words(const std::string& party, const std::string& agreement) const {
    std::vector<std::string> words = {"align", "--agreement=" + run_.folder + "/" + agreement,
                                      "--config=" + run_.folder + "/" + party + ".textproto",
                                      "--out=" + SharedFile(party)};
    words.insert(words.end(), more_words_.begin(), more_words_.end());
    return words;
  }
  std::string SharedFile(const std::string& party) const { return run_.folder + "/" + party + ".shared"; }

  // The label party's side; waits until it listens and points the non-label party at it.
  std::unique_ptr<RunningProgram> StartLabelSide() {
    Write("label_party.textproto", run_.label_config);
    auto label = std::make_unique<RunningProgram>("splitveil", Words("label_party", "run.textproto"), run_.folder);
    const std::string marker = "listens on port ";
    EXPECT_TRUE(label->WaitForError(marker) && label->WaitForError("\n")) << label->Errors();
    const std::string log = label->Errors();
    const std::vector<std::string> lines = absl::StrSplit(log.substr(log.find(marker) + marker.size()), '\n');
    PointNonLabelPartyAt(lines.front());
    return label;
  }

  void PointNonLabelPartyAt(const std::string& port) {
    run_.nonlabel_config.set_peer_address("127.0.0.1:" + port);
    Write("nonlabel_party.textproto", run_.nonlabel_config);
  }

  ChildResult NonLabelSide(const std::string& agreement = "run.textproto") const {
    std::vector<std::string> words = Words("nonlabel_party", agreement);
    words.insert(words.begin(), BinDir() + "/splitveil");
    return RunChild(words);
  }

  std::set<std::string> Ids(const std::string& party) const {
    const std::shared_ptr<const Dataset> data = *Dataset::Open(run_.folder + "/" + party + ".data");
    std::set<std::string> ids;
    for (size_t row = 0; row < data->ids().size(); ++row) {
      ids.insert(std::string(data->ids()[row]));
    }
    return ids;
  }

  TwoPartyRun run_{400};
  std::vector<std::string> more_words_;
};

TEST_F(AlignTest, BothPartiesGetTheirSharedIdsAndTheAttemptAloneIsRecorded) {
  const std::unique_ptr<RunningProgram> label = StartLabelSide();
  const ChildResult nonlabel = NonLabelSide();
  ASSERT_EQ(nonlabel.exit_code, 0) << nonlabel.err;
  ASSERT_EQ(label->Wait(), 0) << label->Errors();
  const std::set<std::string> ours = Ids("label_party"), theirs = Ids("nonlabel_party");
  std::set<std::string> shared;
  std::set_intersection(ours.begin(), ours.end(), theirs.begin(), theirs.end(), std::inserter(shared, shared.end()));
  ASSERT_LT(shared.size(), ours.size());
  const std::string figures = " shared, [0-9]+ rows of the peer, [0-9.]+ s, [0-9]+ bytes sent, [0-9]+ received\n";
  EXPECT_THAT(label->Output(),
              MatchesRegex(absl::StrCat("label_party: ", ours.size(), " own rows, ", shared.size(), figures)));
  EXPECT_THAT(nonlabel.out,
              MatchesRegex(absl::StrCat("nonlabel_party: ", theirs.size(), " own rows, ", shared.size(), figures)));
  for (const std::string party : {"label_party", "nonlabel_party"}) {
    const std::vector<std::string> lines = absl::StrSplit(ReadWholeFile(SharedFile(party)), '\n', absl::SkipEmpty());
    EXPECT_EQ(std::set<std::string>(lines.begin(), lines.end()), shared) << party;
    EXPECT_EQ(lines.size(), shared.size());
    struct stat facts = {};
    ASSERT_EQ(stat(SharedFile(party).c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0600);
    EXPECT_EQ(LedgerValue(run_.ledger(party), "SELECT count(*) FROM run"), "0");
    EXPECT_EQ(LedgerValue(run_.ledger(party),
                          "SELECT program || ' ' || ids || ' ' || repeated || ' ' || left_out "
                          "FROM alignment"),
              absl::StrCat("align ", Ids(party).size(), " refuse 0"));
  }
}

// Tables that nobody prepared, of different columns, orders, separators and writings; the key has two columns.
TEST_F(AlignTest, TablesOfOwnIdsGiveRowNumbersInOneOrder) {
  std::vector<std::pair<int, int>> ours, theirs;
  std::string our_table = "amount,branch,account\n", their_table = "account\tbranch\n";
  for (int i = 0; i < 300; ++i) {
    ours.emplace_back(i % 7, i);
    absl::StrAppend(&our_table, 1000 - i, ",North ", i % 7, ",", i, ".0\n");
    const int other = 449 - i;
    theirs.emplace_back(other % 7, other);
    absl::StrAppend(&their_table, other, "\tNORTH ", other % 7, "\n");
  }
  run_.label_agreement.mutable_alignment()->add_key_column()->add_id_form(v1::CASE_FOLD);
  run_.label_agreement.mutable_alignment()->add_key_column()->add_id_form(v1::INTEGER);
  Write("run.textproto", run_.label_agreement);
  std::ofstream(run_.folder + "/ours.csv") << our_table;
  std::ofstream(run_.folder + "/theirs.tsv") << their_table;
  std::filesystem::remove_all(run_.folder + "/label_party.data");
  std::filesystem::remove_all(run_.folder + "/nonlabel_party.data");
  more_words_ = {"--ids=" + run_.folder + "/ours.csv", "--key=branch,account"};
  const std::unique_ptr<RunningProgram> label = StartLabelSide();
  more_words_ = {"--ids=" + run_.folder + "/theirs.tsv", "--key=branch,account"};
  const ChildResult nonlabel = NonLabelSide();
  ASSERT_EQ(nonlabel.exit_code, 0) << nonlabel.err;
  ASSERT_EQ(label->Wait(), 0) << label->Errors();
  EXPECT_THAT(label->Output(), StartsWith("label_party: 300 own rows, 150 shared, 300 rows of the peer, "));
  const std::vector<std::string> our_rows =
      absl::StrSplit(ReadWholeFile(SharedFile("label_party")), '\n', absl::SkipEmpty());
  const std::vector<std::string> their_rows =
      absl::StrSplit(ReadWholeFile(SharedFile("nonlabel_party")), '\n', absl::SkipEmpty());
  ASSERT_EQ(our_rows.size(), 150);
  ASSERT_EQ(their_rows.size(), 150);
  std::set<std::pair<int, int>> found;
  for (size_t i = 0; i < our_rows.size(); ++i) {
    const auto& key = ours.at(static_cast<size_t>(std::stoi(our_rows[i])));
    EXPECT_EQ(key, theirs.at(static_cast<size_t>(std::stoi(their_rows[i]))));
    found.insert(key);
  }
  EXPECT_EQ(found.size(), 150);
}

// Each lets the peer try another list of ids, with a run or without.
TEST_F(AlignTest, AttemptsAndRunsCountTogether) {
  run_.label_config.mutable_party()->set_max_alignments(1);
  const std::unique_ptr<RunningProgram> label = StartLabelSide();
  ASSERT_EQ(NonLabelSide().exit_code, 0);
  ASSERT_EQ(label->Wait(), 0) << label->Errors();
  // Known before the peer comes.
  std::vector<std::string> words = Words("label_party", "run.textproto");
  words.insert(words.begin(), BinDir() + "/splitveil");
  const ChildResult again = RunChild(words);
  EXPECT_EQ(again.exit_code, 4) << again.err;
  EXPECT_THAT(again.err, HasSubstr("already counts 1 of at most 1 (party.max_alignments)"));
  run_.StartLabelParty();
  run_.StartNonLabelParty();
  EXPECT_EQ(run_.nonlabel->Wait(), 4) << run_.nonlabel->Errors();
  EXPECT_EQ(run_.label->Wait(), 4) << run_.label->Errors();
}

TEST_F(AlignTest, WithoutALedgerThatCountsItNothingBegins) {
  run_.nonlabel_config.mutable_party()->set_ledger_path("absent/ledger.db");
  PointNonLabelPartyAt("1");
  const ChildResult refused = NonLabelSide();
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("nonlabel_party.textproto: party.ledger_path: "));
}

TEST_F(AlignTest, ATableNeedsAKeyAndAKeyATable) {
  Write("label_party.textproto", run_.label_config);
  for (const char* const flag : {"--ids=table.csv", "--key=id", "--repeated=first"}) {
    std::vector<std::string> words = Words("label_party", "run.textproto");
    words.insert(words.begin(), BinDir() + "/splitveil");
    words.emplace_back(flag);
    EXPECT_EQ(RunChild(words).exit_code, 2) << flag;
  }
}

// Known before anything is sent; an earlier file of own ids may be replaced.
TEST_F(AlignTest, SharedIdsReplaceNothingElse) {
  PointNonLabelPartyAt("1");
  const std::string own = *Ids("nonlabel_party").begin();
  std::ofstream(SharedFile("nonlabel_party")) << own << "\nid,amount\n";
  const ChildResult refused = NonLabelSide();
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err,
              HasSubstr("nonlabel_party.shared: --out: this file holds no earlier shared ids of this party"));
  EXPECT_EQ(ReadWholeFile(SharedFile("nonlabel_party")), own + "\nid,amount\n");
  std::ofstream(SharedFile("label_party")) << *Ids("label_party").begin() << "\n";
  const std::unique_ptr<RunningProgram> label = StartLabelSide();
  std::filesystem::remove(SharedFile("nonlabel_party"));
  EXPECT_EQ(NonLabelSide().exit_code, 0);
  EXPECT_EQ(label->Wait(), 0) << label->Errors();
  EXPECT_GT(std::filesystem::file_size(SharedFile("label_party")), 100U);
}

TEST_F(AlignTest, DifferentAgreementsAreRefusedByBothNamingTheField) {
  run_.nonlabel_agreement.mutable_alignment()->set_chunk_ids(7);
  Write("other.textproto", run_.nonlabel_agreement);
  const std::unique_ptr<RunningProgram> label = StartLabelSide();
  const ChildResult nonlabel = NonLabelSide("other.textproto");
  EXPECT_EQ(nonlabel.exit_code, 4);
  EXPECT_EQ(label->Wait(), 4);
  EXPECT_THAT(nonlabel.err, HasSubstr("chunk_ids"));
  EXPECT_THAT(label->Errors(), HasSubstr("chunk_ids"));
  EXPECT_FALSE(std::filesystem::exists(SharedFile("label_party")));
}

TEST_F(AlignTest, APartyThatWantsToTrainIsRefused) {
  const std::unique_ptr<RunningProgram> label = StartLabelSide();
  ASSERT_TRUE(absl::SimpleAtoi(run_.nonlabel_config.peer_address().substr(10), &run_.label_port));
  run_.StartNonLabelParty();
  EXPECT_EQ(run_.nonlabel->Wait(), 4) << run_.nonlabel->Errors();
  EXPECT_EQ(label->Wait(), 4) << label->Errors();
  EXPECT_THAT(label->Errors(),
              HasSubstr("expected a peer that aligns only (`splitveil align`), found one that wants to"));
}

TEST_F(AlignTest, ALabelPartyThatTrainsRefusesAndWaitsOn) {
  run_.StartLabelParty();
  PointNonLabelPartyAt(absl::StrCat(run_.label_port));
  const ChildResult nonlabel = NonLabelSide();
  EXPECT_EQ(nonlabel.exit_code, 4) << nonlabel.err;
  EXPECT_THAT(nonlabel.err, HasSubstr("expected a label party that aligns only (`splitveil align`), found: "));
  run_.StartNonLabelParty();  // The run itself goes on.
  EXPECT_EQ(run_.nonlabel->Wait(), 0) << run_.nonlabel->Errors();
  EXPECT_EQ(run_.label->Wait(), 0) << run_.label->Errors();
}

TEST_F(AlignTest, NobodyThereIsGivenUpByEither) {
  run_.label_agreement.mutable_deadlines()->set_connect_seconds(1);
  Write("run.textproto", run_.label_agreement);
  EXPECT_EQ(StartLabelSide()->Wait(), 3);
  const ChildResult nonlabel = NonLabelSide();  // At the port of the one that has gone.
  EXPECT_EQ(nonlabel.exit_code, 3) << nonlabel.err;
  EXPECT_THAT(nonlabel.err, StartsWith("splitveil align: error: "));
}

}  // namespace
}  // namespace splitveil::testing
