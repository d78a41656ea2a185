// A run with mode PREDICT, message by message: one evaluation of every shared example, and nothing of training.
#include "label_party/session/run_prediction.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>

#include "common/config/agreement.h"
#include "tests/unit/label_party/session/label_session_life_fixture.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

class RunPredictionTest : public LabelSessionLifeTest {
 protected:
  // Trains and leaves a checkpoint, then opens, aligns and starts a prediction with it.
  void StartPrediction(const std::function<void()>& spoil = [] {}) {
    LeaveCheckpoints();
    spoil();
    ResumeFrom(path_);
    continues_ = run_.label_checkpoints.initial.front()->name();
    run_.agreement.set_mode(v1::RunAgreement::PREDICT);
    Canonicalize(run_.agreement);
    run_.label_config.set_predictions_path(out_);
    Align();
    const absl::StatusOr<v1::StartResponse> response = session_->Start(StartRequest());
    ASSERT_TRUE(response.ok()) << response.status();
    test_examples_ = static_cast<int64_t>(aligned_.rows.size());
  }

  int Lines() const {
    std::ifstream file(out_);
    int lines = 0;
    for (std::string line; std::getline(file, line);) {
      ++lines;
    }
    return lines;
  }

  const std::string out_ = run_.files.File("predictions.csv");
};

TEST_F(RunPredictionTest, PredictsEverySharedExampleOnce) {
  StartPrediction();
  const absl::StatusOr<v1::EvaluateResponse> response = session_->FinishEvaluation(EvaluateAll(0));
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->examples(), aligned_.rows.size());
  EXPECT_EQ(Lines(), 1 + test_examples_);
  // Its answer may be lost: another stream gets the same one, whatever it brings.
  LabelSession::Evaluation again;
  ASSERT_TRUE(session_->Evaluate(ActivationsOf(0, 0, 64, /*scale=*/2), again).ok());
  EXPECT_EQ(session_->FinishEvaluation(again)->examples(), aligned_.rows.size());
  EXPECT_TRUE(session_->Close(CloseRequest()).ok());
  EXPECT_TRUE(session_->WaitUntilEnded([] { return false; }).ok());
  const RunFigures figures = *session_->figures();
  EXPECT_EQ(figures.steps, 0);
  EXPECT_EQ(figures.ended, "completed");
  EXPECT_FALSE(session_->may_have_released());
}

// A peer may choose activations for which the outputs are finite only if the head has learned one label rather than the
// other.
TEST_F(RunPredictionTest, OutputsThatAreNoNumbersTellThePeerNothing) {
  StartPrediction([this] {
    const std::shared_ptr<const Checkpoint> trained = *Checkpoint::Open(path_);
    NamedParameters state = *trained->State();
    for (auto& [name, values] : state) {
      if (name == "top.weight") {
        for (float& value : values) {
          value *= 1e34F;  // Finite, as an attack leaves them.
        }
      }
    }
    ASSERT_TRUE(Checkpoint::Write(path_, trained->header(), state, {}).ok());
  });
  LabelSession::Evaluation evaluation;
  while (static_cast<int64_t>(evaluation.next_batch) * 64 < test_examples_) {
    const int64_t rows = std::min<int64_t>(64, test_examples_ - int64_t{evaluation.next_batch} * 64);
    ASSERT_TRUE(session_->Evaluate(ActivationsOf(0, evaluation.next_batch, rows, /*scale=*/1e8F), evaluation).ok());
  }
  const absl::StatusOr<v1::EvaluateResponse> response = session_->FinishEvaluation(evaluation);
  ASSERT_TRUE(response.ok()) << response.status();
  EXPECT_EQ(response->examples(), aligned_.rows.size());
  EXPECT_EQ(Lines(), 1 + test_examples_);
  EXPECT_TRUE(session_->Close(CloseRequest()).ok());
  EXPECT_TRUE(session_->WaitUntilEnded([] { return false; }).ok());
  EXPECT_THAT(std::string(session_->own_verdict().message()), HasSubstr("not a finite number"));
  EXPECT_EQ(session_->figures()->ended, "failed");
}

TEST_F(RunPredictionTest, StartMayComeAgainUntilItsAnswerIsKnown) {
  StartPrediction();
  EXPECT_TRUE(session_->Start(StartRequest()).ok());
}

TEST_F(RunPredictionTest, RefusesEveryMessageOfTraining) {
  StartPrediction();
  EXPECT_EQ(session_->Train(ActivationsOf(0, 0, 64)).status().code(), absl::StatusCode::kFailedPrecondition);
  v1::ScoreBatchRequest scores;
  scores.set_run_id(run_id_);
  EXPECT_EQ(session_->ScoreBatch(scores).status().code(), absl::StatusCode::kFailedPrecondition);
  v1::AuxiliaryLabelsRequest labels;
  labels.set_run_id(run_id_);
  EXPECT_EQ(session_->AuxiliaryLabels(labels).status().code(), absl::StatusCode::kFailedPrecondition);
  v1::GuessAttributesRequest guesses;
  guesses.set_run_id(run_id_);
  EXPECT_EQ(session_->GuessAttributes(guesses).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(session_->RaiseNoise().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(session_->LowerDisclosure().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(session_->FinishEvaluation(EvaluateAll(0)).ok());
}

TEST_F(RunPredictionTest, RefusesAPartOfTheExamplesAndRowsOutOfOrder) {
  StartPrediction();
  LabelSession::Evaluation evaluation;
  EXPECT_THAT(std::string(session_->Evaluate(ActivationsOf(0, 1, 64), evaluation).message()),
              HasSubstr("prediction: expected batch 0 of 300 shared examples, found batch 1 of epoch 0"));
  EXPECT_FALSE(session_->Evaluate(ActivationsOf(1, 0, 64), evaluation).ok());
  EXPECT_FALSE(session_->Evaluate(ActivationsOf(0, 0, 63), evaluation).ok());
  ASSERT_TRUE(session_->Evaluate(ActivationsOf(0, 0, 64), evaluation).ok());
  EXPECT_THAT(std::string(session_->FinishEvaluation(evaluation).status().message()),
              HasSubstr("prediction: expected all 300 shared examples, found the first 1 batches"));
  EXPECT_EQ(session_->Close(CloseRequest()).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Lines(), 0);
  LabelSession::Evaluation whole = EvaluateAll(0);
  EXPECT_FALSE(session_->Evaluate(ActivationsOf(0, whole.next_batch, 64), whole).ok());
  EXPECT_TRUE(session_->FinishEvaluation(whole).ok());
}

TEST_F(RunPredictionTest, ReplacesNoFileOfAnotherKind) {
  std::ofstream(out_) << "SQLite format 3";
  run_.label_config.set_predictions_path(out_);
  run_.agreement.set_mode(v1::RunAgreement::PREDICT);
  EXPECT_FALSE(LabelSession::Create(run_.LabelOptions()).ok());
}

}  // namespace
}  // namespace splitveil::testing
