// The non-label party against a label party that answers honestly: runs, stops, what is recorded.
#include "nonlabel_party/session/nonlabel_session.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "common/leakage/attack_traits.h"
#include "common/process/exit_code.h"
#include "tests/unit/nonlabel_party/session/nonlabel_session_fixture.h"

namespace splitveil::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST_F(NonLabelSessionTest, RunsToTheEnd) {
  EXPECT_TRUE(Run().ok());
  EXPECT_TRUE(label_->completed());
}

TEST_F(NonLabelSessionTest, BothPartiesTellHowFarTheirAlignmentWas) {
  ASSERT_TRUE(Run().ok());
  const uint64_t ids = run_.label_data.ids.size() + run_.nonlabel_data.ids.size();
  for (const RunStatus* status : {&run_.label_status, &run_.nonlabel_status}) {
    EXPECT_EQ(status->Snapshot().ids_to_mask(), ids);
    EXPECT_EQ(status->Snapshot().masked_ids(), ids);
  }
}

TEST_F(NonLabelSessionTest, RunsToTheEndWithSeveralBatchesInFlightAndHalfPrecision) {
  run_.agreement.set_in_flight_batches(3);
  run_.agreement.set_wire_dtype(v1::BFLOAT16);
  const absl::Status status = Run();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(label_->completed());
}

TEST_F(NonLabelSessionTest, RunsWithoutTestExamplesAndWithoutAudit) {
  run_.agreement.set_test_fraction(0);
  run_.agreement.mutable_audit()->clear_layers();
  EXPECT_TRUE(Run().ok());
}

TEST_F(NonLabelSessionTest, ItsSummaryIsThatOfItsLedger) {
  ASSERT_TRUE(Run().ok());
  ASSERT_TRUE(figures_.has_value());
  EXPECT_EQ(figures_->ended, "completed");
  EXPECT_EQ(figures_->run_id, FromLedger("SELECT run_id FROM run"));
  EXPECT_EQ(figures_->epochs, 2);
  EXPECT_EQ(std::to_string(figures_->steps), FromLedger("SELECT count(*) FROM step"));
  EXPECT_EQ(std::to_string(figures_->examples), FromLedger("SELECT sum(examples) FROM step"));
  EXPECT_EQ(std::to_string(figures_->bytes_sent), FromLedger("SELECT sum(bytes_sent) FROM step"));
  EXPECT_EQ(std::to_string(figures_->bytes_received), FromLedger("SELECT sum(bytes_received) FROM step"));
  ASSERT_EQ(figures_->attacks.size(), 4U);  // Norm and cosine at two layers.
  const auto is_at_cut = [](const AttackFigure& leak) { return leak.layer == "cut"; };
  EXPECT_EQ(std::count_if(figures_->attacks.begin(), figures_->attacks.end(), is_at_cut), 2);
}

TEST_F(NonLabelSessionTest, TheSummaryTellsNoLeakThatIsNotDisclosed) {
  run_.agreement.mutable_audit()->clear_attacks();
  run_.agreement.mutable_audit()->add_attacks(v1::NORM);
  run_.agreement.mutable_audit()->set_disclosure(v1::LABEL_SIDE_ONLY);
  ASSERT_TRUE(Run().ok());
  ASSERT_TRUE(figures_.has_value());
  EXPECT_THAT(figures_->attacks, IsEmpty());
}

TEST_F(NonLabelSessionTest, ARunThatStopsInTheMiddleHasASummary) {
  ASSERT_EQ(ExitCodeFor(StopAt("Evaluate")), ExitCode::kStopped);
  ASSERT_TRUE(figures_.has_value());
  EXPECT_EQ(figures_->ended, "stopped");
  EXPECT_EQ(figures_->epochs, 1);
}

TEST_F(NonLabelSessionTest, StopBeforeTheRunOpensNothing) {
  EXPECT_EQ(ExitCodeFor(StopAt("")), ExitCode::kStopped);
  EXPECT_THAT(calls_, IsEmpty());
  EXPECT_FALSE(figures_.has_value());
}

TEST_F(NonLabelSessionTest, StopBeforeAlignmentEndsTheRun) {
  EXPECT_EQ(ExitCodeFor(StopAt("Open")), ExitCode::kStopped);
  EXPECT_THAT(calls_, ElementsAre("Open", "Close early"));
  EXPECT_EQ(LedgerStatus(), "stopped");
}

TEST_F(NonLabelSessionTest, StopInAlignmentCancelsIt) {
  stalls_alignment_ = true;
  EXPECT_EQ(ExitCodeFor(StopAt("Align")), ExitCode::kStopped);
  EXPECT_THAT(calls_, ElementsAre("Open", "Align", "Close early"));
  EXPECT_EQ(LedgerStatus(), "stopped");
}

TEST_F(NonLabelSessionTest, StopAfterAlignmentEndsTheRun) {
  EXPECT_EQ(ExitCodeFor(StopAt("Start")), ExitCode::kStopped);
  EXPECT_THAT(calls_, ElementsAre("Open", "Align", "Start", "Close early"));
  EXPECT_EQ(LedgerStatus(), "stopped");
}

TEST_F(NonLabelSessionTest, StopEndsBetweenSteps) {
  EXPECT_EQ(ExitCodeFor(StopAt("Train")), ExitCode::kStopped);
  EXPECT_THAT(calls_, ElementsAre("Open", "Align", "Start", "Train", "Close early"));
  EXPECT_EQ(LedgerStatus(), "stopped");
}

TEST_F(NonLabelSessionTest, StopEndsBetweenBatchesOfAnEvaluation) {
  run_.agreement.mutable_audit()->clear_layers();
  EXPECT_EQ(ExitCodeFor(StopAt("Evaluate")), ExitCode::kStopped);
  EXPECT_THAT(calls_, ElementsAre("Open", "Align", "Start", "Train", "Evaluate", "Close early"));
  EXPECT_EQ(LedgerStatus(), "stopped");
}

TEST_F(NonLabelSessionTest, WhatWasLearntIsRecordedWhereNoFurtherBatchIsTaken) {
  run_.agreement.set_in_flight_batches(2);
  run_.agreement.mutable_audit()->clear_layers();
  StopLabelPartyAtFirstAnswer();
  EXPECT_EQ(ExitCodeFor(Run()), ExitCode::kPeerUnreachable);
  ExpectStepsInBothLedgers(2);  // The second answer had left before.
}

TEST_F(NonLabelSessionTest, EveryAnswerThatHasLeftIsLearntFromWhereTheLabelPartyStops) {
  run_.agreement.set_in_flight_batches(3);
  run_.agreement.set_batch_size(20);  // Another batch to send is left when the stream is found ended.
  run_.agreement.mutable_audit()->clear_layers();
  StopLabelPartyAtFirstAnswer();
  EXPECT_EQ(ExitCodeFor(Run()), ExitCode::kPeerUnreachable);
  ExpectStepsInBothLedgers(3);
}

TEST_F(NonLabelSessionTest, WhatWasLearntIsRecordedWhereNoScoresAreTaken) {
  StopLabelPartyAtFirstAnswer();
  EXPECT_EQ(ExitCodeFor(Run()), ExitCode::kPeerUnreachable);
  ExpectStepsInBothLedgers(1);
}

TEST_F(NonLabelSessionTest, HaltByTheReleaseGateIsRecordedAsSuch) {
  run_.label_config.mutable_release()->set_max_step_auc_bound(0.6);  // No protection has no bound below 1.
  run_.label_config.mutable_release()->set_action(v1::HALT);
  EXPECT_EQ(ExitCodeFor(Run()), ExitCode::kHalted);
  EXPECT_EQ(LedgerStatus(), "halted");
}

// All 300 examples are one batch: slices of 256 and 44 rows.
TEST_F(NonLabelSessionTest, TrainsAndAuditsBatchesInSlices) {
  run_.agreement.set_batch_size(300);
  run_.agreement.set_test_fraction(0);
  const absl::Status status = Run();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(label_->completed());
  // What it attacks is the whole batch: the label party judges a score for each of its rows.
  EXPECT_EQ(FromLedger("SELECT COUNT(*) > 0 FROM leak WHERE layer = 'first' AND attack = 'norm'"), "1");
  EXPECT_EQ(FromLedger("SELECT MAX(examples) FROM step"), "300");
}

TEST_F(NonLabelSessionTest, EveryAttackOnABatchRunsAtEveryLayer) {
  run_.agreement.set_in_flight_batches(2);
  // Two batches an epoch. Of fewer rows one may have no positives but the five that are hinted, and then no AUC.
  run_.agreement.set_batch_size(120);
  run_.agreement.set_minimum_batch_size(60);
  run_.agreement.mutable_audit()->clear_attacks();
  for (const AttackTraits& traits : AllAttackTraits()) {
    if (!traits.once_per_run() && !traits.label_side_only()) {
      run_.agreement.mutable_audit()->add_attacks(traits.attack);
    }
  }
  const absl::Status status = Run();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(FromLedger("SELECT count(DISTINCT attack) FROM leak WHERE layer = 'cut'"), "20");
  EXPECT_EQ(FromLedger("SELECT count(DISTINCT attack) FROM leak WHERE layer = 'first'"), "16");
  EXPECT_EQ(FromLedger("SELECT count(*) FROM leak"), "144");  // 36 scores of each of 4 batches.
}

TEST_F(NonLabelSessionTest, AuditsEveryNthBatchOnly) {
  run_.agreement.mutable_audit()->set_every_batches(3);
  run_.agreement.mutable_audit()->add_attacks(v1::CUMULATIVE_SPECTRAL);
  const absl::Status status = Run();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(FromLedger("SELECT group_concat(step) FROM (SELECT DISTINCT step FROM leak ORDER BY step)"), "0,3,6");
}

TEST_F(NonLabelSessionTest, ThePhasesOfEveryStepAddUpToItsSeconds) {
  for (int in_flight : {1, 3}) {
    run_.agreement.set_in_flight_batches(in_flight);
    ASSERT_TRUE(Run().ok());
  }
  EXPECT_EQ(FromLedger("SELECT count(*) FROM step JOIN step_time USING (run_id, step) WHERE abs(seconds - (data + "
                       "forward + serialise + wire + wait + backward + protection + update_seconds + attacks)) < 1e-9"),
            "16");
  EXPECT_EQ(FromLedger("SELECT count(*) FROM step_time WHERE min(backward, update_seconds, attacks) > 0 AND "
                       "protection = 0"),
            "16");
}

TEST_F(NonLabelSessionTest, EveryStepSaysTheBytesOfItsOwnMessages) {
  run_.agreement.set_in_flight_batches(3);
  run_.agreement.set_test_fraction(0);
  ASSERT_TRUE(Run().ok());
  // Both messages hold a float32 tensor of the batch, and little else.
  EXPECT_EQ(FromLedger("SELECT count(*) FROM step WHERE bytes_sent NOT BETWEEN examples * 32 AND examples * 32 + 100 "
                       "OR bytes_received NOT BETWEEN examples * 32 AND examples * 32 + 200"),
            "0");
}

TEST_F(NonLabelSessionTest, AFrozenBottomModelStaysAsItIs) {
  ASSERT_EQ(ExitCodeFor(StopAt("Start")), ExitCode::kStopped);
  const NamedParameters initial = trained_;
  stop_at_ = "never";
  stop_asked = false;
  run_.agreement.set_in_flight_batches(2);
  FreezeFrom(0);
  const absl::Status status = Run();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(label_->completed());
  EXPECT_EQ(trained_, initial);
  EXPECT_EQ(FromLedger("SELECT count(*) FROM step"), "8");
  EXPECT_EQ(FromLedger("SELECT count(*) FROM leak"), "0");
  EXPECT_THAT(FromLedger("SELECT group_concat(detail) FROM event WHERE kind = 'frozen'"),
              StartsWith("from epoch 1, batch 1 on no gradient is sent"));
}

TEST_F(NonLabelSessionTest, AFreezeInTheMiddleEndsLearningThere) {
  run_.agreement.mutable_audit()->add_attacks(v1::ACTIVATION_CLUSTERS);
  FreezeFrom(5);
  const absl::Status status = Run();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(FromLedger("SELECT max(step) FROM leak"), "4");
  EXPECT_THAT(FromLedger("SELECT group_concat(detail) FROM event WHERE kind = 'frozen'"),
              StartsWith("from epoch 2, batch 2 on no gradient is sent"));
}

TEST_F(NonLabelSessionTest, StopsWhereTheLabelPartySaysSo) {
  alter_ = [](LocalLabelParty& peer) {
    peer.alter_evaluation = [](v1::EvaluateResponse& response) { response.set_stop_training(true); };
  };
  EXPECT_FALSE(Run().ok());  // This label party did not mean it, and refuses to close.
  EXPECT_EQ(FromLedger("SELECT max(epoch) FROM step"), "0");
}

}  // namespace
}  // namespace splitveil::testing
