#include "deploy/operator/preparation/id_form.h"

#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/operator/preparation/id_shape.h"
#include "deploy/operator/preparation/prepare.h"
#include "deploy/operator/preparation/seeded_draws.h"

#include "tests/testing/scratch_folder.h"

namespace splitveil {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Normal(const std::set<v1::IdForm>& forms, const std::string& id) {
  IdNormalForm form(forms);
  const std::optional<absl::string_view> normal = form.Of(id);
  return normal.has_value() ? std::string(*normal) : "not UTF-8";
}

IdSurvey Survey(int ids, const std::function<std::string(int)>& id) {
  IdSurvey survey;
  for (int i = 0; i < ids; ++i) {
    survey.Add(id(i), i + 2);
  }
  return survey;
}

std::string Error(const IdSurvey& survey, const std::set<v1::IdForm>& forms = {}) {
  return std::string(survey.Check("shop.csv", "customer", forms).message());
}

TEST(IdNormalFormTest, DropsBlanksThatNobodySeesAndKeepsThoseInside) {
  EXPECT_EQ(Normal({}, " \xc2\xa0K 7\xe2\x80\x8b\xc2\xa0\t"), "K 7");
  EXPECT_EQ(Normal({},
                   "\xef\xbb\xbf"
                   "K7\xe3\x80\x80"),
            "K7");
  EXPECT_EQ(Normal({}, "\xc2\xa0 "), "");
}

TEST(IdNormalFormTest, ComposesAccentsHoweverTheyWereTyped) {
  EXPECT_EQ(Normal({v1::UNICODE_NFC}, "Rene\xcc\x81-7"), "Ren\xc3\xa9-7");
  EXPECT_EQ(Normal({v1::UNICODE_NFC}, "Ren\xc3\xa9-7"), "Ren\xc3\xa9-7");
  EXPECT_EQ(Normal({}, "Rene\xcc\x81-7"), "Rene\xcc\x81-7");
  EXPECT_EQ(Normal({v1::UNICODE_NFC}, "Ren\xe9"), "not UTF-8");  // Latin-1.
  EXPECT_EQ(Normal({}, "Ren\xe9"), "Ren\xe9");
}

TEST(IdNormalFormTest, FoldsCapitalsOfEveryAlphabet) {
  EXPECT_EQ(Normal({v1::CASE_FOLD}, "M\xc3\x9cLLER-A7"), "m\xc3\xbcller-a7");
  EXPECT_EQ(Normal({v1::CASE_FOLD}, "Mu\xcc\x88ller-a7"), "m\xc3\xbcller-a7");
}

TEST(IdNormalFormTest, DigitsAreAllThatIsLeft) {
  EXPECT_EQ(Normal({v1::DIGITS}, "+49 (170) 123-4"), "491701234");
  EXPECT_EQ(Normal({v1::DIGITS}, "007"), "007");
  EXPECT_EQ(Normal({v1::DIGITS}, "n/a"), "");
  EXPECT_EQ(Normal({v1::DIGITS, v1::CASE_FOLD}, "A\xc3\x9c-7\xd9\xa3"), "7");  // An Arabic digit is none of 0 to 9.
  EXPECT_EQ(Normal({v1::DIGITS, v1::INTEGER}, "0100.0"), "100");
}

TEST(IdNormalFormTest, WholeNumbersLoseZerosInFrontAndEmptyFractionsAndOtherIdsNothing) {
  const std::set<v1::IdForm> integer = {v1::INTEGER};
  for (const char* id : {"70310", "70310.0", "70310.000", "070310", "0070310.0", " 70310\xc2\xa0"}) {
    EXPECT_EQ(Normal(integer, id), "70310") << id;
  }
  for (const char* id : {"0", "70310.5", "7.0310E+4", "A070", "070-1", "07a", "1.2.0", "-7.0"}) {
    EXPECT_EQ(Normal(integer, id), id);
  }
  EXPECT_EQ(Normal(integer, "000"), "0");
}

TEST(IdSurveyTest, FailsForNumbersWithAndWithoutFractionsWithBothCounts) {
  const IdSurvey survey = Survey(500, [](int i) { return absl::StrCat(70000 + i, i % 5 == 3 ? ".0" : ""); });
  EXPECT_THAT(Error(survey), AllOf(HasSubstr("shop.csv: column \"customer\": expected ids that are written in one way"),
                                   HasSubstr("400 without a fraction, first in line 2; 100 with .0 behind them, first "
                                             "in line 5"),
                                   HasSubstr("id_form: INTEGER"), Not(HasSubstr("70003"))));
  EXPECT_EQ(Error(survey, {v1::INTEGER}), "");
  EXPECT_EQ(Error(survey, {v1::AS_WRITTEN}), "");
  EXPECT_EQ(Error(Survey(500, [](int i) { return absl::StrCat(70000 + i, ".0"); })), "");
}

TEST(IdSurveyTest, FailsForZerosInFrontOfSomeOnly) {
  EXPECT_THAT(
      Error(Survey(300, [](int i) { return i % 3 == 0 ? absl::StrFormat("%06d", 7 * i) : absl::StrCat(7 * i); })),
      HasSubstr("100 with zeros in front, first in line 2; 200 without, some of them shorter, first in line 3"));
  EXPECT_EQ(Error(Survey(300, [](int i) { return absl::StrFormat("%04d", 37 * i); })), "");  // All four digits or more.
}

TEST(IdSurveyTest, FailsForNumbersThatASpreadsheetRoundedWhateverTheForm) {
  EXPECT_THAT(Error(Survey(50, [](int i) { return absl::StrCat("4.2", i, "E+15"); }), {v1::INTEGER}),
              HasSubstr("found 50 of numbers in scientific notation such as 3.1E+17, first in line 2"));
}

TEST(IdSurveyTest, HexadecimalCodesThatLookLikeNumbersAreNoFault) {
  EXPECT_EQ(Error(Survey(3000, [](int i) { return absl::StrFormat("%08x", 2654435761U * static_cast<unsigned>(i)); })),
            "");
}

TEST(IdSurveyTest, FailsForAccentsOfTwoKinds) {
  const IdSurvey survey = Survey(90, [](int i) {
    return absl::StrCat(i % 9 == 0 ? "Zoe\xcc\x88" : i % 2 == 0 ? "Zo\xc3\xab" : "Ann", i);
  });
  EXPECT_THAT(Error(survey),
              AllOf(HasSubstr("40 with letters that have their accents, first in line 4; 10 with accents "
                              "behind their letters, first in line 2"),
                    HasSubstr("id_form: UNICODE_NFC")));
  EXPECT_EQ(Error(survey, {v1::UNICODE_NFC}), "");
  EXPECT_EQ(Error(survey, {v1::CASE_FOLD}), "");
}

// Seen of real tables: 20% of the ids lost without a word.
TEST(IdSurveyTest, FailsForCharactersThatNobodySees) {
  for (const char* hidden : {"\xe2\x80\x8b", "\xc2\xa0", "\xc2\xad", "\xef\xbb\xbf"}) {
    const IdSurvey survey = Survey(100, [&](int i) { return absl::StrCat("C1", i % 5 == 4 ? hidden : "", i); });
    EXPECT_THAT(Error(survey), AllOf(HasSubstr("found 20 with a no-break or a zero-width one inside, first in line 6"),
                                     Not(HasSubstr(hidden))));
    EXPECT_EQ(Error(survey, {v1::AS_WRITTEN}), "");
    EXPECT_EQ(Error(survey, {v1::DIGITS}), "");
  }
  EXPECT_EQ(Error(Survey(100, [](int i) { return absl::StrCat("\xe2\x80\x8b C", i, "\xc2\xa0"); })), "");  // Around.
}

TEST(IdSurveyTest, FailsForHyphensOfTwoKinds) {
  const IdSurvey survey = Survey(90, [](int i) { return absl::StrCat("C", i % 3 == 0 ? "\xe2\x80\x93" : "-", i); });
  EXPECT_THAT(Error(survey), HasSubstr("found 60 with a hyphen, first in line 3; 30 with a dash that looks like it, "
                                       "first in line 2"));
  EXPECT_EQ(Error(survey, {v1::AS_WRITTEN}), "");
  EXPECT_EQ(Error(Survey(90, [](int i) { return absl::StrCat("C\xe2\x80\x93", i); })), "");
}

TEST(IdSurveyTest, FailsForWordsInCapitalsAndNot) {
  const IdSurvey survey = Survey(600, [](int i) {
    return absl::StrCat(i % 3 == 0 ? "JOS\xc3\x89-" : i % 3 == 1 ? "Jos\xc3\xa9-" : "zo\xc3\xab-", i);
  });
  EXPECT_THAT(Error(survey),
              AllOf(HasSubstr("found 200 in capitals, first in line 2; 200 with capitals in front of words, first in "
                              "line 3; 200 in small letters, first in line 4"),
                    HasSubstr("id_form: CASE_FOLD"), Not(HasSubstr("Jos"))));
  EXPECT_THAT(Error(survey, {v1::UNICODE_NFC}), HasSubstr("CASE_FOLD"));
  EXPECT_EQ(Error(survey, {v1::CASE_FOLD}), "");
  EXPECT_EQ(Error(survey, {v1::AS_WRITTEN}), "");
  // One that was typed otherwise.
  EXPECT_THAT(Error(Survey(900, [](int i) { return absl::StrCat(i == 700 ? "c" : "C", 1000 + i); })),
              HasSubstr("899 in capitals, first in line 2; 1 in small letters, first in line 702"));
  // Letters of the Cyrillic alphabet: К and к.
  EXPECT_THAT(Error(Survey(100, [](int i) { return absl::StrCat(i % 2 == 0 ? "\xd0\x9a" : "\xd0\xba", i); })),
              HasSubstr("50 in capitals"));
}

// Different words, and letters of which each counts.
TEST(IdSurveyTest, CapitalsOfIdsThatAreWrittenInOneWayAreNoFault) {
  EXPECT_EQ(Error(Survey(600, [](int i) { return absl::StrCat(i % 2 == 0 ? "CUST-" : "web-", i); })), "");
  EXPECT_EQ(Error(Survey(600, [](int i) { return absl::StrCat("Anna-Lena ", i % 3 == 0 ? "O'Neil " : "Q. ", i); })),
            "");
  for (const int length : {4, 8, 22}) {  // As in Base64.
    const std::string letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint64_t state = 7;
    EXPECT_EQ(Error(Survey(3000,
                           [&](int) {
                             std::string id;
                             for (int i = 0; i < length; ++i) {
                               id += letters[(state = MixBits(state + 0x9e3779b97f4a7c15)) % 64];
                             }
                             return id;
                           })),
              "")
        << length;
  }
}

TEST(IdSurveyTest, KnowsNumbersOfRowsInAnyOrder) {
  EXPECT_TRUE(Survey(100, [](int i) { return absl::StrCat(i); }).NumbersRows());
  EXPECT_TRUE(Survey(100, [](int i) { return absl::StrCat(1 + i * 37 % 100); }).NumbersRows());
  EXPECT_FALSE(Survey(100, [](int i) { return absl::StrCat(2 + i); }).NumbersRows());
  EXPECT_FALSE(Survey(100, [](int i) { return absl::StrCat(i + i / 99); }).NumbersRows());
  EXPECT_FALSE(Survey(100, [](int i) { return absl::StrFormat("%03d", i); }).NumbersRows());  // Codes.
}

TEST(IdSurveyTest, ShapesArePatternsWithLengthsAndNoIds) {
  EXPECT_THAT(Survey(1000, [](int i) { return absl::StrCat(9990 + i); }).Shape(), ElementsAre("100% 9{4-5}"));
  EXPECT_THAT(Survey(1000, [](int i) { return absl::StrFormat("%05d.0", i); }).Shape(), ElementsAre("100% 90{5}.9{1}"));
  EXPECT_THAT(Survey(1000, [](int i) { return absl::StrCat(i % 4 == 0 ? "AB-" : "ab-", 100 + i % 900); }).Shape(),
              ElementsAre("75% a{2}-9{3}", "25% A{2}-9{3}"));
  EXPECT_THAT(Survey(1000, [](int i) { return absl::StrCat(i % 2 == 0 ? "Zoe\xcc\x88" : "Zo\xc3\xab"); }).Shape(),
              ElementsAre("100% Aae~{3-4}"));
}

// A pattern of a single person would say who that is.
TEST(IdSurveyTest, ShapesHaveNoRarePattern) {
  EXPECT_THAT(
      Survey(2000, [](int i) { return i % 200 == 7 ? absl::StrCat("x/", i) : absl::StrCat(10000 + i); }).Shape(),
      ElementsAre("100% 9{5}"));
  EXPECT_THAT(Survey(9, [](int i) { return absl::StrCat(i); }).Shape(), ElementsAre());
}

std::string Difference(const IdSurvey& theirs, const IdSurvey& own, const std::string& column = "customer") {
  v1::AlignmentAgreement alignment;
  alignment.set_id_column("customer");
  for (const std::string& shape : theirs.Shape()) {
    alignment.add_id_shape(shape);
  }
  return DescribeIdDifference(alignment, column, own.Shape());
}

TEST(IdDifferenceTest, IsSaidOfNamesAndOfShapes) {
  const auto plain = [](int i) { return absl::StrCat(100000 + i); };
  const IdSurvey ids = Survey(900, plain);
  EXPECT_EQ(Difference(ids, Survey(400, [](int i) { return absl::StrCat(500000 + 3 * i); })), "");
  EXPECT_THAT(Difference(ids, ids, "client"),
              AllOf(HasSubstr("column \"customer\", this table's in \"client\""), Not(HasSubstr("look like"))));
  EXPECT_THAT(Difference(ids, Survey(400, [&](int i) { return plain(i) + ".0"; })),
              HasSubstr("the other party's ids look like 100% 9{6}; this table's like 100% 9{6}.9{1}"));
  EXPECT_NE(Difference(ids, Survey(400, [](int i) { return absl::StrCat(1000 + i); })), "");
  EXPECT_NE(Difference(ids, Survey(400, [](int i) { return absl::StrFormat("%06d", i); })), "");
  // A third in capitals.
  EXPECT_NE(Difference(Survey(900, [](int i) { return absl::StrCat("Ann-", i); }),
                       Survey(900, [](int i) { return absl::StrCat(i % 3 == 0 ? "ANN-" : "Ann-", i); })),
            "");
  EXPECT_EQ(DescribeIdDifference(v1::AlignmentAgreement(), "any", ids.Shape()), "");
}

TEST(IdDifferenceTest, TakesAnyTextForAShape) {
  v1::AlignmentAgreement alignment;
  for (const char* text : {"", "%", "7% ", "{", "}{", "9{", "9{4", "9{-}", "9{4-", "200% 9{4-99999999999999999999}"}) {
    alignment.add_id_shape(text);
  }
  EXPECT_NE(DescribeIdDifference(alignment, "id", {"100% 9{4}"}), "");
}

PrepareOptions ShopTable(const ScratchFolder& folder, int from_fraction) {
  std::string text = "customer,visits\n";
  for (int i = 0; i < 400; ++i) {
    absl::StrAppend(&text, 31000 + i, i >= from_fraction ? ".0" : "", ",", i % 17, "\n");
  }
  folder.Write("shop.csv", text);
  PrepareOptions options;
  options.rows.input_paths = {folder.Path("shop.csv")};
  auto& id = *options.rows.schema.add_columns();
  id.set_name("customer");
  id.set_kind(v1::TableSchema::ID);
  auto& visits = *options.rows.schema.add_columns();
  visits.set_name("visits");
  visits.set_kind(v1::TableSchema::NUMERIC);
  options.parties = v1::TableSchema::NONLABEL_PARTY;
  options.out_dir = folder.Path("out");
  return options;
}

TEST(PreparedIdsTest, AreRefusedWhereTheyAreMixedAndAlikeInTheAgreedForm) {
  const ScratchFolder folder;
  PrepareOptions options = ShopTable(folder, 280);
  EXPECT_THAT(std::string(Prepare(options).status().message()),
              HasSubstr("280 without a fraction, first in line 2; 120 with .0 behind them, first in line 282"));
  options.rows.schema.mutable_columns(0)->add_id_form(v1::INTEGER);
  const absl::StatusOr<PrepareResult> prepared = Prepare(options);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_THAT(prepared->ids.Shape(), ElementsAre("100% 9{5}"));
  EXPECT_THAT(prepared->parties.front().preprocessing.id_form(), ElementsAre(v1::INTEGER));
}

TEST(PreparedIdsTest, ThatBecomeAlikeAreOneRepeatedId) {
  const ScratchFolder folder;
  PrepareOptions options = ShopTable(folder, 400);
  folder.Write("shop.csv", "customer,visits\n31000,1\n031000,2\n");
  options.rows.schema.mutable_columns(0)->add_id_form(v1::INTEGER);
  EXPECT_THAT(std::string(Prepare(options).status().message()),
              AllOf(HasSubstr("shop.csv:3:1: expected distinct ids"), HasSubstr("first in"), HasSubstr("shop.csv:2")));
}

TEST(PreparedIdsTest, ThatThePatternDoesNotDescribeAreCountedWithTheirLines) {
  const ScratchFolder folder;
  PrepareOptions options = ShopTable(folder, 400);
  v1::TableSchema::Column& id = *options.rows.schema.mutable_columns(0);
  id.set_id_pattern("[0-9]{5}");
  EXPECT_TRUE(Prepare(options).ok());
  folder.Write("shop.csv", "customer,visits\n31000,1\n3100,2\n31001,3\nplanted,4\n");
  const std::string error(Prepare(options).status().message());
  EXPECT_THAT(error, HasSubstr("shop.csv: 2 rows with an id that the agreed id_pattern \"[0-9]{5}\" does not describe: "
                               "correct or remove them (line 3, 5)"));
  EXPECT_THAT(error, Not(HasSubstr("planted")));
  id.set_id_pattern("[0-9");
  EXPECT_THAT(std::string(Prepare(options).status().message()), HasSubstr("expected a regular expression"));
}

TEST(PreparedIdsTest, OnlyAnIdHasAForm) {
  const ScratchFolder folder;
  PrepareOptions options = ShopTable(folder, 400);
  options.rows.schema.mutable_columns(1)->add_id_form(v1::INTEGER);
  EXPECT_THAT(std::string(Prepare(options).status().message()), HasSubstr("visits: id_form: only an ID has it"));
}

}  // namespace
}  // namespace splitveil
