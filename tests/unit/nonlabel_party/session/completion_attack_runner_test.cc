// Model completion at the end of a run, against a label party that answers honestly, and against one that does not.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "common/process/exit_code.h"
#include "nonlabel_party/session/attack_runner.h"
#include "tests/testing/local_label_party.h"
#include "tests/testing/small_run.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

std::atomic<bool> stop_wanted{false};  // A signal's flag is as global.

class CompletionAttackRunnerTest : public ::testing::Test {
 protected:
  explicit CompletionAttackRunnerTest(int examples = 400) : run_(examples) {
    stop_wanted = false;
    run_.agreement.mutable_audit()->set_auxiliary_labels(32);
    run_.agreement.mutable_audit()->clear_layers();
  }

  absl::Status Run() {
    absl::StatusOr<std::unique_ptr<LabelSession>> created = LabelSession::Create(run_.LabelOptions());
    EXPECT_TRUE(created.ok()) << created.status();
    const std::unique_ptr<LabelSession> label = *std::move(created);
    LocalLabelParty peer(label.get());
    peer.alter_auxiliary = alter_;
    peer.on_call = [this, &label](const std::string& call) {
      calls_.push_back(call);
      if (call == "AuxiliaryLabels" && Asked() == lower_at_question_) {
        EXPECT_TRUE(label->LowerDisclosure().ok());
      }
      stop_wanted = stop_wanted || call == stop_at_ || (call == "AuxiliaryLabels" && Asked() == stop_at_question_);
    };
    NonLabelSessionOptions options = run_.NonLabelOptions(&peer);
    options.stop = [] { return stop_wanted.load(); };
    absl::Status status = NonLabelSession(std::move(options)).Run();
    completed_ = label->completed();
    return status;
  }

  int64_t Asked() const { return std::count(calls_.begin(), calls_.end(), "AuxiliaryLabels"); }

  // Changes the answer from the second question on.
  void ExpectChangeRefused(const std::function<void(v1::AuxiliaryLabelsResponse&)>& change) {
    calls_.clear();
    ExpectRefusal(
        [this, change](v1::AuxiliaryLabelsResponse& response) {
          if (Asked() > 1) {
            change(response);
          }
        },
        "answered the same question differently");
    EXPECT_EQ(Asked(), 2);
    EXPECT_EQ(calls_.back(), "Close early");
  }

  // As the label party has recorded it; -1 where it has not.
  double Auc(const std::string& attack) const {
    const std::string value =
        LedgerValue(run_.files.File("label_party.db"), "SELECT auc FROM epoch_leak WHERE attack = '" + attack + "'");
    return value.empty() ? -1 : std::stod(value);
  }

  void ExpectRefusal(std::function<void(v1::AuxiliaryLabelsResponse&)> alter, const std::string& text) {
    alter_ = std::move(alter);
    const absl::Status status = Run();
    EXPECT_EQ(ExitCodeFor(status), ExitCode::kRefused) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("auxiliary labels"));
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_FALSE(completed_);
  }

  SmallRun run_;
  std::function<void(v1::AuxiliaryLabelsResponse&)> alter_;
  std::vector<std::string> calls_;  // As the session made them.
  bool completed_ = false;          // As the label party saw the run.
  std::string stop_at_ = "never";
  int64_t stop_at_question_ = 0;   // For the labels, from 1 on.
  int64_t lower_at_question_ = 0;  // When the label party's operator lowers the disclosure.
};

class ManyExamplesTest : public CompletionAttackRunnerTest {
 protected:
  ManyExamplesTest() : CompletionAttackRunnerTest(1600) {}
};

TEST_F(ManyExamplesTest, BothAttacksAreScoredByTheLabelParty) {
  run_.agreement.set_epochs(20);
  run_.agreement.mutable_audit()->set_auxiliary_labels(384);
  run_.nonlabel_config.mutable_party()->mutable_optimizer()->set_learning_rate(0.01);
  run_.label_config.mutable_party()->mutable_optimizer()->set_learning_rate(0.01);
  const absl::Status status = Run();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(completed_);
  // Which examples are disclosed is drawn in secret: over 150 draws once below 0.75 and never below 0.55.
  EXPECT_GT(Auc("model_completion"), 0.7);
  EXPECT_GT(Auc("features_only"), 0.55);
  EXPECT_EQ(
      LedgerValue(run_.files.File("nonlabel_party.db"), "SELECT detail FROM event WHERE kind = 'auxiliary_labels'"),
      "completed the bottom model with 384 labels");
}

TEST_F(CompletionAttackRunnerTest, NothingIsAskedWhereNothingIsAgreed) {
  run_.agreement.mutable_audit()->set_auxiliary_labels(0);
  ASSERT_TRUE(Run().ok());
  EXPECT_THAT(calls_, Not(Contains("AuxiliaryLabels")));
  EXPECT_EQ(Auc("model_completion"), -1);
}

TEST_F(CompletionAttackRunnerTest, LabelsThatAreWithheldAreDoneWithoutAndTheRunCompletes) {
  lower_at_question_ = 1;
  const absl::Status status = Run();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(completed_);
  EXPECT_EQ(Asked(), 1);
  EXPECT_THAT(calls_, Not(Contains("ScoreExamples")));
  EXPECT_EQ(Auc("model_completion"), -1);
  EXPECT_EQ(
      LedgerValue(run_.files.File("nonlabel_party.db"), "SELECT detail FROM event WHERE kind = 'disclosure_lowered'"),
      "attack module reads once it is trained: LABEL_SIDE_ONLY; agreed: ORACLE");
}

TEST_F(CompletionAttackRunnerTest, LabelsThatHaveComeAreUsedToTheEnd) {
  lower_at_question_ = 2;
  const absl::Status status = Run();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_NE(Auc("features_only"), -1);
}

TEST_F(CompletionAttackRunnerTest, AStopInBetweenEndsTheRun) {
  stop_at_ = "AuxiliaryLabels";
  EXPECT_EQ(ExitCodeFor(Run()), ExitCode::kStopped);
  EXPECT_EQ(calls_.back(), "Close early");
  EXPECT_FALSE(completed_);
  EXPECT_EQ(Auc("model_completion"), -1);
}

TEST_F(CompletionAttackRunnerTest, TheLabelPartyHearsOfItWhileTrainingGoesOn) {
  run_.agreement.mutable_audit()->set_auxiliary_labels(256);  // 8 steps a pass: 40 to complete, 400 from scratch.
  run_.agreement.set_batch_size(320);                         // All training examples in one chunk of scores.
  ASSERT_TRUE(Run().ok());
  std::vector<std::string> expected = {"AuxiliaryLabels", "AuxiliaryLabels", "ScoreExamples"};
  expected.insert(expected.end(), 4, "AuxiliaryLabels");                 // Every 100 steps.
  expected.insert(expected.end(), {"ScoreExamples", "Close", "Close"});  // The last says goodbye.
  const auto first = std::find(calls_.begin(), calls_.end(), "AuxiliaryLabels");
  EXPECT_EQ(std::vector<std::string>(first, calls_.end()), expected);
}

TEST_F(CompletionAttackRunnerTest, AStopInTheMiddleOfATrainingEndsTheRun) {
  run_.agreement.mutable_audit()->set_auxiliary_labels(256);
  stop_at_question_ = 4;  // Of 6: the training from scratch is half done.
  EXPECT_EQ(ExitCodeFor(Run()), ExitCode::kStopped);
  EXPECT_EQ(Asked(), 4);
  EXPECT_EQ(calls_.back(), "Close early");
  EXPECT_EQ(Auc("features_only"), -1);
}

TEST_F(CompletionAttackRunnerTest, RefusesAnAnswerThatChanges) {
  ExpectChangeRefused([](v1::AuxiliaryLabelsResponse& response) { (*response.mutable_labels())[3] ^= 1; });
  ExpectChangeRefused([](v1::AuxiliaryLabelsResponse& response) { response.mutable_positions()->SwapElements(2, 3); });
  ExpectChangeRefused([](v1::AuxiliaryLabelsResponse& response) { response.mutable_positions()->RemoveLast(); });
  ExpectChangeRefused([](v1::AuxiliaryLabelsResponse& response) { response.Clear(); });
}

TEST_F(CompletionAttackRunnerTest, RefusesMoreLabelsThanAgreed) {
  ExpectRefusal(
      [](v1::AuxiliaryLabelsResponse& response) {
        response.add_positions(1 << 20);
        response.mutable_labels()->push_back(1);
      },
      "expected 1 to 32, found 33");
}

TEST_F(CompletionAttackRunnerTest, RefusesLabelsOfNobody) {
  ExpectRefusal([](v1::AuxiliaryLabelsResponse& response) { response.clear_positions(); }, "expected 1 to 32, found 0");
}

TEST_F(CompletionAttackRunnerTest, RefusesAnotherNumberOfLabelsThanOfPositions) {
  ExpectRefusal([](v1::AuxiliaryLabelsResponse& response) { response.mutable_labels()->pop_back(); },
                "expected 32 labels, found 31");
}

TEST_F(CompletionAttackRunnerTest, RefusesALabelThatIsNone) {
  ExpectRefusal([](v1::AuxiliaryLabelsResponse& response) { (*response.mutable_labels())[3] = 2; },
                "a label is neither 0 nor 1");
}

TEST_F(CompletionAttackRunnerTest, RefusesAPositionTwice) {
  ExpectRefusal([](v1::AuxiliaryLabelsResponse& response) { response.set_positions(1, response.positions(0)); },
                "the positions must ascend strictly");
}

TEST_F(CompletionAttackRunnerTest, RefusesPositionsOutOfOrder) {
  ExpectRefusal([](v1::AuxiliaryLabelsResponse& response) { response.mutable_positions()->SwapElements(2, 3); },
                "the positions must ascend strictly");
}

TEST_F(CompletionAttackRunnerTest, RefusesAPositionOutsideTheTrainingExamples) {
  ExpectRefusal([](v1::AuxiliaryLabelsResponse& response) { response.set_positions(31, 1 << 20); },
                "a position is not that of a training example");
}

}  // namespace
}  // namespace splitveil::testing
