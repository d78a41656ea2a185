// `generate` and `prepare`.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/process/file.h"
#include "tests/unit/deploy/operator/operator_tool.h"

namespace splitveil::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

int64_t Lines(const std::string& path) {
  const std::string contents = ReadFile(path).value();
  return std::count(contents.begin(), contents.end(), '\n');
}

class DataTest : public ::testing::Test {
 protected:
  // A generated file of 1,000 rows.
  std::string Criteo() {
    const std::string path = folder_.File("criteo.tsv");
    ExpectDone({"generate", "--rows=1000", "--seed=3", "--out=" + path});
    return path;
  }

  TempFolder folder_;
};

TEST_F(DataTest, GenerateWritesTheRowsAndPrintsTheBayesAuc) {
  const std::string path = folder_.File("c.tsv");
  const std::string out = ExpectDone({"generate", "--rows=1000", "--seed=3", "--out=" + path});
  EXPECT_EQ(Lines(path), 1000);
  EXPECT_THAT(out, HasSubstr(path + ": 1000 rows, "));
  EXPECT_THAT(out, ContainsRegex("Bayes AUC [^:]*: 0\\.[78][0-9][0-9][0-9]\n"));
}

TEST_F(DataTest, GenerateRepeatsItselfForOneSeedOnly) {
  for (const char* words : {"1 a", "1 b", "2 c"}) {
    ExpectDone({"generate", "--rows=50", std::string("--seed=") + words[0], "--out=" + folder_.File(words + 2)});
  }
  EXPECT_EQ(ReadFile(folder_.File("a")).value(), ReadFile(folder_.File("b")).value());
  EXPECT_NE(ReadFile(folder_.File("a")).value(), ReadFile(folder_.File("c")).value());
}

TEST_F(DataTest, GenerateFailsOnBadArguments) {
  const std::string out = "--out=" + folder_.File("c.tsv");
  EXPECT_THAT(ExpectError(2, {"generate"}), HasSubstr("--out is missing"));
  EXPECT_THAT(ExpectError(2, {"generate", out, "--rows=0"}), HasSubstr("--rows: expected an integer"));
  EXPECT_THAT(ExpectError(2, {"generate", out, "--rows=many"}), HasSubstr("found \"many\""));
  EXPECT_THAT(ExpectError(2, {"generate", out, "--seed=-1"}), HasSubstr("--seed: expected an integer"));
  EXPECT_FALSE(std::filesystem::exists(folder_.File("c.tsv")));
}

TEST_F(DataTest, GenerateFailsWhereItCannotWrite) {
  EXPECT_THAT(ExpectError(2, {"generate", "--out=" + folder_.File("none/c.tsv")}), HasSubstr("none/c.tsv"));
}

TEST_F(DataTest, PrepareWritesBothPartiesAndPrintsWhatIsInThem) {
  const std::string out = ExpectDone({"prepare", "--format=criteo", "--input=" + Criteo(), "--out=" + folder_.File("d"),
                                      "--only_label_fraction=0.2", "--only_nonlabel_fraction=0.1"});
  EXPECT_THAT(out, ContainsRegex("label_party.data: [0-9]+ rows, [0-9]+ of them for training\n"));
  EXPECT_THAT(out, ContainsRegex("nonlabel_party.data: [0-9]+ rows, [0-9]+ of them for training\n"));
  EXPECT_THAT(out, ContainsRegex("held by both: [0-9]+ rows\n"));
  EXPECT_THAT(out, ContainsRegex("1000 rows, 2[0-9]\\.[0-9][0-9]% positive"));
  EXPECT_THAT(out, ContainsRegex(" I1 [0-9.]+ .* I13 [0-9.]+ C1 [0-9.]+ .* C26 [0-9.]+\n"));
  EXPECT_THAT(out, ContainsRegex("embedding rows: [0-9]+: C1 [0-9]+ .* C26 [0-9]+\n"));
  EXPECT_TRUE(std::filesystem::exists(folder_.File("d/label_party.data")));
  EXPECT_TRUE(std::filesystem::exists(folder_.File("d/nonlabel_party.data")));
}

TEST_F(DataTest, PrepareExtendsEarlierData) {
  const std::string table = Criteo();
  const std::vector<std::string> common = {"prepare", "--format=criteo", "--test_fraction=0"};
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
  EXPECT_THAT(ExpectError(2, {"prepare", "--format=criteo", "--input=" + second, "--out=" + folder_.File("x"),
                              "--extend=" + folder_.File("none")}),
              HasSubstr("none/label_party.data"));
}

TEST_F(DataTest, PrepareCountsTheRowsItLeavesOut) {
  const std::string bad = folder_.File("bad.tsv"), cut = folder_.File("cut.gz");
  WriteText(bad, ReadFile(Criteo()).value() + "2\tSECRET\n");
  WriteText(cut, "\x1f\x8b\x08");  // How every gzip file starts, and no more.
  const std::string out = ExpectDone({"prepare", "--format=criteo", "--skip_bad_rows", "--input=" + bad,
                                      "--input=" + cut, "--out=" + folder_.File("d")});
  EXPECT_THAT(out, HasSubstr("1000 rows, "));
  EXPECT_THAT(out, HasSubstr("left out: wrong column count: 1 rows\n"));
  EXPECT_THAT(out, HasSubstr("left out: damaged file: all from the damage on, in 1 of 2 files\n"));
}

TEST_F(DataTest, PrepareFailsOnFormatsAndSchemasThatDoNotFit) {
  EXPECT_EQ(ExpectError(2, {"prepare", "--format=excel", "--input=x", "--out=y"}),
            "command line: --format: expected criteo, avazu or table, found \"excel\"\n");
  EXPECT_THAT(ExpectError(2, {"prepare", "--format=table", "--input=x", "--out=y"}), HasSubstr("--schema: expected"));
  EXPECT_THAT(ExpectError(2, {"prepare", "--format=avazu", "--schema=s", "--input=x", "--out=y"}),
              HasSubstr("--schema: expected none for avazu"));
  EXPECT_THAT(ExpectError(2, {"prepare", "--format=criteo", "--party=third", "--input=x", "--out=y"}),
              HasSubstr("--party: expected both, label_party or nonlabel_party"));
}

TEST_F(DataTest, PrepareFailsWithoutItsInput) {
  EXPECT_THAT(
      ExpectError(2, {"prepare", "--format=criteo", "--input=" + folder_.File("none"), "--out=" + folder_.File("d")}),
      HasSubstr(folder_.File("none")));
}

TEST_F(DataTest, PrepareFailsAtAMalformedRowAndWritesNothing) {
  const std::string bad = folder_.File("bad.tsv");
  WriteText(bad, ReadFile(Criteo()).value() + "2\tSECRET\n");
  const std::string error =
      ExpectError(2, {"prepare", "--format=criteo", "--input=" + bad, "--out=" + folder_.File("d")});
  EXPECT_THAT(error, StartsWith(bad + ":1001:"));
  EXPECT_THAT(error, ::testing::Not(HasSubstr("SECRET")));
  EXPECT_FALSE(std::filesystem::exists(folder_.File("d/label_party.data")));
  EXPECT_FALSE(std::filesystem::exists(folder_.File("d/nonlabel_party.data")));
}

TEST_F(DataTest, PrepareFailsOnFractionsThatLeaveNothingInCommon) {
  const std::string input = "--input=" + Criteo();
  const std::string out = "--out=" + folder_.File("d");
  ExpectError(2,
              {"prepare", "--format=criteo", input, out, "--only_label_fraction=0.6", "--only_nonlabel_fraction=0.5"});
  EXPECT_THAT(ExpectError(2, {"prepare", "--format=criteo", input, out, "--only_label_fraction=1.5"}),
              HasSubstr("--only_label_fraction: expected a number in [0, 1]"));
}

}  // namespace
}  // namespace splitveil::testing
