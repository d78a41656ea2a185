#include "common/monitoring/metrics_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

v1::GetStatusResponse Training(const char* role) {
  v1::GetStatusResponse status;
  status.set_role(role);
  status.set_version("1.2.3");
  status.set_run_id("run-\"7\"\\\n");
  status.set_phase("training");
  status.set_step(12);
  status.set_total_steps(40);
  status.set_steps_done(10);
  status.set_step_seconds(2.5);
  status.set_bytes_sent(123);
  v1::PhaseSeconds& phase = *status.add_phases();
  phase.set_phase("wait");
  phase.set_seconds(1.5);
  status.set_in_flight_batches(6);
  v1::CertificateEnd& end = *status.add_certificates();
  end.set_certificate("own");
  end.set_not_after(1893456000);
  return status;
}

v1::GetStatusResponse LabelParty() {
  v1::GetStatusResponse status = Training("label_party");
  status.set_loss(0.25);
  v1::LabelPartyFigures& figures = *status.mutable_label_party();
  figures.set_run_auc_bound(0.8);
  figures.set_step_auc_bound(std::numeric_limits<double>::quiet_NaN());
  for (const char* attack : {"norm", "cosine"}) {
    v1::MeasuredLeak& leak = *figures.add_leaks();
    leak.set_observer("label_party");
    leak.set_layer("cut");
    leak.set_attack(attack);
    leak.set_auc(0.75);
  }
  v1::TestFigures& test = *figures.add_tests();
  test.set_auc(0.7);
  test.set_rmse(std::numeric_limits<double>::quiet_NaN());
  return status;
}

TEST(MetricsTextTest, ARateThatIsNotKnownIsLeftOut) {
  v1::GetStatusResponse status = Training("nonlabel_party");
  EXPECT_THAT(MetricsText(status), Not(HasSubstr("steps_per_second")));
  EXPECT_THAT(MetricsText(status), Not(HasSubstr("remaining_seconds")));
  status.set_steps_per_second(4);
  status.set_seconds_left(7);
  EXPECT_THAT(MetricsText(status), HasSubstr("\nsplitveil_steps_per_second 4\n"));
  EXPECT_THAT(MetricsText(status), HasSubstr("\nsplitveil_remaining_seconds 7\n"));
}

TEST(MetricsTextTest, HasEachFigureByItsName) {
  const std::string text = MetricsText(LabelParty());
  for (const char* line :
       {"splitveil_steps_total 10\n", "splitveil_run_step 12\n", "splitveil_step_seconds_total 2.5\n",
        "splitveil_phase_seconds_total{phase=\"wait\"} 1.5\n", "splitveil_sent_bytes_total 123\n",
        "splitveil_phase{phase=\"training\"} 1\n", "splitveil_train_loss 0.25\n",
        "splitveil_leak_auc{observer=\"label_party\",layer=\"cut\",attack=\"cosine\"} 0.75\n",
        "splitveil_run_auc_bound 0.8", "splitveil_run_auc_bound_proved 0\n", "splitveil_in_flight_batches 6\n",
        "splitveil_certificate_not_after_seconds{certificate=\"own\"} 1893456000\n", "splitveil_test_auc 0.7",
        "# TYPE splitveil_steps_total counter\n", "# TYPE splitveil_leak_auc gauge\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

// As Prometheus' documentation of the format says; counters, and they alone, end in _total.
TEST(MetricsTextTest, IsOfTheTextFormat) {
  std::set<std::string> families;
  std::string family, type;
  for (const absl::string_view view : absl::StrSplit(MetricsText(LabelParty()), '\n', absl::SkipEmpty())) {
    const std::string line(view);
    if (absl::StartsWith(line, "# HELP ")) {
      continue;
    }
    if (absl::StartsWith(line, "# TYPE ")) {
      const std::vector<std::string> words = absl::StrSplit(line, ' ');
      ASSERT_EQ(words.size(), 4) << line;
      family = words[2];
      type = words[3];
      EXPECT_TRUE(families.insert(family).second) << "twice: " << family;
      EXPECT_EQ(type == "counter", absl::EndsWith(family, "_total")) << family;
      continue;
    }
    EXPECT_TRUE(absl::StartsWith(line, family)) << line;
    double value = 0;
    EXPECT_TRUE(absl::SimpleAtod(line.substr(line.rfind(' ') + 1), &value)) << line;
  }
  EXPECT_GT(families.size(), 20);
}

TEST(MetricsTextTest, WhatIsNotKnownIsLeftOut) {
  const std::string text = MetricsText(LabelParty());
  for (const char* name : {"step_auc_bound", "test_rmse", "epoch_leak", "run_budget", "run_ended", "NaN", "nan"}) {
    EXPECT_THAT(text, Not(HasSubstr(name)));
  }
}

TEST(MetricsTextTest, TheNonLabelPartyHasNoneOfTheLabelPartys) {
  const std::string text = MetricsText(Training("nonlabel_party"));
  EXPECT_THAT(text, HasSubstr("splitveil_steps_total 10"));
  for (const char* name : {"loss", "leak", "bound", "gate", "budget", "test_", "frozen", "auc"}) {
    EXPECT_THAT(text, Not(HasSubstr(name)));
  }
}

TEST(MetricsTextTest, TextInALabelIsEscaped) {
  EXPECT_THAT(MetricsText(LabelParty()), HasSubstr("splitveil_run_info{run_id=\"run-\\\"7\\\"\\\\\\n\"} 1"));
}

// A server has no run: zeros would read as one that does not move.
TEST(MetricsTextTest, AServerHasNoFiguresOfARun) {
  v1::GetStatusResponse status = Training("nonlabel_party");
  status.set_phase(kServingPhase);
  const std::string text = MetricsText(status);
  for (const char* name : {"build_info", "phase{phase=\"serving\"} 1", "run_info", "certificate_not_after_seconds"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\nsplitveil_") + name));
  }
  for (const char* name : {"steps", "step_seconds", "interruptions", "bytes", "aligned"}) {
    EXPECT_THAT(text, Not(HasSubstr(name)));
  }
}

}  // namespace
}  // namespace splitveil
