// What a peer gets that breaks a run off on purpose. Each test states the claim that is attacked.
#include <algorithm>
#include <array>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <set>
#include <string>
#include <limits>
#include <map>
#include <torch/script.h>
#include <torch/torch.h>
#include <thread>
#include <vector>

#include "absl/strings/match.h"

#include "google/protobuf/text_format.h"

#include "common/checkpoint/checkpoint_plan.h"
#include "common/checkpoint/progress_archive.h"
#include "common/process/exit_code.h"
#include "label_party/audit/mu_audit.h"
#include "label_party/protection/protection_factory.h"
#include "label_party/protection/run_budget.h"
#include "label_party/session/answer_journal.h"
#include "tests/unit/common/model/torchscript_fixtures.h"
#include "tests/unit/label_party/session/label_session_life_fixture.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {
namespace {

class BrokenOffAttacksTest : public LabelSessionLifeTest {
 protected:
  void SetUp() override {
    ASSERT_TRUE(run_.label_checkpoints.UseData(*run_.LabelDataset(), run_.agreement).ok());
    run_.agreement.mutable_audit()->set_disclosure(v1::LABEL_SIDE_ONLY);
    run_.label_config.mutable_party()->set_reproducible_seed(0);  // As in production.
  }

  // A session as ServeRun makes it: one noise key for all of them, as beside the checkpoint.
  void CreateWithKeptKey() {
    LabelSessionOptions options = run_.LabelOptions();
    options.only_continues = only_continues_;
    std::array<uint8_t, 32> key = {7};
    absl::StatusOr<std::unique_ptr<SecureGaussian>> noise =
        SecureGaussian::Create(SecretKey(key), SecureGaussian::KeyLife::kManyRuns);
    FillPlannedEpochs(run_.agreement.epochs(), *run_.label_config.mutable_protection());
    absl::StatusOr<Protection> protection =
        MakeProtection(run_.label_config.protection(), *std::move(noise), nullptr, run_.label_data.task);
    ASSERT_TRUE(protection.ok()) << protection.status();
    options.protection = *std::move(protection);
    absl::StatusOr<std::unique_ptr<LabelSession>> session = LabelSession::Create(std::move(options));
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
    seed_ = std::make_unique<SeedExchange>(*SeedExchange::Create(SeedRole::kNonLabelParty, std::string(32, 's')));
  }

  // As RunLabelParty between two parts of a run: finds what is there.
  void FindUnfinished() {
    run_.label_checkpoints.path = path_;
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

  // A whole new run up to Start.
  void StartNew() {
    run_.label_checkpoints.path = path_;
    CreateWithKeptKey();
    ASSERT_TRUE(OpenShowing({}).ok());
    AlignmentChannelPair pair(64);
    absl::Status verdict;
    std::thread label([&] { verdict = session_->Align(*pair.second); });
    AlignmentOptions options;
    options.run_id = run_id_;
    const absl::StatusOr<AlignedIds> aligned = AlignIds(run_.nonlabel_data.ids, options, *pair.first);
    label.join();
    ASSERT_TRUE(verdict.ok()) << verdict;
    aligned_ = *aligned;
    const absl::StatusOr<v1::StartResponse> response = session_->Start(StartRequest());
    ASSERT_TRUE(response.ok()) << response.status();
    const absl::StatusOr<JointSeed> joint = seed_->Combine(commitment_, response->seed_reveal());
    TrainTestSplit split = SplitRule(run_.agreement.split_salt(), run_.agreement.test_fraction())
                               .Split(run_.nonlabel_data.ids, aligned_.rows);
    test_examples_ = static_cast<int64_t>(split.test.size());
    schedule_ = std::make_unique<Schedule>(*Schedule::Create(
        *joint, std::move(split.train), {run_.agreement.batch_size(), run_.agreement.minimum_batch_size()}));
  }

  // Goes on from the checkpoint of this name.
  absl::Status GoOnFrom(const std::string& name) {
    session_.reset();
    FindUnfinished();
    CreateWithKeptKey();
    const absl::StatusOr<v1::OpenResponse> opened = OpenShowing({name});
    if (!opened.ok()) {
      return opened.status();
    }
    EXPECT_EQ(opened->continued(), name);
    return session_->Start(StartRequest()).status();
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
TEST_F(BrokenOffAttacksTest, TheSameActivationsGetTheSameBytesOfBuiltInLayers) {
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  StartNew();
  const std::string run = run_id_;
  TrainAndEvaluate(0);
  const std::string first = TrainOne(1, 0);
  only_continues_ = true;
  for (int again = 0; again < 3; ++again) {
    ASSERT_TRUE(GoOnFrom(run + "/1").ok());
    EXPECT_EQ(TrainOne(1, 0), first);
  }
  EXPECT_THAT(TrainOne(1, 0, 1.0001F), ::testing::HasSubstr("refused"));
}

// Rule 2: "the same activations get the same bytes". A module with Dropout draws from a seed that no checkpoint keeps.
TEST_F(BrokenOffAttacksTest, TheSameActivationsGetTheSameBytesOfAModuleWithDropout) {
  torch::manual_seed(1);
  const torch::jit::Module module = MakeScript(
      "Top", {{"w", torch::randn({16, 10})}, {"v", torch::randn({1, 16})}}, {},
      "def forward(self, z, x, c):\n  y = torch.relu(torch.linear(torch.cat([z, x], 1), self.w))\n"
      "  return torch.linear(torch.dropout(y, 0.1, self.training), self.v) + 0 * c.sum()");
  const std::string file = run_.files.File("top.pt");
  module.save(file);
  run_.label_config.mutable_model()->Clear();
  run_.label_config.mutable_model()->set_torchscript_path(file);
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  StartNew();
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

// Rule 2: a step that was answered is never answered for other activations. A new run in between, which the peer gets
// of a label party that was started again, forgets what was answered; the old run then goes on.
TEST_F(BrokenOffAttacksTest, ANewRunInBetweenDoesNotForgetWhatWasAnswered) {
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  StartNew();
  const std::string run = run_id_;
  TrainAndEvaluate(0);
  const std::string first = TrainOne(1, 0);
  session_.reset();
  // The label party is started again, by its operator.
  FindUnfinished();
  CreateWithKeptKey();
  ASSERT_TRUE(OpenShowing({}).ok());  // "I have none": a new run, which ends at once.
  EXPECT_NE(run_id_, run);
  seed_ = std::make_unique<SeedExchange>(*SeedExchange::Create(SeedRole::kNonLabelParty, std::string(32, 't')));
  EXPECT_EQ(OpenShowing({}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(session_->peer_started_again());
  only_continues_ = true;  // As RunLabelParty.
  if (const absl::Status status = GoOnFrom(run + "/1"); !status.ok()) {
    return;  // Refused: well.
  }
  EXPECT_THAT(TrainOne(1, 0, 1.0001F), ::testing::HasSubstr("refused")) << "a second draw on nearly the same gradients";
}

// FREEZE_BOTTOM: "No gradient leaves for the rest of the run."
TEST_F(BrokenOffAttacksTest, AFreezeIsNotUndone) {
  run_.label_config.mutable_protection()->mutable_iso()->set_t(0.01);
  run_.label_config.mutable_release()->set_max_measured_leak(0.85);
  run_.label_config.mutable_release()->set_action(v1::FREEZE_BOTTOM);
  StartNew();
  const std::string run = run_id_;
  only_continues_ = true;
  std::vector<std::string> outcomes;
  for (const float scale : {1.F, -1.F, 3.F, -3.F, 10.F, -10.F, 30.F, -30.F, 100.F, -100.F, 1000.F, -1000.F}) {
    const std::string answer = TrainOne(0, 0, scale);
    outcomes.push_back(answer == "frozen" ? "frozen" : absl::StartsWith(answer, "refused") ? "refused" : "released");
    if (!GoOnFrom(run + "/0").ok()) {
      break;
    }
  }
  // Once frozen for some activations, every other attempt at the step must be refused, and before the gate has decided:
  // "frozen" or not tells of labels.
  const auto frozen = std::find(outcomes.begin(), outcomes.end(), "frozen");
  ASSERT_NE(frozen, outcomes.end()) << ::testing::PrintToString(outcomes);
  EXPECT_TRUE(std::all_of(frozen + 1, outcomes.end(), [](const std::string& outcome) {
    return outcome == "refused";
  })) << ::testing::PrintToString(outcomes);
}

// The account that a new run carries over has counted what left after the checkpoint.
TEST_F(BrokenOffAttacksTest, ARunThatResumesFromABrokenOneCountsWhatLeftAfterItsCheckpoint) {
  run_.label_config.mutable_protection()->mutable_marvell()->set_s(4);
  StartNew();
  const std::string run = run_id_;
  TrainEpoch(0);  // Every example has been released; the evaluation, after which a checkpoint is due, never comes.
  const std::string released = session_->report()->full;
  session_.reset();
  run_.label_checkpoints.path = path_;
  run_.label_checkpoints.unfinished.clear();
  run_.label_checkpoints.initial = {*Checkpoint::Open(path_)};
  continues_ = run + "/0";
  StartNew();
  continues_.clear();
  const std::string full = session_->report()->full;
  EXPECT_THAT(full, ::testing::Not(::testing::HasSubstr("\"all_runs_auc_bound\":0.5,"))) << "released: " << released.substr(0, 900);
}

// RefusalLog: the first 100 of a run.
TEST_F(BrokenOffAttacksTest, TheLedgerHoldsAHundredRefusalsOfARunHoweverOftenItIsBrokenOff) {
  StartNew();
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
TEST_F(BrokenOffAttacksTest, AnEvaluationIsAnsweredForTheSameActivationsAlone) {
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  run_.label_config.mutable_early_stopping()->set_patience(1);
  run_.agreement.set_epochs(4);
  StartNew();
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
      refused = refused || !session_->Evaluate(ActivationsOf(1, evaluation.next_batch, rows,
                                                             static_cast<float>(again * 7 - 20)), evaluation).ok();
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

// A peer's new process that asks again while the run it has broken off is still being finished, which may take long,
// must be told to come back, as at first: FailedPrecondition is a refusal to it, exit 4.
TEST_F(BrokenOffAttacksTest, APeerThatAsksAgainBeforeTheServerIsReadyIsToldToComeBack) {
  StartNew();
  seed_ = std::make_unique<SeedExchange>(*SeedExchange::Create(SeedRole::kNonLabelParty, std::string(32, 't')));
  EXPECT_EQ(OpenShowing({run_id_ + "/0"}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(OpenShowing({run_id_ + "/0"}).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(session_->WaitUntilEnded([] { return false; }).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(OpenShowing({run_id_ + "/0"}).status().code(), absl::StatusCode::kUnavailable);
}

// ROUNDED: one answer per batch, mu counted once.
TEST_F(BrokenOffAttacksTest, ANewRunInBetweenBringsNoSecondAnswerToScores) {
  v1::AuditAgreement& audit = *run_.agreement.mutable_audit();
  audit.set_disclosure(v1::ROUNDED);
  audit.set_every_batches(1);
  audit.mutable_rounded()->set_minimum_batch(2);
  audit.mutable_rounded()->set_mu(0.1);
  audit.mutable_rounded()->set_max_answers(1);
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  StartNew();
  const std::string run = run_id_;
  TrainOne(0, 0);
  const absl::StatusOr<v1::ScoreBatchResponse> first = session_->ScoreBatch(Scores(0, 0));
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(first->leaks_size(), 1);
  session_.reset();
  FindUnfinished();
  CreateWithKeptKey();
  ASSERT_TRUE(OpenShowing({}).ok());
  only_continues_ = true;
  if (!GoOnFrom(run + "/0").ok()) {
    return;
  }
  TrainOne(0, 0);
  const absl::StatusOr<v1::ScoreBatchResponse> second = session_->ScoreBatch(Scores(0, 0));
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->leaks_size(), 0) << "a second answer, of a quota of one";
}

// Every repeated step of every method gets its bytes, also after batches of one class.
class RepeatedStepsTest : public BrokenOffAttacksTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(RepeatedStepsTest, GetTheSameBytes) {
  ASSERT_TRUE(google::protobuf::TextFormat::MergeFromString(GetParam(), &run_.label_config));
  run_.agreement.set_batch_size(6);
  run_.agreement.set_minimum_batch_size(3);
  run_.agreement.set_checkpoint_steps(1);
  StartNew();
  only_continues_ = true;
  std::map<std::pair<uint32_t, uint32_t>, std::string> answers;
  const auto batches = static_cast<uint32_t>(schedule_->batches_per_epoch());
  for (uint32_t step = 0; step < 2 * batches; ++step) {
    const uint32_t epoch = step / batches, batch = step % batches;
    answers[{epoch, batch}] = TrainOne(epoch, batch);
    ASSERT_THAT((answers[{epoch, batch}]), ::testing::Not(::testing::StartsWith("refused")));
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
                      "protection { max_norm {} }", "protection { iso { t: 1 } }", "protection { sparsify { keep: 0.3 } }",
                      "protection { discretize { bins: 8 } }", "protection { label_dp { epsilon: 1 } }",
                      "protection { iso { t: 1 } distance_correlation { weight: 0.1 } } clip_cut_gradients: 0.01",
                      "protection { marvell { s: 1 } } release { max_measured_leak: 0.9 action: RAISE_NOISE }",
                      "protection { marvell { sum_kl: 0.5 orthogonal_noise_ratio: 2 } } release { max_worst_case_auc_bound: 0.8 action: RAISE_NOISE }"));

// MuAudit: what a continued run says of its claim is what it would have said.
TEST(MuAuditProgressTest, WhatWasSeenGoesOn) {
  ReleasedBatch batch;
  for (uint32_t j = 0; j < 20000; ++j) {
    batch.positions.push_back(j);
    batch.labels.push_back(j % 4 == 0 ? 1 : 0);
  }
  const auto rows = static_cast<int64_t>(batch.labels.size());
  Matrix directions(rows, 2), released(rows, 2);
  for (int64_t j = 0; j < rows; ++j) {
    directions.row(j)[0] = 1;
    released.row(j)[0] = 0.5F - static_cast<float>(batch.labels[static_cast<size_t>(j)]) + (j % 7) * 0.3F;
  }
  const std::vector<float> probabilities(batch.labels.size(), 0.5F), line = {1, 0};
  ReleasingHead head;
  ReleaseEvidence evidence;
  head.label_directions = directions;
  head.probabilities = probabilities;
  head.noise_direction = line;
  const double none = std::numeric_limits<double>::quiet_NaN();
  evidence.noise_negative = evidence.noise_positive = {none, none};
  head.noise_negative = head.noise_positive = {none, none};
  evidence.has_label_noise = true;
  evidence.sum_kl = 0.1;
  evidence.released = released;
  MuAudit quiet(rows);
  std::string progress;
  for (uint32_t epoch = 0; epoch < 5; ++epoch) {
    batch.epoch = epoch;
    evidence.accumulated_sum_kl = 0.1 * (epoch + 1);
    evidence.run_sum_kl = 0.5;
    quiet.Add(batch, evidence, head);
  }
  progress = SaveProgress(quiet);
  MuAudit continued(rows);
  ASSERT_TRUE(LoadProgress(progress, continued).ok());
  EXPECT_DOUBLE_EQ(continued.Finish()->half_noise_mu_lower, quiet.Finish()->half_noise_mu_lower);
  EXPECT_EQ(continued.Finish()->is_conclusive(), quiet.Finish()->is_conclusive());
}

}  // namespace
}  // namespace splitveil::testing
