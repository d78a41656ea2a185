#include "deploy/operator/init/schema_proposal.h"

#include <cmath>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

#include "tests/unit/deploy/operator/init/proposal_fixture.h"

namespace splitveil {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(SchemaProposalTest, SaysWhatEachColumnIsAndWhy) {
  flags_.label = "defaulted";
  const SchemaProposal proposal = Propose(Sample({id_, income_, region_, defaulted_}), true);
  EXPECT_EQ(Kinds(proposal),
            (std::map<std::string, std::string>{
                {"customer", "ID"}, {"income", "NUMERIC"}, {"region", "CATEGORICAL"}, {"defaulted", "LABEL"}}));
  EXPECT_THAT(proposal.why, ElementsAre("a different value in each row", "numbers, 3 distinct, 40.0% missing",
                                        "texts, 3 distinct", "two values, 25.0% positive"));
  EXPECT_THAT(proposal.schema.positive(), ElementsAre("yes"));
  EXPECT_THAT(proposal.schema.negative(), ElementsAre("no"));
  EXPECT_THAT(proposal.schema.missing(), ElementsAre("NA"));
  EXPECT_EQ(proposal.features, 2);
  EXPECT_TRUE(proposal.has_categories);
}

TEST_F(SchemaProposalTest, SkewedNumbersHaveAScalingOfTheirOwn) {
  std::vector<std::string> amounts, ages;
  for (int i = 0; i < 1000; ++i) {
    amounts.push_back(absl::StrCat(std::exp(0.01 * i - 5)));
    ages.push_back(absl::StrCat(i % 80));
  }
  const SchemaProposal proposal =
      Propose(Sample({Ids("customer", 1000), Column("amount", amounts, 1000), Column("age", ages, 1000)}), false);
  EXPECT_EQ(proposal.schema.columns(1).scaling(), v1::TableSchema::LOG);
  EXPECT_EQ(proposal.why[1], "numbers, 1000 distinct, skewed: scaled as logarithms");
  EXPECT_FALSE(proposal.schema.columns(2).has_scaling());
}

TEST_F(SchemaProposalTest, KnowsTheUsualPositives) {
  flags_.label = "y";
  for (const auto& [positive, negative] : {std::pair("1", "0"), {"True", "False"}, {"Y", "N"}, {"1", "-1"}}) {
    const SchemaProposal proposal = Propose(Sample({id_, Column("y", {negative, positive}, 100)}), true);
    EXPECT_THAT(proposal.schema.positive(), ElementsAre(positive));
  }
}

TEST_F(SchemaProposalTest, APositiveThatNobodyKnowsIsAskedForWithoutShowingIt) {
  flags_.label = "grade";
  const ProfiledTable table = Sample({id_, Column("grade", {"gold", "tin"}, 100)});
  EXPECT_THAT(Error(table, true), AllOf(HasSubstr("column \"grade\""), HasSubstr("--positive=TEXT"),
                                        Not(HasSubstr("gold")), Not(HasSubstr("tin"))));
  flags_.positive = "gold";
  EXPECT_THAT(Propose(table, true).schema.positive(), ElementsAre("gold"));
  flags_.positive = "silver";
  EXPECT_THAT(Error(table, true), AllOf(HasSubstr("--positive"), Not(HasSubstr("tin"))));
}

TEST_F(SchemaProposalTest, ALabelOfThreeValuesIsOneErrorThatNamesTheFlags) {
  flags_.label = "region";
  EXPECT_THAT(Error(Sample({id_, region_}), true),
              AllOf(HasSubstr("expected a label of two values, found 3"), HasSubstr("--class=TEXT"),
                    HasSubstr("--target_minimum"), Not(HasSubstr("north"))));
  flags_.classes = {"north", "south", "east"};
  const SchemaProposal proposal = Propose(Sample({id_, region_}), true);
  EXPECT_EQ(Kinds(proposal).at("region"), "CLASS_LABEL");
  EXPECT_THAT(proposal.schema.classes(), ElementsAre("north", "south", "east"));
  flags_.classes = {"north", "south", "west"};
  EXPECT_THAT(Error(Sample({id_, region_}), true), HasSubstr("found 33 rows with others, first in line 4"));
}

TEST_F(SchemaProposalTest, ABadLabelAmongManyIsNamedByItsLineAndLeftOutWhereThatIsAskedFor) {
  flags_.label = "defaulted";
  ColumnProfile column("defaulted");
  for (int row = 0; row < 100; ++row) {
    column.Add(row == 61 || row == 70 ? "secret" : row % 3 == 0 ? "yes" : "no", row + 2);
  }
  EXPECT_THAT(Error(Sample({id_, column}), true),
              AllOf(HasSubstr("found 3, the rarest in 2 of 100 rows, first in line 63"), HasSubstr("--skip_bad_rows"),
                    Not(HasSubstr("secret"))));
  flags_.skip_bad_rows = true;
  const SchemaProposal proposal = Propose(Sample({id_, column}), true);
  EXPECT_THAT(proposal.schema.positive(), ElementsAre("yes"));
  EXPECT_THAT(proposal.why.back(),
              HasSubstr("two values, 34.7% positive; rows with another text, which --skip_bad_rows leaves out: 2"));
  flags_.label = "region";
  EXPECT_THAT(Error(Sample({id_, region_}), true), HasSubstr("found 3, the rarest in 33 of 100 rows"))
      << "far above 5%";
}

TEST_F(SchemaProposalTest, AFewTextsAmongNumbersAreLeftOutWhereThatIsAskedFor) {
  Cells cells(20, "5");
  cells[3] = "secret";
  cells[4] = "6";
  flags_.skip_bad_rows = true;
  EXPECT_EQ(Kinds(Propose(Sample({id_, Column("age", cells, 100)}), false)).at("age"), "NUMERIC");
}

TEST_F(SchemaProposalTest, ANumberIsPredictedInTheRangeThatWasGiven) {
  flags_.label = "price";
  flags_.target_minimum = "0";
  flags_.target_maximum = "50";
  const SchemaProposal proposal = Propose(Sample({id_, Column("price", {"10", "12.5", "17"}, 100)}), true);
  EXPECT_EQ(Kinds(proposal).at("price"), "TARGET");
  EXPECT_EQ(proposal.schema.target_maximum(), 50);
  flags_.target_maximum = "-1";
  EXPECT_THAT(Error(Sample({id_, Column("price", {"10", "12.5", "17"}, 100)}), true), HasSubstr("--target_minimum"));
}

TEST_F(SchemaProposalTest, TargetsBeyondTheirRangeOrLostInItAreWarnedOf) {
  flags_.label = "spent";
  const auto warnings = [&](const std::string& maximum, int unknown_rows) {
    ColumnProfile spent("spent");
    for (int row = 0; row < 1000; ++row) {
      spent.Add(row < unknown_rows ? "999999" : absl::StrCat(20'000 + row * 37 % 1000 * 10), row + 2);
    }
    ColumnProfile ids = Ids("customer", 1000);
    flags_.target_minimum = "0";
    flags_.target_maximum = maximum;
    return ::testing::PrintToString(Propose(Sample({ids, spent}), true).warnings);
  };
  EXPECT_EQ(warnings("30000", 0), "{}");
  EXPECT_EQ(warnings("29900", 0), "{}");  // 0.9% are clipped.
  EXPECT_THAT(warnings("28500", 0), HasSubstr("14.9% of the targets lie beyond the range from 0 to 28500"));
  EXPECT_THAT(warnings("1e9", 0), HasSubstr("all but 2% of the targets lie in 0.00098% of the range"));
  EXPECT_THAT(warnings("1e6", 50), AllOf(HasSubstr("999999 in 5% of the rows (nines, far from all others)"),
                                         HasSubstr("missing: \\\"999999")));
}

TEST_F(SchemaProposalTest, ALabelIsNeverGuessed) {
  EXPECT_THAT(Error(Sample({id_, defaulted_, region_}), true),
              AllOf(HasSubstr("expected --label=COLUMN"), HasSubstr("columns with two values: \"defaulted\"")));
}

TEST_F(SchemaProposalTest, TheNonLabelPartyHasNone) {
  flags_.label = "defaulted";
  EXPECT_THAT(Error(Sample({id_, defaulted_}), false), HasSubstr("--label: the non-label party has no labels"));
}

TEST_F(SchemaProposalTest, WhatTellsNothingIsLeftOut) {
  ColumnProfile notes("note");
  for (int row = 0; row < 100; ++row) {
    notes.Add(absl::StrCat("text ", row / 3 * 2 + (row % 3 > 0)), row + 2);
  }
  const ProfiledTable table = Sample({id_, income_, Column("country", {"DE"}, 100), notes});
  EXPECT_EQ(Kinds(Propose(table, false)).at("country"), "IGNORE");
  EXPECT_EQ(Kinds(Propose(table, false)).at("note"), "IGNORE");
  flags_.categorical = {"note"};
  EXPECT_EQ(Kinds(Propose(table, false)).at("note"), "CATEGORICAL");
  flags_.categorical.clear();
  flags_.ignore = {"income"};
  EXPECT_THAT(Error(table, false), HasSubstr("expected a column to learn from"));
}

TEST_F(SchemaProposalTest, DatesAreLeftOutUnlessTheyAreAskedFor) {
  ColumnProfile seen("seen");
  for (int row = 0; row < 100; ++row) {
    seen.Add(absl::StrCat("2024-01-01 10:", 10 + row % 50, ":", 10 + row / 50),
             row + 2);  // All differ: no id for that.
  }
  const ProfiledTable table = Sample({id_, income_, Column("born", {"24.12.1999", "1.2.1980", "", "?"}, 100), seen});
  const SchemaProposal proposal = Propose(table, false);
  EXPECT_EQ(Kinds(proposal).at("born"), "IGNORE");
  EXPECT_EQ(Kinds(proposal).at("seen"), "IGNORE");
  EXPECT_EQ(proposal.why[2],
            "dates, 2 distinct, 50.0% missing; --time with --test_after splits by it, --categorical keeps it");
  flags_.categorical = {"born"};
  EXPECT_EQ(Kinds(Propose(table, false)).at("born"), "CATEGORICAL");
}

TEST_F(SchemaProposalTest, AFewTextsAmongNumbersAreOneErrorThatNamesTheFlags) {
  Cells cells(20, "5");
  cells[3] = "secret";
  cells[4] = "6";
  const ProfiledTable table = Sample({id_, Column("age", cells, 100)});
  EXPECT_THAT(Error(table, false),
              AllOf(HasSubstr("column \"age\": expected numbers, found a different text in 5 of 100"),
                    HasSubstr("--missing=TEXT"), Not(HasSubstr("secret"))));
  flags_.missing = {"secret"};
  ColumnProfile known("age", {std::nullopt, flags_.missing, {}});
  for (int row = 0; row < 100; ++row) {
    known.Add(cells[row % cells.size()], row + 2);
  }
  const SchemaProposal proposal = Propose(Sample({id_, known}), false);
  EXPECT_EQ(Kinds(proposal).at("age"), "NUMERIC");
  EXPECT_THAT(proposal.schema.missing(), ElementsAre("secret"));
}

TEST_F(SchemaProposalTest, NumbersWithZerosInFrontAreCodes) {
  const ProfiledTable table =
      Sample({id_, Column("zip", {"01234", "10115", "80331"}, 100), Column("share", {"0.5", "0"}, 100)});
  EXPECT_EQ(Kinds(Propose(table, false)).at("zip"), "CATEGORICAL");
  EXPECT_EQ(Kinds(Propose(table, false)).at("share"), "NUMERIC");
  flags_.numeric = {"zip"};
  EXPECT_EQ(Kinds(Propose(table, false)).at("zip"), "NUMERIC");
}

// A column of 60 numbers from `cells`, which hold the digits at #.
ColumnProfile Numbers(const std::string& name, const std::string& written, int rows = 100) {
  ColumnProfile column(name);
  for (int row = 0; row < rows; ++row) {
    column.Add(absl::StrReplaceAll(written, {{"#", absl::StrCat(10 + row * 7 % 61)}}), row + 2);
  }
  return column;
}

TEST_F(SchemaProposalTest, StatesHowNumbersAreWritten) {
  const SchemaProposal proposal =
      Propose(Sample({id_, Numbers("comma", "#,5"), Numbers("thousands", "1,0#.50"), Numbers("euro", "EUR #.25"),
                      Numbers("percent", "#%"), Numbers("plus", "+#"), Numbers("minus", "\xe2\x88\x92#"),
                      Numbers("swiss", "1'0#"), Numbers("german", "1.0#,25 \xe2\x82\xac")}),
              false);
  const auto column = [&](int index) { return proposal.schema.columns(index).ShortDebugString(); };
  EXPECT_EQ(column(1), "name: \"comma\" kind: NUMERIC decimal: COMMA");
  EXPECT_EQ(column(2), "name: \"thousands\" kind: NUMERIC thousands: \",\"");
  EXPECT_EQ(column(3), "name: \"euro\" kind: NUMERIC strip: \"EUR\"");
  EXPECT_EQ(column(4), "name: \"percent\" kind: NUMERIC strip: \"%\"");
  EXPECT_EQ(column(5), "name: \"plus\" kind: NUMERIC");
  EXPECT_EQ(column(6), "name: \"minus\" kind: NUMERIC");
  EXPECT_EQ(column(7), "name: \"swiss\" kind: NUMERIC thousands: \"\\'\"");
  EXPECT_EQ(column(8), "name: \"german\" kind: NUMERIC decimal: COMMA thousands: \".\" strip: \"\\342\\202\\254\"");
  EXPECT_EQ(proposal.why[8], "numbers, 61 distinct, decimal comma, thousands \".\", without \"\xe2\x82\xac\"");
  EXPECT_THAT(proposal.warnings, ::testing::IsEmpty());
}

TEST_F(SchemaProposalTest, NumbersThatReadInTwoWaysAreAnErrorUntilTheFlagSaysWhich) {
  const ProfiledTable table = Sample({id_, Numbers("sales", "1,0#")});
  EXPECT_THAT(Error(table, false), AllOf(HasSubstr("column \"sales\": expected numbers that are written alike, found "
                                                   "numbers such as 1,234 in 100 rows, first in line 2"),
                                         HasSubstr("--decimal=comma"), HasSubstr("--categorical")));
  flags_.decimal = "comma";
  EXPECT_EQ(Propose(table, false).schema.columns(1).decimal(), v1::TableSchema::COMMA);
  flags_.decimal = "point";
  EXPECT_EQ(Propose(table, false).schema.columns(1).thousands(), ",");
}

TEST_F(SchemaProposalTest, ATargetMayHaveDecimalCommas) {
  flags_.label = "price";
  flags_.target_minimum = "0";
  flags_.target_maximum = "100";
  EXPECT_EQ(Propose(Sample({id_, Numbers("price", "#,5")}), true).schema.columns(1).ShortDebugString(),
            "name: \"price\" kind: TARGET decimal: COMMA");
}

// 61 numbers and a word in every `step`-th row.
ColumnProfile NumbersAnd(const std::string& word, int step, const std::string& name = "age") {
  ColumnProfile column(name);
  for (int row = 0; row < 300; ++row) {
    column.Add(row % step == 0 ? word : absl::StrCat(10 + row * 7 % 61, ".5"), row + 2);
  }
  return column;
}

TEST_F(SchemaProposalTest, WordsForMissingLeaveAColumnOfNumbersOneWhateverTheirShare) {
  for (const char* word : {"None", "-", "NaT", "<NA>", "#DIV/0!", "nil", "."}) {
    for (const int step : {2, 3, 17}) {
      const SchemaProposal proposal = Propose(Sample({id_, NumbersAnd(word, step)}), false);
      EXPECT_EQ(Kinds(proposal).at("age"), "NUMERIC") << word;
      EXPECT_THAT(proposal.schema.missing(), ElementsAre(word));
      EXPECT_THAT(proposal.warnings, ::testing::IsEmpty()) << word;
    }
  }
}

TEST_F(SchemaProposalTest, AnotherWordThatRepeatsAmongNumbersIsProposedWithAWarning) {
  for (const int step : {3, 17}) {
    const SchemaProposal proposal = Propose(Sample({id_, NumbersAnd("offen", step)}), false);
    EXPECT_EQ(proposal.schema.columns(1).ShortDebugString(), "name: \"age\" kind: NUMERIC missing: \"offen\"");
    EXPECT_THAT(proposal.warnings, ElementsAre(AllOf(HasSubstr("column \"age\": \"offen\" stands among numbers in"),
                                                     HasSubstr("remove missing: \"offen\""))));
  }
  EXPECT_THAT(Error(Sample({id_, NumbersAnd("inf", 17)}), false),
              HasSubstr("expected numbers, found a different text"));
  EXPECT_THAT(Error(Sample({id_, NumbersAnd("0x1F", 17)}), false),
              AllOf(HasSubstr("in 18 of 300 rows, first in line 2 (digits that are no known form"),
                    HasSubstr("--categorical")));
}

TEST_F(SchemaProposalTest, AColumnMostlyOfNumbersIsNeverTurnedIntoTextsInSilence) {
  ColumnProfile mixed("mixed");
  for (int row = 0; row < 1000; ++row) {
    mixed.Add(row % 5 < 2 ? absl::StrCat("note ", row) : absl::StrCat(row, ".5"), row + 2);
  }
  EXPECT_THAT(
      Error(Sample({Ids("customer", 1000), mixed}), false),
      AllOf(
          HasSubstr("column \"mixed\": expected numbers, found a different text in 400 of 1000 rows, first in line 2"),
          Not(HasSubstr("note"))));
}

// Words behind numbers are no units, and no message shows them.
TEST_F(SchemaProposalTest, AddressesAreTexts) {
  ColumnProfile streets("street");
  ColumnProfile few("few");
  for (int row = 0; row < 1000; ++row) {
    streets.Add(absl::StrCat(row, row % 2 == 0 ? " Elm" : " Oak"), row + 2);
    few.Add(row == 700 ? "12 SECRET" : absl::StrCat(row, ".5"), row + 2);
  }
  flags_.id = "customer";
  EXPECT_EQ(Kinds(Propose(Sample({id_, income_, streets}), false)).at("street"), "IGNORE");
  EXPECT_THAT(Error(Sample({id_, few}), false),
              AllOf(HasSubstr("a different text in 1 of 1000 rows, first in line 702"), Not(HasSubstr("SECRET"))));
}

TEST_F(SchemaProposalTest, NumbersThatMeanUnknownAreProposedAsMissingWithAWarning) {
  const SchemaProposal proposal = Propose(Sample({id_, NumbersAnd("-999999", 30)}), false);
  EXPECT_EQ(proposal.schema.columns(1).ShortDebugString(), "name: \"age\" kind: NUMERIC missing: \"-999999\"");
  EXPECT_THAT(
      proposal.warnings,
      ElementsAre(HasSubstr("column \"age\": \"-999999\" in 3.3% of the rows (nines among numbers from 0 on)")));
}

TEST_F(SchemaProposalTest, AColumnOfOneValueAndGapsIsAFlag) {
  const SchemaProposal proposal = Propose(Sample({id_, Column("vip", {"yes", "", "NA"}, 100)}), false);
  EXPECT_EQ(Kinds(proposal).at("vip"), "CATEGORICAL");
  EXPECT_EQ(proposal.why[1], "a flag: one value or none, 1 distinct, 66.0% missing");
}

TEST_F(SchemaProposalTest, ADashMayBeALabel) {
  flags_.label = "approved";
  flags_.positive = "+";
  const SchemaProposal proposal = Propose(Sample({id_, Column("approved", {"+", "-", "-", "-"}, 100)}), true);
  EXPECT_EQ(proposal.why[1], "two values, 25.0% positive");
  EXPECT_THAT(proposal.schema.negative(), ElementsAre("-"));
}

TEST_F(SchemaProposalTest, FlagsMustNameColumnsOnce) {
  flags_.ignore = {"incme"};
  EXPECT_THAT(Error(Sample({id_, income_}), false),
              HasSubstr("--ignore: expected a column of t.csv (\"customer\", \"income\")"));
  flags_.ignore = {"income"};
  flags_.categorical = {"income"};
  EXPECT_THAT(Error(Sample({id_, income_}), false), HasSubstr("found \"income\" in two"));
}

TEST_F(SchemaProposalTest, CodesOfManyTextsAreCountedNotKept) {
  ColumnProfile many = Ids("code", 1000);
  EXPECT_TRUE(many.counts().empty());
  EXPECT_EQ(many.distinct(), 1000);
}

TEST_F(SchemaProposalTest, ColumnsFullOfNumbersThatNobodyReadsAreAnError) {
  const std::pair<const char*, const char*> around[] = {{"=\"", "\""}, {"'", ""}, {"$", "k"}, {"~", ""}};
  for (const auto& [front, behind] : around) {
    std::vector<std::string> cells;
    for (int i = 0; i < 50; ++i) {
      cells.push_back(absl::StrCat(front, 3 * i, ".5", behind));
    }
    EXPECT_THAT(Error(Sample({id_, Column("amount", cells, 100), region_}), false),
                AllOf(HasSubstr("column \"amount\": expected numbers"), HasSubstr("no known form of a number")));
  }
  std::vector<std::string> mixed;
  for (int i = 0; i < 100; ++i) {
    mixed.push_back(absl::StrCat(3 * i, i % 2 == 0 ? " boxes" : " pallets"));
  }
  flags_.id = "customer";
  EXPECT_THAT(Propose(Sample({id_, Column("stock", mixed, 100), region_}), false).warnings,
              ElementsAre(HasSubstr("\"stock\": numbers with different words behind them in 100 of 100 rows")));
  const SchemaProposal proposal = Propose(Sample({id_, Column("rating", {"6+", "12+", "18+"}, 100), region_}), false);
  EXPECT_EQ(proposal.schema.columns(1).kind(), v1::TableSchema::CATEGORICAL);
}

TEST_F(SchemaProposalTest, WhatSeemsToMeanUnknownAtBothEndsIsOneWarning) {
  Cells cells = {"-999999", "999999"};
  for (int i = 0; i < 48; ++i) {
    cells.push_back(absl::StrCat(20 + i, ".5"));
  }
  EXPECT_THAT(Propose(Sample({Ids("customer", 200), Column("age", cells, 200)}), false).warnings,
              ElementsAre(AllOf(HasSubstr("\"-999999\" in 2% of the rows"), HasSubstr(", \"999999\" in 2% of the rows"),
                                HasSubstr("takes them for missing"))));
}

TEST_F(SchemaProposalTest, WhatSeveralColumnsHaveForUnknownIsOneWarning) {
  EXPECT_THAT(Propose(Sample({id_, NumbersAnd("-999999", 30), NumbersAnd("98765", 25, "score")}), false).warnings,
              ElementsAre(AllOf(HasSubstr("column \"age\": \"-999999\" in 3.3% of the rows"),
                                HasSubstr("; column \"score\": \"98765\" in 4% of the rows"),
                                HasSubstr("remove such as missing: \"-999999\" from its column"))));
}

TEST_F(SchemaProposalTest, FractionsAndDurationsThatHardlyRepeatAreAnError) {
  flags_.id = "customer";
  const auto column = [this](const std::function<std::string(int)>& cell) {
    ColumnProfile profile("pair");
    for (int row = 0; row < 1000; ++row) {
      profile.Add(cell(row), row + 2);
    }
    return Sample({Ids("customer", 1000), profile, income_});
  };
  // Pressures, and minutes and seconds, a quarter of which might be times of day.
  for (const auto& table : {column([](int row) { return absl::StrCat(90 + row * 7 % 97, "/", 50 + row * 11 % 61); }),
                            column([](int row) { return absl::StrFormat("%d:%02d", row * 7 % 97, row * 11 % 60); }),
                            column([](int row) { return absl::StrFormat("%d:%02d:00", row * 7 % 997, row % 60); })}) {
    EXPECT_THAT(Error(table, false),
                AllOf(HasSubstr("column \"pair\": expected numbers or codes, found several numbers"),
                      HasSubstr("first in line "), HasSubstr("--categorical keeps")));
    flags_.ignore = {"pair"};
    EXPECT_EQ(Kinds(Propose(table, false)).at("pair"), "IGNORE");
    flags_.ignore = {};
  }
  // One denominator makes numbers of them.
  const SchemaProposal scores = Propose(column([](int row) { return absl::StrCat(row * 7 % 101, "/100"); }), false);
  EXPECT_EQ(scores.schema.columns(1).ShortDebugString(), "name: \"pair\" kind: NUMERIC strip: \"/100\"");
  // Codes, times of day and dates stay what they are.
  const std::pair<const char*, std::function<std::string(int)>> others[] = {
      {"CATEGORICAL", [](int row) { return absl::StrCat(1 + row % 3, "/", 2 + row % 5); }},
      {"CATEGORICAL", [](int row) { return absl::StrCat(row % 4, ":", row % 7); }},
      {"CATEGORICAL", [](int row) { return absl::StrCat(12, "-", 300 + row % 40); }},
      {"CATEGORICAL", [](int row) { return absl::StrFormat("%02d:%02d", row % 24, row % 4 * 15); }},
      {"CATEGORICAL", [](int row) { return absl::StrFormat("%02d/%d", 1 + row % 12, 2020 + row % 5); }},
      {"IGNORE",
       [](int row) {
         const int second = row * 7919 % 86400;
         return absl::StrFormat("%02d:%02d:%02d", second / 3600, second / 60 % 60, second % 60);
       }},
      {"IGNORE", [](int row) { return absl::StrFormat("%02d/%02d/2024", 1 + row % 12, 1 + row % 28); }},
      {"IGNORE", [](int row) { return absl::StrFormat("555-%03d-%04d", row % 999, row * 7 % 9999); }}};
  for (const auto& [kind, cell] : others) {
    EXPECT_EQ(Kinds(Propose(column(cell), false)).at("pair"), kind) << cell(5);
  }
}

TEST_F(SchemaProposalTest, AUnitAtSomeNumbersAloneIsAWarning) {
  std::vector<std::string> cells;
  for (int i = 0; i < 100; ++i) {
    cells.push_back(absl::StrCat(i, ".5", i % 4 == 0 ? " kg" : ""));
  }
  EXPECT_THAT(Propose(Sample({id_, Column("weight", cells, 100), region_}), false).warnings,
              ElementsAre(HasSubstr("\"weight\": a unit at some numbers and none at others (\"kg\" in 25 rows")));
}

}  // namespace
}  // namespace splitveil
