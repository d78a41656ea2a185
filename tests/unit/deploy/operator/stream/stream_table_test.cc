#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "deploy/operator/stream/stream.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;

AttackFigure Leak(const std::string& layer, const std::string& attack, double mean, double p95) {
  return {layer, attack, "", {mean, 0, p95, 10}};
}

StreamedDay Day(const std::string& day, const std::string& protection, std::optional<double> auc,
                std::vector<AttackFigure> leaks) {
  StreamedDay streamed{day, protection, {}};
  streamed.figures.test.auc = auc;
  streamed.figures.test.log_loss = 0.5;
  streamed.figures.run_auc_bound = 0.6;
  streamed.figures.seconds = 28;
  streamed.figures.attacks = std::move(leaks);
  return streamed;
}

// Of the label party's ledger, in which an attack was held against a bound.
RunFigures Recorded(const std::string& protection, std::vector<AttackFigure> attacks) {
  RunFigures recorded;
  recorded.of_label_party = recorded.bound_tested = true;
  recorded.protection = protection;
  recorded.run_auc_bound = 0.7;
  recorded.attacks = std::move(attacks);
  recorded.guessing = Guessing{0.517, 0.541};
  return recorded;
}

const std::vector<StreamedDay> kDays = {
    Day("day1", "none", 0.5, {Leak("cut", "norm", 0.9, 0.95), Leak("cut", "cosine", 1, 1)}),
    Day("day2", "none", 0.7, {Leak("cut", "norm", 0.8, 0.9)}),
    Day("day1", "iso, t=1", std::nullopt, {Leak("first", "norm", 0.6, 0.7)})};

TEST(StreamCsvTest, HasOneLineADayAndProtection) {
  std::vector<StreamedDay> days = kDays;
  days[1].recorded = Recorded("none", {Leak("cut", "norm", 0.8, 0.9)});
  EXPECT_EQ(
      StreamCsv(days),
      "day,protection,test_auc,log_loss,strongest_attack,strongest_auc,strongest_tpr_at_1pct_fpr,"
      "strongest_tpr_at_01pct_fpr,practical_attack,practical_auc,"
      "with_side_information_attack,with_side_information_auc,no_gradient_attack,no_gradient_auc,guessing_auc_"
      "p95,guessing_auc_mean,bound,"
      "proved_auc_bound,worst_case_attack,worst_case_auc,worst_case_tpr_at_1pct_fpr,verdict,cut_norm_mean,cut_cosine_"
      "mean,first_norm_mean,"
      "run_auc_bound,sum_kl_mean,seconds\n"
      "day1,none,0.5,0.5,,,,,,,,,,,,,not measurable from this ledger,,,,,not known,0.9,1,,0.6,,28\n"
      "day2,none,0.7,0.5,norm@cut,0.9,,,norm@cut,0.9,,,,,0.541,0.517,none stated,,,,,nothing claimed,0.8,,,0.6,,28\n"
      "day1,\"iso, t=1\",,0.5,,,,,,,,,,,,,not measurable from this ledger,,,,,not known,,,0.6,0.6,,28\n");
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
  days[0].recorded = Recorded("iso(t=1)", {Leak("cut", "norm", 0.8, 0.9)});
  days[1].recorded = Recorded("iso(t=1)", {Leak("cut", "cosine", 0.8, 0.85),  // Of this day the strongest.
                                           Leak("cut", "residual_norm", 0.7, 0.8)});
  days[1].recorded.bound_exceeded = 1;  // One day is enough.
  days[1].recorded.excesses = {{"cut", "norm", 0.9, 0.7, {1}, 1}};
  EXPECT_THAT(
      Squeezed(StreamSummary(days)),
      ElementsAre("protection days strongest bound, conditional unless proved practical with side information test AUC "
                  "log loss",
                  "none 2 0.875 norm@cut exceeded by norm at cut 0.850 0.850 0.600 0.500",
                  "iso, t=1 1 - not measurable from this ledger - - - 0.500"));
}

}  // namespace
}  // namespace splitveil
