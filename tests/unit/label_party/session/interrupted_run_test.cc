// What a run that was interrupted after it had released something blocks, and what it resumes with.
#include <cmath>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/checkpoint/release_journal.h"
#include "common/process/exit_code.h"
#include "tests/unit/label_party/session/label_session_life_fixture.h"

namespace splitveil::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class InterruptedRunTest : public LabelSessionLifeTest {
 protected:
  // A run that was interrupted after `batches`, of which the peer has no checkpoint; the label party has been started
  // again.
  void BreakOff(uint32_t batches) {
    ASSERT_TRUE(run_.label_checkpoints.UseData(*run_.LabelDataset(), run_.agreement).ok());
    run_.label_checkpoints.path = path_;
    Start();
    for (uint32_t batch = 0; batch < batches; ++batch) {
      ASSERT_TRUE(session_->Train(Activations(0, batch)).ok());
    }
    session_.reset();  // As after kill -9, its ledger is not finished.
    run_.label_checkpoints.unfinished = {*Checkpoint::Open(path_)};
    run_.label_checkpoints.interrupted = run_.label_checkpoints.unfinished.front();
    ASSERT_EQ(run_.label_checkpoints.interrupted->name(), run_id_ + "/0");
  }
  // With an account that is at `file`.
  void CountLabels(const std::string& file) {
    run_.agreement.mutable_audit()->set_disclosure(v1::LABEL_SIDE_ONLY);
    run_.label_config.mutable_protection()->mutable_gaussian_label_dp()->set_sigma(2);
    run_.label_config.mutable_privacy_account()->set_path(run_.files.File(file));
    run_.label_config.mutable_privacy_account()->set_label_set("small");
  }
  // As PlanCheckpoints finds it.
  void TellToRestart() {
    run_.label_config.mutable_party()->set_restart(true);
    run_.label_checkpoints.unfinished.clear();
    run_.label_checkpoints.interrupted = nullptr;
  }
  static constexpr char kRefused[] = "a run was interrupted after gradients were sent";
};

TEST_F(InterruptedRunTest, IsNotReleasedOnceMoreWithOtherNoise) {
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  BreakOff(1);
  ExpectOpenRefused(kRefused);
  TellToRestart();
  Start();
}

TEST_F(InterruptedRunTest, NorWhereItsCheckpointsAreGoneOrDamaged) {
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  BreakOff(1);
  run_.label_checkpoints.unfinished.clear();
  run_.label_checkpoints.interrupted = nullptr;
  ExpectOpenRefused(kRefused);
}

// Of which no checkpoint is written before its epoch is trained.
TEST_F(InterruptedRunTest, NorUnderProgressiveValidation) {
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  run_.label_checkpoints.path = path_;
  ProgressiveValidation();
  ASSERT_TRUE(session_->FinishEvaluation(EvaluateAll(0)).ok());
  ASSERT_TRUE(session_->Train(Activations(0, 0)).ok());
  session_.reset();
  ASSERT_FALSE(std::filesystem::exists(path_));
  ExpectOpenRefused(kRefused);
}

// Its steps would come once more, and what the one in its place released would be counted nowhere.
TEST_F(InterruptedRunTest, IsNotContinuedAfterAnotherHasTakenItsPlace) {
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  BreakOff(1);
  const std::vector<std::shared_ptr<const Checkpoint>> first = run_.label_checkpoints.unfinished;
  TellToRestart();
  Start();
  ASSERT_TRUE(session_->Train(Activations(0, 0)).ok());
  session_.reset();
  run_.label_config.mutable_party()->clear_restart();
  run_.label_checkpoints.unfinished = first;
  unfinished_ = {first.front()->name()};
  ExpectOpenRefused(kRefused);
}

// A peer that breaks off a run which carries the sum on, before that has released anything, must not have the next one
// begin without the sum.
TEST_F(InterruptedRunTest, IsStillRememberedAfterARunThatCarriesItsSumOnAndEndsAtOnce) {
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  run_.label_config.mutable_release()->set_max_run_auc_bound(0.999);
  run_.label_config.mutable_release()->set_action(v1::HALT);
  BreakOff(1);
  continues_ = run_.label_checkpoints.interrupted->name();
  run_.label_checkpoints.unfinished.clear();
  ResumeFrom(path_);
  Start();  // Another run, from its weights.
  session_.reset();
  continues_.clear();
  run_.label_checkpoints.initial.clear();
  run_.label_checkpoints.interrupted = nullptr;
  ExpectOpenRefused(kRefused);
}

// All of it was trained: what the peer has not said is that it is content.
TEST_F(InterruptedRunTest, NorAfterItsLastEvaluation) {
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  ASSERT_TRUE(run_.label_checkpoints.UseData(*run_.LabelDataset(), run_.agreement).ok());
  run_.label_checkpoints.path = path_;
  Start();
  for (uint32_t epoch : {0, 1}) {
    TrainAndEvaluate(epoch);
  }
  session_.reset();
  run_.label_checkpoints.unfinished = {*Checkpoint::Open(path_)};
  run_.label_checkpoints.interrupted = run_.label_checkpoints.unfinished.front();
  ASSERT_EQ(run_.label_checkpoints.interrupted->name(), run_id_ + "/2");
  ExpectOpenRefused(kRefused);
  ResumeFrom(path_);  // From its weights: then what it released is counted, but what is counted must have a limit.
  continues_ = run_id_ + "/2";
  ExpectOpenRefused(kRefused);
  run_.label_config.mutable_release()->set_max_run_auc_bound(0.99);
  run_.label_config.mutable_release()->set_action(v1::HALT);
  Start();
}

TEST_F(InterruptedRunTest, NorUnderAnotherAgreement) {
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  BreakOff(1);
  run_.agreement.set_run_name("another");
  run_.agreement.mutable_deadlines()->set_connect_seconds(99);
  run_.label_checkpoints.unfinished.clear();  // None of it fits.
  ExpectOpenRefused(kRefused);
}

TEST_F(InterruptedRunTest, NorWhereNobodyKnowsWhatHasLeft) {
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  BreakOff(0);
  ASSERT_TRUE(std::filesystem::remove(ReleaseJournal::PathOf(path_, run_id_)));
  ExpectOpenRefused(kRefused);
}

TEST_F(InterruptedRunTest, MayBeginAnewBeforeAnythingHasLeft) {
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  BreakOff(0);
  Start();
}

TEST_F(InterruptedRunTest, MayBeginAnewWhereNothingIsProtected) {
  BreakOff(1);
  Start();
}

TEST_F(InterruptedRunTest, MayBeginAnewWhereAnAccountCounts) {
  CountLabels("labels.account.db");
  BreakOff(1);
  Start();
}

TEST_F(InterruptedRunTest, MayNotBeginAnewWhereAnotherAccountHasCounted) {
  CountLabels("labels.account.db");
  BreakOff(1);
  CountLabels("another.account.db");
  ExpectOpenRefused(kRefused);
}

TEST_F(InterruptedRunTest, NorWhereNoneHas) {
  run_.label_config.mutable_protection()->mutable_iso()->set_t(1);
  BreakOff(1);
  CountLabels("labels.account.db");
  ExpectOpenRefused(kRefused);
}

// The other account has another key: the same labels would leave with other noise, and twice.
TEST_F(InterruptedRunTest, DoesNotGoOnUnderAnotherAccount) {
  CountLabels("labels.account.db");
  BreakOff(1);
  CountLabels("another.account.db");
  unfinished_ = {run_id_ + "/0"};
  Create();
  const absl::Status status = session_->Open(OpenRequest()).status();
  EXPECT_EQ(ExitCodeFor(session_->WaitUntilEnded([] { return false; })), ExitCode::kInvalidInput) << status;
}

// Rare positives, and noise that is far too strong to learn in a few steps that they are: a head that began with 0
// would learn first that every example is negative, the surer the more it stands out.
TEST_F(InterruptedRunTest, OneHeadBeginsWithTheRateOfTheNoisedLabels) {
  CountLabels("labels.account.db");
  run_.label_config.mutable_protection()->mutable_gaussian_label_dp()->set_sigma(0.0625);
  run_.label_config.mutable_protection()->mutable_gaussian_label_dp()->set_release_head_predicts(true);
  for (size_t i = 0; i < run_.label_data.labels.size(); ++i) {
    run_.label_data.labels[i] = i % 20 == 0 ? 1 : 0;
  }
  BreakOff(1);  // Before its first batch there was a checkpoint.
  const absl::StatusOr<NamedParameters> state = run_.label_checkpoints.unfinished.front()->State();
  ASSERT_TRUE(state.ok()) << state.status();
  int heads = 0;
  for (const auto& [name, values] : *state) {
    if (name == "logit.bias" || name == "release_head.logit.bias") {
      ++heads;
      ASSERT_EQ(values.size(), 1U);
      EXPECT_NEAR(values[0], std::log(0.05 / 0.95), 1) << name;  // It scatters by 0.13.
    }
  }
  EXPECT_EQ(heads, 1);
}

// What a run states of its labels is of one plan; what left under another would be stated nowhere. The account counts
// it all either way.
TEST_F(InterruptedRunTest, GoesOnWithTheReleasesThatItBeganWithAlone) {
  CountLabels("labels.account.db");
  BreakOff(1);
  unfinished_ = {run_id_ + "/0"};
  const v1::LabelPartyConfig begun = run_.label_config;
  using Change = void (*)(v1::LabelPartyConfig&);
  const std::pair<Change, const char*> changes[] = {
      {[](v1::LabelPartyConfig& config) { config.mutable_protection()->mutable_gaussian_label_dp()->set_sigma(1); },
       "protection.gaussian_label_dp: the interrupted run began with sigma 2.828427315 in 2 "
       "draws, and now it is sigma 1.414214134 in 2 draws"},
      {[](v1::LabelPartyConfig& config) {
         config.mutable_protection()->mutable_gaussian_label_dp()->set_noise_growth_per_epoch(2);
       },
       "in 2 draws, and now it is sigma 2.449"},
      {[](v1::LabelPartyConfig& config) {
         config.mutable_protection()->mutable_gaussian_label_dp()->set_noise_draws(
             v1::GradientProtection::GaussianLabelDp::ONE_DRAW);
       },
       "now it is sigma 2 in 1 draw:"},
      {[](v1::LabelPartyConfig& config) {
         config.mutable_protection()->mutable_gaussian_label_dp()->set_planned_epochs(3);
       },
       "in 3 draws"},
      {[](v1::LabelPartyConfig& config) { config.mutable_privacy_account()->set_label_set("renamed"); },
       "privacy_account.label_set: the interrupted run began with \"small\", and now it is "
       "\"renamed\""},
      {[](v1::LabelPartyConfig& config) {
         config.mutable_protection()->mutable_gaussian_label_dp()->set_likelihood_correction(false);
       },
       "likelihood_correction: the interrupted run"},
      {[](v1::LabelPartyConfig& config) {
         config.mutable_protection()->mutable_gaussian_label_dp()->set_release_head_predicts(true);
       },
       "release_head_predicts: the interrupted run"},
  };
  for (const auto& [change, expected] : changes) {
    run_.label_config = begun;
    change(run_.label_config);
    Create();
    const absl::Status heard = session_->Open(OpenRequest()).status();
    EXPECT_THAT(std::string(heard.message()), ::testing::Not(HasSubstr("expected"))) << "not the peer's to know";
    const absl::Status status = session_->WaitUntilEnded([] { return false; });
    EXPECT_EQ(ExitCodeFor(status), ExitCode::kInvalidInput) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(expected));
    EXPECT_THAT(std::string(status.message()), HasSubstr("restart"));
  }
  session_.reset();
  run_.label_config = begun;
  Open();
  EXPECT_EQ(run_id_ + "/0", unfinished_.front());
}

// Its flips have one key, but another epsilon flips others.
TEST_F(InterruptedRunTest, GoesOnWithTheFlipsThatItBeganWithAlone) {
  run_.agreement.mutable_audit()->set_disclosure(v1::LABEL_SIDE_ONLY);
  run_.label_config.mutable_protection()->mutable_label_dp()->set_epsilon(1);
  BreakOff(1);
  unfinished_ = {run_id_ + "/0"};
  run_.label_config.mutable_protection()->mutable_label_dp()->set_epsilon(3);
  Create();
  EXPECT_FALSE(session_->Open(OpenRequest()).ok());
  EXPECT_THAT(std::string(session_->WaitUntilEnded([] { return false; }).message()),
              HasSubstr("protection.label_dp.epsilon: the interrupted run began with 1, and now it is 3"));
}

// Where none of them has noise on labels, what differs is the protection's name.
TEST_F(InterruptedRunTest, GoesOnUnderTheProtectionThatItBeganWithAlone) {
  run_.label_config.mutable_protection()->mutable_marvell()->set_sum_kl(0.1);
  BreakOff(1);
  unfinished_ = {run_id_ + "/0"};
  run_.label_config.mutable_protection()->mutable_none();
  Create();
  EXPECT_FALSE(session_->Open(OpenRequest()).ok());
  EXPECT_THAT(std::string(session_->WaitUntilEnded([] { return false; }).message()),
              AllOf(HasSubstr("protection: the interrupted run began with marvell("), HasSubstr("now it is none")));
}

}  // namespace
}  // namespace splitveil::testing
