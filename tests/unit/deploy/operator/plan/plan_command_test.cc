#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/unit/deploy/operator/operator_tool.h"

namespace splitveil::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(PlanTest, StatesWhatABoundMeansAndCosts) {
  const std::string out =
      ExpectDone({"plan", "--rows=50000", "--positives=0.25", "--epochs=5", "--max_run_auc_bound=0.7"});
  EXPECT_THAT(out, AllOf(HasSubstr("max_run_auc_bound: 0.7"), HasSubstr("1.34841, of the noise"),
                         HasSubstr("expected loss of best test AUC"), HasSubstr("measured in")));
  EXPECT_EQ(ExpectDone({"plan", "--rows=50000", "--positives=0.25", "--epochs=5", "--max_run_auc_bound=0.7"}), out);
}

TEST(PlanTest, TakesTheShortNameOfTheBoundToo) {
  const std::vector<std::string> words = {"plan", "--rows=50000", "--positives=0.25", "--epochs=5"};
  const auto with = [&](const char* bound) {
    std::vector<std::string> all = words;
    all.emplace_back(bound);
    return ExpectDone(all);
  };
  EXPECT_EQ(with("--max_auc=0.7"), with("--max_run_auc_bound=0.7"));
}

TEST(PlanTest, HelpStatesADefaultOnlyWhereAFlagMayBeLeftOut) {
  const std::string help = ExpectDone({"plan", "--help"});
  EXPECT_THAT(help, ContainsRegex("default:[ \n]+0[)]"));
  EXPECT_THAT(help, Not(ContainsRegex("required[^)]*default")));
  EXPECT_THAT(help, ContainsRegex("required with[ \n]+--max_run_auc_bound. [(]0 to 1[)]"));
  EXPECT_THAT(help, ContainsRegex("--cut_width=N[^-]*required[ \n]+with[ \n]+--round_trip_ms. [(]1 to 65536[)]"));
  EXPECT_THAT(help, ContainsRegex("--in_flight_batches=N [^-]*[(]0 to 64 or[ \n]+AUTO; default: 1[)]"));
}

TEST(PlanTest, HelpGroupsTheFlagsByWhatTheyAreFor) {
  const std::string help = ExpectDone({"plan", "--help"});
  EXPECT_THAT(help,
              AllOf(ContainsRegex("\nFlags:\n  --rows=N"), ContainsRegex("\nUnder a proved bound:\n  --positives="),
                    ContainsRegex("\nOver a link:\n  --round_trip_ms=")));
}

// The most that was measured, at its own point: 0.7954 without protection, 0.0140 less at 0.60.
TEST(PlanTest, KnowsWhatTenMillionRowsCost) {
  const std::string out = ExpectDone({"plan", "--rows=10000000", "--positives=0.25", "--epochs=5", "--max_auc=0.6"});
  EXPECT_THAT(
      out,
      AllOf(
          ContainsRegex(
              "expected loss of best test AUC     0\\.014 \\(0\\.00. to 0\\.0.. partly of one seed, .*\\) of 0\\.795"),
          HasSubstr("0.675 with the bottom model frozen"),
          HasSubstr("measured in                        10,000 to 10,000,000 rows")));
}

// Of more rows than were measured what the noise means is told all the same, and no loss is made up.
TEST(PlanTest, SaysWhatWasNotMeasured) {
  const std::string rows = ExpectDone({"plan", "--rows=20000000", "--positives=0.25", "--epochs=5", "--max_auc=0.6"});
  EXPECT_THAT(rows, AllOf(HasSubstr("not known: predicted for 1,000 to 10,000,000 rows, asked for 20,000,000"),
                          HasSubstr("sigma                              2.79106")));
  const std::string point = ExpectDone({"plan", "--rows=10000000", "--positives=0.25", "--epochs=1", "--max_auc=0.9"});
  EXPECT_THAT(point, ContainsRegex(
                         "loss of best test AUC     0.0[0-9][0-9] .0.0[0-9]* to 0.0[0-9]* at [0-9]* points measured"));
}

// 1,024 rows of 64 numbers of two bytes take 10.49 ms at 100 Mbit/s.
TEST(PlanTest, StatesWhatALinkAllows) {
  const std::vector<std::string> link = {"plan",
                                         "--rows=1000000",
                                         "--epochs=3",
                                         "--cut_width=64",
                                         "--wire_dtype=BFLOAT16",
                                         "--round_trip_ms=40",
                                         "--bandwidth_mbps=100"};
  const std::string one = ExpectDone(link);
  EXPECT_THAT(
      one,
      AllOf(HasSubstr("10.5 ms in each direction"), HasSubstr("chooses 32, at most 32 and a sixteenth of an epoch\n"),
            HasSubstr("with 1 in flight "), HasSubstr("at most 16261 examples per second, 17% of the link"),
            HasSubstr("3.07 min for 1000000 rows and 3 epochs")));
  EXPECT_THAT(one, Not(HasSubstr("sigma")));
  for (const char* choice : {"--in_flight_batches=AUTO", "--in_flight_batches=0"}) {
    std::vector<std::string> words = link;
    words.emplace_back(choice);
    EXPECT_THAT(ExpectDone(words), AllOf(HasSubstr("with 32 in flight "),
                                         HasSubstr("at most 97656 examples per second, 100% of the link")));
  }
  std::vector<std::string> both = link;
  both.insert(both.end(), {"--positives=0.25", "--max_auc=0.6"});
  EXPECT_THAT(ExpectDone(both), AllOf(HasSubstr("sigma "), HasSubstr("10.5 ms in each direction")));
}

TEST(PlanTest, ALinkIsDescribedAsAWhole) {
  EXPECT_THAT(ExpectError(2, {"plan", "--rows=10", "--epochs=5", "--bandwidth_mbps=100", "--round_trip_ms=1"}),
              HasSubstr("--cut_width"));
  EXPECT_THAT(ExpectError(2, {"plan", "--rows=10", "--epochs=5", "--bandwidth_mbps=100", "--cut_width=4"}),
              HasSubstr("--round_trip_ms"));
  EXPECT_THAT(ExpectError(2, {"plan", "--rows=10", "--epochs=5", "--round_trip_ms=10"}), HasSubstr("--bandwidth_mbps"));
  EXPECT_THAT(ExpectError(2, {"plan", "--rows=10", "--epochs=5", "--round_trip_ms=10", "--bandwidth_mbps=1",
                              "--cut_width=4", "--in_flight_batches=auto"}),
              HasSubstr("--in_flight_batches"));
}

TEST(PlanTest, StatesWhatAnAlignmentTakes) {
  const std::string out =
      ExpectDone({"plan", "--ids=1000000", "--peer_ids=3000000", "--cores=4", "--bandwidth_mbps=80"});
  EXPECT_THAT(out,
              AllOf(HasSubstr("1000000 own ids with 3000000 of the peer's, both on 4 cores"),
                    ContainsRegex("1[23][0-9] MB sent, 1[23][0-9] MB received: 6[45][.]"),
                    ContainsRegex("compute time  .* on one core"),
                    ContainsRegex("transfer time +1[23][.]?[0-9]* s at 80 Mbit/s"), HasSubstr("memory at the peak  ")));
  EXPECT_THAT(ExpectDone({"plan", "--ids=1000"}), AllOf(HasSubstr("with 1000 of the peer's"), Not(HasSubstr("Mbit"))));
  EXPECT_THAT(ExpectError(2, {"plan", "--peer_ids=1000"}), HasSubstr("--ids"));
  EXPECT_THAT(ExpectError(2, {"plan", "--ids=0"}), HasSubstr("--ids"));
}

TEST(PlanTest, NamesTheFlagThatIsMissingOrOutOfRange) {
  EXPECT_THAT(ExpectError(2, {"plan"}), HasSubstr("--ids"));
  EXPECT_THAT(ExpectError(2, {"plan", "--rows=10"}), HasSubstr("--epochs"));
  EXPECT_THAT(ExpectError(2, {"plan", "--bandwidth_mbps=10"}), HasSubstr("--round_trip_ms"));

  EXPECT_THAT(ExpectError(2, {"plan", "--rows=10", "--positives=0.25", "--epochs=5"}),
              HasSubstr("--max_run_auc_bound"));
  EXPECT_THAT(ExpectError(2, {"plan", "--rows=10", "--epochs=5"}), HasSubstr("--bandwidth_mbps"));
  EXPECT_THAT(ExpectError(2, {"plan", "--rows=0", "--positives=0.25", "--epochs=5", "--max_run_auc_bound=0.7"}),
              HasSubstr("--rows"));
  EXPECT_THAT(ExpectError(2, {"plan", "--rows=10", "--positives=25", "--epochs=5", "--max_run_auc_bound=0.7"}),
              HasSubstr("--positives"));
  EXPECT_THAT(ExpectError(2, {"plan", "--rows=10", "--positives=0.25", "--epochs=5", "--max_run_auc_bound=0.5"}),
              HasSubstr("max_run_auc_bound: expected a number above 0.5"));
}

}  // namespace
}  // namespace splitveil::testing
