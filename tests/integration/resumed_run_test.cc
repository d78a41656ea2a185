// Whole runs of both sessions through memory: continuing from both parties' checkpoints, predicting first, stopping
// early.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "common/evaluation/evaluation.h"
#include "common/process/exit_code.h"
#include "common/schedule/train_test_split.h"
#include "tests/testing/local_label_party.h"
#include "tests/testing/small_run.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kExamples = 300;

class ResumedRunTest : public ::testing::Test {
 protected:
  ResumedRunTest() : run_(kExamples) {}

  absl::Status Run() {
    absl::StatusOr<std::unique_ptr<LabelSession>> label = LabelSession::Create(run_.LabelOptions());
    EXPECT_TRUE(label.ok()) << label.status();
    label_ = *std::move(label);
    LocalLabelParty peer(label_.get());
    nonlabel_ = std::make_unique<NonLabelSession>(run_.NonLabelOptions(&peer));
    absl::Status status = nonlabel_->Run();
    label_status_ = label_->WaitUntilEnded([] { return false; });
    return status;
  }

  void LeaveCheckpoints() {
    run_.label_checkpoints.path = label_path_;
    run_.nonlabel_checkpoints.path = nonlabel_path_;
  }
  void RestoreMoments() {
    run_.label_checkpoints.initial = {*Checkpoint::Open(label_path_)};
    run_.nonlabel_checkpoints.initial = {*Checkpoint::Open(nonlabel_path_)};
  }

  std::string Label(const std::string& query) const { return LedgerValue(run_.files.File("label_party.db"), query); }
  std::string NonLabel(const std::string& query) const {
    return LedgerValue(run_.files.File("nonlabel_party.db"), query);
  }

  // What the trained halves say of all common examples, or of the test part, apart from any session.
  Evaluation OwnPredictions(bool only_test = false) {
    const SplitRule rule(run_.agreement);
    std::vector<uint32_t> rows;
    std::vector<uint8_t> labels;
    for (uint32_t i = 0; i < kExamples; ++i) {  // The first rows of both parties, in the same order.
      EXPECT_EQ(run_.label_data.ids[i], run_.nonlabel_data.ids[i]);
      if (!only_test || rule.IsTest(run_.label_data.ids[i])) {
        rows.push_back(i);
        labels.push_back(static_cast<uint8_t>(run_.label_data.labels[i]));
      }
    }
    const std::shared_ptr<const Dataset> own = run_.LabelDataset();
    TopModelOptions options;
    options.spec = run_.label_config.model();
    options.optimizer = run_.label_config.party().optimizer();
    options.features = own->features();
    options.cut_width = run_.agreement.cut_width();
    const std::unique_ptr<TopModel> top = *TopModel::Create(options);
    EXPECT_TRUE(top->SetParameters(label_->model()->Parameters()).ok());
    const Matrix activations = *nonlabel_->model()->Predict(run_.NonLabelDataset()->Gather(rows));
    return *Evaluate(*top->Predict(activations, own->Gather(rows)), labels);
  }

  static double Number(const std::string& text) {
    double number = -1;
    EXPECT_TRUE(absl::SimpleAtod(text, &number)) << text;
    return number;
  }

  SmallRun run_;
  const std::string label_path_ = run_.files.File("label.checkpoint");
  const std::string nonlabel_path_ = run_.files.File("nonlabel.checkpoint");
  std::unique_ptr<LabelSession> label_;
  std::unique_ptr<NonLabelSession> nonlabel_;
  absl::Status label_status_;
};

TEST_F(ResumedRunTest, PredictsTheNextDayAsTheModelOfTheDayBeforeDoes) {
  run_.agreement.set_test_fraction(0);
  LeaveCheckpoints();
  ASSERT_TRUE(Run().ok());
  const Evaluation expected = OwnPredictions();
  EXPECT_EQ(Label("SELECT count(*) FROM evaluation"), "0");
  RestoreMoments();
  run_.agreement.set_progressive_validation(true);
  const absl::Status status = Run();
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_TRUE(label_status_.ok()) << label_status_;
  EXPECT_EQ(Label("SELECT count(*) FROM evaluation"), "1");
  EXPECT_NEAR(Number(Label("SELECT auc FROM evaluation WHERE step = 0 AND split = 'test'")), expected.auc, 1e-6);
  EXPECT_NEAR(Number(Label("SELECT log_loss FROM evaluation WHERE step = 0")), expected.log_loss, 1e-5);
  // All are trained on: 300 examples in batches of 64, the rest of 44 being one of its own.
  EXPECT_EQ(Label("SELECT sum(examples) FROM step WHERE epoch = 0 AND run_id = (SELECT max(run_id) FROM run)"), "300");
  EXPECT_NE(OwnPredictions().log_loss, expected.log_loss);
}

TEST_F(ResumedRunTest, PredictsWithFreshWeightsOnTheFirstDay) {
  run_.agreement.set_test_fraction(0);
  run_.agreement.set_progressive_validation(true);
  ASSERT_TRUE(Run().ok());
  EXPECT_EQ(Label("SELECT step FROM evaluation"), "0");
  EXPECT_THAT(ResultJson(*label_->figures()), HasSubstr("\"best_epoch\":0"));
}

TEST_F(ResumedRunTest, BothLedgersNameTheRunThatIsContinued) {
  LeaveCheckpoints();
  ASSERT_TRUE(Run().ok());
  const std::string first = Label("SELECT run_id FROM run");
  RestoreMoments();
  ASSERT_TRUE(Run().ok());
  const std::string query = "SELECT resumed_from FROM run WHERE run_id != '" + first + "'";
  EXPECT_EQ(Label(query), first);
  EXPECT_EQ(NonLabel(query), first);
  EXPECT_EQ(NonLabel("SELECT detail FROM event WHERE kind = 'resumed_from'"), first + "/2");
  // Of each run: aligned, after either epoch, and the non-label party's at the end.
  EXPECT_EQ(Label("SELECT count(*) FROM event WHERE kind = 'checkpoint'"), "6");
  EXPECT_EQ(NonLabel("SELECT count(*) FROM event WHERE kind = 'checkpoint'"), "8");
}

TEST_F(ResumedRunTest, EachPartyAloneIsRefusedByBoth) {
  LeaveCheckpoints();
  ASSERT_TRUE(Run().ok());
  for (CheckpointPlan* fresh : {&run_.label_checkpoints, &run_.nonlabel_checkpoints}) {
    RestoreMoments();
    fresh->initial.clear();
    const absl::Status status = Run();
    EXPECT_EQ(ExitCodeFor(status), ExitCode::kRefused) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("starts from a checkpoint: both must, or neither"));
    EXPECT_EQ(ExitCodeFor(label_status_), ExitCode::kRefused) << label_status_;
  }
}

// A crash between the two files: the label party has written its checkpoint of the second epoch, the other not.
TEST_F(ResumedRunTest, PartiesThatACrashLeftOneEpochApartMeetAtTheEarlier) {
  run_.agreement.set_epochs(1);
  LeaveCheckpoints();
  ASSERT_TRUE(Run().ok());
  const std::shared_ptr<const Checkpoint> nonlabel_first = *Checkpoint::Open(nonlabel_path_);
  const NamedParameters label_first = *(*Checkpoint::Open(label_path_))->State();
  RestoreMoments();
  ASSERT_TRUE(Run().ok());
  run_.label_checkpoints.initial = {*Checkpoint::Open(label_path_), *Checkpoint::Open(label_path_ + ".2")};
  run_.nonlabel_checkpoints.initial = {nonlabel_first};
  EXPECT_EQ(*run_.label_checkpoints.initial[1]->State(), label_first);
  const absl::Status status = Run();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(ResumedRunTest, StopsEarlyOnBothSides) {
  run_.agreement.set_epochs(9);
  run_.label_config.mutable_early_stopping()->set_patience(2);
  run_.label_config.mutable_early_stopping()->set_min_delta(1);  // Nothing improves as much.
  LeaveCheckpoints();
  const absl::Status status = Run();
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(label_->completed());
  EXPECT_THAT(ResultJson(*label_->figures()), HasSubstr("\"epochs\":3,"));
  EXPECT_EQ(Label("SELECT max(epoch) FROM step"), "2");
  for (const std::string& detail : {Label("SELECT detail FROM event WHERE kind = 'early_stopping'"),
                                    NonLabel("SELECT detail FROM event WHERE kind = 'early_stopping'")}) {
    EXPECT_THAT(detail, HasSubstr("after epoch 3"));
  }
  EXPECT_THAT(NonLabel("SELECT detail FROM event WHERE kind = 'early_stopping'"), ::testing::Not(HasSubstr("AUC")));
  EXPECT_EQ(NonLabel("SELECT status FROM run"), "completed");
  EXPECT_EQ((*Checkpoint::Open(nonlabel_path_))->header().epochs(), 3);  // As many were trained.
  EXPECT_EQ((*Checkpoint::Open(label_path_))->header().epochs(), 3);
}

// What the halves say at the end is what was measured in the best epoch.
TEST_F(ResumedRunTest, KeepsTheWeightsOfTheBestEpochAtBothParties) {
  run_.agreement.set_epochs(100);
  run_.label_config.mutable_early_stopping()->set_patience(1);  // The last is the one after the best.
  for (v1::PartyCommon* party : {run_.label_config.mutable_party(), run_.nonlabel_config.mutable_party()}) {
    party->mutable_optimizer()->set_learning_rate(0.5);  // Up and down.
  }
  LeaveCheckpoints();
  ASSERT_TRUE(Run().ok());
  const int best =
      std::stoi(Label("SELECT count(*) FROM evaluation WHERE split = 'test' AND step <= "
                      "(SELECT step FROM evaluation ORDER BY auc DESC, step LIMIT 1)"));
  const int last = std::stoi(Label("SELECT count(*) FROM evaluation WHERE split = 'test'"));
  ASSERT_EQ(last, best + 1);
  EXPECT_THAT(ResultJson(*label_->figures()), HasSubstr(absl::StrCat("\"best_epoch\":", best, ",")));
  EXPECT_EQ(NonLabel("SELECT detail FROM event WHERE kind = 'kept' ORDER BY rowid DESC LIMIT 1"),
            absl::StrCat("the weights of epoch ", best, " so far"));
  const Evaluation kept = OwnPredictions(/*only_test=*/true);
  EXPECT_NEAR(kept.auc, Number(Label("SELECT max(auc) FROM evaluation")), 1e-6);
  EXPECT_NEAR(kept.log_loss, Number(Label("SELECT log_loss FROM evaluation ORDER BY auc DESC, step LIMIT 1")), 1e-5);
  for (const std::string& path : {label_path_, nonlabel_path_}) {
    const std::unique_ptr<Checkpoint> checkpoint = *Checkpoint::Open(path);
    EXPECT_EQ(checkpoint->header().kept_epochs(), best);
    EXPECT_TRUE(checkpoint->header().kept().empty());
    EXPECT_EQ(checkpoint->header().epochs(), last);
    EXPECT_EQ(*checkpoint->State(),
              path == label_path_ ? label_->model()->TrainingState() : nonlabel_->model()->TrainingState());
  }
}

TEST_F(ResumedRunTest, KeepsTheLastEpochWhereItIsToldTo) {
  run_.agreement.set_epochs(7);
  for (v1::PartyCommon* party : {run_.label_config.mutable_party(), run_.nonlabel_config.mutable_party()}) {
    party->mutable_optimizer()->set_learning_rate(0.5);
  }
  run_.label_config.set_keep(v1::LabelPartyConfig::LAST);
  LeaveCheckpoints();
  ASSERT_TRUE(Run().ok());
  EXPECT_THAT(ResultJson(*label_->figures()), HasSubstr("\"best_epoch\":7,\"best_epoch_chosen_on\":\"last\""));
  EXPECT_EQ(Label("SELECT group_concat(kept) FROM evaluation"), "last,last,last,last,last,last,last");
  EXPECT_EQ(NonLabel("SELECT count(*) FROM event WHERE kind = 'kept'"), "0");
}

}  // namespace
}  // namespace splitveil::testing
