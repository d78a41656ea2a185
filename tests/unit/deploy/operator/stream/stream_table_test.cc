#include "deploy/operator/stream/stream_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

StreamedDay Day(const std::string& day, const std::string& protection, double auc, std::vector<LeakPoint> leaks) {
  StreamedDay streamed{day, protection, {}};
  streamed.figures.test_quality = auc;
  streamed.figures.test_loss = 0.5;
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
  std::vector<StreamedDay> days = kDays;
  days[1].ranking.practical = {"cut", "norm", "label_party", 0.9};
  days[1].ranking.guessing = {0.517, 0.541};
  days[1].ranking.bound = BoundState::kNoneStated;
  EXPECT_EQ(StreamCsv(days),
            "day,protection,test_auc,log_loss,strongest_attack,strongest_auc,strongest_tpr_at_1pct_fpr,"
            "strongest_tpr_at_01pct_fpr,practical_attack,practical_auc,"
            "with_side_information_attack,with_side_information_auc,no_gradient_attack,no_gradient_auc,guessing_auc_"
            "p95,guessing_auc_mean,bound,"
            "proved_auc_bound,worst_case_attack,worst_case_auc,verdict,cut_norm_mean,cut_cosine_mean,first_norm_mean,"
            "run_auc_bound,sum_kl_mean,seconds\n"
            "day1,none,0.5,0.5,,,,,,,,,,,,,not measurable from this ledger,,,,not known,0.9,1,,0.6,,28\n"
            "day2,none,0.7,0.5,norm@cut,0.9,,,norm@cut,0.9,,,,,0.541,0.517,none stated,,,,not known,0.8,,,0.6,,28\n"
            "day1,\"iso, t=1\",,0.5,,,,,,,,,,,,,not measurable from this ledger,,,,not known,,,0.6,0.6,,28\n");
}

// Words of a line, however its columns are aligned.
std::vector<std::string> Squeezed(const std::string& summary) {
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(summary, '\n', absl::SkipEmpty())) {
    lines.push_back(absl::StrJoin(absl::StrSplit(line, ' ', absl::SkipEmpty()), " "));
  }
  return lines;
}

TEST(StreamSummaryTest, HasTheMeansOfEachProtectionOverTheDaysThatHaveThem) {
  std::vector<StreamedDay> days = kDays;
  days[0].ranking.practical = {"cut", "norm", "label_party", 0.9};
  days[1].ranking.practical = {"cut", "residual_norm", "label_party", 0.8};
  days[1].ranking.with_side_information = {"cut", "cosine", "label_party", 0.85};  // Of this day the strongest.
  days[0].ranking.guessing.p95 = days[1].ranking.guessing.p95 = 0.541;
  days[0].ranking.bound = BoundState::kNotExceeded;
  days[1].ranking.bound = BoundState::kExceeded;  // One day is enough.
  days[1].ranking.excesses = {{"cut", "norm", 0.9, 0.7, {1}, 1}};
  EXPECT_THAT(
      Squeezed(StreamSummary(days)),
      ElementsAre("protection days strongest bound, conditional unless proved practical with side information test AUC "
                  "log loss",
                  "none 2 0.875 norm@cut exceeded by norm@cut 0.850 0.850 0.600 0.500",
                  "iso, t=1 1 - not measurable from this ledger - - - 0.500"));
}

}  // namespace
}  // namespace splitveil
