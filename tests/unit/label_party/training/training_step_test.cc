// A run of the training step alone, release policy by release policy: what leaves, what is recorded, what an example's
// releases add up to.
#include "label_party/training/training_step.h"

#include <algorithm>
#include <cmath>
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/crypto/secure_random.h"
#include "common/leakage/bounds.h"
#include "common/process/exit_code.h"
#include "common/schedule/train_test_split.h"
#include "common/status/status_macros.h"
#include "common/storage/sqlite_database.h"
#include "common/transport/tensor_codec.h"
#include "label_party/marvell/marvell_planner.h"
#include "label_party/protection/protection_factory.h"
#include "label_party/session/result_json.h"
#include "label_party/training/gradients_message.h"
#include "label_party/training/training.h"
#include "tests/testing/small_run.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kRunId[] = "run";

class TrainingStepTest : public ::testing::Test {
 protected:
  TrainingStepTest() : run_(150) {}

  void Create(const std::string& protection, const std::string& policy, int epochs = 6) {
    run_.agreement.set_epochs(epochs);
    v1::GradientProtection& config = *run_.label_config.mutable_protection();
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(protection, &config)) << protection;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(policy, run_.label_config.mutable_release())) << policy;
    FillPlannedEpochs(epochs, config);
    auto method = MakeProtection(config, *SecureGaussian::Create(SecretKey({5})));
    ASSERT_TRUE(method.ok()) << method.status();
    training_.reset();  // Of an earlier call, as is what follows.
    auditor_ = nullptr;
    ledger_ = nullptr;
    ledger_path_ = run_.files.File(absl::StrCat("run", ++runs_, ".db"));
    ledger_ = *Ledger::Create(ledger_path_, {kRunId, "label_party", "", "", "{}"});
    auditor_ = std::make_unique<LeakAuditor>(run_.agreement, v1::LabelSideAudit(), ExampleSample(1000), ledger_.get());
    auto training =
        MakeTraining({run_.agreement, run_.label_config, run_.LabelDataset(), /*known_attributes=*/nullptr, rows_,
                      JointSeed{3}, kRunId, *std::move(method), /*resumed=*/nullptr, auditor_.get(), ledger_.get()});
    ASSERT_TRUE(training.ok()) << training.status();
    training_ = *std::move(training);
  }

  static std::vector<uint32_t> Rows() {
    std::vector<uint32_t> rows(150);
    std::iota(rows.begin(), rows.end(), 0);
    return rows;
  }

  absl::StatusOr<v1::CutGradients> Step(uint32_t epoch, uint32_t batch) {
    Matrix activations(training_->source->batch_rows(batch), 8);
    for (int64_t i = 0; i < activations.size(); ++i) {
      activations.data()[i] = static_cast<float>(std::sin(0.7 * static_cast<double>(i + 1)));
    }
    v1::CutActivations message;
    message.set_epoch(epoch);
    message.set_batch(batch);
    EXPECT_TRUE(EncodeMatrix(activations, v1::FLOAT32, *message.mutable_activations()).ok());
    SPLITVEIL_RETURN_IF_ERROR(training_->step->Receive(message));
    const absl::StatusOr<SharedGradients> answer = training_->step->Answer();
    return answer.ok() ? absl::StatusOr<v1::CutGradients>(*answer->at(0)) : answer.status();
  }

  // Trains epochs [first, last); the answers in order.
  std::vector<v1::CutGradients> Train(uint32_t first, uint32_t last) {
    std::vector<v1::CutGradients> answers;
    for (uint32_t epoch = first; epoch < last; ++epoch) {
      for (uint32_t batch = 0; batch < training_->source->batches_per_epoch(); ++batch) {
        absl::StatusOr<v1::CutGradients> answer = Step(epoch, batch);
        EXPECT_TRUE(answer.ok()) << answer.status();
        EXPECT_TRUE(training_->step->Learn().ok());
        answers.push_back(*std::move(answer));
      }
    }
    return answers;
  }

  // Columns of the recorded rows: numbers (NULL: NaN), and texts.
  template <typename Value>
  std::vector<Value> Column(const std::string& sql) {
    EXPECT_TRUE(ledger_->Commit().ok());
    auto database = *SqliteDatabase::Open(ledger_path_, SqliteDatabase::Mode::kReadOnly);
    SqliteStatement statement = *database->Prepare(sql.c_str());
    std::vector<Value> values;
    while (*statement.Next()) {
      if constexpr (std::is_same_v<Value, std::string>) {
        values.push_back(statement.Text(0));
      } else {
        values.push_back(statement.Double(0));
      }
    }
    return values;
  }
  std::vector<double> Numbers(const std::string& sql) { return Column<double>(sql); }
  std::vector<std::string> Texts(const std::string& sql) { return Column<std::string>(sql); }

  size_t Events(const std::string& kind) {
    return Texts("SELECT detail FROM event WHERE kind = '" + kind + "'").size();
  }

  nlohmann::json Result() { return nlohmann::json::parse(FullResultJson(FiguresOf(training_->result(), *auditor_))); }

  SmallRun run_;
  int runs_ = 0;
  std::string ledger_path_;
  const std::vector<uint32_t> rows_ = Rows();  // The training reads them.
  std::unique_ptr<Ledger> ledger_;
  std::unique_ptr<LeakAuditor> auditor_;
  std::optional<Training> training_;
};

TEST_F(TrainingStepTest, ASliceThatIsRefusedBeginsNeitherBatchNorEpoch) {
  Create("none {}", "");
  v1::CutActivations malformed;
  for (uint32_t epoch : {0, 1}) {
    const RunResult before = training_->result();
    malformed.set_epoch(epoch);
    EXPECT_EQ(training_->step->Receive(malformed).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_FALSE(training_->step->batch_begun());
    EXPECT_EQ(training_->result().epoch_examples, before.epoch_examples);
    EXPECT_EQ(training_->result().epoch_loss_sum, before.epoch_loss_sum);
    Train(epoch, epoch + 1);
    EXPECT_GT(training_->result().epoch_examples, 0);
  }
}

TEST(WriteGradientsTest, RefusesANumberThatIsNotFinite) {
  Matrix gradients(4, 8);
  gradients.row(3)[7] = std::nanf("");
  v1::CutGradients message;
  EXPECT_TRUE(WriteGradients(gradients, {0, 3}, v1::FLOAT32, message).ok());
  EXPECT_EQ(WriteGradients(gradients, {1, 3}, v1::FLOAT32, message).code(), absl::StatusCode::kInternal);
}

TEST_F(TrainingStepTest, ThePhasesOfEveryStepAddUpToItsSeconds) {
  Create("marvell { s: 4 }", "");
  const size_t steps = Train(0, 2).size();
  const std::string phases =
      "data + forward + serialise + wire + wait + backward + protection + update_seconds + attacks";
  EXPECT_THAT(Numbers("SELECT seconds - (" + phases + ") FROM step JOIN step_time USING (run_id, step)"),
              ::testing::AllOf(::testing::SizeIs(steps), ::testing::Each(::testing::DoubleNear(0, 1e-9))));
  EXPECT_THAT(Numbers("SELECT min(forward, backward, serialise, protection, update_seconds, attacks) FROM step_time"),
              ::testing::AllOf(::testing::SizeIs(steps), ::testing::Each(::testing::Gt(0))));
}

TEST_F(TrainingStepTest, FrozenAnswersCarryNothingAndTheTopModelGoesOnLearning) {
  Create("none {}", "max_step_auc_bound: 0.6 action: FREEZE_BOTTOM");
  const NamedParameters before = training_->model->Parameters();
  for (const v1::CutGradients& answer : Train(0, 2)) {
    EXPECT_TRUE(answer.frozen());
    EXPECT_FALSE(answer.has_gradients());
    EXPECT_FALSE(answer.has_hint());
    EXPECT_EQ(answer.hint_rows_size(), 0);
  }
  EXPECT_NE(before.begin()->second, training_->model->Parameters().begin()->second);
  EXPECT_EQ(training_->result().cumulative_sum_kl, 0);
  EXPECT_TRUE(auditor_->series().empty());
}

TEST_F(TrainingStepTest, FrozenStepsAreRecordedAsSuchAndOnceAsAnEvent) {
  Create("none {}", "max_step_auc_bound: 0.6 action: FREEZE_BOTTOM");
  const size_t steps = Train(0, 2).size();
  EXPECT_THAT(Texts("SELECT method || ' ' || gate FROM protection"),
              ::testing::AllOf(::testing::SizeIs(steps), ::testing::Each("frozen freeze_bottom")));
  for (const char* column : {"u", "v", "g", "p", "power", "lambda1_neg", "lambda2_pos", "sum_kl", "auc_bound"}) {
    EXPECT_THAT(Numbers(absl::StrCat("SELECT ", column, " FROM protection")), ::testing::Each(::testing::IsNan()));
  }
  EXPECT_EQ(Numbers("SELECT step FROM step").size(), steps);
  EXPECT_EQ(Events("gate_freeze_bottom"), 1);
  EXPECT_EQ(Result()["gate"].dump(), "{\"freeze_bottom\":" + std::to_string(steps) + "}");
  EXPECT_EQ(Result()["frozen_after_epoch"], 0);
}

TEST_F(TrainingStepTest, WarningsAreOneEventAnEpochAndCountedInTheAccount) {
  Create("none {}", "max_step_auc_bound: 0.6");
  const size_t steps = Train(0, 3).size();
  EXPECT_EQ(Events("gate_warn"), 3);
  EXPECT_EQ(Result()["gate"]["warn"], steps);
  EXPECT_TRUE(Result()["frozen_after_epoch"].is_null());
  EXPECT_THAT(Texts("SELECT detail FROM event WHERE kind = 'accountant'"),
              ::testing::Each(HasSubstr("gate: " + std::to_string(steps / 3) + " warn")));
}

TEST_F(TrainingStepTest, HaltLeavesNothingAndSaysWhy) {
  Create("marvell { s: 4 }", "max_run_auc_bound: 0.51 action: HALT");
  const absl::Status status = Step(0, 0).status();
  EXPECT_TRUE(IsHalt(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("accumulates over steps"));
  EXPECT_EQ(Events("gate_halt"), 1);
  EXPECT_EQ(training_->result().cumulative_sum_kl, 0);
}

TEST_F(TrainingStepTest, RaisedNoiseMeetsTheStepsBoundExactly) {
  Create("iso { t: 0.01 }", "max_step_auc_bound: 0.6 action: RAISE_NOISE", 1);
  Train(0, 1);
  EXPECT_THAT(Texts("SELECT gate FROM protection"), ::testing::Each("raise_noise"));
  EXPECT_THAT(Numbers("SELECT auc_bound FROM protection"),
              ::testing::Each(::testing::AllOf(::testing::Le(0.6), ::testing::DoubleNear(0.6, 1e-8))));
  EXPECT_EQ(Events("gate_raise_noise"), 1);
}

TEST_F(TrainingStepTest, NoiseIsRaisedUntilTheMeasuredLeakIsWithinTheLimit) {
  Create("iso { t: 0.0001 }", "max_measured_leak: 0.9 action: RAISE_NOISE", 1);
  for (const v1::CutGradients& answer : Train(0, 1)) {
    EXPECT_TRUE(answer.has_gradients());
  }
  EXPECT_EQ(Result()["gate"]["raise_noise"], training_->source->batches_per_epoch());
  EXPECT_THAT(Numbers("SELECT auc FROM leak WHERE layer = 'cut' AND attack IN ('norm', 'cosine')"),
              ::testing::Each(::testing::Le(0.9)));
}

TEST_F(TrainingStepTest, MeasuredLeakThatNoNoiseLowersFreezes) {
  // Nothing is below chance: sixteen halvings do not reach it.
  Create("marvell { s: 4 }", "max_measured_leak: 0.5 action: RAISE_NOISE", 1);
  const auto answers = Train(0, 1);
  EXPECT_TRUE(answers.back().frozen());
}

// Not one positive in the whole run: what positives would send is known from the top model, and the budget is kept.
TEST_F(TrainingStepTest, BudgetIsKeptThoughOnlyOneClassIsEverSeen) {
  std::fill(run_.label_data.labels.begin(), run_.label_data.labels.end(), 0);
  Create("marvell { run_budget { max_run_auc_bound: 0.7 } }", "", 30);
  const auto answers = Train(0, 30);
  ASSERT_GE(answers.size(), 50);
  for (const v1::CutGradients& answer : answers) {
    EXPECT_FALSE(answer.frozen());
  }
  EXPECT_NEAR(training_->result().cumulative_sum_kl, (1 - kSafetyShare) * SumKlForRunAuc(0.7), 1e-5);
  EXPECT_THAT(Texts("SELECT method FROM protection"), ::testing::Each("marvell"));
  EXPECT_THAT(Numbers("SELECT power FROM protection"), ::testing::Each(::testing::Gt(0)));
}

TEST_F(TrainingStepTest, OneClassIsNeverInTheClearWithoutABudget) {
  std::fill(run_.label_data.labels.begin(), run_.label_data.labels.end(), 0);
  Create("marvell { s: 4 }", "", 30);
  const auto answers = Train(0, 30);
  ASSERT_GE(answers.size(), 50);
  for (const v1::CutGradients& answer : answers) {
    EXPECT_FALSE(answer.frozen());
    EXPECT_FALSE(answer.gradients().data().empty());
  }
  EXPECT_THAT(Numbers("SELECT power FROM protection"), ::testing::Each(::testing::Gt(0)));
}

TEST_F(TrainingStepTest, AFileThatMixesRowsIsRefusedWhereNoiseHidesARowsOwnLabelAlone) {
  for (const auto& [protection, rows_apart] : std::map<std::string, bool>{{"iso { t: 2 }", true},
                                                                          {"max_norm {}", true},
                                                                          {"marvell { s: 4 }", true},
                                                                          {"none {}", false},
                                                                          {"label_dp {}", false}}) {
    v1::LabelPartyConfig config;
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(protection, config.mutable_protection()));
    EXPECT_EQ(TopOptions(run_.agreement, config, *run_.LabelDataset()).rows_apart, rows_apart) << protection;
  }
}

TEST_F(TrainingStepTest, RandomisedLabelsAreAccountedForOnceHoweverManyEpochs) {
  Create("label_dp { epsilon: 1 }", "max_run_auc_bound: 0.7311 action: HALT", 30);
  Train(0, 30);
  const double kept = std::exp(1) / (1 + std::exp(1));  // AUC of the best test, which sees one flipped label: 0.73106.
  EXPECT_NEAR(Result()["run_auc_bound"], kept, 1e-12);
  EXPECT_NEAR(Result()["all_runs_auc_bound"], kept, 1e-12);
  for (const double bound : Numbers("SELECT auc_bound FROM protection")) {
    EXPECT_NEAR(bound, kept, 1e-9);
  }
}

// What leaves is made of the randomised labels: the gradients' signs show those, and a share rho of them is wrong.
TEST_F(TrainingStepTest, GradientsShowTheRandomisedLabelsAndNotTheTrueOnes) {
  Create("label_dp { epsilon: 0.1 }", "", 1);
  const std::vector<v1::CutGradients> randomised = Train(0, 1);
  Create("none {}", "", 1);
  const std::vector<v1::CutGradients> plain = Train(0, 1);
  int64_t against = 0;
  const absl::StatusOr<Matrix> ours = DecodeMatrix(randomised[0].gradients(), {"g", v1::FLOAT32, 64, 8});
  const absl::StatusOr<Matrix> theirs = DecodeMatrix(plain[0].gradients(), {"g", v1::FLOAT32, 64, 8});
  ASSERT_TRUE(ours.ok() && theirs.ok());
  for (int64_t j = 0; j < ours->rows(); ++j) {
    against += std::inner_product(ours->row(j).begin(), ours->row(j).end(), theirs->row(j).begin(), 0.0) < 0;
  }
  // rho = 0.475: of 64 flips, 30 +- 4 on average; six standard deviations.
  EXPECT_GT(against, 6);
  EXPECT_LT(against, 54);
}

TEST_F(TrainingStepTest, RegulariserChangesWhatLeavesAndIsNamed) {
  Create("none {}", "", 1);
  const std::string plain = Train(0, 1).front().gradients().data();
  Create("none {} distance_correlation { weight: 0.5 }", "", 1);
  EXPECT_NE(Train(0, 1).front().gradients().data(), plain);
  EXPECT_EQ(Result()["protection"], "none+distance_correlation(weight=0.5)");
}

TEST_F(TrainingStepTest, RegulariserLeavesABatchOfOneClassAsItIs) {
  std::fill(run_.label_data.labels.begin(), run_.label_data.labels.end(), 1);
  Create("none {}", "", 1);
  const std::string plain = Train(0, 1).front().gradients().data();
  Create("none {} distance_correlation { weight: 0.5 }", "", 1);
  EXPECT_EQ(Train(0, 1).front().gradients().data(), plain);
}

double Norm(absl::Span<const float> row) {
  return std::sqrt(std::inner_product(row.begin(), row.end(), row.begin(), 0.0));
}

TEST_F(TrainingStepTest, CutGradientsAreClippedAnExampleBeforeTheProtection) {
  Create("none {}", "", 1);
  const std::vector<v1::CutGradients> plain = Train(0, 1);
  EXPECT_EQ(Events("clip_cut_gradients"), 0);
  const absl::StatusOr<Matrix> whole = DecodeMatrix(plain[0].gradients(), {"g", v1::FLOAT32, 64, 8});
  ASSERT_TRUE(whole.ok());
  std::vector<double> norms;
  for (int64_t j = 0; j < 64; ++j) {
    norms.push_back(Norm(whole->row(j)));
  }
  std::sort(norms.begin(), norms.end());
  const double limit = norms[32];  // Half of the examples are longer.

  run_.label_config.set_clip_cut_gradients(limit);
  Create("none {}", "", 1);
  const std::vector<v1::CutGradients> clipped = Train(0, 1);
  const absl::StatusOr<Matrix> left = DecodeMatrix(clipped[0].gradients(), {"g", v1::FLOAT32, 64, 8});
  ASSERT_TRUE(left.ok());
  for (int64_t j = 0; j < 64; ++j) {
    const double scale = std::min(1.0, limit / Norm(whole->row(j)));
    for (int64_t k = 0; k < 8; ++k) {
      EXPECT_NEAR(left->row(j)[k], whole->row(j)[k] * scale, 1e-7);
    }
  }
  // The hint of an oracle is what the protection saw.
  ASSERT_TRUE(clipped[0].has_hint());
  const absl::StatusOr<Matrix> hint = DecodeMatrix(clipped[0].hint().gradient(), {"h", v1::FLOAT32, 1, 8});
  ASSERT_TRUE(hint.ok());
  EXPECT_EQ(hint->row(0), left->row(clipped[0].hint().row()));
  EXPECT_THAT(Texts("SELECT detail FROM event WHERE kind = 'clip_cut_gradients'"),
              ::testing::ElementsAre(HasSubstr("norm")));
}

// Before a batch of both classes has come, the protection goes by what either would send: that is clipped, too.
TEST_F(TrainingStepTest, WhatTheOtherClassWouldSendIsClippedToo) {
  std::fill(run_.label_data.labels.begin(), run_.label_data.labels.end(), 0);
  const auto power_of_first_step = [&](double clip) {
    run_.label_config.set_clip_cut_gradients(clip);
    Create("marvell { s: 4 }", "", 1);
    EXPECT_TRUE(Step(0, 0).ok());
    EXPECT_TRUE(training_->step->Learn().ok());
    return Numbers("SELECT power FROM protection").front();
  };
  const double limit = 1e-3;  // Shorter than every gradient here.
  const double unclipped = power_of_first_step(0);
  const double clipped = power_of_first_step(limit);
  // P = s |difference of the class means|^2, and those are at most 2 * limit apart.
  EXPECT_GT(clipped, 0);
  EXPECT_LE(clipped, 4 * 4 * limit * limit * (1 + 1e-6));
  EXPECT_GT(unclipped, 100 * clipped);
}

struct BudgetCase {
  const char* protection;
  const char* policy;
};

// Whatever the policy, no example's releases ever add up to more than the budget, however long the run.
class RunBudgetTest : public TrainingStepTest, public ::testing::WithParamInterface<BudgetCase> {};

INSTANTIATE_TEST_SUITE_P(
    Policies, RunBudgetTest,
    ::testing::Values(
        BudgetCase{"marvell { run_budget { planned_epochs: 4 } }", ""},
        BudgetCase{"marvell { run_budget { planned_epochs: 4 noise_growth_per_epoch: 2 when_spent: RAISE_NOISE } }",
                   ""},
        BudgetCase{"marvell { run_budget { planned_epochs: 4 noise_growth_per_epoch: 0.7 when_spent: HALT } }", ""},
        BudgetCase{"marvell { s: 4 }", "max_run_auc_bound: 0.7 action: FREEZE_BOTTOM"},
        BudgetCase{"marvell { s: 4 }", "max_run_auc_bound: 0.7 action: RAISE_NOISE"},
        BudgetCase{"marvell { s: 4 }", "max_run_auc_bound: 0.7 action: HALT"},
        BudgetCase{"iso { t: 2 }", "max_run_auc_bound: 0.7 action: RAISE_NOISE"},
        BudgetCase{"iso { t: 2 }", "max_run_auc_bound: 0.7 max_step_auc_bound: 0.6 action: RAISE_NOISE"}));

TEST_P(RunBudgetTest, IsNeverOverspent) {
  constexpr int kEpochs = 25;
  Create(GetParam().protection, GetParam().policy, kEpochs);
  std::vector<double> spent(150);
  Schedule schedule =
      *Schedule::Create(JointSeed{3}, SplitRule(run_.agreement).Split(run_.label_data.ids, Rows()).train,
                        {run_.agreement.batch_size(), run_.agreement.minimum_batch_size()});
  bool halted = false;
  for (uint32_t epoch = 0; epoch < kEpochs && !halted; ++epoch) {
    for (uint32_t batch = 0; batch < training_->source->batches_per_epoch() && !halted; ++batch) {
      halted = !Step(epoch, batch).ok();
      ASSERT_TRUE(training_->step->Learn().ok());
    }
  }
  // Counted once more from the ledger, independently of the accountant.
  const std::vector<double> epochs = Numbers("SELECT epoch FROM step JOIN protection USING (step) ORDER BY step");
  const std::vector<double> batches = Numbers("SELECT batch FROM step JOIN protection USING (step) ORDER BY step");
  const std::vector<double> sum_kls = Numbers("SELECT sum_kl FROM step JOIN protection USING (step) ORDER BY step");
  ASSERT_EQ(sum_kls.size(), epochs.size());
  for (size_t i = 0; i < sum_kls.size() && std::isfinite(sum_kls[i]); ++i) {  // Until frozen.
    for (uint32_t position : schedule.BatchRows(static_cast<uint32_t>(epochs[i]), static_cast<int64_t>(batches[i]))) {
      spent[position] += sum_kls[i];
    }
  }
  const double most = *std::max_element(spent.begin(), spent.end());
  EXPECT_LE(GaussianAucBound(most), 0.7 + 1e-12);
  EXPECT_GT(most, 0.5 * SumKlForRunAuc(0.7));
  // Rounded up with each release, and never down.
  EXPECT_GE(training_->result().cumulative_sum_kl, most - 1e-12);
  EXPECT_LE(training_->result().cumulative_sum_kl, (1 + kEpochs * kSumRounding) * most);
  EXPECT_EQ(halted, absl::StrContains(GetParam().protection, "HALT") || absl::StrContains(GetParam().policy, "HALT"));
  if (absl::StrContains(GetParam().protection, "planned_epochs")) {
    EXPECT_GE(sum_kls.size(), 4 * training_->source->batches_per_epoch());
  }
  if (absl::StrContains(GetParam().protection, "RAISE") || absl::StrContains(GetParam().policy, "RAISE")) {
    // Not before what is left, halved with each epoch, is lost in the rounding of a sum.
    const auto frozen_after = Result()["frozen_after_epoch"];
    EXPECT_TRUE(frozen_after.is_null() || frozen_after >= 20) << frozen_after;
  }
}

}  // namespace
}  // namespace splitveil::testing
