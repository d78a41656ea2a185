#include "deploy/operator/init/table_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TableLayout Found(const std::vector<std::string>& lines, const LayoutFlags& flags = {}) {
  const auto layout = FindLayout("t.csv", lines, flags);
  EXPECT_TRUE(layout.ok()) << layout.status();
  return layout.value_or(TableLayout());
}

std::string Error(const std::vector<std::string>& lines, const LayoutFlags& flags = {}) {
  const absl::Status status = FindLayout("t.csv", lines, flags).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(TableLayoutTest, FindsEachSeparator) {
  for (const char separator : {',', ';', '\t', '|'}) {
    const std::string s(1, separator);
    const TableLayout layout = Found({"id" + s + "age" + s + "city", "a" + s + "3" + s + "x", "b" + s + "4" + s + "y"});
    EXPECT_EQ(layout.separator, separator);
    EXPECT_THAT(layout.names, ElementsAre("id", "age", "city"));
    EXPECT_TRUE(layout.header);
  }
}

TEST(TableLayoutTest, TakesTheSeparatorThatEveryLineAgreesOn) {
  // Decimal commas, a different number of them a line, beside semicolons.
  EXPECT_EQ(Found({"id;price;age", "a;1,5;3", "b;2;4"}).separator, ';');
  // As many commas in each line, but more bars.
  EXPECT_EQ(Found({"id|a,b|c|d", "x|1,2|3|4", "y|1,2|3|4"}).separator, '|');
}

TEST(TableLayoutTest, ReadsQuotesWhereTheyCanBeRead) {
  const TableLayout quoted = Found({"id,name,age", "a,\"x, y\",3", "b,z,4"});
  EXPECT_TRUE(quoted.quotes);
  const TableLayout text = Found({"id,inches,n", "a,\"5 feet,3", "b,6,4"});
  EXPECT_FALSE(text.quotes);
}

TEST(TableLayoutTest, FindsBlanksAroundCells) {
  EXPECT_TRUE(Found({"id, age", "a, 3", "b, 4"}).trim);
  EXPECT_FALSE(Found({"id,age", "a,3", "b,4"}).trim);
}

TEST(TableLayoutTest, ALineThatMayBeARowIsNotTakenForAHeader) {
  for (const std::vector<std::string>& lines :
       {std::vector<std::string>{"C17,secret,4", "C18,other,5"},             // It has a number.
        std::vector<std::string>{"C17,secret,x", "C18,other,y"},             // All texts are different.
        std::vector<std::string>{"a,no", "b,no", "c,yes", "d,yes", "e,no"},  // A text that occurs below.
        std::vector<std::string>{"a,a", "b,1", "c,2"}}) {
    const std::string error = Error(lines);
    EXPECT_THAT(error, HasSubstr("t.csv:1: expected a header line"));
    EXPECT_THAT(error, HasSubstr("--header=no"));
    EXPECT_THAT(error, Not(HasSubstr("secret")));
    EXPECT_THAT(error, Not(HasSubstr("C17")));
  }
}

TEST(TableLayoutTest, HeaderFlagDecides) {
  const std::vector<std::string> lines = {"C17,secret,4", "C18,other,5"};
  LayoutFlags flags;
  flags.header = "no";
  EXPECT_THAT(Found(lines, flags).names, ElementsAre("column_1", "column_2", "column_3"));
  flags.header = "yes";
  EXPECT_THAT(Found(lines, flags).names, ElementsAre("C17", "secret", "4"));
}

TEST(TableLayoutTest, HeaderOfTextsIsOneWhereTheyDoNotOccurBelow) {
  EXPECT_TRUE(Found({"id,won", "a,no", "b,no", "c,yes", "d,yes", "e,no"}).header);
}

TEST(TableLayoutTest, SeparatorFlagDecides) {
  LayoutFlags flags;
  flags.separator = "\\t";
  EXPECT_EQ(Found({"id\tage", "a\t3"}, flags).separator, '\t');
  EXPECT_THAT(Error({"id,age", "a,3"}, flags), HasSubstr("with separator tab"));
  flags.separator = ",,";
  EXPECT_THAT(Error({"id,age", "a,3"}, flags), HasSubstr("--separator: expected one byte"));
}

TEST(TableLayoutTest, FailsWithTheFlagWhereNoSeparatorFitsOrTwoDo) {
  EXPECT_THAT(Error({"id", "a"}), HasSubstr("--separator"));
  EXPECT_THAT(Error({"id,age", "a,3", "b,4,5"}), HasSubstr("--separator"));
  EXPECT_THAT(
      Error({"id,a;b", "1,2;3", "4,5;6"}),
      HasSubstr("two of comma, semicolon, tab and bar give each line the same number of cells. Set --separator"));
}

TEST(TableLayoutTest, NamesATitleAboveTheHeaderAndATableOfOneColumn) {
  EXPECT_THAT(
      Error({"exported 2024", "id,age,secret", "a,3,4"}),
      ::testing::AllOf(HasSubstr(":1: expected a header line with the names of the columns, found a single cell, "
                                 "and 3 in line 2: remove the lines above the header"),
                       Not(HasSubstr("secret"))));
  EXPECT_THAT(Error({"id", "a", "b"}), HasSubstr("expected at least two columns, an id and something to learn from"));
}

TEST(TableLayoutTest, FailsWithTheFirstLineThatIsOdd) {
  EXPECT_THAT(Error({"id,age", "a,3", "b,4,secret", "c,5"}),
              ::testing::AllOf(HasSubstr("by comma the first has 2, and line 3 has 3: --skip_bad_rows"),
                               Not(HasSubstr("secret"))));
}

TEST(TableLayoutTest, FindsTheOddLineBelowQuotedNames) {
  std::vector<std::string> lines = {"id,\"age, years\",\"income, \"\"net\"\"\""};
  for (int row = 0; row < 150; ++row) {
    lines.emplace_back("a,3,4");
  }
  lines[99] = "b,4,5,6";
  EXPECT_THAT(Error(lines), HasSubstr("by comma the first has 3, and line 100 has 4: --skip_bad_rows"));
  LayoutFlags flags;
  flags.separator = ",";
  EXPECT_THAT(Error(lines, flags), HasSubstr("line 100 has 4"));
  lines[99] = "b,\"4,5";
  EXPECT_THAT(Error(lines), HasSubstr("t.csv:100: expected a quoted cell that ends on its line"));
}

TEST(TableLayoutTest, PassesOverAFewOddLinesWhereThatIsAskedFor) {
  std::vector<std::string> lines = {"id,age"};
  for (int row = 0; row < 99; ++row) {
    lines.push_back("a,3");
  }
  lines[40] = "b,4,5";
  LayoutFlags flags;
  flags.skip_bad_rows = true;
  EXPECT_EQ(Found(lines, flags).names.size(), 2);
  for (size_t row = 41; row < 46; ++row) {
    lines[row] = "b,4,5";
  }
  EXPECT_THAT(Error(lines, flags), HasSubstr("--separator"));
}

TEST(TableLayoutTest, NamesTheLineByWhichExcelKnowsTheSeparator) {
  LayoutFlags flags;
  flags.skip_bad_rows = true;
  EXPECT_THAT(std::string(FindLayout("t.csv", {"sep=;", "id;age", "a;3", "b;4"}, flags).status().message()),
              HasSubstr("t.csv:1: expected a header line, found \"sep=\""));
}

TEST(TableLayoutTest, FailsForAHeaderWithOneNameTwice) {
  LayoutFlags flags;
  flags.header = "yes";
  EXPECT_THAT(Error({"id,age,age", "a,3,4"}, flags), HasSubstr("found \"age\" for columns 2 and 3"));
  EXPECT_THAT(Error({"id,,age", "a,3,4"}, flags), HasSubstr("found none of column 2"));
  EXPECT_THAT(Error({"id,age,age", "a,3,4"}), HasSubstr("as its cells 2 and 3 are the same"));
}

// Otherwise all other quotes would stay, those of ids too.
TEST(TableLayoutTest, OneStrayQuoteIsNamedAndMakesNoTextOfAllOthers) {
  std::vector<std::string> lines = {"id,name,age"};
  for (int row = 0; row < 50; ++row) {
    lines.push_back(row % 4 == 0 ? "\"k, 7\",x,3" : "k8,x,4");
  }
  lines[30] = "k9,\"x,5";
  EXPECT_THAT(Error(lines), ::testing::StartsWith("t.csv:31: expected a quoted cell that ends on its line, found one"));
  LayoutFlags flags;
  flags.separator = ",";
  EXPECT_THAT(Error(lines, flags), HasSubstr("t.csv:31: expected a quoted cell"));
  flags.skip_bad_rows = true;
  EXPECT_TRUE(Found(lines, flags).quotes);
}

TEST(TableLayoutTest, LinesOfEmptyCellsCountOnlyAsLines) {
  EXPECT_THAT(Found({"", ",,", "id,age,city", "a,3,x", ",,", " ", "b,4,y"}).names, ElementsAre("id", "age", "city"));
  EXPECT_THAT(Error({"", "id,age", "a,3", "", "b,4,5"}), HasSubstr("line 5 has 3"));
  EXPECT_THAT(Error({"", ",,"}), HasSubstr("t.csv: expected a table, found no line with a cell that is not empty"));
  EXPECT_THAT(Error({}), HasSubstr("found an empty file"));
}

TEST(TableLayoutTest, RowNumbersOfADataFrameAreNamed) {
  EXPECT_THAT(Error({",id,age", "0,a,3", "1,b,4"}),
              HasSubstr("t.csv:1: expected a name for every column, found none of "
                        "column 1: data frames write their row numbers so"));
  EXPECT_THAT(Error({"id,age,", "a,3,", "b,4,"}),
              HasSubstr("found none of column 3: a line that ends with a separator"));
  EXPECT_THAT(Error({",7,age", "0,a,3"}), HasSubstr("may be a row"));
}

}  // namespace
}  // namespace splitveil
