#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <string>

#include "deploy/operator/status/status_command.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr ServingStatus kServing = grpc::health::v1::HealthCheckResponse::SERVING;

v1::GetStatusResponse LabelParty() {
  v1::GetStatusResponse status;
  status.set_role("label_party");
  status.set_version("0.1.0");
  status.set_run_id("run-7");
  status.set_phase("training");
  status.set_step(120);
  status.set_total_steps(680);
  status.set_steps_done(120);
  status.set_step_seconds(10);
  status.set_steps_per_second(12);
  status.set_seconds_left(46.7);
  for (const auto& [name, seconds] : {std::pair<const char*, double>{"forward", 2}, {"wait", 5}, {"data", 0.1}}) {
    v1::PhaseSeconds& phase = *status.add_phases();
    phase.set_phase(name);
    phase.set_seconds(seconds);
  }
  for (int i = 0; i < 9; ++i) {
    v1::RunEvent& event = *status.add_events();
    event.set_at("2026-01-31T09:30:00.123Z");
    event.set_kind("checkpoint");
    event.set_detail(std::to_string(i) + "\nforged");
  }
  v1::LabelPartyFigures& figures = *status.mutable_label_party();
  figures.set_protection("marvell(s=4)");
  figures.set_run_auc_bound(0.66);
  figures.set_max_run_auc_bound(0.7);
  figures.set_budget_left(0.42);
  for (const auto& [attack, auc] : {std::pair<const char*, double>{"norm", 0.6}, {"cosine", 0.7}}) {
    v1::MeasuredLeak& leak = *figures.add_leaks();
    leak.set_attack(attack);
    leak.set_layer("cut");
    leak.set_auc(auc);
  }
  v1::TestFigures& test = *figures.add_tests();
  test.set_auc(0.74);
  test.set_log_loss(0.5);
  test.set_r_squared(std::numeric_limits<double>::quiet_NaN());
  return status;
}

TEST(StatusTextTest, HasAllThatThePageShows) {
  const std::string text = StatusText(LabelParty(), kServing);
  for (const char* line : {"progress    12 steps per second, about 47s left", "protection  marvell(s=4)",
                           "leak        cosine at cut 0.700, norm at cut 0.600",
                           "bound       0.660 over the run so far, conditional; limit 0.700, 42% of the budget left",
                           "test        AUC 0.7400, log loss 0.5000", "time        wait 50%, forward 20%, data 1%",
                           "events      2026-01-31T09:30:00.123Z checkpoint: 4 forged"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 13);
}

TEST(StatusTextTest, ARunThatHasEndedSaysHow) {
  v1::GetStatusResponse status = LabelParty();
  status.set_ended("halted");
  EXPECT_THAT(StatusText(status, kServing), HasSubstr("progress    halted\n"));
}

TEST(StatusTextTest, BeforeTheFirstStepItIsOneLine) {
  v1::GetStatusResponse status = LabelParty();
  status.set_steps_done(0);
  const std::string text = StatusText(status, kServing);
  EXPECT_EQ(text.find('\n') + 1, text.size());
}

TEST(StatusTextTest, OfTheNonLabelPartyThereIsNothingOfLabels) {
  v1::GetStatusResponse status = LabelParty();
  status.set_role("nonlabel_party");
  status.clear_label_party();
  const std::string text = StatusText(status, kServing);
  for (const char* word : {"leak", "bound", "loss", "test", "gate"}) {
    EXPECT_THAT(text, Not(HasSubstr(word)));
  }
}

}  // namespace
}  // namespace splitveil
