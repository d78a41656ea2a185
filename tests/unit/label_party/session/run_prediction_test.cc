// A run with mode PREDICT, message by message: one evaluation of every shared example, and nothing of training.
#include "label_party/session/run_prediction.h"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "common/config/agreement.h"
#include "tests/unit/label_party/session/label_session_life_fixture.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

class RunPredictionTest : public LabelSessionLifeTest {
 protected:
  // Trains and leaves a checkpoint, then opens, aligns and starts a prediction with it.
  void StartPrediction() {
    LeaveCheckpoints();
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
