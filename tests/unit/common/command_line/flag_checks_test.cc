#include "common/command_line/flag_checks.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

// What the check says of `value`; empty: accepted.
std::string Verdict(const CLI::Validator& check, std::string value) { return check(value); }

TEST(FlagChecksTest, IntegersAreDecimalAndInRange) {
  const CLI::Validator check = IntegerIn(1, 7);
  for (const char* value : {"1", "7"}) {
    EXPECT_EQ(Verdict(check, value), "") << value;
  }
  for (const char* value : {"", "0", "8", "007", "+3", "-1", "7x", "1e0", "0x3", "9223372036854775808", "1.0"}) {
    EXPECT_EQ(Verdict(check, value), std::string("expected an integer, 1 to 7, found \"") + value + "\"");
  }
}

TEST(FlagChecksTest, AnIntegerWithoutUpperBoundSaysSo) {
  EXPECT_EQ(Verdict(IntegerIn(0), "-1"), "expected an integer, at least 0, found \"-1\"");
  EXPECT_EQ(Verdict(IntegerIn(0), "9223372036854775807"), "");
}

TEST(FlagChecksTest, NumbersAreFiniteAndInRange) {
  const CLI::Validator check = NumberIn(0.5, 1);
  for (const char* value : {"0.5", "1", "7e-1"}) {
    EXPECT_EQ(Verdict(check, value), "") << value;
  }
  for (const char* value : {"", "0.49", "1.01", "half", "nan", "inf", "1e999", "0.5.5"}) {
    EXPECT_THAT(Verdict(check, value), HasSubstr("expected a number, 0.5 to 1, found")) << value;
  }
}

TEST(FlagChecksTest, AChoiceNamesTheWordsAndTheNearest) {
  const CLI::Validator check = OneOf({"criteo", "avazu", "table"});
  EXPECT_EQ(Verdict(check, "avazu"), "");
  EXPECT_EQ(Verdict(check, "Table"), "expected criteo, avazu or table, found \"Table\"; did you mean table?");
  EXPECT_EQ(Verdict(check, "parquet"), "expected criteo, avazu or table, found \"parquet\"");
}

}  // namespace
}  // namespace splitveil
