// One batch's way, against a stream whose answers the test writes.
#include "nonlabel_party/session/nonlabel_training_step.h"

#include <deque>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/process/exit_code.h"
#include "common/transport/tensor_codec.h"
#include "tests/testing/small_run.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;
using Answer = AnswerProtocol::Answer;

constexpr int64_t kRows = 300;  // One batch, in two slices.
constexpr int64_t kFirstSlice = 256;
constexpr int64_t kCutWidth = 8;

// Keeps what is sent and answers with what the test has put there; ends where nothing is left.
class ScriptedStream final : public TrainingStream {
 public:
  absl::Status Send(const v1::CutActivations& message) override {
    sent.push_back(message);
    return absl::OkStatus();
  }
  absl::StatusOr<v1::CutGradients> Receive() override {
    if (answers.empty()) {
      return absl::UnavailableError("the stream has ended");
    }
    v1::CutGradients message = std::move(answers.front());
    answers.pop_front();
    return message;
  }
  absl::Status Finish() override { return absl::OkStatus(); }

  std::vector<v1::CutActivations> sent;
  std::deque<v1::CutGradients> answers;
};

class NonLabelTrainingStepTest : public ::testing::Test {
 protected:
  NonLabelTrainingStepTest() : run_(kRows - 10) {  // Each party holds ten rows more.
    run_.agreement.mutable_audit()->clear_layers();
    run_.agreement.mutable_audit()->clear_attacks();
    const std::shared_ptr<const Dataset> data = run_.NonLabelDataset();
    std::vector<uint32_t> rows(kRows);
    std::iota(rows.begin(), rows.end(), 0);
    features_ = std::make_unique<FeatureTable>(data, rows);
    absl::StatusOr<Schedule> schedule = Schedule::Create(JointSeed{}, rows, {kRows, 16});
    EXPECT_TRUE(schedule.ok()) << schedule.status();
    schedule_ = std::make_unique<Schedule>(*std::move(schedule));
    BottomModelOptions options;
    options.spec = run_.nonlabel_config.model();
    options.optimizer = run_.nonlabel_config.party().optimizer();
    options.features = data->features();
    options.cut_width = kCutWidth;
    absl::StatusOr<std::unique_ptr<BottomModel>> model = BottomModel::Create(options);
    EXPECT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
    protected_model_ = *ProtectedBottomModel::Create(model_.get(), {}, {}, kCutWidth, 1);
    RunRow run;
    run.run_id = "run-1";
    run.role = "nonlabel_party";
    ledger_ = *Ledger::Create(run_.files.File("ledger.db"), run);
    attacks_ = std::make_unique<AttackRunner>(
        *AttackRunner::Create(run_.agreement, "run-1", kRows, /*peer=*/nullptr, model_.get(), ledger_.get()));
    recorder_ = std::make_unique<NonLabelStepRecorder>(ledger_.get(), &run_.nonlabel_status, /*epochs=*/2,
                                                       /*batches_per_epoch=*/1);
    for (Answer answer : {Answer::kOpened, Answer::kAligned, Answer::kStarted}) {
      EXPECT_TRUE(protocol_.Take(answer).ok());
    }
    step_ = std::make_unique<NonLabelTrainingStep>(
        NonLabelTrainingStep::Parts{schedule_.get(), features_.get(), protected_model_.get(), &protocol_,
                                    attacks_.get(), recorder_.get()},
        NonLabelTrainingStep::Wire{"run-1", v1::FLOAT32, kCutWidth, /*in_flight_batches=*/1});
  }

  // Gradients of 0.5 for rows [first, first + rows) of the batch of an epoch.
  static v1::CutGradients Gradients(uint32_t epoch, int64_t first, int64_t rows) {
    v1::CutGradients message;
    message.set_epoch(epoch);
    message.set_first_row(static_cast<uint32_t>(first));
    Matrix values(rows, kCutWidth);
    for (int64_t i = 0; i < values.size(); ++i) {
      values.data()[i] = 0.5F;
    }
    EXPECT_TRUE(EncodeMatrix(values, v1::FLOAT32, *message.mutable_gradients()).ok());
    return message;
  }

  static v1::CutGradients Frozen(uint32_t epoch) {
    v1::CutGradients message;
    message.set_epoch(epoch);
    message.set_frozen(true);
    return message;
  }

  absl::Status Train(uint32_t epoch) {
    const absl::Status sent = step_->Send({epoch, 0}, stream_);
    return sent.ok() ? step_->Learn({epoch, 0}, stream_) : sent;
  }

  // The step fails, is not recorded, and leaves the model as it was.
  void ExpectNothingLearnt(const std::string& text, ExitCode exit_code) {
    const NamedParameters before = model_->Parameters();
    const absl::Status status = Train(0);
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_EQ(ExitCodeFor(status), exit_code) << status;
    EXPECT_FALSE(recorder_->due());
    EXPECT_EQ(model_->Parameters(), before);
  }

  SmallRun run_;
  std::unique_ptr<FeatureTable> features_;
  std::unique_ptr<Schedule> schedule_;
  std::unique_ptr<BottomModel> model_;
  std::unique_ptr<Ledger> ledger_;
  AnswerProtocol protocol_;
  std::unique_ptr<AttackRunner> attacks_;
  std::unique_ptr<ProtectedBottomModel> protected_model_;
  std::unique_ptr<NonLabelStepRecorder> recorder_;
  std::unique_ptr<NonLabelTrainingStep> step_;
  ScriptedStream stream_;
};

TEST_F(NonLabelTrainingStepTest, SendsTheActivationsOfTheScheduledRowsInSlices) {
  const Matrix expected = *model_->Predict(features_->Gather(schedule_->BatchRows(0, 0)));
  step_->Gather({0, 0});
  ASSERT_TRUE(step_->Send({0, 0}, stream_).ok());
  ASSERT_EQ(stream_.sent.size(), 2U);
  for (const auto& [message, first, rows] : {std::make_tuple(stream_.sent[0], int64_t{0}, kFirstSlice),
                                             std::make_tuple(stream_.sent[1], kFirstSlice, kRows - kFirstSlice)}) {
    EXPECT_EQ(message.run_id(), "run-1");
    EXPECT_EQ(message.first_row(), first);
    const absl::StatusOr<Matrix> found = DecodeMatrix(message.activations(), {"z", v1::FLOAT32, rows, kCutWidth});
    ASSERT_TRUE(found.ok()) << found.status();
    for (int64_t i = 0; i < found->size(); ++i) {
      ASSERT_NEAR(found->data()[i], expected.data()[first * kCutWidth + i], 1e-6) << i;
    }
  }
}

TEST_F(NonLabelTrainingStepTest, LearnsFromAllSlices) {
  const NamedParameters before = model_->Parameters();
  stream_.answers = {Gradients(0, 0, kFirstSlice), Gradients(0, kFirstSlice, kRows - kFirstSlice)};
  ASSERT_TRUE(Train(0).ok());
  EXPECT_NE(model_->Parameters(), before);
  EXPECT_EQ(protocol_.state(), AnswerProtocol::State::kLearning);
  ASSERT_TRUE(recorder_->due());
  ASSERT_TRUE(step_->Attack().ok());
  EXPECT_EQ(recorder_->totals().examples, kRows);
  EXPECT_GT(recorder_->totals().bytes_sent, kRows * kCutWidth * 4);
  EXPECT_GT(recorder_->totals().bytes_received, kRows * kCutWidth * 4);
}

TEST_F(NonLabelTrainingStepTest, LearnsNothingWhereTheStreamEndsInTheMiddle) {
  stream_.answers = {Gradients(0, 0, kFirstSlice)};
  ExpectNothingLearnt("the stream has ended", ExitCode::kPeerUnreachable);
}

TEST_F(NonLabelTrainingStepTest, LearnsNothingFromTheSameSliceTwice) {
  stream_.answers = {Gradients(0, 0, kFirstSlice), Gradients(0, 0, kFirstSlice)};
  ExpectNothingLearnt("from row 256", ExitCode::kRefused);
}

TEST_F(NonLabelTrainingStepTest, LearnsNothingFromTheWholeBatchInOneMessage) {
  stream_.answers = {Gradients(0, 0, kRows)};
  ExpectNothingLearnt("gradients", ExitCode::kRefused);
}

TEST_F(NonLabelTrainingStepTest, LearnsNothingFromAnotherEpoch) {
  stream_.answers = {Gradients(1, 0, kFirstSlice)};
  ExpectNothingLearnt("epoch 0 batch 0 from row 0", ExitCode::kRefused);
}

TEST_F(NonLabelTrainingStepTest, LearnsNothingWhereTheBudgetEndsInTheMiddle) {
  v1::CutGradients frozen = Frozen(0);
  frozen.set_first_row(kFirstSlice);
  stream_.answers = {Gradients(0, 0, kFirstSlice), frozen};
  ExpectNothingLearnt("slices of one answer", ExitCode::kRefused);
}

TEST_F(NonLabelTrainingStepTest, AFrozenBatchIsRecordedAndChangesNothing) {
  const NamedParameters before = model_->Parameters();
  stream_.answers = {Frozen(0), Frozen(1)};
  for (uint32_t epoch = 0; epoch < 2; ++epoch) {
    ASSERT_TRUE(Train(epoch).ok());
    EXPECT_TRUE(recorder_->due());
    ASSERT_TRUE(step_->Attack().ok());
  }
  EXPECT_EQ(model_->Parameters(), before);
  EXPECT_EQ(recorder_->totals().steps, 2);
}

}  // namespace
}  // namespace splitveil::testing
