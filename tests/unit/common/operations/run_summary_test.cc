#include "common/operations/run_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

namespace splitveil {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(StrongestFirstTest, LayerByLayerAndTurnedWhereBelowOneHalf) {
  const std::vector<LeakFigure> figures = StrongestFirst({{{"first", "norm"}, {0.9, 0.9}},
                                                          {{"cut", "norm"}, {0.6, 0.6}},
                                                          {{"cut", "cosine"}, {0.2, 0.3}},
                                                          {{"cut", "spectral"}, {0.8, 0.7}}});
  std::vector<std::string> order;
  for (const LeakFigure& figure : figures) {
    order.push_back(figure.layer + " " + figure.attack);
  }
  // Cosine and spectral have the same p95 and the same mean: then by name.
  EXPECT_EQ(order, (std::vector<std::string>{"cut cosine", "cut spectral", "cut norm", "first norm"}));
  EXPECT_DOUBLE_EQ(figures[0].mean, 0.75);
  EXPECT_DOUBLE_EQ(figures[0].p95, 0.8);
}

TEST(StrongestFirstTest, OfEqualP95TheHigherMeanIsStronger) {
  const std::vector<LeakFigure> figures =
      StrongestFirst({{{"cut", "cosine"}, {0.5, 0.9}}, {{"cut", "norm"}, {0.8, 0.9}}});
  EXPECT_EQ(figures.front().attack, "norm");
}

TEST(StrongestFirstTest, OfNothingNothing) { EXPECT_TRUE(StrongestFirst({}).empty()); }

RunSummary LabelSummary() {
  RunSummary summary;
  summary.party = "label party";
  summary.run_id = "demo-1234";
  summary.ended = "completed";
  summary.protection = "marvell(s=4)";
  summary.epochs = 5;
  summary.steps = 680;
  summary.examples = 696320;
  summary.seconds = 23.2;
  summary.bytes_sent = 123456789;
  summary.bytes_received = 999;
  summary.test_auc = 0.74312;
  summary.test_log_loss = 0.4512;
  summary.best_epoch = 4;
  summary.final_test_auc = 0.7425;
  summary.run_auc_bound = 0.786;
  summary.gate = {{"release", 678}, {"warn", 2}};
  summary.leaks = {{"cut", "cosine", 0.7, 0, 0.72}, {"cut", "norm", 0.5, 0, 0.58}, {"first", "norm", 0.5, 0, 0.6}};
  summary.details = "out/label_party.result.json";
  return summary;
}

TEST(RunSummaryTest, IsAShortTable) {
  EXPECT_EQ(RunSummaryTable(LabelSummary()),
            "run demo-1234 completed at the label party\n"
            "  protection      marvell(s=4)\n"
            "  training        5 epochs, 680 steps, 696320 examples in 23.2 s (30014 per second)\n"
            "  test AUC        0.7431 (best, after epoch 4; last 0.7425)\n"
            "  test log loss   0.4512\n"
            "  leak at cut     cosine 0.720, norm 0.580  (AUC, 95% of batches below)\n"
            "  leak at first   norm 0.600  (AUC, 95% of batches below)\n"
            "  bound           AUC at most 0.786 from all releases of the run, for Gaussian classes\n"
            "  release gate    678 release, 2 warn\n"
            "  bytes           123 MB sent, 999 B received\n"
            "  all figures     out/label_party.result.json\n");
}

TEST(RunSummaryTest, LeavesOutWhatThePartyDoesNotKnow) {
  RunSummary summary;
  summary.party = "non-label party";
  summary.run_id = "demo-1234";
  summary.ended = "stopped";
  summary.steps = 3;
  EXPECT_EQ(RunSummaryTable(summary),
            "run demo-1234 stopped at the non-label party\n"
            "  training        0 epochs, 3 steps, 0 examples\n"
            "  bytes           0 B sent, 0 B received\n");
}

TEST(RunSummaryTest, ShowsTheStrongestAttacksOfALayerAndCountsTheOthers) {
  RunSummary summary = LabelSummary();
  summary.leaks.clear();
  for (const char* attack : {"a", "b", "c", "d", "e"}) {
    summary.leaks.push_back({"cut", attack, 0.5, 0, 0.5});
  }
  EXPECT_THAT(RunSummaryTable(summary), HasSubstr("a 0.500, b 0.500, c 0.500; 2 weaker"));
}

TEST(RunSummaryTest, ABoundThatIsNoneOrDoesNotHoldIsNotShownAsOne) {
  RunSummary summary = LabelSummary();
  summary.run_auc_bound = 1;
  EXPECT_THAT(RunSummaryTable(summary), HasSubstr("none: these releases bound no attack"));
  EXPECT_THAT(RunSummaryTable(summary), Not(HasSubstr("at most")));
  summary.run_auc_bound = 0.7;
  summary.bound_exceeded = 2;
  EXPECT_THAT(RunSummaryTable(summary),
              HasSubstr("DOES NOT HOLD: an attack measurably exceeded it over an epoch, 2 times"));
}

TEST(ResultPathTest, IsBesideTheLedger) {
  EXPECT_EQ(ResultPath("/a/label_party.db"), "/a/label_party.result.json");
  EXPECT_EQ(ResultPath("ledger.sqlite"), "ledger.sqlite.result.json");
}

}  // namespace
}  // namespace splitveil
