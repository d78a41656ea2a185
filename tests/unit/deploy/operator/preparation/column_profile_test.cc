#include "deploy/operator/preparation/column_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "deploy/operator/preparation/table_reader.h"

namespace splitveil {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ColumnProfile Profile(const std::vector<std::string>& cells) {
  ColumnProfile profile("amount");
  int64_t line = 1;
  for (const std::string& cell : cells) {
    profile.Add(cell, ++line);
  }
  return profile;
}

// Numbers from `first` on, each twice, and `cell` so many times.
std::vector<std::string> With(const std::string& cell, int times, int first = 5, int numbers = 400) {
  std::vector<std::string> cells(static_cast<size_t>(times), cell);
  for (int i = 0; i < 2 * numbers; ++i) {
    cells.push_back(absl::StrCat(first + i % numbers, ".5"));
  }
  return cells;
}

std::vector<std::string> Unknowns(const std::vector<std::string>& cells) {
  std::vector<std::string> texts;
  for (const UnknownNumber& unknown : Profile(cells).unknowns(false)) {
    texts.push_back(absl::StrCat(unknown.text, ":", unknown.rows));
  }
  return texts;
}

TEST(ColumnProfileTest, CountsFormsWithTheirFirstAndLastLine) {
  const ColumnProfile profile = Profile({"1", "", "2.5", "3", "NA", "2024-01-01", "word", "7%", "word"});
  EXPECT_EQ(profile.rows(), 9);
  EXPECT_EQ(profile.empty(), 1);
  EXPECT_EQ(profile.marked(), 1);
  EXPECT_EQ(profile.numbers(), 4);
  EXPECT_EQ(profile.integers(), 3);
  EXPECT_EQ(profile.form(CellForm::kInteger).first_line, 2);
  EXPECT_EQ(profile.form(CellForm::kInteger).last_line, 5);
  EXPECT_EQ(profile.form(CellForm::kText).rows, 2);
  EXPECT_EQ(profile.form(CellForm::kText).last_line, 10);
  EXPECT_EQ(profile.form(CellForm::kPercent).rows, 1);
  EXPECT_EQ(profile.dates(), 1);
  EXPECT_EQ(profile.distinct(), 6);
}

// The counts do not change when texts are no longer kept.
TEST(ColumnProfileTest, CountsAlikeBeyondTheTextsItKeeps) {
  ColumnProfile profile("code");
  for (int row = 0; row < 3000; ++row) {
    profile.Add(row % 3 == 0 ? "x" : absl::StrCat(row % 1000), row + 2);
  }
  EXPECT_THAT(profile.counts(), IsEmpty());
  EXPECT_EQ(profile.numbers(), 2000);
  ASSERT_TRUE(profile.words().has_value());
  EXPECT_EQ(profile.words()->at("x").rows, 1000);
  EXPECT_EQ(profile.words()->at("x").first_line, 2);
  EXPECT_EQ(profile.distinct(), 1001);
}

TEST(ColumnProfileTest, ANumberThatMeansUnknownIsFound) {
  EXPECT_THAT(Unknowns(With("-999999", 30)), ElementsAre("-999999:30"));
  EXPECT_THAT(Unknowns(With("9999", 30)), ElementsAre("9999:30"));
  EXPECT_THAT(Unknowns(With("-1", 30)), ElementsAre("-1:30"));
  EXPECT_THAT(Unknowns(With("-9999", 30, 0, 5)), ElementsAre("-9999:30")) << "among five codes";
  EXPECT_THAT(Unknowns(With("5000", 30)), ElementsAre("5000:30")) << "far from all others";
  std::vector<std::string> both = With("-999", 30);
  both.insert(both.end(), 20, "99999");
  both.insert(both.end(), 20, "99998");
  EXPECT_THAT(Unknowns(both), ElementsAre("-999:30", "99999:20", "99998:20"));
}

TEST(ColumnProfileTest, PricesAndScalesHaveNoUnknowns) {
  std::vector<std::string> prices, scale, counts, readings;
  for (int row = 0; row < 1200; ++row) {
    prices.push_back(std::vector<std::string>{"0.99", "4.99", "9.99", "99.99", "999.99"}[row % 5]);
    scale.push_back(absl::StrCat(row % 12 - 1));
    counts.push_back(row % 2 == 0 ? "-1" : absl::StrCat(row % 11));
    readings.push_back(row % 30 == 0 ? "999.9" : absl::StrCat(row % 40, ".", row % 7));
  }
  EXPECT_THAT(Unknowns(prices), IsEmpty());
  EXPECT_THAT(Unknowns(scale), IsEmpty());
  EXPECT_THAT(Unknowns(counts), ElementsAre("-1:600"));
  EXPECT_THAT(Unknowns(readings), ElementsAre("999.9:40"));
}

TEST(ColumnProfileTest, ANumberThatIsOneOfManyIsNoUnknown) {
  EXPECT_THAT(Unknowns(With("0", 300)), IsEmpty()) << "0 is a number that many rows have";
  EXPECT_THAT(Unknowns(With("5000", 2)), IsEmpty()) << "twice is chance";
  EXPECT_THAT(Unknowns(With("5000", 1000)), IsEmpty()) << "the usual number";
  EXPECT_THAT(Unknowns(With("499", 30)), IsEmpty()) << "near the others";
  EXPECT_THAT(Unknowns(With("-1", 30, -5)), IsEmpty()) << "among negative numbers";
  EXPECT_THAT(Unknowns(With("999", 300, 5, 995)), IsEmpty()) << "nines beside 999.5 and 998.5";
  EXPECT_THAT(Unknowns(With("100", 30, 0, 5)), IsEmpty()) << "a column of few numbers may be one of codes";
  EXPECT_THAT(Unknowns({}), IsEmpty());
}

std::string Problem(const std::vector<std::string>& cells, char decimal = 0, bool comma_elsewhere = false) {
  return FindFormat(Profile(cells), decimal, comma_elsewhere).problem;
}

TEST(ColumnProfileTest, FindsHowNumbersAreWritten) {
  const FormatFinding german = FindFormat(Profile({"1,5", "1.234,5", "-2,25 €", "7"}), 0, false);
  EXPECT_EQ(german.problem, "");
  EXPECT_TRUE(german.format.decimal_comma);
  EXPECT_EQ(german.format.thousands, '.');
  EXPECT_THAT(german.format.strip, ElementsAre("€"));
  EXPECT_EQ(german.readable, 4);
  EXPECT_TRUE(FindFormat(Profile({"1,234", "1,5"}), 0, false).format.decimal_comma);
  EXPECT_EQ(FindFormat(Profile({"1,234", "1.5"}), 0, false).format.thousands, ',');
  EXPECT_EQ(FindFormat(Profile({"1,234", "999"}), '.', false).format.thousands, ',');
  EXPECT_TRUE(FindFormat(Profile({"1.234", "999"}), ',', false).format.decimal_comma);
}

TEST(ColumnProfileTest, WhatCanBeReadInTwoWaysIsAProblemWithItsLine) {
  EXPECT_THAT(Problem({"12", "1,234"}),
              AllOf(HasSubstr("1,234 in 1 rows, first in line 3"), HasSubstr("--decimal=comma")));
  EXPECT_THAT(Problem({"12", "$ 1,234"}), HasSubstr("1,234 in 1 rows, first in line 3"));
  EXPECT_THAT(Problem({"12", "1.234"}), HasSubstr("1.234 in 1 rows, first in line 3"));
  EXPECT_EQ(Problem({"12", "1.234"}, '.'), "");
  EXPECT_EQ(Problem({"12", "1.234", "0.5"}), "");
  EXPECT_EQ(Problem({"1200", "1.234"}), "") << "its thousands are not separated";
  EXPECT_THAT(Problem({"1200", "1.234"}, 0, true), HasSubstr("1.234 in 1 rows, first in line 3"));
  EXPECT_THAT(Problem({"1.5", "2.5", "1,5"}), AllOf(HasSubstr("decimal point (in 2 rows, first in line 2)"),
                                                    HasSubstr("comma (in 1 rows, first in line 4)")));
  EXPECT_THAT(Problem({"1 EUR", "2 USD"}), HasSubstr("different units (\"EUR\" in 1 rows, first in line 2"));
  EXPECT_THAT(Problem({"12%", "0.5"}), HasSubstr("a percent sign at some numbers"));
  EXPECT_THAT(Problem({"1'234", "1 234"}), HasSubstr("thousands separated by different signs"));
}

TEST(ColumnProfileTest, DescribesNumbersOfWhichSomeHaveAUnit) {
  EXPECT_EQ(DescribeUnits(Profile({"5 kg", "3 kg", "", "NA"})), "");
  EXPECT_EQ(DescribeUnits(Profile({"5 kg", "3 kg", "5000"})),
            "a unit at some numbers and none at others (\"kg\" in 2 rows, first in line 2)");
  v1::TableSchema schema;
  auto& weight = *schema.add_columns();
  weight.set_name("weight");
  weight.set_kind(v1::TableSchema::NUMERIC);
  weight.add_strip("kg");
  weight.add_strip("g");
  TableProfile profile = EmptyProfile(schema);
  for (int row = 0; row < 20; ++row) {
    profile.columns[0].Add(row % 2 == 0 ? absl::StrCat(row + 2, " kg") : absl::StrCat(row + 2, "000 g"), row + 2);
  }
  EXPECT_THAT(
      ProfileWarnings(schema, profile),
      ElementsAre(HasSubstr("column \"weight\": numbers with different units (\"g\" in 10 rows, first in line 3")));
}

TEST(ColumnProfileTest, AWordBehindANumberIsAUnitOnlyIfItIsTheOneOfMost) {
  EXPECT_EQ(Profile({"12 rooms", "3 rooms", "5"}).numbers(), 3);
  EXPECT_EQ(Profile({"12 Elm", "3 Oak", "5 Elm"}).numbers(), 0) << "addresses";
  EXPECT_EQ(Profile({"12", "3", "5 apples"}).numbers(), 2);
  EXPECT_EQ(Profile({"12 EUR", "3 USD", "7"}).numbers(), 3) << "currencies are units, and an error";
}

// Quantiles and extremes are those of the reading that is chosen at the end, however late it shows.
TEST(ColumnProfileTest, ALateCommaChangesHowEarlierCellsAreRead) {
  std::vector<std::string> cells;
  for (int i = 0; i < 500; ++i) {
    cells.push_back(absl::StrCat("1,", 100 + i));
  }
  cells.push_back("0,5");
  const ColumnProfile profile = Profile(cells);
  EXPECT_TRUE(FindFormat(profile, 0, false).format.decimal_comma);
  EXPECT_EQ(profile.extremes(true).least().front().number, 0.5);
  EXPECT_NEAR(profile.sample(true).Quantile(0.5), 1.349, 0.002);
  EXPECT_NEAR(profile.sample(false).Quantile(0.5), 1349, 2);
}

}  // namespace
}  // namespace splitveil
