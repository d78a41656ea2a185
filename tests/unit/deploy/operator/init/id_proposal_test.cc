#include <algorithm>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"

#include "tests/unit/deploy/operator/init/proposal_fixture.h"

namespace splitveil {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

using IdProposalTest = SchemaProposalTest;

TEST_F(IdProposalTest, SeveralIdsOrNoneAreOneErrorThatNamesTheFlag) {
  EXPECT_THAT(Error(Sample({id_, Ids("account", 100), region_}), false),
              AllOf(HasSubstr("2 columns have a different value in each row: \"customer\", \"account\""),
                    HasSubstr("--id=COLUMN"), Not(HasSubstr("C17"))));
  EXPECT_THAT(Error(Sample({region_, income_}), false), HasSubstr("no column has a different id in each row"));
  flags_.id = "account";
  EXPECT_EQ(Kinds(Propose(Sample({id_, Ids("account", 100), region_}), false)).at("customer"), "IGNORE");
  flags_.id = "region";
  EXPECT_THAT(Error(Sample({id_, region_}), false), AllOf(HasSubstr("found 3 distinct ones in 100 rows"),
                                                          HasSubstr("97 repeat an earlier one, in lines 5 to 101")));
}

TEST_F(IdProposalTest, FractionsAreNoId) {
  ColumnProfile amounts("amount");
  for (int row = 0; row < 100; ++row) {
    amounts.Add(absl::StrCat(row, ".25"), row + 2);
  }
  EXPECT_EQ(Kinds(Propose(Sample({id_, amounts}), false)).at("amount"), "NUMERIC");
}

// What a data frame writes in front: every table has the same numbers, of other people.
TEST_F(IdProposalTest, NumbersOfTheRowsAreNoIdUnlessTheUserSaysSo) {
  ColumnProfile numbers("Unnamed: 0");
  for (int row = 0; row < 100; ++row) {
    numbers.Add(absl::StrCat((37 * row) % 100), row + 2);
  }
  EXPECT_EQ(Kinds(Propose(Sample({numbers, id_, region_}), false))["customer"], "ID");
  EXPECT_THAT(Error(Sample({numbers, region_}), false),
              AllOf(HasSubstr("\"Unnamed: 0\" only counts the rows"), HasSubstr("--id=COLUMN")));
  flags_.id = "Unnamed: 0";
  EXPECT_EQ(Kinds(Propose(Sample({numbers, region_}), false))["Unnamed: 0"], "ID");
}

// One customer twice, and some column of numbers that all differ: each would align the rows of different people.
TEST_F(IdProposalTest, NoOtherColumnBecomesTheIdIfOneRowRepeatsItOrLacksIt) {
  const std::map<std::string, std::function<std::string(int)>> others = {
      {"index", [](int row) { return absl::StrCat(1000 + row); }},
      {"filtered", [](int row) { return absl::StrCat(row + row / 3); }},
      {"sampled", [](int row) { return absl::StrCat(2 * (row * 37 % 100)); }},
      {"loaded_at", [](int row) { return absl::StrCat(1'700'000'000 + 2000 * (row * 37 % 100)); }},
      {"loaded_ms", [](int row) { return absl::StrCat(1'700'000'000'123 + 2'000'000'000 * (row * 37 % 100)); }},
      {"newest_first", [](int row) { return absl::StrCat(90'000 - 7 * row); }},
      {"note", [](int row) { return absl::StrCat("text of ", row); }}};
  for (const auto& [name, text] : others) {
    ColumnProfile other(name);
    for (const bool is_empty : {false, true}) {
      ColumnProfile ids("id"), references("reference");
      for (int row = 0; row < 100; ++row) {
        const std::string cell = row == 40 && is_empty ? "" : absl::StrCat("C", row == 40 ? 7 : row);
        ids.Add(cell, row + 2);
        references.Add(cell, row + 2);
        if (!is_empty) {
          other.Add(text(row), row + 2);
        }
      }
      for (const ColumnProfile& column : {ids, references}) {
        EXPECT_THAT(
            Error(Sample({column, other, region_}), false),
            AllOf(HasSubstr(absl::StrCat("\"", column.name(), "\" of 100 cells 1 ",
                                         is_empty ? "have none, in line 42" : "repeat an earlier one, in line 42")),
                  HasSubstr(absl::StrCat("--id=", column.name(), " --skip_bad_rows")), Not(HasSubstr("C7"))))
            << name;
      }
    }
    flags_.id = name;
    EXPECT_EQ(Kinds(Propose(Sample({other, region_}), false))[name], "ID");
    flags_.id = "";
  }
}

TEST_F(IdProposalTest, RowNumbersAndTimesAreNoIdEvenIfTheyAreCalledSo) {
  for (const std::string name : {"id", "number"}) {
    for (const auto& [text, why] : std::map<std::string, std::function<std::string(int)>>{
             {"ascending or descending order", [](int row) { return absl::StrCat(5000 + 3 * row); }},
             {"look like times", [](int row) { return absl::StrCat(1'600'000'000 + 999'983 * (row * 37 % 100)); }}}) {
      ColumnProfile numbers(name);
      for (int row = 0; row < 100; ++row) {
        numbers.Add(why(row), row + 2);
      }
      EXPECT_THAT(Error(Sample({numbers, region_}), false), AllOf(HasSubstr(name), HasSubstr(text)));
      // Beside the ids of people they do no harm.
      EXPECT_EQ(Kinds(Propose(Sample({numbers, id_, region_}), false))["customer"], "ID");
    }
  }
}

// Customers are often numbered, and their table sorted by that.
TEST_F(IdProposalTest, NumbersInOrderThatAreNamedAfterPeopleAreAnId) {
  for (const std::string name : {"customer", "client_no", "kundeId"}) {
    ColumnProfile numbers(name), counted(name);
    for (int row = 0; row < 100; ++row) {
      numbers.Add(absl::StrCat(100000 + row), row + 2);
      counted.Add(absl::StrCat(row + 1), row + 2);
    }
    EXPECT_EQ(Kinds(Propose(Sample({numbers, region_}), false))[name], "ID");
    EXPECT_THAT(Error(Sample({counted, region_}), false), HasSubstr("only counts the rows"));
  }
}

TEST_F(IdProposalTest, ColumnsThatHardlyRepeatAreNoReasonToDoubtAnIdWithAName) {
  ColumnProfile notes("note"), amounts("amount"), codes("customer_age");
  for (int row = 0; row < 100; ++row) {
    notes.Add(absl::StrCat("text ", std::max(row, 1)), row + 2);
    amounts.Add(absl::StrCat(5000 + std::max(row, 1) * 7919 % 100'000), row + 2);
    codes.Add(absl::StrCat(row / 3), row + 2);
  }
  EXPECT_EQ(Kinds(Propose(Sample({id_, notes, amounts, codes, region_}), false))["customer"], "ID");
}

// What --ignore names is not taken all the same.
TEST_F(IdProposalTest, AnIgnoredColumnIsNotTheId) {
  flags_.ignore = {"customer"};
  EXPECT_THAT(Error(Sample({id_, region_}), false), HasSubstr("no column has a different id in each row"));
  EXPECT_EQ(Kinds(Propose(Sample({id_, Ids("account", 100), region_}), false)).at("account"), "ID");
}

TEST_F(IdProposalTest, WholeNumbersThatBecameFractionsAreIdsAndTheProposalMakesThemWhole) {
  const ProfiledTable sample =
      Sample({Numbers(100, [](int row) { return absl::StrCat(8000 + 37 * row % 100, ".0"); }), region_});
  const SchemaProposal proposal = Propose(sample, false);
  EXPECT_THAT(IdColumnOf(proposal).id_form(), ElementsAre(v1::UNICODE_NFC, v1::INTEGER));
  EXPECT_THAT(IdColumnOf(Propose(Sample({id_, region_}), false)).id_form(), ElementsAre(v1::UNICODE_NFC));
  EXPECT_THAT(IdColumnOf(Propose(Sample({Numbers(90, [](int row) { return absl::StrCat("u", row); }), region_}), false))
                  .id_form(),
              ElementsAre(v1::UNICODE_NFC, v1::CASE_FOLD));
  flags_.keeps_id_form = true;  // The other party's proposal has none.
  EXPECT_THAT(IdColumnOf(Propose(sample, false)).id_form(), ElementsAre());
}

TEST_F(IdProposalTest, IdsWrittenInTwoWaysAreAnErrorUnlessAFormMakesThemAlike) {
  const ProfiledTable sample = Sample(
      {Numbers(100, [](int row) { return absl::StrCat(8000 + 37 * row % 100, row < 60 ? "" : ".0"); }), region_});
  EXPECT_THAT(Error(sample, false),
              AllOf(HasSubstr("t.csv: column \"client\""), HasSubstr("60 without a fraction"),
                    HasSubstr("40 with .0 behind them, first in line 62"), HasSubstr("--id_form=INTEGER")));
  flags_.id_form = {v1::INTEGER};
  EXPECT_THAT(IdColumnOf(Propose(sample, false)).id_form(), ElementsAre(v1::INTEGER));
}

// The credit card table of UCI: LIMIT_BAL has 1e+05 beside 20000, ID counts the rows.
TEST_F(IdProposalTest, RoundedAmountsAreNotTakenForIdsBesideRowNumbers) {
  ColumnProfile numbers("ID"), limits("LIMIT_BAL");
  for (int row = 0; row < 100; ++row) {
    numbers.Add(absl::StrCat(row + 1), row + 2);
    limits.Add(row % 3 == 0 ? "1e+05" : "20000", row + 2);
  }
  EXPECT_THAT(Error(Sample({numbers, limits, region_}), false),
              AllOf(HasSubstr("\"ID\" only counts the rows"), Not(HasSubstr("LIMIT_BAL\": expected ids"))));
}

TEST_F(IdProposalTest, IdsThatASpreadsheetRoundedAreNamed) {
  for (const int distinct : {100, 1}) {  // Rounded so far that they are alike.
    EXPECT_THAT(
        Error(Sample({Numbers(100, [&](int row) { return absl::StrCat("4.2", row % distinct, "E+15"); }), region_}),
              false),
        AllOf(HasSubstr("column \"client\""), HasSubstr("100 of numbers in scientific notation")));
  }
}

}  // namespace
}  // namespace splitveil
