#include "common/operations/run_status.h"

#include <chrono>
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "common/config/agreement.h"
#include "common/operations/run_facts.h"
#include "common/process/runtime.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil {
namespace {

TEST(RunStatusTest, StartsWaitingWithRoleAndVersion) {
  const v1::GetStatusResponse status = RunStatus("label_party").Snapshot();
  EXPECT_EQ(status.role(), "label_party");
  EXPECT_EQ(status.version(), Version());
  EXPECT_EQ(status.phase(), "waiting");
}

TEST(RunStatusTest, UpdatesFromSeveralThreadsAddUp) {
  RunStatus status("label_party");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int j = 0; j < 1000; ++j) {
        status.Update([](v1::GetStatusResponse& message) { message.set_step(message.step() + 1); });
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(status.Snapshot().step(), 4000);
}

TEST(RunFactsTest, ConfigIsJsonWithTheAgreementWhateverThePeerCallsItself) {
  v1::RunAgreement agreement;
  agreement.set_run_name("facts");
  agreement.set_cut_width(3);
  Canonicalize(agreement);
  const RunRow run = DescribeRun("facts-1", "label_party", "none", agreement, "\"}\xff\n" + std::string(100, 'v'));
  const nlohmann::json facts = nlohmann::json::parse(run.config_json, nullptr, false);
  ASSERT_TRUE(facts.is_object()) << run.config_json;
  EXPECT_EQ(facts["agreement"]["cut_width"], 3);
  EXPECT_EQ(facts["version"], Version());
  EXPECT_EQ(run.agreement_sha256.size(), 64);
}

TEST(RunFactsTest, RunsOfOneAgreementHaveDifferentNames) {
  EXPECT_EQ(NewRunId("demo").substr(0, 5), "demo-");
  EXPECT_NE(NewRunId("demo"), NewRunId("demo"));
}

// Across runs, and whether or not what was begun came to an end.
TEST(RunFactsTest, AlignmentsOfOneLedgerAreCounted) {
  const testing::TempFolder folder;
  const auto align = [&](const char* run_id, int64_t limit) {
    RunRow run;
    run.run_id = run_id;
    const absl::StatusOr<std::unique_ptr<Ledger>> ledger = BeginLedger(folder.File("a.db"), run, v1::ORACLE);
    EXPECT_TRUE(ledger.ok()) << ledger.status();
    int left = kMostAlignments;
    return CountAlignment(**ledger, 300, limit, left);
  };
  EXPECT_TRUE(align("first", 2).ok());
  EXPECT_TRUE(align("second", 2).ok());
  const absl::Status refused = align("third", 2);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(
      refused.message(),
      "alignment: this party's ledger already counts 2 of at most 2 (party.max_alignments): each lets the peer try "
      "a different list of ids");
  EXPECT_TRUE(align("fourth", 0).ok());
  EXPECT_FALSE(align("fifth", 3).ok());
}

TEST(RunFactsTest, AlignmentsOfOneProcessAreCounted) {
  const testing::TempFolder folder;
  RunRow run;
  run.run_id = "first";
  const absl::StatusOr<std::unique_ptr<Ledger>> ledger = BeginLedger(folder.File("a.db"), run, v1::ORACLE);
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  int left = 2;
  EXPECT_TRUE(CountAlignment(**ledger, 300, 0, left).ok());
  EXPECT_TRUE(CountAlignment(**ledger, 300, 0, left).ok());
  const absl::Status refused = CountAlignment(**ledger, 300, 0, left);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(left, 0);
  EXPECT_EQ(*CountAlignments(folder.File("a.db")), 2);
}

TEST(RunFactsTest, LedgerThatCannotBeOpenedIsAnError) {
  EXPECT_FALSE(BeginLedger("/no/such/folder/ledger.db", RunRow(), v1::ORACLE).ok());
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class LiveFiguresTest : public ::testing::Test {
 protected:
  explicit LiveFiguresTest(const char* role = "label_party") : status_(role, [this] { return now_; }) {
    RunRow run;
    run.run_id = "live-1";
    absl::StatusOr<std::unique_ptr<Ledger>> ledger = BeginLedger(folder_.File("a.db"), run, v1::LABEL_SIDE_ONLY);
    EXPECT_TRUE(ledger.ok()) << ledger.status();
    ledger_ = *std::move(ledger);
    EXPECT_TRUE(status_.Watch(*ledger_).ok());
  }

  // What a party records of one step, and a status as its session would set it.
  void Step(int64_t step, double auc = 0.7) {
    StepRow row;
    row.step = step;
    row.examples = 100;
    row.loss = 0.5;
    row.seconds = 0.25;
    row.bytes_sent = 1000;
    row.bytes_received = 3000;
    EXPECT_TRUE(ledger_->Record(row).ok());
    StepTimeRow times;
    times.step = step;
    times.wait = 0.2;
    times.forward = 0.05;
    EXPECT_TRUE(ledger_->Record(times).ok());
    ProtectionRow protection = {};
    protection.step = step;
    protection.method = "marvell";
    protection.auc_bound = 0.75;
    protection.gate = v1::WARN;
    EXPECT_TRUE(ledger_->Record(protection).ok());
    EXPECT_TRUE(ledger_->Record(LeakRow{step, "label_party", "cut", "norm", auc, 100}).ok());
    status_.Update([&](v1::GetStatusResponse& message) {
      message.set_phase("training");
      message.set_step(static_cast<uint64_t>(step) + 1);
      message.set_total_steps(100);
      message.set_loss(0.5);
    });
  }

  const testing::TempFolder folder_;
  SteadyTime now_ = SteadyNow();
  RunStatus status_;
  std::unique_ptr<Ledger> ledger_;
};

TEST_F(LiveFiguresTest, AddsUpWhatTheLedgerRecords) {
  for (int64_t step = 0; step < 3; ++step) {
    Step(step);
  }
  const v1::GetStatusResponse status = status_.Snapshot();
  EXPECT_EQ(status.steps_done(), 3);
  EXPECT_EQ(status.examples_done(), 300);
  EXPECT_DOUBLE_EQ(status.step_seconds(), 0.75);
  EXPECT_EQ(status.bytes_sent(), 3000);
  EXPECT_EQ(status.bytes_received(), 9000);
  double wait = 0;
  for (const v1::PhaseSeconds& phase : status.phases()) {
    wait += phase.phase() == "wait" ? phase.seconds() : 0;
  }
  EXPECT_DOUBLE_EQ(wait, 0.6000000000000001);
  ASSERT_EQ(status.label_party().gate_size(), 1);
  EXPECT_EQ(status.label_party().gate(0).action(), "warn");
  EXPECT_EQ(status.label_party().gate(0).steps(), 3);
  EXPECT_EQ(status.label_party().step_auc_bound(), 0.75);
}

// What the ledger refuses is no figure: a row that it has.
TEST_F(LiveFiguresTest, CountsNothingThatTheLedgerDidNotTake) {
  Step(0);
  StepRow again;
  again.step = 0;
  EXPECT_EQ(ledger_->Record(again).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(status_.Snapshot().steps_done(), 1);
}

// Of ten seconds with two steps each; the rest of 100 at that rate.
TEST_F(LiveFiguresTest, SaysHowLongTrainingLasts) {
  EXPECT_EQ(status_.Snapshot().steps_per_second(), 0);
  for (int64_t step = 0; step < 20; ++step) {
    Step(step);
    now_ += std::chrono::milliseconds(500);
  }
  const v1::GetStatusResponse status = status_.Snapshot();
  EXPECT_NEAR(status.steps_per_second(), 19.0 / 10, 1e-9);  // The first step began the window.
  EXPECT_NEAR(status.seconds_left(), 80 / status.steps_per_second(), 1e-9);
  now_ += std::chrono::seconds(90);  // It stands still.
  EXPECT_LT(status_.Snapshot().steps_per_second(), 0.2);
}

// An AUC below 0.5 is as strong an attack; the mean is of the latest batches.
TEST_F(LiveFiguresTest, LeaksAreOfTheLatestBatches) {
  Step(0, 0.9);
  for (int64_t step = 1; step <= static_cast<int64_t>(LiveFigures::kBatchesPerLeak); ++step) {
    Step(step, 0.4);
  }
  EpochLeakRow epoch;
  epoch.observer = "label_party";
  epoch.layer = "cut";
  epoch.attack = "norm";
  epoch.auc = 0.35;
  epoch.gaussian_auc_bound = 0.7;
  EXPECT_TRUE(ledger_->Record(epoch).ok());
  const v1::GetStatusResponse status = status_.Snapshot();
  ASSERT_EQ(status.label_party().leaks_size(), 1);
  const v1::MeasuredLeak& leak = status.label_party().leaks(0);
  EXPECT_EQ(leak.attack(), "norm");
  EXPECT_EQ(leak.title(), "Gradient length");
  EXPECT_NEAR(leak.auc(), 0.6, 1e-9);
  EXPECT_NEAR(leak.epoch_auc(), 0.65, 1e-9);
  EXPECT_EQ(leak.epoch_bound(), 0.7);
}

TEST_F(LiveFiguresTest, TellsTheEventsOfTheRunThoseBeforeItWasWatchedIncluded) {
  EXPECT_TRUE(ledger_->RecordEvent("interrupted", "0.5 s without the non-label party").ok());
  v1::GetStatusResponse status = status_.Snapshot();
  ASSERT_EQ(status.events_size(), 2);
  EXPECT_EQ(status.events(0).kind(), "disclosure");
  EXPECT_EQ(status.events(1).kind(), "interrupted");
  EXPECT_EQ(status.interruptions(), 1);
  for (size_t i = 0; i < 2 * LiveFigures::kMaxEvents; ++i) {
    EXPECT_TRUE(ledger_->RecordEvent("checkpoint", "of 1 epochs").ok());
  }
  status = status_.Snapshot();
  EXPECT_EQ(status.events_size(), LiveFigures::kMaxEvents);
  EXPECT_EQ(status.events(0).kind(), "disclosure");  // However long ago.
  EXPECT_EQ(status.interruptions(), 1);
}

TEST_F(LiveFiguresTest, NoKindOfEventTakesAllThePlace) {
  for (size_t i = 0; i < 3 * LiveFigures::kMaxEvents; ++i) {
    EXPECT_TRUE(ledger_->RecordEvent("bound_exceeded", "epoch 1").ok());
  }
  EXPECT_TRUE(ledger_->RecordEvent("checkpoint", "of 1 epochs").ok());
  const v1::GetStatusResponse status = status_.Snapshot();
  EXPECT_EQ(status.events_size(), LiveFigures::kMaxEvents);
  EXPECT_EQ(status.events(status.events_size() - 1).kind(), "checkpoint");
  EXPECT_EQ(status.events(0).kind(), "disclosure");  // What the attack module reads is told once.
}

TEST_F(LiveFiguresTest, CurvesOfALongRunStayShort) {
  for (int64_t step = 0; step < 3000; ++step) {
    Step(step);
  }
  const v1::RunHistory history = status_.History();
  for (const v1::RunHistory::Curve& curve : history.curves()) {
    EXPECT_LE(curve.step_size(), ThinnedCurve::kMaxPoints) << curve.name();
    EXPECT_GE(curve.step_size(), ThinnedCurve::kMaxPoints / 2) << curve.name();
    EXPECT_EQ(curve.step(curve.step_size() - 1), 3000) << curve.name();
  }
}

class NonLabelFiguresTest : public LiveFiguresTest {
 protected:
  NonLabelFiguresTest() : LiveFiguresTest("nonlabel_party") {}
};

// Whatever is recorded and whatever is set there.
TEST_F(NonLabelFiguresTest, HaveNothingOfLossesLeaksNoiseOrDecisions) {
  Step(0);
  EvaluationRow evaluation;
  evaluation.split = "test";
  evaluation.auc = 0.8;
  EXPECT_TRUE(ledger_->Record(evaluation).ok());
  status_.Update([](v1::GetStatusResponse& message) {
    message.set_bound_exceeded(3);
    message.mutable_label_party()->set_run_auc_bound(0.9);
  });
  const v1::GetStatusResponse status = status_.Snapshot();
  EXPECT_EQ(status.steps_done(), 1);
  EXPECT_EQ(status.bytes_received(), 3000);
  EXPECT_FALSE(status.has_label_party());
  EXPECT_EQ(status.loss(), 0);
  EXPECT_EQ(status.bound_exceeded(), 0);
  ASSERT_EQ(status_.History().curves_size(), 1);
  EXPECT_EQ(status_.History().curves(0).name(), "seconds");
}

TEST(ThinnedCurveTest, PointsAreMeansOfAsManyValues) {
  ThinnedCurve curve;
  for (int i = 1; i <= 2 * ThinnedCurve::kMaxPoints; ++i) {
    curve.Add(i, i);
  }
  const std::vector<ThinnedCurve::Point> points = curve.points();
  ASSERT_GE(points.size(), 100);
  const double width = points[0].step;  // As many values as the first point holds.
  for (size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(points[i].step, width * static_cast<double>(i + 1));
    EXPECT_EQ(points[i].value, points[i].step - (width - 1) / 2);
  }
}

TEST(ThinnedCurveTest, WhatIsNotFiniteIsLeftOut) {
  ThinnedCurve curve;
  curve.Add(1, kNan);
  curve.Add(2, std::numeric_limits<double>::infinity());
  curve.Add(3, 7);
  ASSERT_EQ(curve.points().size(), 1);
  EXPECT_EQ(curve.points()[0].step, 3);
}

}  // namespace
}  // namespace splitveil
