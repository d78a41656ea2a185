// Tables after faults that users of other systems reported, a folder each in ../shared/cases: the way of a user through
// the programs. Each ends with the right result, which is that of a clean twin cell by cell (so a model trained on
// either is the same), or with an error or a warning that names the cause.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

#include "common/dataset/dataset.h"
#include "tests/testing/process/child_process.h"
#include "tests/testing/process/running_program.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

constexpr char kCases[] = "../shared/cases";
constexpr char kShop[] = "00-baseline/shop.csv";
constexpr char kBank[] = "00-baseline/bank.csv";
using Flags = std::vector<std::string>;

// A row's features and label at one party, by its id.
struct Row {
  std::vector<float> numbers;
  std::vector<int64_t> categories;
  int label = -1, part = -1;
};
using Rows = std::map<std::string, Row>;

Rows RowsOf(const std::string& path) {
  const auto data = Dataset::Open(path);
  if (!data.ok()) {
    ADD_FAILURE() << data.status();
    return {};
  }
  std::vector<uint32_t> all((*data)->rows());
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = static_cast<uint32_t>(i);
  }
  const FeatureBatch batch = (*data)->Gather(all);
  const size_t categorical = (*data)->features().categorical;
  Rows rows;
  for (size_t i = 0; i < all.size(); ++i) {
    Row& row = rows[std::string((*data)->ids()[i])];
    const auto numbers = batch.numeric.row(static_cast<int64_t>(i));
    row.numbers.assign(numbers.begin(), numbers.end());
    row.categories.assign(batch.categories.begin() + static_cast<int64_t>(i * categorical),
                          batch.categories.begin() + static_cast<int64_t>((i + 1) * categorical));
    row.label = (*data)->labels().empty() ? -1 : (*data)->labels()[i];
    row.part = (*data)->parts().empty() ? -1 : (*data)->parts()[i];
  }
  return rows;
}

// Ids that both have.
size_t Shared(const Rows& a, const Rows& b) {
  return static_cast<size_t>(
      std::count_if(a.begin(), a.end(), [&](const auto& row) { return b.count(row.first) > 0; }));
}

// Cells of rows in both that differ, a label among them.
int64_t Differences(const Rows& a, const Rows& b) {
  int64_t differences = 0;
  for (const auto& [id, row] : a) {
    if (const auto other = b.find(id); other != b.end()) {
      const Row& twin = other->second;
      differences += row.numbers.size() != twin.numbers.size() || row.categories != twin.categories ? 1 : 0;
      for (size_t i = 0; i < std::min(row.numbers.size(), twin.numbers.size()); ++i) {
        differences += std::abs(row.numbers[i] - twin.numbers[i]) > 1e-5F ? 1 : 0;
      }
      differences += row.label != twin.label ? 1 : 0;
    }
  }
  return differences;
}

class SharedCasesTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!fs::exists(kCases)) {
      return;
    }
    folder_ = new TempFolder();
    fs::copy(kCases, At(""), fs::copy_options::recursive);
    for (const auto& entry : fs::recursive_directory_iterator(At(""))) {
      fs::permissions(entry.path(), fs::perms::owner_all, fs::perm_options::add);
    }
    made_ = RunChild({"/usr/bin/python3", At("make_cases.py")});
  }
  static void TearDownTestSuite() {
    delete folder_;
    folder_ = nullptr;
  }
  void SetUp() override {
    if (folder_ == nullptr) {
      GTEST_SKIP() << kCases << " is absent";
    }
    ASSERT_EQ(made_.exit_code, 0) << made_.err;
  }

  static std::string At(const std::string& name) { return folder_->File(name); }

  static ChildResult Tool(std::vector<std::string> words) {
    words.insert(words.begin(), BinDir() + "/splitveil");
    return RunChild(words);
  }

  // `init` of a party, and of the bank for the shop; `at` is the folder of both.
  static ChildResult InitBank(const std::string& at, const std::string& table, const Flags& flags) {
    Flags words = {"init",
                   "--role=label_party",
                   "--table=" + At(table),
                   "--label=defaulted",
                   "--own_name=bank.example",
                   "--peer_name=shop.example",
                   "--listen_address=127.0.0.1:0",
                   "--protection=none",
                   "--epochs=1",
                   "--out=" + At(at + "/bank")};
    words.insert(words.end(), flags.begin(), flags.end());
    return Tool(words);
  }
  static ChildResult InitShop(const std::string& at, const std::string& table, const Flags& flags) {
    Flags words = {"init",
                   "--role=nonlabel_party",
                   "--table=" + (table[0] == '/' ? table : At(table)),
                   "--own_name=shop.example",
                   "--peer_name=bank.example",
                   "--peer_address=127.0.0.1:1",
                   "--proposal=" + At(at + "/bank/run.textproto"),
                   "--peer_certificate=" + At(at + "/bank/own.pem"),
                   "--out=" + At(at + "/shop")};
    words.insert(words.end(), flags.begin(), flags.end());
    return Tool(words);
  }

  // A bank whose table needs no flags; made once.
  static std::string Bank(const std::string& table) {
    const std::string at = absl::StrCat("bank_of_", absl::StrReplaceAll(table, {{"/", "_"}}));
    if (!fs::exists(At(at))) {
      const ChildResult made = InitBank(at, table, {});
      EXPECT_EQ(made.exit_code, 0) << table << ": " << made.err;
    }
    return at;
  }
  // What the shop of that bank is told.
  static ChildResult Shop(const std::string& bank, const std::string& shop, const Flags& flags = {}) {
    const std::string at = Bank(bank);
    fs::remove_all(At(at + "/shop"));
    return InitShop(at, shop, flags);
  }
  static Rows BankRows(const std::string& bank) { return RowsOf(At(Bank(bank) + "/bank/label_party.data")); }
  static Rows ShopRows(const std::string& bank) { return RowsOf(At(Bank(bank) + "/shop/nonlabel_party.data")); }

  // That the shop's table is accepted, and what was made of it.
  static Rows Prepared(const std::string& bank, const std::string& shop, const Flags& flags = {}) {
    const ChildResult made = Shop(bank, shop, flags);
    EXPECT_EQ(made.exit_code, 0) << shop << ": " << made.err;
    return made.exit_code == 0 ? ShopRows(bank) : Rows();
  }

  // Both programs of the parties in `at`, through to their ends. `name`: of the machine in their addresses.
  struct Ends {
    int label, nonlabel;
    std::string label_log, nonlabel_log;
  };
  static Ends Train(const std::string& at, const std::string& name = "127.0.0.1") {
    const Flags words = {"--proposal=" + At(at + "/bank/run.textproto"),
                         "--config=" + At(at + "/shop/party.textproto")};
    const ChildResult accepted = Tool({"agreement", "accept", words[0], words[1]});
    EXPECT_EQ(accepted.exit_code, 0) << accepted.err;
    fs::copy_file(At(at + "/shop/own.pem"), At(at + "/bank/peer.pem"), fs::copy_options::overwrite_existing);
    Replace(At(at + "/bank/party.textproto"), "\"127.0.0.1:0\"", absl::StrCat("\"", name, ":0\""));
    return Run(at, name, "label_party", "nonlabel_party", {}, {});
  }
  static Ends Run(const std::string& at, const std::string& name, const std::string& label_program,
                  const std::string& nonlabel_program, const Flags& label_words, const Flags& nonlabel_words) {
    const auto words = [&](const std::string& party, Flags all) {
      all.insert(all.end(), {"--agreement=" + At(at + "/" + party + "/run.textproto"),
                             "--config=" + At(at + "/" + party + "/party.textproto")});
      return all;
    };
    RunningProgram label(label_program, words("bank", label_words), At(at + "/bank"));
    const std::string marker = "listens on port ";
    EXPECT_TRUE(label.WaitForError(marker) && label.WaitForError("\n")) << label.Errors();
    const std::string log = label.Errors();
    const size_t begin = log.find(marker) + marker.size();
    const std::string port = log.substr(begin, log.find('\n', begin) - begin);
    const std::string config = At(at + "/shop/party.textproto");
    const std::string old = ReadWholeFile(config);
    Replace(config, "127.0.0.1:1\"", absl::StrCat(name, ":", port, "\""));
    RunningProgram nonlabel(nonlabel_program, words("shop", nonlabel_words), At(at + "/shop"));
    const int nonlabel_code = nonlabel.Wait(), label_code = label.Wait();
    std::ofstream(config) << old;
    return {label_code, nonlabel_code, label.Errors(), nonlabel.Errors()};
  }
  static void Replace(const std::string& path, const std::string& from, const std::string& to) {
    const std::string text = absl::StrReplaceAll(ReadWholeFile(path), {{from, to}});
    std::ofstream(path) << text;
  }

  static TempFolder* folder_;
  static ChildResult made_;
};

TempFolder* SharedCasesTest::folder_ = nullptr;
ChildResult SharedCasesTest::made_;

// Tables of the same people and features as the clean twin's, written otherwise: the data are the twin's.
TEST_F(SharedCasesTest, WhatIsWrittenOtherwiseIsReadAsItsCleanTwin) {
  const Rows clean = Prepared(kBank, kShop);
  ASSERT_EQ(clean.size(), 2000);
  ASSERT_EQ(Shared(clean, BankRows(kBank)), 2000);
  for (const std::string shop :
       {"01-ids-int-and-float/shop_all.csv", "01-ids-int-and-float/shop_part.csv", "05-blank-lines/shop_blank.csv",
        "05-blank-lines/shop_spaces.csv", "05-blank-lines/shop_commas.csv", "10-decimal-comma/shop_comma.csv",
        "10-decimal-comma/shop_thousands.csv", "10-decimal-comma/shop_percent.csv",
        "10-decimal-comma/shop_currency.csv", "10-decimal-comma/shop_plain.csv", "10-decimal-comma/shop_minus.csv",
        "19-gzip-members/shop.csv.gz", "20-headers/shop_quote.csv", "20-headers/shop_blankname.csv",
        "20-headers/shop_type_late.csv", "25-one-stray-quote/shop_good.csv"}) {
    const Rows rows = Prepared(kBank, shop);
    EXPECT_EQ(Shared(rows, clean), 2000) << shop;
    EXPECT_EQ(Differences(rows, clean), 0) << shop;
  }
  // Another row below the others says what they add up to: it has no twin, and its amount is one more of 2,001.
  const Rows with_total = Prepared(kBank, "05-blank-lines/shop_total.csv");
  EXPECT_EQ(Shared(with_total, BankRows(kBank)), 2000);
  const Rows plus = Prepared(kBank, "10-decimal-comma/shop_plus.csv");
  EXPECT_EQ(Differences(plus, clean), 0);
  // A pipe is read once and the whole table is there.
  std::FILE* const pipe = popen(absl::StrCat("cat ", At(kShop), " | ", BinDir(), "/splitveil init --table=/dev/fd/0 ",
                                             "--role=nonlabel_party --own_name=shop.example --peer_name=bank.example ",
                                             "--peer_address=127.0.0.1:1 --proposal=", At(Bank(kBank)),
                                             "/bank/run.textproto --peer_certificate=", At(Bank(kBank)),
                                             "/bank/own.pem --out=", At("piped"), " >", At("piped.out"), " 2>&1")
                                    .c_str(),
                                "r");
  ASSERT_EQ(pclose(pipe), 0) << ReadWholeFile(At("piped.out"));
  const Rows piped = RowsOf(At("piped/nonlabel_party.data"));
  EXPECT_EQ(Shared(piped, clean), 2000);
  EXPECT_EQ(Differences(piped, clean), 0);
}

TEST_F(SharedCasesTest, IdsInOtherFormsMeetOrAreAnError) {
  for (const std::string ids : {"nfd", "nbsp", "zwsp"}) {
    const Rows rows = Prepared("04-ids-unicode/bank.csv", "04-ids-unicode/shop_" + ids + ".csv");
    EXPECT_EQ(Shared(rows, BankRows("04-ids-unicode/bank.csv")), 2000) << ids;
  }
  const Rows padded = Prepared("02-ids-leading-zeros/bank.csv", "02-ids-leading-zeros/shop.csv");
  EXPECT_EQ(Shared(padded, BankRows("02-ids-leading-zeros/bank.csv")), 2000);
  EXPECT_EQ(Shared(Prepared("18-ids-with-commas/bank.csv", "18-ids-with-commas/shop.csv"),
                   BankRows("18-ids-with-commas/bank.csv")),
            2000);
  // Capitals: the parties have to agree, as folding changes the ids of both. With what the error says all meet.
  const ChildResult capitals = Shop("04-ids-unicode/bank.csv", "04-ids-unicode/shop_case.csv");
  EXPECT_EQ(capitals.exit_code, 2);
  EXPECT_THAT(capitals.err, AllOf(HasSubstr("667 in capitals, first in line 2; 1333 with capitals in front of words"),
                                  HasSubstr("init --id_form=CASE_FOLD")));
  ASSERT_EQ(InitBank("folded", "04-ids-unicode/bank.csv", {"--id_form=CASE_FOLD"}).exit_code, 0);
  ASSERT_EQ(InitShop("folded", "04-ids-unicode/shop_case.csv", {}).exit_code, 0);
  EXPECT_EQ(Shared(RowsOf(At("folded/shop/nonlabel_party.data")), RowsOf(At("folded/bank/label_party.data"))), 2000);
  // A table in capitals alone does not contradict itself, but the shape that the bank has announced.
  std::ofstream(At("all_capitals.csv")) << absl::AsciiStrToUpper(ReadWholeFile(At("04-ids-unicode/shop_nfd.csv")));
  const ChildResult all_capitals = Shop("04-ids-unicode/bank.csv", "all_capitals.csv");
  EXPECT_THAT(all_capitals.out + all_capitals.err, HasSubstr("the other party's ids look like"));
  std::ofstream(At("schema")) << R"(columns { name: "customer" kind: ID } columns { name: "spend" kind: NUMERIC }
    columns { name: "visits" kind: NUMERIC } columns { name: "region" kind: CATEGORICAL })";
  const ChildResult by_hand = Tool({"prepare", "--format=table", "--party=nonlabel_party", "--schema=" + At("schema"),
                                    "--input=" + At("04-ids-unicode/shop_case.csv"), "--out=" + At("by_hand")});
  EXPECT_EQ(by_hand.exit_code, 2);
  EXPECT_THAT(by_hand.err, HasSubstr("667 in capitals"));
}

// What must end before anything is trained, and the cause that is named.
TEST_F(SharedCasesTest, WhatCannotBeReadIsAnErrorThatNamesTheCause) {
  struct Refusal {
    const char* bank;
    const char* shop;  // Empty: the bank is refused.
    Flags flags;
    const char* cause;
  };
  const Refusal refusals[] = {
      {kBank, "03-ids-scientific/shop.csv", {}, "2000 of numbers in scientific notation such as 3.1E+17"},
      {kBank, "03-ids-scientific/shop15.csv", {"--id=customer"}, "scientific notation such as 3.1E+17"},
      {"04-ids-unicode/bank.csv", "04-ids-unicode/shop_dup_blank.csv", {}, ":2002:1: expected distinct ids, found one"},
      {"06-index-column/bank_unnamed.csv", "", {}, "data frames write their row numbers so"},
      {"07-label-texts/bank_1_2.csv", "", {}, "--positive=TEXT"},
      {"07-label-texts/bank_2_1.csv", "", {}, "--positive=TEXT"},
      {"07-label-texts/bank_good_bad.csv", "", {}, "--positive=TEXT"},
      {"07-label-texts/bank_mixed.csv", "", {}, "found 3, the rarest in 350 of 2000 rows, first in line 19"},
      {"07-label-texts/bank_nan.csv", "", {}, ":2:3: defaulted: expected"},
      {"08-rare-positives/bank_1.csv", "", {}, "labels that differ among the test rows"},
      {"08-rare-positives/bank_5.csv", "", {}, "labels that differ among the test rows"},
      {kBank, "15-odd-numbers/shop_1e400.csv", {}, "found a different text in 100 of 2000 rows, first in line 2"},
      {kBank, "15-odd-numbers/shop_inf.csv", {}, "found a different text in 100 of 2000 rows, first in line 2"},
      {kBank, "15-odd-numbers/shop_Infinity.csv", {}, "found a different text in 100 of 2000 rows, first in line 2"},
      {kBank, "15-odd-numbers/shop_hex.csv", {}, "digits that are no known form of a number"},
      {kBank, "19-gzip-members/shop_garbage.csv.gz", {}, "the gzip stream is damaged"},
      {kBank, "19-gzip-members/shop.xlsx", {}, "xlsx"},
      {kBank, "19-gzip-members/shop.parquet", {}, "found a Parquet file; convert it to CSV"},
      {kBank, "19-gzip-members/shop.zst", {}, "the zstd stream is damaged"},
      {kBank, "20-headers/shop_twice.csv", {}, "its cells 2 and 3 are the same"},
      {kBank, "20-headers/shop_trailing.csv", {}, "none of column 5: a line that ends with a separator"},
      {kBank, "25-one-stray-quote/shop_early.csv", {}, ":52: expected a quoted cell that ends on its line"},
      {kBank, "25-one-stray-quote/shop_late.csv", {}, ":1502:1: expected a quoted cell that ends on its line"},
      {kBank, "25-one-stray-quote/shop_mixed.csv", {}, ":52: expected a quoted cell that ends on its line"},
  };
  for (const Refusal& refusal : refusals) {
    const bool of_bank = std::string(refusal.shop).empty();
    const ChildResult told =
        of_bank ? InitBank("refused", refusal.bank, refusal.flags) : Shop(refusal.bank, refusal.shop, refusal.flags);
    EXPECT_EQ(told.exit_code, 2) << refusal.bank << " " << refusal.shop;
    EXPECT_THAT(told.err, HasSubstr(refusal.cause)) << refusal.bank << " " << refusal.shop;
    EXPECT_EQ(std::count(told.err.begin(), told.err.end(), '\n'), 1) << told.err;
    fs::remove_all(At("refused"));
  }
}

// Words and numbers that stand for no value are read as empty cells are.
TEST_F(SharedCasesTest, WordsAndNumbersForMissingAreReadAsEmptyCells) {
  struct Table {
    const char* name;
    const char* word;
    const char* said;
  };
  constexpr char kKnown[] = "% missing";
  const Table tables[] = {
      {"09-missing-words/shop_None_6.csv", "None", kKnown},
      {"09-missing-words/shop_None_12.csv", "None", kKnown},
      {"09-missing-words/shop_None_30.csv", "None", kKnown},
      {"09-missing-words/shop_dash_6.csv", "-", kKnown},
      {"09-missing-words/shop_dash_12.csv", "-", kKnown},
      {"09-missing-words/shop_dash_30.csv", "-", kKnown},
      {"09-missing-words/shop_dot_12.csv", ".", kKnown},
      {"09-missing-words/shop_angle_12.csv", "<NA>", kKnown},
      {"09-missing-words/shop_div0_12.csv", "#DIV/0!", kKnown},
      {"09-missing-words/shop_minusnan_12.csv", "-nan", kKnown},
      {"09-missing-words/shop_NaT_12.csv", "NaT", kKnown},
      {"09-missing-words/shop_nil_12.csv", "nil", kKnown},
      {"09-missing-words/shop_unknown_12.csv", "unknown", "\"unknown\" stands among numbers in 12% of the rows"},
      {"15-odd-numbers/shop_1e308.csv", "1e308", "remove missing: \"1e+308\""},
      {"15-odd-numbers/shop_minus1e308.csv", "-1.7e308", "remove missing: \"-1.7e+308\""},
      {"15-odd-numbers/shop_nines.csv", "-999999", "remove missing: \"-999999\""},
      {"15-odd-numbers/shop_under.csv", "1_000", "remove missing: \"1000\""},
  };
  for (const Table& table : tables) {
    const ChildResult made = Shop(kBank, table.name);
    ASSERT_EQ(made.exit_code, 0) << table.name << ": " << made.err;
    EXPECT_THAT(made.out + made.err, HasSubstr(table.said)) << table.name;
    const Rows rows = ShopRows(kBank);
    const std::string word = absl::StrCat(",", table.word, ",");
    const std::string once = absl::StrReplaceAll(ReadWholeFile(At(table.name)), {{word, ",,"}});
    std::ofstream(At("empty_cells.csv")) << absl::StrReplaceAll(once, {{word, ",,"}});  // Two side by side.
    const Rows twin = Prepared(kBank, "empty_cells.csv");
    EXPECT_EQ(Shared(rows, twin), 2000) << table.name;
    EXPECT_EQ(Differences(rows, twin), 0) << table.name;
  }
}

TEST_F(SharedCasesTest, OddColumnsAndHeadersAreReadOrToldOf) {
  // Next to nothing is a number like others; codes, blanks and bytes of another encoding are kept.
  EXPECT_EQ(Prepared(kBank, "15-odd-numbers/shop_tiny.csv").size(), 2000);
  EXPECT_EQ(Prepared(kBank, "20-headers/shop_wide.csv").begin()->second.numbers.size(), 3000);
  const ChildResult blanks = Shop(kBank, "20-headers/shop_trim_late.csv");
  EXPECT_EQ(blanks.exit_code, 0) << blanks.err;
  EXPECT_THAT(blanks.err, HasSubstr("4 of 8 values are written like another one"));
  const ChildResult tails = Shop("14-heavy-tails/bank.csv", "14-heavy-tails/shop_raw.csv");
  EXPECT_EQ(tails.exit_code, 0) << tails.err;
  EXPECT_THAT(tails.out, AllOf(HasSubstr("balance"), HasSubstr("skewed: scaled as logarithms")));
  // A number of its own in each row is no id beside one that is named so.
  EXPECT_EQ(Shared(Prepared("06-index-column/bank_label_first.csv", "06-index-column/shop_float_numbers.csv"),
                   BankRows(kBank)),
            2000);
  EXPECT_EQ(Shared(Prepared("08-rare-positives/bank_25.csv", "08-rare-positives/shop.csv"),
                   BankRows("08-rare-positives/bank_25.csv")),
            5000);
  EXPECT_EQ(Shared(BankRows("06-index-column/bank_named.csv"), BankRows(kBank)), 2000) << "the row number is no id";
}

TEST_F(SharedCasesTest, LabelsInOtherWordsAreThoseOfTheCleanTwin) {
  const Rows clean = BankRows(kBank);
  const std::pair<const char*, Flags> tables[] = {{"minus", {}},
                                                  {"True", {}},
                                                  {"float", {}},
                                                  {"1_2", {"--positive=1"}},
                                                  {"2_1", {"--positive=2"}},
                                                  {"good_bad", {"--positive=bad"}},
                                                  {"zero_is_event", {"--positive=0"}},
                                                  {"nan", {"--skip_bad_rows"}}};
  for (const auto& [name, flags] : tables) {
    const std::string at = absl::StrCat("labels_", name);
    const ChildResult made = InitBank(at, absl::StrCat("07-label-texts/bank_", name, ".csv"), flags);
    ASSERT_EQ(made.exit_code, 0) << name << made.err;
    const Rows rows = RowsOf(At(at + "/bank/label_party.data"));
    EXPECT_EQ(Shared(rows, clean), std::string(name) == "nan" ? 1960 : 2000) << name;
    int64_t wrong = 0;
    for (const auto& [id, row] : rows) {
      wrong += row.label != clean.at(id).label ? 1 : 0;
    }
    EXPECT_EQ(wrong, 0) << name;
  }
}

TEST_F(SharedCasesTest, MomentsAreTheSameInEveryZoneOrAnError) {
  const Flags after = {"--time=opened", "--test_after=2024-07-01"};
  const ChildResult naive = InitBank("times", "16-time-zones/bank.csv", after);
  EXPECT_EQ(naive.exit_code, 2);
  EXPECT_THAT(naive.err, AllOf(HasSubstr(":2:4: opened: expected a time of day with its offset from UTC"),
                               HasSubstr("init --time_zone")));
  fs::remove_all(At("times"));
  ASSERT_EQ(InitBank("times", "16-time-zones/bank.csv", {after[0], after[1], "--time_zone=UTC"}).exit_code, 0);
  const Rows bank = RowsOf(At("times/bank/label_party.data"));
  const std::pair<const char*, Flags> tables[] = {
      {"same", {"--time=opened"}}, {"naive", {"--time=opened", "--time_zone=Etc/GMT+5"}}, {"day", {"--time=opened"}}};
  for (const auto& [name, flags] : tables) {
    fs::remove_all(At("times/shop"));
    const ChildResult made = InitShop("times", absl::StrCat("16-time-zones/shop_", name, ".csv"), flags);
    ASSERT_EQ(made.exit_code, 0) << name << made.err;
    int64_t test = 0, differences = 0;
    for (const auto& [id, row] : RowsOf(At("times/shop/nonlabel_party.data"))) {
      test += row.part == static_cast<int>(SplitPart::kTest) ? 1 : 0;
      // The hash of the id tells training from validation; here only the test part is by time.
      differences +=
          (row.part == static_cast<int>(SplitPart::kTest)) != (bank.at(id).part == static_cast<int>(SplitPart::kTest))
              ? 1
              : 0;
    }
    // Rows are 175 minutes apart from 2024-01-01T00:00Z on, and 2024-07-01 is 182 days later.
    EXPECT_EQ(test, 2000 - (182 * 24 * 60 + 174) / 175) << name;
    EXPECT_EQ(differences, 0) << name;
  }
  const std::pair<const char*, const char*> refused[] = {{"naive", "init --time_zone"},
                                                         {"dmy", "expected a number or a date such as 2024-06-01"}};
  for (const auto& [name, cause] : refused) {
    fs::remove_all(At("times/shop"));
    const ChildResult told = InitShop("times", absl::StrCat("16-time-zones/shop_", name, ".csv"), {"--time=opened"});
    EXPECT_EQ(told.exit_code, 2) << name;
    EXPECT_THAT(told.err, HasSubstr(cause)) << name;
  }
}

TEST_F(SharedCasesTest, CodesThatBecameNumbersWithAFractionArePredictedFromAsBefore) {
  const std::string bank = "12-codes-become-floats/bank.csv";
  ASSERT_EQ(Prepared(bank, "12-codes-become-floats/shop.csv", {"--categorical=region"}).size(), 2000);
  const std::string fitted = At(Bank(bank) + "/shop");
  const auto transform = [&](const std::string& table) {
    const ChildResult done =
        Tool({"transform", "--fitted=" + fitted, "--party=nonlabel_party", "--schema=" + fitted + "/schema.textproto",
              "--input=" + At("12-codes-become-floats/" + table), "--out=" + At(table + ".new")});
    EXPECT_EQ(done.exit_code, 0) << done.err;
    return std::pair(done.out, RowsOf(At(table + ".new/nonlabel_party.data")));
  };
  const auto [good_said, good] = transform("new_shop_good.csv");
  const auto [said, rows] = transform("new_shop.csv");
  EXPECT_EQ(Shared(rows, good), 1000);
  EXPECT_EQ(Differences(rows, good), 0);
  EXPECT_THAT(said, HasSubstr("1000 rows write a number otherwise than the training, such as 3.0 for 3"));
  EXPECT_THAT(good_said, Not(HasSubstr("otherwise")));
}

// 120,000 rows sorted by country and by label: the first 100,500 are alike.
TEST_F(SharedCasesTest, ASortedTableIsDecidedByAllItsRows) {
  std::ofstream bank(At("sorted_bank.csv")), shop(At("sorted_shop.csv"));
  bank << "customer,income,defaulted\n";
  shop << "customer,spend,country\n";
  for (int64_t row = 0; row < 120'000; ++row) {
    bank << "C" << row << "," << 20'000 + row * 7919 % 9001 << "," << (row < 100'500 ? 0 : 1) << "\n";
    shop << "C" << row << "," << row * 104'729 % 9973 << (row < 100'500 ? ",DE\n" : ",FR\n");
  }
  bank.close();
  shop.close();
  const Rows rows = Prepared("sorted_bank.csv", "sorted_shop.csv");
  const Rows labels = BankRows("sorted_bank.csv");
  ASSERT_EQ(Shared(rows, labels), 120'000);
  std::map<int64_t, std::set<int>> labels_by_country;
  for (const auto& [id, row] : rows) {
    ASSERT_EQ(row.categories.size(), 1);
    labels_by_country[row.categories[0]].insert(labels.at(id).label);
  }
  ASSERT_EQ(labels_by_country.size(), 2);
  EXPECT_NE(*labels_by_country.begin()->second.begin(), *labels_by_country.rbegin()->second.begin());
}

// A batch larger than the table, and a last batch of a few rows.
TEST_F(SharedCasesTest, FewRowsTrainInBatchesOfEverySize) {
  for (const char* size : {"1000", "64"}) {
    const std::string at = absl::StrCat("batches_of_", size);
    ASSERT_EQ(InitBank(at, "13-small-batches/bank.csv", {absl::StrCat("--batch_size=", size)}).exit_code, 0);
    ASSERT_EQ(InitShop(at, "13-small-batches/shop.csv", {}).exit_code, 0);
    const Ends ends = Train(at);
    EXPECT_TRUE(ends.label == 0 && ends.nonlabel == 0) << ends.label_log << ends.nonlabel_log;
    EXPECT_THAT(ends.label_log, HasSubstr("aligned 400 examples"));
  }
}

TEST_F(SharedCasesTest, SharedRowsOfOneClassHaveNoResultAndAnErrorInTheLog) {
  ASSERT_EQ(Prepared("08-rare-positives/bank_all.csv", "08-rare-positives/shop_negatives_only.csv").empty(), false);
  const Ends ends = Train(Bank("08-rare-positives/bank_all.csv"));
  EXPECT_EQ(ends.label, 0);  // It says something of labels: the peer is not told, nor shown by a restart.
  EXPECT_THAT(ends.label_log, AllOf(HasSubstr("no result: "), HasSubstr("one and the same label")));
}

// Ids with separators, quotes, tabs and what a spreadsheet takes for a formula, through to predictions that another
// program reads.
TEST_F(SharedCasesTest, PredictionsReadBackWithIdsOfEveryKind) {
  const std::string bank = "18-ids-with-commas/bank.csv";
  ASSERT_EQ(Prepared(bank, "18-ids-with-commas/shop.csv").size(), 2000);
  const Ends trained = Train(Bank(bank));
  ASSERT_TRUE(trained.label == 0 && trained.nonlabel == 0) << trained.label_log << trained.nonlabel_log;
  EXPECT_THAT(trained.label_log, HasSubstr("aligned 2000 examples"));
  const Ends predicted = Run(Bank(bank), "127.0.0.1", "splitveil", "splitveil",
                             {"predict", "--out=" + At("predictions.csv")}, {"predict"});
  ASSERT_TRUE(predicted.label == 0 && predicted.nonlabel == 0) << predicted.label_log << predicted.nonlabel_log;
  constexpr char kCompare[] = R"(import csv, sys
read = lambda path: [row[0].strip() for row in csv.reader(open(path, newline=''))][1:]
predicted, labels = read(sys.argv[1]), read(sys.argv[2])
print(len(predicted), len(set(predicted)), set(predicted) <= set(labels)))";
  const ChildResult compared =
      RunChild({"/usr/bin/python3", "-c", kCompare, At("predictions.csv"), At("18-ids-with-commas/labels.csv")});
  EXPECT_EQ(compared.out, "2000 2000 True\n") << compared.err;
}

// Names and texts in Latin-1, which is no UTF-8, from the table to the report.
TEST_F(SharedCasesTest, ATableInAnotherEncodingTrainsAndReports) {
  ASSERT_EQ(Prepared("20-headers/bank.csv", "20-headers/shop_latin1.csv").size(), 2000);
  const std::string at = Bank("20-headers/bank.csv");
  const Ends ends = Train(at);
  ASSERT_TRUE(ends.label == 0 && ends.nonlabel == 0) << ends.label_log << ends.nonlabel_log;
  const ChildResult report = Tool({"report", "--ledger=" + At(at + "/bank/ledger.db"),
                                   "--ledger=" + At(at + "/shop/ledger.db"), "--out=" + At("report.html")});
  EXPECT_EQ(report.exit_code, 0) << report.err;
}

TEST_F(SharedCasesTest, ACertificateOfAMachineWhoseClockIsAheadIsNamed) {
  ASSERT_EQ(InitBank("ahead", "22-clock-ahead/bank.csv", {}).exit_code, 0);
  ASSERT_EQ(InitShop("ahead", "22-clock-ahead/shop.csv", {}).exit_code, 0);
  fs::remove(At("ahead/shop/own.pem"));
  fs::remove(At("ahead/shop/own.key"));
  ChildOptions ahead;
  ahead.environment = {{"LD_PRELOAD", JUMPING_WALL_CLOCK},
                       {"SPLITVEIL_TEST_CLOCK_FILE", "/"},
                       {"SPLITVEIL_TEST_CLOCK_SECONDS", "172800"}};
  const ChildResult made = RunChild(
      {BinDir() + "/splitveil", "certificates", "self_signed", "--name=shop.example", "--out=" + At("ahead/shop")},
      ahead);
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const ChildResult told = RunChild({BinDir() + "/nonlabel_party", "--agreement=" + At("ahead/bank/run.textproto"),
                                     "--config=" + At("ahead/shop/party.textproto"), "--dry_run"});
  EXPECT_NE(told.exit_code, 0);
  EXPECT_THAT(told.out + told.err, HasSubstr("not yet valid"));
}

TEST_F(SharedCasesTest, AddressesOfEveryKindAndPathsWithBlanksServeARun) {
  const auto run = [](const std::string& at, const std::string& name) {
    ASSERT_EQ(InitBank(at, "23-addresses/bank.csv", {}).exit_code, 0) << name;
    ASSERT_EQ(InitShop(at, "23-addresses/shop.csv", {}).exit_code, 0) << name;
    Replace(At(at + "/bank/party.textproto"), "\"shop.example\"", "\"Shop.Example\"");  // As DNS takes them: alike.
    const Ends ends = Train(at, name);
    EXPECT_TRUE(ends.label == 0 && ends.nonlabel == 0) << name << ends.label_log << ends.nonlabel_log;
  };
  run("named", "localhost");
  if (!ReadWholeFile("/proc/net/if_inet6").empty()) {
    run("version6", "[::1]");
    run("mapped", "[::ffff:127.0.0.1]");
  }
  for (const char* proxy : {"http_proxy", "https_proxy", "grpc_proxy"}) {
    setenv(proxy, "http://127.0.0.1:9", 1);
  }
  run("Größe & Co (1)", "127.0.0.1");
  for (const char* proxy : {"http_proxy", "https_proxy", "grpc_proxy"}) {
    unsetenv(proxy);
  }
}

}  // namespace
}  // namespace splitveil::testing
