#include "deploy/operator/stream/stream_table.h"

#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

namespace splitveil {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

StreamedDay Day(const std::string& day, const std::string& protection, double auc, std::vector<LeakPoint> leaks) {
  StreamedDay streamed{day, protection, {}};
  streamed.figures.best_test_auc = auc;
  streamed.figures.test_log_loss = 0.5;
  streamed.figures.run_auc_bound = 0.6;
  streamed.figures.sum_kl_mean = kNone;
  streamed.figures.seconds = 28;
  streamed.figures.leaks = std::move(leaks);
  return streamed;
}

const std::vector<StreamedDay> kDays = {Day("day1", "none", 0.5, {{"cut", "norm", 0.9, 0.95}, {"cut", "cosine", 1, 1}}),
                                        Day("day2", "none", 0.7, {{"cut", "norm", 0.8, 0.9}}),
                                        Day("day1", "iso, t=1", kNone, {{"first", "norm", 0.6, 0.7}})};

TEST(StreamCsvTest, HasOneLineADayAndProtection) {
  EXPECT_EQ(StreamCsv(kDays),
            "day,protection,test_auc,log_loss,cut_norm_mean,cut_cosine_mean,first_norm_mean,run_auc_bound,sum_kl_mean,"
            "seconds\n"
            "day1,none,0.5,0.5,0.9,1,,0.6,,28\n"
            "day2,none,0.7,0.5,0.8,,,0.6,,28\n"
            "day1,\"iso, t=1\",,0.5,,,0.6,0.6,,28\n");
}

TEST(StreamSummaryTest, HasTheMeansOfEachProtectionOverTheDaysThatHaveThem) {
  EXPECT_EQ(StreamSummary(kDays),
            "protection  days  test AUC  log-loss  cut cosine  cut norm  first norm\n"
            "none           2    0.6000    0.5000       1.000     0.850           -\n"
            "iso, t=1       1         -    0.5000           -         -       0.600\n");
}

TEST(StreamSummaryTest, ShowsTheFourAttacksThatReadMostAtTheCutFirst) {
  const std::string summary = StreamSummary({Day("day1", "iso", 0.5,
                                                 {{"cut", "cosine", 0.6, 1},
                                                  {"cut", "counting", 0.55, 1},
                                                  {"cut", "norm", 0.7, 1},
                                                  {"cut", "unmeasured", kNone, 1},
                                                  {"cut", "residual_norm", 0.1, 1},
                                                  {"first", "norm", 1, 1}})});
  EXPECT_EQ(summary.substr(0, summary.find('\n')),
            "protection  days  test AUC  log-loss  cut residual_norm  cut norm  cut cosine  cut counting");
}

// On one day it points the right way and on the other the wrong one: no mean of 0.5.
TEST(StreamSummaryTest, TurnsALeakBelowOneHalfRound) {
  const std::string summary = StreamSummary({Day("day1", "iso", 0.5, {{"cut", "residual_norm", 0.9, 1}}),
                                             Day("day2", "iso", 0.5, {{"cut", "residual_norm", 0.2, 1}})});
  EXPECT_EQ(summary,
            "protection  days  test AUC  log-loss  cut residual_norm\n"
            "iso            2    0.5000    0.5000              0.850\n");
}

}  // namespace
}  // namespace splitveil
