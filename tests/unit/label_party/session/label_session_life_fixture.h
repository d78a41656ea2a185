// Label sessions that leave checkpoints and begin from them.
#ifndef SPLITVEIL_TESTS_UNIT_LABEL_PARTY_SESSION_LABEL_SESSION_LIFE_FIXTURE_H_
#define SPLITVEIL_TESTS_UNIT_LABEL_PARTY_SESSION_LABEL_SESSION_LIFE_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "common/checkpoint/checkpoint.h"
#include "common/process/exit_code.h"
#include "tests/unit/label_party/session/label_session_fixture.h"

namespace splitveil::testing {

class LabelSessionLifeTest : public LabelSessionTest {
 protected:
  LabelSessionLifeTest() { run_.noise_key = {7}; }

  // Opens, which must be refused: exit 4, with `text`, and nothing else passes.
  void ExpectOpenRefused(const std::string& text) {
    Create();
    const absl::Status status = session_->Open(OpenRequest()).status();
    EXPECT_EQ(ExitCodeFor(status), ExitCode::kRefused) << status;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(text));
    // Where this party's files lie is not the peer's to know.
    EXPECT_THAT(std::string(status.message()), ::testing::Not(::testing::HasSubstr(run_.files.path())));
    EXPECT_EQ(ExitCodeFor(session_->WaitUntilEnded([] { return false; })), ExitCode::kRefused);
  }

  // Leaves checkpoints of two epochs of a run at `path_`; the run's id.
  std::string LeaveCheckpoints() {
    run_.label_checkpoints.path = path_;
    Start();
    for (uint32_t epoch : {0, 1}) {
      TrainEpoch(epoch);
      EXPECT_TRUE(session_->FinishEvaluation(EvaluateAll(epoch)).ok());
    }
    EXPECT_TRUE(session_->Close(CloseRequest()).ok());
    EXPECT_TRUE(session_->WaitUntilEnded([] { return false; }).ok());
    run_.label_checkpoints.path.clear();
    return run_id_;
  }

  // The peer of LeaveCheckpoints knows that the run is complete.
  void Farewell() {
    v1::CloseRequest close = CloseRequest();
    close.set_answered(true);
    EXPECT_TRUE(session_->Close(close).ok());
  }

  void ResumeFrom(const std::string& path) { run_.label_checkpoints.initial = {*Checkpoint::Open(path)}; }

  // Opens the run that left this checkpoint, so that it goes on.
  void Continue(const std::string& path) {
    run_.label_checkpoints.path = path_;
    run_.label_checkpoints.unfinished = {*Checkpoint::Open(path)};
    unfinished_ = {"another/3", run_.label_checkpoints.unfinished.front()->name()};
    const std::string run_id = run_id_;
    Open();
    EXPECT_EQ(run_id_, run_id);
  }

  v1::CloseRequest CloseRequest() const {
    v1::CloseRequest close;
    close.set_run_id(run_id_);
    close.set_completed(true);
    return close;
  }

  // Trains and evaluates `epoch`; whether the label party wants no more.
  bool TrainAndEvaluate(uint32_t epoch) {
    TrainEpoch(epoch);
    const absl::StatusOr<v1::EvaluateResponse> response = session_->FinishEvaluation(EvaluateAll(epoch));
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() && response->stop_training();
  }

  // Stops after the epochs that are waited for: nothing improves by as much as 1.
  void StopEarlyAfter(int patience, int epochs) {
    run_.agreement.set_epochs(epochs);
    run_.label_config.mutable_early_stopping()->set_patience(patience);
    run_.label_config.mutable_early_stopping()->set_min_delta(1);
  }

  void ProgressiveValidation() {
    run_.agreement.set_test_fraction(0);
    run_.agreement.set_progressive_validation(true);
    Start();
    test_examples_ = static_cast<int64_t>(aligned_.rows.size());
  }

  const std::string path_ = run_.files.File("label_party.checkpoint");
};

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_UNIT_LABEL_PARTY_SESSION_LABEL_SESSION_LIFE_FIXTURE_H_
