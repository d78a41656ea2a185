// What a peer gets that breaks a run off on purpose, and takes it up again. Each test names the claim that is attacked.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <torch/script.h>
#include <torch/torch.h>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/checkpoint/checkpoint.h"
#include "common/checkpoint/release_journal.h"
#include "common/operations/run_facts.h"
#include "common/process/exit_code.h"
#include "tests/unit/common/model/torchscript_fixtures.h"
#include "tests/unit/label_party/session/label_session_life_fixture.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class InterruptedAttacksTest : public LabelSessionLifeTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(run_.label_checkpoints.UseData(*run_.LabelDataset(), run_.agreement).ok());
    run_.agreement.mutable_audit()->set_disclosure(v1::LABEL_SIDE_ONLY);
    run_.label_config.mutable_party()->set_reproducible_seed(0);  // As in production.
    run_.label_checkpoints.path = path_;
  }

  // As RunLabelParty between two parts of a run: finds what is there.
  void FindUnfinished() {
    run_.label_checkpoints.unfinished.clear();
    for (const char* suffix : {"", ".1", ".2"}) {
      if (absl::StatusOr<std::unique_ptr<Checkpoint>> found = Checkpoint::Open(path_ + suffix); found.ok()) {
        run_.label_checkpoints.unfinished.push_back(*std::move(found));
      }
    }
  }

  static std::string Bytes(const SharedGradients& answer) {
    std::string bytes;
    for (const auto& message : answer) {
      bytes += message->frozen() ? "frozen" : message->gradients().data();
    }
    return bytes;
  }

  // Opens as a peer that shows `unfinished`.
  absl::StatusOr<v1::OpenResponse> OpenShowing(std::vector<std::string> unfinished) {
    unfinished_ = std::move(unfinished);
    absl::StatusOr<v1::OpenResponse> response = session_->Open(OpenRequest());
    if (response.ok()) {
      run_id_ = response->run_id();
      commitment_ = response->seed_commitment();
    }
    return response;
  }

  // Goes on from the checkpoint of this name.
  absl::Status GoOnFrom(const std::string& name) {
    session_.reset();
    FindUnfinished();
    Create();
    const absl::StatusOr<v1::OpenResponse> opened = OpenShowing({name});
    if (!opened.ok()) {
      return opened.status();
    }
    EXPECT_EQ(opened->continued(), name);
    return session_->Start(StartRequest()).status();
  }

  // As another process of the peer's would have.
  void AnotherSeed() {
    seed_ = std::make_unique<SeedExchange>(*SeedExchange::Create(SeedRole::kNonLabelParty, std::string(32, 't')));
  }

  // A new run with the weights of the first checkpoint.
  void ResumeAgain() {
    continues_ = run_id_ + "/0";
    session_.reset();
    ResumeFrom(path_);
    run_.label_checkpoints.unfinished.clear();
    run_.label_config.mutable_party()->set_restart(true);
    Start();
  }

  double ReportedBound() const {
    return nlohmann::json::parse(FullResultJson(*session_->figures())).at("all_runs_auc_bound").get<double>();
  }

  std::string TrainOne(uint32_t epoch, uint32_t batch, float scale = 1) {
    const absl::StatusOr<SharedGradients> answer = session_->Train(Activations(epoch, batch, scale));
    if (!answer.ok()) {
      return std::string("refused: ") + std::string(answer.status().message());
    }
    EXPECT_TRUE(session_->Learn().ok());
    return Bytes(*answer);
  }
};

// Control: rule 2, the built-in layers.
TEST_F(InterruptedAttacksTest, TheSameActivationsGetTheSameBytesOfBuiltInLayers) {
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  Start();
  const std::string run = run_id_;
  TrainAndEvaluate(0);
  const std::string first = TrainOne(1, 0);
  only_continues_ = true;
  for (int again = 0; again < 3; ++again) {
    ASSERT_TRUE(GoOnFrom(run + "/1").ok());
    EXPECT_EQ(TrainOne(1, 0), first);
  }
  EXPECT_THAT(TrainOne(1, 0, 1.0001F), HasSubstr("refused"));
}

// Rule 2: "the same activations get the same bytes". A module with Dropout draws from a seed that no checkpoint keeps.
TEST_F(InterruptedAttacksTest, TheSameActivationsGetTheSameBytesOfAModuleWithDropout) {
  torch::manual_seed(1);
  const torch::jit::Module module =
      MakeScript("Top", {{"w", torch::randn({16, 10})}, {"v", torch::randn({1, 16})}}, {},
                 "def forward(self, z, x, c):\n  y = torch.relu(torch.linear(torch.cat([z, x], 1), self.w))\n"
                 "  return torch.linear(torch.dropout(y, 0.1, self.training), self.v) + 0 * c.sum()");
  const std::string file = run_.files.File("top.pt");
  module.save(file);
  run_.label_config.mutable_model()->Clear();
  run_.label_config.mutable_model()->set_torchscript_path(file);
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  Start();
  const std::string run = run_id_;
  TrainAndEvaluate(0);
  std::set<std::string> answers = {TrainOne(1, 0)};
  only_continues_ = true;
  for (int again = 0; again < 5; ++again) {
    ASSERT_TRUE(GoOnFrom(run + "/1").ok());
    answers.insert(TrainOne(1, 0));
  }
  EXPECT_EQ(answers.size(), 1) << "independent draws of noise on the gradients of the same batch";
}

// Rule 2: a step that was answered is never answered for other activations, nor are its scores twice. A new run in
// between, which the peer gets of a label party whose operator lets it restart, knows nothing of what was answered.
TEST_F(InterruptedAttacksTest, AfterANewRunInBetweenTheOldOneDoesNotGoOn) {
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  Start();
  const std::string run = run_id_;
  TrainAndEvaluate(0);
  TrainOne(1, 0);
  session_.reset();
  // The label party is started again, by its operator.
  run_.label_checkpoints.unfinished.clear();
  run_.label_config.mutable_party()->set_restart(true);
  Create();
  ASSERT_TRUE(OpenShowing({}).ok());  // "I have none": a new run, which ends at once.
  EXPECT_NE(run_id_, run);
  AnotherSeed();
  EXPECT_EQ(OpenShowing({}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(session_->peer_started_again());
  only_continues_ = true;  // As RunLabelParty.
  run_.label_config.mutable_party()->clear_restart();
  EXPECT_THAT(std::string(GoOnFrom(run + "/1").message()), HasSubstr("no checkpoint of it in common"));
}

// FREEZE_BOTTOM: "No gradient leaves for the rest of the run." Frozen or not tells of labels: one answer to that, too.
TEST_F(InterruptedAttacksTest, AFreezeIsNotUndoneNorAskedForOtherActivations) {
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  run_.label_config.mutable_release()->set_max_measured_leak(0.5001);
  run_.label_config.mutable_release()->set_action(v1::FREEZE_BOTTOM);
  Start();
  const std::string run = run_id_;
  ASSERT_EQ(TrainOne(0, 0), "frozen");
  only_continues_ = true;
  for (const float scale : {-1.F, 3.F, 1000.F}) {
    ASSERT_TRUE(GoOnFrom(run + "/0").ok());
    EXPECT_THAT(TrainOne(0, 0, scale), StartsWith("refused: activations")) << scale;
  }
  ASSERT_TRUE(GoOnFrom(run + "/0").ok());
  EXPECT_EQ(TrainOne(0, 0), "frozen");
  EXPECT_EQ(TrainOne(0, 1), "frozen");
}

TEST_F(InterruptedAttacksTest, AHaltIsNotAskedForOtherActivations) {
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  run_.label_config.mutable_release()->set_max_measured_leak(0.5001);
  run_.label_config.mutable_release()->set_action(v1::HALT);
  Start();
  const std::string run = run_id_;
  ASSERT_EQ(TrainOne(0, 0), "refused: release gate: halted the run");
  ASSERT_TRUE(GoOnFrom(run + "/0").ok());
  EXPECT_THAT(TrainOne(0, 0, -1), StartsWith("refused: activations"));
}

// Whatever the cause: another machine, another noise key, or as here another clipping.
TEST_F(InterruptedAttacksTest, AStepThatWasAnsweredGetsNoOtherBytes) {
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  Start();
  const std::string run = run_id_;
  TrainOne(0, 0);
  run_.label_config.set_clip_cut_gradients(1e-6);
  ASSERT_TRUE(GoOnFrom(run + "/0").ok());
  EXPECT_EQ(TrainOne(0, 0), "refused: the label party failed; its own log says why");
  const absl::Status outcome = session_->WaitUntilEnded([] { return false; });
  EXPECT_EQ(ExitCodeFor(outcome), ExitCode::kInvalidInput);
  EXPECT_THAT(std::string(outcome.message()), HasSubstr("the answer to epoch 0 batch 0 differs"));
}

TEST_F(InterruptedAttacksTest, ARunGoesOnFromOneCheckpointAHundredTimes) {
  Start();
  const std::string run = run_id_;
  only_continues_ = true;
  for (int64_t again = 0; again < kMaxTakeUps; ++again) {
    ASSERT_TRUE(GoOnFrom(run + "/0").ok());
  }
  const absl::Status status = GoOnFrom(run + "/0");
  EXPECT_EQ(ExitCodeFor(status), ExitCode::kRefused) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("100 times, at most 100 are allowed"));
  EXPECT_EQ(ExitCodeFor(session_->WaitUntilEnded([] { return false; })), ExitCode::kRefused);
}

// Rule 6: the account that a new run carries over counts what left after the checkpoint.
TEST_F(InterruptedAttacksTest, ARunThatResumesFromABrokenOneCountsWhatLeftAfterItsCheckpoint) {
  run_.label_config.mutable_protection()->mutable_marvell()->set_s(4);
  Start();
  TrainEpoch(0);  // Every example has been released; the evaluation, after which a checkpoint is due, never comes.
  const double released = ReportedBound();
  ASSERT_GT(released, 0.5);
  ResumeAgain();
  EXPECT_EQ(ReportedBound(), released);
}

TEST_F(InterruptedAttacksTest, OfARunWhoseJournalIsGoneNobodyKnowsWhatLeft) {
  run_.label_config.mutable_protection()->mutable_marvell()->set_s(4);
  Start();
  TrainOne(0, 0);
  ASSERT_TRUE(std::filesystem::remove(ReleaseJournal::PathOf(path_, run_id_)));
  ResumeAgain();
  EXPECT_EQ(ReportedBound(), 1);
}

TEST_F(InterruptedAttacksTest, WhatLeftUnprotectedCountsInTheRunThatResumes) {
  Start();
  TrainOne(0, 0);
  run_.label_config.mutable_protection()->mutable_marvell()->set_s(4);
  ResumeAgain();
  EXPECT_EQ(ReportedBound(), 1);
}

// PeerPresence: the first 100 of a run.
TEST_F(InterruptedAttacksTest, TheLedgerHoldsAHundredInterruptionsOfARunHoweverOftenItIsInterrupted) {
  Start();
  const std::string run = run_id_;
  for (int again = 0; again < 3; ++again) {
    for (int i = 0; i < 60; ++i) {
      session_->ConnectionLost();
      TrainOne(0, 0);  // Heard.
    }
    ASSERT_TRUE(GoOnFrom(run + "/0").ok());
  }
  session_.reset();
  EXPECT_EQ(LedgerValue(run_.files.File("label_party.db"), "SELECT count(*) FROM event WHERE kind = 'interrupted'"),
            "100");
}

// RefusalLog: the first 100 of a run.
TEST_F(InterruptedAttacksTest, TheLedgerHoldsAHundredRefusalsOfARunHoweverOftenItIsInterrupted) {
  Start();
  const std::string run = run_id_;
  only_continues_ = true;
  for (int again = 0; again < 3; ++again) {
    for (int i = 0; i < 150; ++i) {
      session_->NoteRefusal("Train", absl::InvalidArgumentError("nonsense"));
    }
    ASSERT_TRUE(GoOnFrom(run + "/0").ok());
  }
  session_.reset();
  EXPECT_EQ(LedgerValue(run_.files.File("label_party.db"), "SELECT count(*) FROM event WHERE kind = 'refused'"), "100");
}

// The peer learns once per epoch whether the labels of the test examples say to stop.
TEST_F(InterruptedAttacksTest, AnEvaluationIsAnsweredForTheSameActivationsAlone) {
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  run_.label_config.mutable_early_stopping()->set_patience(1);
  run_.agreement.set_epochs(4);
  Start();
  const std::string run = run_id_;
  TrainAndEvaluate(0);
  only_continues_ = true;
  std::vector<bool> bits;
  for (int again = 0; again < 8; ++again) {
    TrainEpoch(1);
    LabelSession::Evaluation evaluation;
    const int64_t batch_size = run_.agreement.batch_size();
    bool refused = false;
    for (int64_t done = 0; done < test_examples_; done += batch_size) {
      const int64_t rows = std::min(batch_size, test_examples_ - done);
      refused =
          refused ||
          !session_
               ->Evaluate(ActivationsOf(1, evaluation.next_batch, rows, static_cast<float>(again * 7 - 20)), evaluation)
               .ok();
    }
    const absl::StatusOr<v1::EvaluateResponse> response = session_->FinishEvaluation(evaluation);
    if (refused || !response.ok()) {
      break;
    }
    bits.push_back(response->stop_training());
    if (!GoOnFrom(run + "/1").ok()) {
      break;
    }
  }
  EXPECT_EQ(bits.size(), 1) << ::testing::PrintToString(bits);
}

// A peer's new process that asks again while the run it has interrupted is still being finished, which may take long,
// must be told to come back, as at first: FailedPrecondition is a refusal to it, exit 4.
TEST_F(InterruptedAttacksTest, APeerThatAsksAgainBeforeTheServerIsReadyIsToldToComeBack) {
  Start();
  AnotherSeed();
  EXPECT_EQ(OpenShowing({run_id_ + "/0"}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(OpenShowing({run_id_ + "/0"}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(session_->WaitUntilEnded([] { return false; }).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(OpenShowing({run_id_ + "/0"}).status().code(), absl::StatusCode::kUnavailable);
}

// Every repeated step of every method gets its bytes, also after batches of one class.
class RepeatedStepsTest : public InterruptedAttacksTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(RepeatedStepsTest, GetTheSameBytes) {
  ASSERT_TRUE(google::protobuf::TextFormat::MergeFromString(GetParam(), &run_.label_config));
  run_.agreement.set_batch_size(6);
  run_.agreement.set_minimum_batch_size(3);
  run_.agreement.set_checkpoint_steps(1);
  Start();
  only_continues_ = true;
  std::map<std::pair<uint32_t, uint32_t>, std::string> answers;
  const auto batches = static_cast<uint32_t>(schedule_->batches_per_epoch());
  for (uint32_t step = 0; step < 2 * batches; ++step) {
    const uint32_t epoch = step / batches, batch = step % batches;
    answers[{epoch, batch}] = TrainOne(epoch, batch);
    ASSERT_THAT((answers[{epoch, batch}]), Not(StartsWith("refused")));
    if (batch + 1 == batches) {
      ASSERT_TRUE(session_->FinishEvaluation(EvaluateAll(epoch)).ok());
    }
    if (step % 3 == 2 && step + 1 < 2 * batches) {
      session_.reset();
      FindUnfinished();
      const auto& places = run_.label_checkpoints.unfinished;
      const std::shared_ptr<const Checkpoint> from = places[(step / 3) % places.size()];
      ASSERT_TRUE(GoOnFrom(from->name()).ok());
      step = from->header().epochs() * batches + from->header().batches();
      for (; step / batches < 2 && answers.count({step / batches, step % batches}) > 0; ++step) {
        const std::string again = TrainOne(step / batches, step % batches);
        ASSERT_TRUE(again == (answers[{step / batches, step % batches}])) << step << " " << again.substr(0, 200);
        if (step % batches + 1 == batches) {
          ASSERT_TRUE(session_->FinishEvaluation(EvaluateAll(step / batches)).ok());
        }
      }
      --step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Methods, RepeatedStepsTest,
    ::testing::Values("protection { marvell { s: 4 } }", "protection { marvell { s: 4 orthogonal_noise_ratio: 4 } }",
                      "protection { marvell { run_budget { planned_epochs: 1 when_spent: RAISE_NOISE } } }",
                      "protection { max_norm {} }", "protection { iso { t: 1 } }",
                      "protection { sparsify { keep: 0.3 } }", "protection { discretize { bins: 8 } }",
                      "protection { label_dp { epsilon: 1 } }",
                      "protection { iso { t: 1 } distance_correlation { weight: 0.1 } } clip_cut_gradients: 0.01",
                      "protection { marvell { s: 1 } } release { max_measured_leak: 0.9 action: RAISE_NOISE }",
                      "protection { marvell { sum_kl: 0.5 orthogonal_noise_ratio: 2 } } release { "
                      "max_worst_case_auc_bound: 0.8 action: RAISE_NOISE }"));

}  // namespace
}  // namespace splitveil::testing
