#include "common/figures/json_number.h"

#include <gtest/gtest.h>
#include <limits>
#include <optional>

namespace splitveil {
namespace {

TEST(JsonNumberTest, HasSixDigitsUnlessEveryOneIsAskedFor) {
  EXPECT_EQ(NumberJson(0.123456789).dump(), "0.123457");
  EXPECT_EQ(NumberJson(0.9999999999999882).dump(), "1.0");
  EXPECT_EQ(ExactJson(0.123456789).get<double>(), 0.123456789);
}

TEST(JsonNumberTest, WhatDoesNotExistIsNull) {
  for (const double value : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    EXPECT_TRUE(NumberJson(value).is_null());
    EXPECT_TRUE(ExactJson(value).is_null());
  }
  EXPECT_TRUE(NumberJson(std::optional<double>()).is_null());
  EXPECT_TRUE(ExactJson(std::optional<double>()).is_null());
}

TEST(JsonNumberTest, RoundsWhateverIsNestedAndLeavesIntegersAlone) {
  Json json = {{"a", {{"b", 0.123456789}}}, {"c", Json::array({1234567, 2.0 / 3})}};
  RoundNumbers(json);
  EXPECT_EQ(json.dump(), R"({"a":{"b":0.123457},"c":[1234567,0.666667]})");
}

}  // namespace
}  // namespace splitveil
