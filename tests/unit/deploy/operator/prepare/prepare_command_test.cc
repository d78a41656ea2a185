#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/process/file.h"
#include "tests/unit/deploy/operator/operator_tool.h"

namespace splitveil::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class PrepareCommandTest : public ::testing::Test {
 protected:
  // A generated file of 1,000 rows.
  std::string Criteo() {
    std::string path = folder_.File("criteo.tsv");
    ExpectDone({"generate", "--force", "--rows=1000", "--seed=3", "--out=" + path});
    return path;
  }

  TempFolder folder_;
};

TEST_F(PrepareCommandTest, WritesBothPartiesAndPrintsWhatIsInThem) {
  const std::string out = ExpectDone({"prepare", "--format=criteo", "--input=" + Criteo(), "--out=" + folder_.File("d"),
                                      "--only_label_fraction=0.2", "--only_nonlabel_fraction=0.1"});
  EXPECT_THAT(
      out,
      ContainsRegex(
          "label_party.data: [0-9]+ rows, [0-9]+ of them for training, [0-9]+ for validation, [0-9]+ for testing\n"));
  EXPECT_THAT(out, ContainsRegex("nonlabel_party.data: [0-9]+ rows, [0-9]+ of them for training, [0-9]+ for "
                                 "validation, [0-9]+ for testing\n"));
  EXPECT_THAT(out, ContainsRegex("held by both: [0-9]+ rows\n"));
  EXPECT_THAT(out, ContainsRegex("1000 rows, 2[0-9]\\.[0-9][0-9]% positive"));
  EXPECT_THAT(out,
              HasSubstr("  numeric  missing       least          1%      median         99%    greatest scaled from "
                        "         to  clipped\n"));
  EXPECT_THAT(out, ContainsRegex("\n  I13 +[0-9.]+%( +-?[0-9.]+){7} +[0-9.]+%\n"));
  EXPECT_THAT(out, ContainsRegex("\n  C26 +[0-9.]+% +[0-9]+\n  embedding rows: [0-9]+\n"));
  EXPECT_TRUE(std::filesystem::exists(folder_.File("d/label_party.data")));
  EXPECT_TRUE(std::filesystem::exists(folder_.File("d/nonlabel_party.data")));
}

TEST_F(PrepareCommandTest, TransformSaysWhichColumnsLieOutsideOfWhatWasFitted) {
  WriteText(
      folder_.File("s"),
      "columns { name: \"id\" kind: ID } columns { name: \"age\" kind: NUMERIC } columns { name: \"region\" kind: "
      "CATEGORICAL }");
  std::string table = "id,age,region\n";
  for (int row = 0; row < 200; ++row) {
    table += "a" + std::to_string(row) + "," + std::to_string(row % 50) + (row % 2 == 0 ? ",north\n" : ",south\n");
  }
  WriteText(folder_.File("t.csv"), table);
  WriteText(folder_.File("new.csv"), "id,age,region\nb,900,west\nc,20,north\nd,21,\ne,22,north\n");
  ExpectDone({"prepare", "--format=table", "--party=nonlabel_party", "--schema=" + folder_.File("s"),
              "--input=" + folder_.File("t.csv"), "--out=" + folder_.File("d")});
  EXPECT_THAT(
      ExpectDone({"transform", "--party=nonlabel_party", "--schema=" + folder_.File("s"),
                  "--fitted=" + folder_.File("d"), "--input=" + folder_.File("new.csv"), "--out=" + folder_.File("n")}),
      HasSubstr("  column  shift (PSI)  missing  in training        outside  in training\n"
                "  age            1.27     0.0%         0.0%  25.0% clipped         0.0%\n"
                "  region         2.96    25.0%         0.0%   25.0% unseen         0.0%\n"
                "  with so few rows a PSI up to 13 may be chance\n"));
}

class PrepareProfileTest : public PrepareCommandTest {
 protected:
  // A tenth of the ages is -999; ids and labels are told by their texts.
  void SetUp() override {
    std::string table = "id,age,label\n";
    for (int row = 0; row < 300; ++row) {
      table += "secret_id" + std::to_string(row) + "," + (row % 10 == 7 ? "-999" : std::to_string(20 + row % 50)) +
               (row % 4 == 0 ? ",secret_yes\n" : ",secret_no\n");
    }
    WriteText(folder_.File("t.csv"), table);
    WriteText(folder_.File("s"), Schema(""));
  }
  static std::string Schema(const std::string& age) {
    return "columns { name: \"id\" kind: ID } columns { name: \"age\" kind: NUMERIC " + age +
           " } columns { name: \"label\" kind: LABEL } positive: \"secret_yes\" negative: \"secret_no\"";
  }
  std::vector<std::string> Prepare(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"prepare",
                                      "--format=table",
                                      "--party=label_party",
                                      "--schema=" + folder_.File("s"),
                                      "--input=" + folder_.File("t.csv"),
                                      "--out=" + folder_.File("d")};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

TEST_F(PrepareProfileTest, WarnsOfNumbersThatMeanUnknownAndFailsWithStrict) {
  const std::string warning =
      "column \"age\": -999 in 10% of the rows (nines among numbers from 0 on): if this stands for a number that is "
      "not "
      "known, add missing: \"-999\" to the column in the schema";
  EXPECT_THAT(ExpectError(2, Prepare({"--strict"})), HasSubstr(warning + "; --strict makes this an error"));
  EXPECT_FALSE(std::filesystem::exists(folder_.File("d")));
  EXPECT_THAT(ExpectDone(Prepare()), HasSubstr("WARNING: " + warning + "\n"));
  WriteText(folder_.File("s"), Schema("missing: \"-999\""));
  const std::string out = ExpectDone(Prepare({"--strict"}));
  EXPECT_THAT(out, Not(HasSubstr("WARNING")));
  EXPECT_THAT(out,
              HasSubstr("  age       10.0%         45          20          44          69  integer 270 (2-301)\n"));
  EXPECT_THAT(out, Not(HasSubstr("secret")));
}

TEST_F(PrepareProfileTest, WritesTheProfileAsJsonOrAsAPageWithoutIdsAndLabels) {
  ExpectDone(Prepare({"--profile=" + folder_.File("p.json")}));
  const std::string text = *ReadFile(folder_.File("p.json"));
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json["rows"], 300);
  const auto& age = json["columns"][1];
  EXPECT_EQ(age["distinct"], 46);
  EXPECT_EQ(age["forms"]["integer"]["last_line"], 301);
  EXPECT_EQ(age["least"][0]["number"], -999);
  EXPECT_EQ(age["least"][0]["rows"], 30);
  EXPECT_EQ(age["quantiles"]["1"], 69);
  EXPECT_EQ(json["warnings"].size(), 1);
  EXPECT_FALSE(json["columns"][0].contains("quantiles"));
  EXPECT_FALSE(json["columns"][2].contains("least"));
  EXPECT_THAT(text, Not(HasSubstr("secret")));
  ExpectDone(Prepare({"--profile=" + folder_.File("p.html")}));
  const std::string page = *ReadFile(folder_.File("p.html"));
  EXPECT_THAT(page, StartsWith("<!DOCTYPE html>"));
  EXPECT_THAT(page, HasSubstr("\"histogram\""));
  EXPECT_THAT(page, Not(HasSubstr("secret")));
}

TEST_F(PrepareProfileTest, AProfileReplacesNothingButAnEarlierOne) {
  const std::string table = *ReadFile(folder_.File("t.csv"));
  for (const std::string file : {"t.csv", "s"}) {
    EXPECT_THAT(ExpectError(2, Prepare({"--profile=" + folder_.File(file)})),
                HasSubstr(file + ": expected no file of this name"));
  }
  WriteText(folder_.File("page.html"), "<!DOCTYPE html>\n<html lang=\"en\">\n");
  EXPECT_THAT(ExpectError(2, Prepare({"--profile=" + folder_.File("page.html")})), HasSubstr("it stays"));
  // What is written meanwhile stays as well.
  EXPECT_THAT(ExpectError(2, Prepare({"--profile=" + folder_.File("d/label_party.data")})), HasSubstr("it stays"));
  EXPECT_EQ(*ReadFile(folder_.File("t.csv")), table);
  for (const std::string file : {"p.json", "p.html"}) {
    ExpectDone(Prepare({"--profile=" + folder_.File(file)}));
    ExpectDone(Prepare({"--profile=" + folder_.File(file)}));
  }
}

// The next day's table, with a column in another unit and one in capitals, must not pass unseen.
TEST_F(PrepareCommandTest, ExtendedDataAreComparedWithTheEarlierOnes) {
  const auto write = [&](int first, int factor, const std::string& region) {
    std::string table = "id,amount,region,label\n";
    for (int row = first; row < first + 1000; ++row) {
      table += "c" + std::to_string(row) + "," + std::to_string((10 + row * 37 % 100) * factor) + "," + region +
               std::to_string(row % 4) + (row % 4 == 1 ? ",1\n" : ",0\n");
    }
    WriteText(folder_.File("t.csv"), table);
  };
  WriteText(folder_.File("s"),
            "columns { name: 'id' kind: ID } columns { name: 'amount' kind: NUMERIC } columns { name: 'region' kind: "
            "CATEGORICAL } columns { name: 'label' kind: LABEL }");
  const auto prepare = [&](std::vector<std::string> more) {
    const std::vector<std::string> common = {"prepare", "--format=table", "--party=label_party",
                                             "--schema=" + folder_.File("s"), "--input=" + folder_.File("t.csv")};
    more.insert(more.begin(), common.begin(), common.end());
    return more;
  };
  write(0, 1, "north");
  ExpectDone(prepare({"--out=" + folder_.File("day1")}));
  const std::vector<std::string> next = {"--out=" + folder_.File("day2"), "--extend=" + folder_.File("day1")};
  write(1000, 1, "north");
  EXPECT_THAT(ExpectDone(prepare(next)), AllOf(HasSubstr("shift (PSI)"), Not(HasSubstr("WARNING"))));
  write(1000, 100, "NORTH");
  EXPECT_THAT(ExpectError(2, prepare(next)),
              AllOf(HasSubstr("column \"amount\": 100.0% clipped"), HasSubstr("--allow_changed=region")));
  std::vector<std::string> allowed = next;
  allowed.insert(allowed.end(), {"--allow_changed=amount", "--allow_changed=region"});
  EXPECT_THAT(ExpectDone(prepare(allowed)),
              AllOf(HasSubstr("WARNING: \"amount\" differs from the training"),
                    HasSubstr("column \"region\": 4 of 8 values are written like another one")));
}

// Names of columns, classes and attributes stand in tables and schemas, which may be anybody's.
TEST_F(PrepareCommandTest, NamesCannotSteerTheTerminal) {
  WriteText(folder_.File("s"),
            "columns { name: \"id\" kind: ID } columns { name: \"a\\033[31m\" kind: NUMERIC } columns { name: "
            "\"b\\033[32m\" kind: CATEGORICAL } columns { name: \"c\\033[33m\" kind: ATTRIBUTE values: \"x\" "
            "values: \"y\" } columns { name: \"class\" kind: CLASS_LABEL } classes: \"l\\033[34m\" classes: \"m\" "
            "classes: \"o\"");
  std::string table = "id,a\x1b[31m,b\x1b[32m,c\x1b[33m,class\n";
  for (int row = 0; row < 200; ++row) {  // Some numbers are missing: a further input says so.
    const char* const rest[] = {",n,x,m\n", ",s,y,l\x1b[34m\n", ",n,x,o\n", ",s,y,l\x1b[34m\n"};
    table += "r" + std::to_string(row) + "," + (row % 9 == 0 ? "" : std::to_string(row % 50)) + rest[row % 4];
  }
  WriteText(folder_.File("t.csv"), table);
  const std::vector<std::string> input = {"--schema=" + folder_.File("s"), "--input=" + folder_.File("t.csv"),
                                          "--party=label_party"};
  std::vector<std::string> prepare = {"prepare", "--format=table", "--out=" + folder_.File("d")},
                           transform = {"transform", "--fitted=" + folder_.File("d"), "--out=" + folder_.File("n")};
  for (std::vector<std::string>* arguments : {&prepare, &transform}) {
    arguments->insert(arguments->end(), input.begin(), input.end());
  }
  const std::string out = ExpectDone(prepare);
  for (const char* name : {"  a [31m ", "  b [32m ", "attribute c [33m:", "l [34m 100"}) {
    EXPECT_THAT(out, HasSubstr(name));
  }
  EXPECT_EQ(out.find('\x1b'), std::string::npos) << out;
  const std::string transformed = ExpectDone(transform);
  EXPECT_THAT(transformed, HasSubstr("  a [31m  "));
  EXPECT_EQ(transformed.find('\x1b'), std::string::npos) << transformed;
}

TEST_F(PrepareCommandTest, ExtendsEarlierData) {
  const std::string table = Criteo();
  const std::vector<std::string> common = {"prepare", "--format=criteo", "--test_fraction=0",
                                           "--validation_fraction=0"};
  const auto prepare = [&](const std::string& input, std::vector<std::string> more) {
    more.insert(more.begin(), common.begin(), common.end());
    more.push_back("--input=" + input);
    return ExpectDone(more);
  };
  prepare(table, {"--out=" + folder_.File("day1")});
  EXPECT_THAT(prepare(table, {"--out=" + folder_.File("same"), "--extend=" + folder_.File("day1")}),
              HasSubstr(", 0 of them new"));
  const std::string second = folder_.File("second.tsv");
  ExpectDone({"generate", "--rows=1000", "--seed=4", "--out=" + second});
  EXPECT_THAT(prepare(second, {"--out=" + folder_.File("day2"), "--extend=" + folder_.File("day1")}),
              ContainsRegex(", [1-9][0-9]* of them new"));
  // Another unit in the next day's rows is as in `transform`.
  const std::string later = ReadFile(second).value();
  std::string hundredfold;
  for (const absl::string_view line : absl::StrSplit(later, '\n', absl::SkipEmpty())) {
    std::vector<std::string> cells = absl::StrSplit(line, '\t');
    cells[3] += cells[3].empty() ? "" : "00";
    absl::StrAppend(&hundredfold, absl::StrJoin(cells, "\t"), "\n");
  }
  WriteText(folder_.File("third.tsv"), hundredfold);
  const std::string changed =
      prepare(folder_.File("third.tsv"), {"--out=" + folder_.File("day3"), "--extend=" + folder_.File("day1")});
  EXPECT_THAT(changed, HasSubstr("WARNING: \"I3\" differs from the training"));
  EXPECT_THAT(changed, Not(HasSubstr("WARNING: \"I4\"")));
  EXPECT_THAT(ExpectError(2, {"prepare", "--format=criteo", "--input=" + second, "--out=" + folder_.File("x"),
                              "--extend=" + folder_.File("none")}),
              HasSubstr("none/label_party.data"));
}

// A model that was trained on them knows their scales from nowhere else.
TEST_F(PrepareCommandTest, KeepsOtherDataWhereTold) {
  std::vector<std::string> words = {"prepare", "--format=criteo", "--input=" + Criteo(), "--out=" + folder_.File("d")};
  ExpectDone(words);
  ExpectDone(words);  // The same data.
  const std::string before = ReadFile(folder_.File("d/label_party.data")).value();
  words.insert(words.end(), {"--hash_buckets=100", "--keep"});
  EXPECT_THAT(ExpectError(2, words), HasSubstr("d/label_party.data: expected no file of this name, or one of the same "
                                               "bytes, found a different one: give another --out"));
  EXPECT_EQ(ReadFile(folder_.File("d/label_party.data")).value(), before);
  words.pop_back();
  EXPECT_THAT(ExpectDone(words), HasSubstr("NOTE: replaced other data; a model that was trained on those needs"));
  EXPECT_THAT(ExpectDone(words), Not(HasSubstr("NOTE")));
  EXPECT_NE(ReadFile(folder_.File("d/label_party.data")).value(), before);
}

TEST_F(PrepareCommandTest, CountsTheRowsItLeavesOut) {
  const std::string bad = folder_.File("bad.tsv"), cut = folder_.File("cut.gz");
  WriteText(bad, ReadFile(Criteo()).value() + "2\tSECRET\n");
  WriteText(cut, "\x1f\x8b\x08");  // How every gzip file starts, and no more.
  const std::string out = ExpectDone({"prepare", "--format=criteo", "--skip_bad_rows", "--rows=1003", "--input=" + bad,
                                      "--input=" + cut, "--out=" + folder_.File("d")});
  EXPECT_THAT(out, HasSubstr("1000 rows, "));
  EXPECT_THAT(out, HasSubstr("left out: wrong column count: 1 rows\n"));
  EXPECT_THAT(out, HasSubstr("left out: damaged file: all from the damage on, in 1 of 2 files\n"));
}

TEST_F(PrepareCommandTest, FailsOnFormatsAndSchemasThatDoNotFit) {
  EXPECT_EQ(ExpectError(2, {"prepare", "--format=excel", "--input=x", "--out=y"}),
            "command line: --format: expected criteo, avazu or table, found \"excel\"\n");
  EXPECT_THAT(ExpectError(2, {"prepare", "--format=table", "--input=x", "--out=y"}),
              HasSubstr("--schema: --format=table needs the schema"));
  EXPECT_THAT(ExpectError(2, {"prepare", "--format=avazu", "--schema=s", "--input=x", "--out=y"}),
              HasSubstr("--schema: has no effect with --format=avazu"));
  EXPECT_THAT(ExpectError(2, {"prepare", "--format=criteo", "--party=third", "--input=x", "--out=y"}),
              HasSubstr("--party: expected both, label_party or nonlabel_party"));
}

TEST_F(PrepareCommandTest, FailsOnAPartysOwnTableWithoutTheParty) {
  WriteText(folder_.File("schema"),
            "columns { name: 'id' kind: ID } columns { name: 'income' kind: NUMERIC }\n"
            "columns { name: 'y' kind: LABEL }\n");
  WriteText(folder_.File("bank.csv"), "id,income,y\na,1,0\nb,2,1\n");
  std::vector<std::string> words = {"prepare",
                                    "--format=table",
                                    "--schema=" + folder_.File("schema"),
                                    "--input=" + folder_.File("bank.csv"),
                                    "--out=" + folder_.File("d"),
                                    "--test_fraction=0",
                                    "--validation_fraction=0"};
  EXPECT_THAT(ExpectError(2, words), StartsWith(folder_.File("schema") + ": columns: income: expected a holder"));
  EXPECT_FALSE(std::filesystem::exists(folder_.File("d")));
  words.push_back("--party=label_party");
  EXPECT_THAT(ExpectDone(words), HasSubstr("label_party.data: 2 rows"));
  EXPECT_FALSE(std::filesystem::exists(folder_.File("d/nonlabel_party.data")));
}

TEST_F(PrepareCommandTest, SaysHowManyRowsEachClassHas) {
  WriteText(
      folder_.File("schema"),
      "columns { name: 'id' kind: ID } columns { name: 'y' kind: CLASS_LABEL } classes: ['red', 'green', 'blue']");
  WriteText(folder_.File("own.csv"), "id,y\na,blue\nb,red\nc,blue\n");
  const std::string out = ExpectDone({"prepare", "--format=table", "--party=label_party", "--test_fraction=0",
                                      "--validation_fraction=0", "--schema=" + folder_.File("schema"),
                                      "--input=" + folder_.File("own.csv"), "--out=" + folder_.File("d")});
  EXPECT_THAT(out, HasSubstr("own.csv: 3 rows, by class: red 1, green 0, blue 2\n"));
}

TEST_F(PrepareCommandTest, SaysTheMeanOfTheTargetsAndHowManyWereClipped) {
  WriteText(folder_.File("schema"),
            "columns { name: 'id' kind: ID } columns { name: 'y' kind: TARGET } target_minimum: 0 target_maximum: 10");
  WriteText(folder_.File("own.csv"), "id,y\na,4\nb,12\nc,-3\nd,5\n");
  const std::string out = ExpectDone({"prepare", "--format=table", "--party=label_party", "--test_fraction=0",
                                      "--validation_fraction=0", "--schema=" + folder_.File("schema"),
                                      "--input=" + folder_.File("own.csv"), "--out=" + folder_.File("d")});
  EXPECT_THAT(out, HasSubstr("own.csv: 4 rows, mean target 4.75, 50.00% of the targets clipped to [0, 10]\n"));
}

TEST_F(PrepareCommandTest, FailsOnASchemaWhoseLabelsContradictThemselves) {
  WriteText(folder_.File("schema"), "columns { name: 'id' kind: ID } columns { name: 'y' kind: TARGET }");
  EXPECT_THAT(ExpectError(2, {"prepare", "--format=table", "--party=label_party", "--schema=" + folder_.File("schema"),
                              "--input=" + folder_.File("none"), "--out=" + folder_.File("d")}),
              StartsWith(folder_.File("schema") + ": target_minimum, target_maximum: expected both"));
}

TEST_F(PrepareCommandTest, FailsWithoutItsInput) {
  EXPECT_THAT(
      ExpectError(2, {"prepare", "--format=criteo", "--input=" + folder_.File("none"), "--out=" + folder_.File("d")}),
      HasSubstr(folder_.File("none")));
}

TEST_F(PrepareCommandTest, FailsAtAMalformedRowAndWritesNothing) {
  const std::string bad = folder_.File("bad.tsv");
  WriteText(bad, ReadFile(Criteo()).value() + "2\tSECRET\n");
  const std::string error =
      ExpectError(2, {"prepare", "--format=criteo", "--input=" + bad, "--out=" + folder_.File("d")});
  EXPECT_THAT(error, StartsWith(bad + ":1001:"));
  EXPECT_THAT(error, ::testing::Not(HasSubstr("SECRET")));
  EXPECT_FALSE(std::filesystem::exists(folder_.File("d/label_party.data")));
  EXPECT_FALSE(std::filesystem::exists(folder_.File("d/nonlabel_party.data")));
}

TEST_F(PrepareCommandTest, FailsOnFractionsThatLeaveNothingInCommon) {
  const std::string input = "--input=" + Criteo();
  const std::string out = "--out=" + folder_.File("d");
  ExpectError(2,
              {"prepare", "--format=criteo", input, out, "--only_label_fraction=0.6", "--only_nonlabel_fraction=0.5"});
  EXPECT_THAT(ExpectError(2, {"prepare", "--format=criteo", input, out, "--only_label_fraction=1.5"}),
              HasSubstr("--only_label_fraction: expected a number, 0 to 1"));
}

}  // namespace
}  // namespace splitveil::testing
