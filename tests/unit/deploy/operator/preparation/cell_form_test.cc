#include "deploy/operator/preparation/cell_form.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/charconv.h"
#include "absl/strings/str_cat.h"

namespace splitveil {
namespace {

double Read(const char* cell, const NumberFormat& format = {}) {
  double number = 0;
  return ReadNumber(cell, format, number) ? number : std::nan("");
}

TEST(CellFormTest, ReadsNumbersAsProgramsAndPeopleWriteThem) {
  for (const auto& [cell, number] : {std::pair("0", 0.0),
                                     {"-1.5", -1.5},
                                     {"1e6", 1e6},
                                     {".5", 0.5},
                                     {"5.", 5},
                                     {"007", 7},
                                     {"+3", 3},
                                     {"\xe2\x88\x92"
                                      "2.5",
                                      -2.5},
                                     {" 1 ", 1},
                                     {"\xc2\xa0"
                                      "12",
                                      12},
                                     {"- 4", -4},
                                     {"1E-3", 1e-3},
                                     {"1e-320", 1e-320},
                                     {"0.1234567890123456789", 0.1234567890123456789},
                                     {"123456789012345678", 123456789012345678.0}}) {
    EXPECT_EQ(Read(cell), number) << cell;
  }
}

TEST(CellFormTest, RefusesWhatItsFormatDoesNotName) {
  for (const char* text : {"",     " ",   "1,5",   "1,234", "1 234", "1_000", "12%", "EUR 3", "0x10", "nan", "inf",
                           "12-3", "12-", "1e999", "+-1",   "--1",   "1.2.3", "1e",  "e5",    ".",    "(5)"}) {
    EXPECT_TRUE(std::isnan(Read(text))) << text;
  }
}

TEST(CellFormTest, ReadsWhatItsFormatNames) {
  const NumberFormat german = {true, '.', {"EUR", "€"}};
  EXPECT_EQ(Read("1.234.567,89", german), 1234567.89);
  EXPECT_EQ(Read("52,31", german), 52.31);
  EXPECT_EQ(Read("-1.234 EUR", german), -1234);
  EXPECT_EQ(Read("€ -12", german), -12);
  EXPECT_EQ(Read("-€12", german), -12);
  for (const char* text : {"12.5", "1.23", "12.34,5", "1234.567,8", "0.123", "1.234,5.6", "3 USD"}) {
    EXPECT_TRUE(std::isnan(Read(text, german))) << text;
  }
  EXPECT_EQ(Read("1,234.50", {false, ',', {}}), 1234.5);
  EXPECT_EQ(Read("1\xe2\x80\xaf"
                 "234,5",
                 {true, ' ', {}}),
            1234.5)
      << "narrow no-break space";
  EXPECT_EQ(Read("1'234.5", {false, '\'', {}}), 1234.5);
  EXPECT_EQ(Read("1\xe2\x80\x99"
                 "234",
                 {false, '\'', {}}),
            1234);
  EXPECT_EQ(Read("12 %", {false, 0, {"%"}}), 12);
}

TEST(CellFormTest, NamesTheForm) {
  for (const auto& [cell, form] : {std::pair("12", CellForm::kInteger),
                                   {"-3.5", CellForm::kDecimalPoint},
                                   {"52,31", CellForm::kDecimalComma},
                                   {"0,123", CellForm::kDecimalComma},
                                   {"1,234", CellForm::kCommaGroup},
                                   {"1.234", CellForm::kDecimalPoint},
                                   {"1,234.5", CellForm::kThousands},
                                   {"1.234.567", CellForm::kThousands},
                                   {"12 345", CellForm::kThousands},
                                   {"EUR 12", CellForm::kUnit},
                                   {"$1,200.50", CellForm::kUnit},
                                   {"12kg", CellForm::kUnit},
                                   {"36 months", CellForm::kUnit},
                                   {"12.5%", CellForm::kPercent},
                                   {"2024-06-01", CellForm::kDate},
                                   {"1,23,456", CellForm::kOddDigits},
                                   {"(12.50)", CellForm::kOddDigits},
                                   {"12.50-", CellForm::kOddDigits},
                                   {"0x1F", CellForm::kOddDigits},
                                   {"=\"12.34\"", CellForm::kOddDigits},
                                   {"'12", CellForm::kOddDigits},
                                   {"<5", CellForm::kOddDigits},
                                   {"12.3\xe2\x80\xb0", CellForm::kOddDigits},
                                   {"$12.34k", CellForm::kOddDigits},
                                   {"v1.2", CellForm::kText},
                                   {"1.2.3", CellForm::kText},
                                   {"--5", CellForm::kOddDigits},
                                   {"\xd9\xa5\xd9\xa0.\xd9\xa2", CellForm::kOddDigits},  // Arabic-Indic 50.2.
                                   {"-\xef\xbc\x91\xef\xbc\x99", CellForm::kOddDigits},  // Full-width 19.
                                   {"\xd9\xa5 \xd8\xb1\xd9\x8a\xd8\xa7\xd9\x84", CellForm::kText},
                                   {"C123", CellForm::kText},
                                   {"12A", CellForm::kText},
                                   {"12:30", CellForm::kText},
                                   {"192.168.1.10", CellForm::kText},
                                   {"Smith, 12", CellForm::kText},
                                   {"-", CellForm::kText}}) {
    EXPECT_EQ(ScanCell(cell).form, form) << cell << ": " << kCellFormNames[static_cast<size_t>(ScanCell(cell).form)];
  }
  EXPECT_EQ(ScanCell("1,234").as_point, 1234);
  EXPECT_EQ(ScanCell("1,234").as_comma, 1.234);
  EXPECT_EQ(ScanCell("-1.234").as_comma, -1234);
  EXPECT_EQ(ScanCell("12 kg").unit, "kg");
}

// The short way must give the very double that the long one gives.
TEST(CellFormTest, TellsFractionsAndDurationsFromTimesOfDay) {
  EXPECT_EQ(ScanCell("51/100").form, CellForm::kUnit);
  EXPECT_EQ(ScanCell("51/100").unit, "/100");
  EXPECT_EQ(Read("-5.5/100", {false, 0, {"/100"}}), -5.5);
  for (const char* cell : {"51/100", "1/2", "53:07", "7:5", "101:30:00", "23:60", "0:00:61"}) {
    EXPECT_TRUE(ScanCell(cell).parts) << cell;
    EXPECT_FALSE(ScanCell(cell).time_of_day) << cell;
  }
  for (const char* cell : {"23:07", "0:00", "7:45:59"}) {
    EXPECT_TRUE(ScanCell(cell).time_of_day) << cell;
    EXPECT_FALSE(ScanCell(cell).parts) << cell;
  }
  for (const char* cell : {"1/2/3", "1:2:3:4", "a/b", "12-345", "51/", "/100", ":30", "12", "1.5", "2024-01-05 12:30",
                           "01/02/2024", "12:30h", "192.168.0.1:80"}) {
    EXPECT_FALSE(ScanCell(cell).parts || ScanCell(cell).time_of_day) << cell;
  }
}

TEST(CellFormTest, ReadsEveryPlainNumberAsTheLibraryDoes) {
  std::mt19937_64 draws(7);
  for (int i = 0; i < 200'000; ++i) {
    const int fraction = static_cast<int>(draws() % 12);
    std::string text = absl::StrCat(draws() % 1'000'000'000'000'000 >> (draws() % 45));
    if (fraction > 0 && text.size() > static_cast<size_t>(fraction)) {
      text.insert(text.size() - fraction, ".");
    }
    double expected = 0;
    absl::from_chars(text.data(), text.data() + text.size(), expected);
    ASSERT_EQ(Read(text.c_str()), expected) << text;
  }
}

TEST(CellFormTest, TellsDatesFromCodesAndTexts) {
  for (const char* date : {"2024-06-01", "2024-06-01 12:30", "2024-06-01T12:30:05Z", "24.12.2024", "1.2.2024",
                           "06/01/2024", "6/1/2024 9:15", "2024/06/01", "01-06-2024"}) {
    EXPECT_TRUE(IsDate(date)) << date;
  }
  for (const char* text :
       {"", "20240601", "2024-06", "24.12", "1.5", "2024-06-01 at noon", "2024-06-01T", "a-b-c", "555-12-3456"}) {
    EXPECT_FALSE(IsDate(text)) << text;
  }
}

TEST(CellFormTest, KnowsTheUsualWordsForMissing) {
  for (const char* word : {"NA", "n/a", "NaN", "-nan", "NaT", "None", "NULL", "nil", "-", "--", ".", "?", "\\N", "#N/A",
                           "#DIV/0!", "<NA>", "(null)", "NONE"}) {
    EXPECT_TRUE(MeansMissing(word)) << word;
  }
  for (const char* word : {"0", "no", "none of these", "inf", "unknown", "x", "-1"}) {
    EXPECT_FALSE(MeansMissing(word)) << word;
  }
}

}  // namespace
}  // namespace splitveil
