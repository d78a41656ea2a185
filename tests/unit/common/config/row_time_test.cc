#include "common/config/row_time.h"

#include <gtest/gtest.h>
#include <string>
#include <tuple>

namespace splitveil {
namespace {

// Seconds of `date -u -d TEXT +%s`.
TEST(RowTimeTest, ReadsDatesWithAndWithoutATimeOfDay) {
  for (const auto& [text, seconds] : {std::pair("1970-01-01", 0.0),
                                      {"2024-06-01", 1717200000.0},
                                      {"2024-06-01 12:30", 1717245000.0},
                                      {"2024-06-01T12:30", 1717245000.0},
                                      {"2024-06-01T12:30:05", 1717245005.0},
                                      {"2024-06-01 12:30:05.5", 1717245005.5},
                                      {"2024-06-01T12:30:05Z", 1717245005.0},
                                      {"2024-06-01T12:30:05+02:00", 1717237805.0},
                                      {"2024-06-01 12:30:05+02:00", 1717237805.0},
                                      {"1969-12-31", -86400.0}}) {
    const auto time = ParseRowTime(text);
    ASSERT_TRUE(time.has_value()) << text;
    EXPECT_TRUE(time->is_date) << text;
    EXPECT_EQ(time->value, seconds) << text;
  }
}

// `TZ=America/New_York date -d TEXT +%s`, on either side of a change of the clocks.
TEST(RowTimeTest, ATimeOfDayWithoutAnOffsetIsOneOfItsZone) {
  absl::TimeZone zone;
  ASSERT_TRUE(absl::LoadTimeZone("America/New_York", &zone));
  for (const auto& [text, seconds, needs_zone] : {std::tuple("2024-06-01 12:30", 1717259400.0, true),
                                                  {"2024-01-01T12:30:05", 1704130205.0, true},
                                                  {"2024-06-01T12:30Z", 1717245000.0, false},
                                                  {"2024-06-01", 1717200000.0, false}}) {
    const auto time = ParseRowTime(text, zone);
    ASSERT_TRUE(time.has_value()) << text;
    EXPECT_EQ(time->value, seconds) << text;
    EXPECT_EQ(time->needs_zone, needs_zone) << text;
  }
}

TEST(RowTimeTest, ReadsNumbers) {
  const auto time = ParseRowTime("-2.5e3");
  ASSERT_TRUE(time.has_value());
  EXPECT_FALSE(time->is_date);
  EXPECT_EQ(time->value, -2500);
}

TEST(RowTimeTest, RefusesOtherTexts) {
  for (const std::string text : {"", "yesterday", "01/06/2024", "2024-13-01", "2024-06-01T25:00", "infinite-past",
                                 "infinite-future", "inf", "nan", "1e999", "7 days", "2024-06-01T"}) {
    EXPECT_FALSE(ParseRowTime(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace splitveil
