#include <algorithm>
#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/process/file.h"
#include "tests/unit/deploy/operator/operator_tool.h"

namespace splitveil::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

int64_t Lines(const std::string& path) {
  const std::string contents = ReadFile(path).value();
  return std::count(contents.begin(), contents.end(), '\n');
}

class GenerateCommandTest : public ::testing::Test {
 protected:
  TempFolder folder_;
};

TEST_F(GenerateCommandTest, WritesTheRowsAndPrintsTheBayesAuc) {
  const std::string path = folder_.File("c.tsv");
  const std::string out = ExpectDone({"generate", "--rows=1000", "--seed=3", "--out=" + path});
  EXPECT_EQ(Lines(path), 1000);
  EXPECT_THAT(out, HasSubstr(path + ": 1000 rows, "));
  EXPECT_THAT(out, ContainsRegex("Bayes AUC [^:]*: 0\\.[78][0-9][0-9][0-9]\n"));
}

TEST_F(GenerateCommandTest, WritesATableThatIsPreparedAsItIs) {
  const std::string path = folder_.File("t.csv");
  std::string out = ExpectDone({"generate", "--task=multi_class", "--rows=1000", "--out=" + path});
  EXPECT_EQ(Lines(path), 1001);
  EXPECT_THAT(out, ContainsRegex("t.csv: 1000 rows, by class: none [0-9]+, card [0-9]+, loan [0-9]+, savings [0-9]+, "
                                 "mortgage [0-9]+\nBayes macro AUC [^:]*: 0\\.[89][0-9]+\n"));
  EXPECT_THAT(out, HasSubstr(path + ".schema.textproto: its schema\n"));
  out = ExpectDone({"prepare", "--format=table", "--schema=" + path + ".schema.textproto", "--input=" + path,
                    "--out=" + folder_.File("classes")});
  EXPECT_THAT(out, ContainsRegex("t.csv: 1000 rows, by class: none [0-9]+, card [0-9]+"));

  const std::string schema = folder_.File("own.textproto");
  out = ExpectDone(
      {"generate", "--force", "--task=regression", "--rows=1000", "--schema_out=" + schema, "--out=" + path});
  EXPECT_THAT(out, ContainsRegex("t.csv: 1000 rows, mean target [0-9.]+\nBayes R\\^2 [^:]*: 0\\.[78][0-9]+\n"));
  out = ExpectDone(
      {"prepare", "--format=table", "--schema=" + schema, "--input=" + path, "--out=" + folder_.File("numbers")});
  EXPECT_THAT(out, HasSubstr(", 0.00% of the targets clipped to [0, 100]\n"));
  EXPECT_TRUE(std::filesystem::exists(folder_.File("numbers/nonlabel_party.data")));
}

TEST_F(GenerateCommandTest, RepeatsItselfForOneSeedOnly) {
  for (const char* words : {"1 a", "1 b", "2 c"}) {
    ExpectDone({"generate", "--rows=50", std::string("--seed=") + words[0], "--out=" + folder_.File(words + 2)});
  }
  EXPECT_EQ(ReadFile(folder_.File("a")).value(), ReadFile(folder_.File("b")).value());
  EXPECT_NE(ReadFile(folder_.File("a")).value(), ReadFile(folder_.File("c")).value());
}

// A real click log looks like a generated one.
TEST_F(GenerateCommandTest, ReplacesNothingUnlessTold) {
  const std::string path = folder_.File("clicks.tsv");
  ASSERT_TRUE(WriteFile(path, "precious").ok());
  EXPECT_THAT(ExpectError(2, {"generate", "--rows=50", "--out=" + path}),
              HasSubstr("clicks.tsv: expected no file of this name, found one; --force replaces it"));
  EXPECT_THAT(ExpectError(2, {"generate", "--task=regression", "--rows=50", "--schema_out=" + path,
                              "--out=" + folder_.File("t.csv")}),
              HasSubstr("clicks.tsv: expected no file"));
  EXPECT_EQ(ReadFile(path).value(), "precious");
  ExpectDone({"generate", "--force", "--rows=50", "--out=" + path});
  EXPECT_EQ(Lines(path), 50);
}

TEST_F(GenerateCommandTest, FailsOnBadArguments) {
  const std::string out = "--out=" + folder_.File("c.tsv");
  EXPECT_THAT(ExpectError(2, {"generate"}), HasSubstr("expected --out, found none"));
  EXPECT_THAT(ExpectError(2, {"generate", out, "--rows=0"}), HasSubstr("--rows: expected an integer"));
  EXPECT_THAT(ExpectError(2, {"generate", out, "--rows=many"}), HasSubstr("found \"many\""));
  EXPECT_THAT(ExpectError(2, {"generate", out, "--seed=-1"}), HasSubstr("--seed: expected an integer"));
  EXPECT_THAT(ExpectError(2, {"generate", out, "--task=ranking"}),
              HasSubstr("--task: expected binary, multi_class or regression"));
  EXPECT_THAT(ExpectError(2, {"generate", out, "--schema_out=s"}),
              HasSubstr("--schema_out: has no effect with --task=binary"));
  EXPECT_FALSE(std::filesystem::exists(folder_.File("c.tsv")));
}

TEST_F(GenerateCommandTest, FailsWhereItCannotWrite) {
  EXPECT_THAT(ExpectError(2, {"generate", "--out=" + folder_.File("none/c.tsv")}), HasSubstr("none/c.tsv"));
}

}  // namespace
}  // namespace splitveil::testing
