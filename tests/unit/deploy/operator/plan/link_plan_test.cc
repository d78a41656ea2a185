#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "deploy/operator/plan/privacy_plan.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

// A batch takes 10 ms in each direction: 1,000 examples of 50 numbers of 2 bytes, 100 kB, at 80 Mbit/s.
LinkPlanOptions Options(int64_t in_flight) {
  LinkPlanOptions options;
  options.round_trip_ms = 40;
  options.bandwidth_mbps = 80;
  options.cut_width = 50;
  options.wire_dtype = v1::BFLOAT16;
  options.batch_size = 1000;
  options.in_flight_batches = in_flight;
  options.step_ms = 5;
  options.rows = 600'000;
  options.epochs = 13;
  return options;
}

TEST(LinkPlanTest, OneBatchInFlightWaitsForAWholeTurn) {
  const LinkPlan plan = MakeLinkPlan(Options(1));
  EXPECT_DOUBLE_EQ(plan.batch_ms, 10);
  // 1,000 examples in 40 + 10 + 10 + 5 ms.
  EXPECT_NEAR(plan.examples_per_second, 1000 / 0.065, 1e-6);
  EXPECT_NEAR(plan.link_share, 10. / 65, 1e-12);
  EXPECT_NEAR(plan.seconds, 600 * 13 * 0.065, 1e-6);
}

TEST(LinkPlanTest, AutoUsesAllOfTheLinkUnlessThatIsMoreThanAgreed) {
  LinkPlanOptions options = Options(0);
  const LinkPlan plan = MakeLinkPlan(options);
  EXPECT_EQ(plan.chosen_batches, 32);  // Of (9 * 40 + 20) / 10, and one: no more than agreed.
  EXPECT_EQ(plan.options.in_flight_batches, 32);
  EXPECT_NEAR(plan.examples_per_second, 100'000, 1e-6);
  EXPECT_DOUBLE_EQ(plan.link_share, 1);
  options.max_in_flight_batches = 4;
  const LinkPlan limited = MakeLinkPlan(options);
  EXPECT_EQ(limited.options.in_flight_batches, 4);
  EXPECT_NEAR(limited.link_share, 4 * 10. / 65, 1e-9);
  options.max_in_flight_batches = 32;
  options.rows = 48'000;  // 48 batches.
  EXPECT_EQ(MakeLinkPlan(options).options.in_flight_batches, 3);
}

TEST(LinkPlanTest, WhatIsAgreedStandsBesideWhatWouldBeChosen) {
  const LinkPlan plan = MakeLinkPlan(Options(2));
  EXPECT_EQ(plan.chosen_batches, 32);
  EXPECT_EQ(plan.options.in_flight_batches, 2);
  EXPECT_NEAR(plan.examples_per_second, 2000 / 0.065, 1e-6);
}

TEST(LinkPlanTest, AFastLinkIsLimitedByWhatTheSlowerPartyComputes) {
  LinkPlanOptions options = Options(0);
  options.round_trip_ms = 0.1;
  options.bandwidth_mbps = 10'000;
  const LinkPlan plan = MakeLinkPlan(options);
  EXPECT_NEAR(plan.examples_per_second, 200'000, 1e-6);
  EXPECT_NEAR(plan.link_share, 0.08 / 5, 1e-9);
}

TEST(LinkPlanTest, TheTextHasEveryFigure) {
  const std::string text = LinkPlanText(MakeLinkPlan(Options(0)));
  for (const char* words :
       {"a link of 40 ms and 80 Mbit/s, batches of 1000 examples at cut width 50 in BFLOAT16\n",
        "10 ms in each direction", "32, at most 32 and a sixteenth of an epoch", "with 32 in flight",
        "at most 100000 examples per second, 100% of the link", "78 s for 600000 rows and 13 epochs, or more"}) {
    EXPECT_THAT(text, HasSubstr(words));
  }
  LinkPlanOptions options = Options(0);
  options.rows = 600'000'000;
  EXPECT_THAT(LinkPlanText(MakeLinkPlan(options)), HasSubstr("21.7 h for "));  // 78,000 s.
  options.rows = 6'000'000;
  EXPECT_THAT(LinkPlanText(MakeLinkPlan(options)), HasSubstr("13 min for "));
}

}  // namespace
}  // namespace splitveil
