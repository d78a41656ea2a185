#include "deploy/operator/bench/check_line.h"

#include <gtest/gtest.h>
#include <limits>
#include <nlohmann/json.hpp>

namespace splitveil {
namespace {

using Side = CheckLimit::Side;

TEST(CheckLineTest, SaysWhatWasMeasuredAgainstWhat) {
  const auto line = nlohmann::json::parse(CheckLine("ratio", 0.95, "of one", {Side::kAtLeast, 0.9}, {{"runs", 3}}));
  EXPECT_EQ(line["check"], "ratio");
  EXPECT_EQ(line["value"], 0.95);
  EXPECT_EQ(line["unit"], "of one");
  EXPECT_EQ(line["limit"], ">= 0.9");
  EXPECT_EQ(line["met"], true);
  EXPECT_EQ(line["measured"]["runs"], 3);
}

TEST(CheckLineTest, ALimitItselfIsMetUnlessTheValueMustStayBelow) {
  EXPECT_TRUE((CheckLimit{Side::kAtLeast, 0.9}.Holds(0.9)));
  EXPECT_FALSE((CheckLimit{Side::kAtLeast, 0.9}.Holds(0.8999)));
  EXPECT_TRUE((CheckLimit{Side::kAtMost, 0.1}.Holds(0.1)));
  EXPECT_FALSE((CheckLimit{Side::kAtMost, 0.1}.Holds(0.1001)));
  EXPECT_TRUE((CheckLimit{Side::kBelow, 15}.Holds(14.9)));
  EXPECT_FALSE((CheckLimit{Side::kBelow, 15}.Holds(15)));
}

TEST(CheckLineTest, WhatIsNoNumberMeetsNothing) {
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  for (Side side : {Side::kAtLeast, Side::kAtMost, Side::kBelow}) {
    const auto line = nlohmann::json::parse(CheckLine("ratio", nothing, "", {side, 1}, {}));
    EXPECT_TRUE(line["value"].is_null());
    EXPECT_EQ(line["met"], false);
  }
}

}  // namespace
}  // namespace splitveil
