// gaussian_label_dp: whatever the labels are, the same noised labels give the peer the same messages.
#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/schedule/train_test_split.h"
#include "label_party/protection/gradient_protection.h"
#include "label_party/session/label_session.h"
#include "nonlabel_party/session/nonlabel_session.h"
#include "tests/testing/local_label_party.h"
#include "tests/testing/small_run.h"

namespace splitveil::testing {
namespace {

constexpr int kExamples = 300;

// The noised labels of another run, whatever the labels.
class FixedTargets final : public LabelTargets {
 public:
  // `examples`: aligned ones; `targets`: as many for each of them.
  FixedTargets(std::shared_ptr<LabelTargets> drawn, std::vector<float> targets, size_t examples)
      : drawn_(std::move(drawn)), targets_(std::move(targets)), examples_(examples) {}

  absl::Status Count(absl::string_view run_id, absl::Span<const NoiseRow> examples,
                     absl::Span<const float> labels) override {
    EXPECT_LE(examples.size(), examples_);
    for (const NoiseRow& example : examples) {
      numbers_.emplace(example.bytes(), numbers_.size());
    }
    return drawn_->Count(run_id, examples, labels);
  }
  absl::StatusOr<std::vector<float>> TrainingTargets(absl::Span<const NoiseRow> examples,
                                                     absl::Span<const float> labels, uint32_t epoch) override {
    EXPECT_TRUE(drawn_->TrainingTargets(examples, labels, epoch).ok());
    const size_t outputs = targets_.size() / examples_;
    const size_t shift = drawn_->draws() > 1 ? 1 + epoch % 7 : 0;  // Another draw in every epoch.
    std::vector<float> targets;
    for (const NoiseRow& example : examples) {
      for (size_t k = 0; k < outputs; ++k) {
        targets.push_back(targets_[(outputs * numbers_.at(example.bytes()) + k + shift) % targets_.size()]);
      }
    }
    return targets;
  }
  bool drawn() const override { return drawn_->drawn(); }
  bool needs_release_head() const override { return drawn_->needs_release_head(); }
  uint32_t draws() const override { return drawn_->draws(); }
  double target_noise(uint32_t epoch) const override { return drawn_->target_noise(epoch); }
  std::optional<AccountedReleases> accounted() const override { return drawn_->accounted(); }

 private:
  const std::shared_ptr<LabelTargets> drawn_;
  const std::vector<float> targets_;
  const size_t examples_;
  std::map<std::array<uint8_t, 12>, size_t> numbers_;  // By example.
};

class TranscriptTest : public ::testing::Test {
 protected:
  explicit TranscriptTest(const Task& task = {}, int examples = kExamples)
      : run_(examples, task), examples_(static_cast<size_t>(examples)) {
    run_.agreement.mutable_audit()->set_disclosure(v1::LABEL_SIDE_ONLY);
    run_.agreement.mutable_audit()->clear_attacks();
    run_.agreement.mutable_audit()->add_attacks(v1::NORM);
    run_.agreement.mutable_audit()->add_attacks(v1::SPECTRAL);
    run_.label_config.mutable_protection()->mutable_gaussian_label_dp()->set_sigma(2);
    run_.label_config.mutable_label_side_audit()->set_every_batches(1);
  }

  // A whole run; all that the peer receives once the random parts of its beginning are over, in order.
  std::vector<std::string> Transcript(bool fixed_targets) {
    for (const char* ledger : {"label_party.db", "nonlabel_party.db"}) {  // Run ids repeat, too.
      std::filesystem::remove(run_.files.File(ledger));
    }
    LabelSessionOptions options = run_.LabelOptions();
    if (fixed_targets) {
      options.protection.labels = std::make_shared<FixedTargets>(options.protection.labels, targets_, examples_);
    }
    absl::StatusOr<std::unique_ptr<LabelSession>> created = LabelSession::Create(std::move(options));
    EXPECT_TRUE(created.ok()) << created.status();
    const std::unique_ptr<LabelSession> label = *std::move(created);
    LocalLabelParty peer(label.get());
    std::vector<std::string> messages;
    peer.on_call = [&](const std::string& call) { messages.push_back(call); };
    peer.on_answers = [&](size_t count) { messages.push_back(absl::StrCat(count, " messages")); };
    peer.alter_gradients = [&](v1::CutGradients& message) { messages.push_back(message.SerializeAsString()); };
    peer.alter_evaluation = [&](v1::EvaluateResponse& message) { messages.push_back(message.SerializeAsString()); };
    peer.alter_leaks = [&](v1::ScoreBatchResponse& message) { messages.push_back(message.SerializeAsString()); };
    peer.alter_embedding = [&](v1::EmbedAuxiliaryResponse& message) {
      messages.push_back(message.SerializeAsString());
    };
    peer.alter_guesses = [&](std::vector<v1::AttributeGuesses>& guesses) {
      for (const v1::AttributeGuesses& message : guesses) {
        messages.push_back(message.SerializeAsString());
      }
    };
    peer.alter_start = [&](v1::StartResponse& message) { messages.push_back(message.SerializeAsString()); };
    NonLabelSession session(run_.NonLabelOptions(&peer));
    const absl::Status status = session.Run();
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(label->WaitUntilEnded([] { return true; }).ok()) << label->WaitUntilEnded([] { return true; });
    EXPECT_TRUE(label->completed());
    predictions_ = label->model()->Parameters();
    return messages;
  }

  SmallRun run_;
  const size_t examples_;
  std::vector<float> targets_;
  NamedParameters predictions_;
};

TEST_F(TranscriptTest, FlippingLabelsUnderTheSameNoisedLabelsChangesNoByteThatThePeerReceives) {
  for (size_t j = 0; j < 300; ++j) {
    targets_.push_back(static_cast<float>(static_cast<int>(j * 7 % 11)) - 5);
  }
  const std::vector<std::string> honest = Transcript(/*fixed_targets=*/true);
  const NamedParameters honest_predictions = predictions_;
  EXPECT_GT(honest.size(), 20);
  // All leading batches of one class, as a peer that cares would like to notice; then every label another one.
  std::vector<uint8_t>& labels = run_.label_data.labels;
  const std::vector<uint8_t> true_labels = labels;
  for (size_t row = 0; row < labels.size(); ++row) {
    labels[row] = row % 2;
  }
  EXPECT_EQ(Transcript(true), honest);
  EXPECT_NE(predictions_, honest_predictions);
  for (size_t row = 0; row < labels.size(); ++row) {
    labels[row] = row % 30 == 0;
  }
  EXPECT_EQ(Transcript(true), honest);
}

TEST_F(TranscriptTest, FreezingAfterAnEpochTellsNothingOfTheLabels) {
  run_.label_config.mutable_protection()->mutable_gaussian_label_dp()->set_released_epochs(1);
  targets_.resize(kExamples);
  for (size_t j = 0; j < kExamples; ++j) {
    targets_[j] = static_cast<float>(static_cast<int>(j * 7 % 11)) - 5;
  }
  const std::vector<std::string> honest = Transcript(/*fixed_targets=*/true);
  v1::CutGradients frozen;
  EXPECT_TRUE(std::any_of(honest.begin(), honest.end(), [&](const std::string& message) {
    return frozen.ParseFromString(message) && frozen.frozen() && frozen.epoch() == 1 && frozen.batch() == 0;
  }));
  const NamedParameters honest_predictions = predictions_;
  for (uint8_t& label : run_.label_data.labels) {
    label = 1 - label;
  }
  EXPECT_EQ(Transcript(true), honest);
  EXPECT_NE(predictions_, honest_predictions);
}

// Every epoch of a run with noise of its own.
TEST_F(TranscriptTest, NorDoesItWhereEveryEpochHasOtherNoise) {
  auto& config = *run_.label_config.mutable_protection()->mutable_gaussian_label_dp();
  targets_.resize(kExamples);
  for (size_t j = 0; j < kExamples; ++j) {
    targets_[j] = static_cast<float>(static_cast<int>(j * 7 % 11)) - 5;
  }
  config.set_noise_draws(v1::GradientProtection::GaussianLabelDp::ONE_DRAW);
  const std::vector<std::string> one_draw = Transcript(/*fixed_targets=*/true);
  config.clear_noise_draws();
  const std::vector<std::string> honest = Transcript(true);
  EXPECT_NE(honest, one_draw);
  const NamedParameters honest_predictions = predictions_;
  for (uint8_t& label : run_.label_data.labels) {
    label = 1 - label;
  }
  EXPECT_EQ(Transcript(true), honest);
  EXPECT_NE(predictions_, honest_predictions);
}

TEST_F(TranscriptTest, OneHeadPredictsFromNoisedLabelsToo) {
  run_.label_config.mutable_protection()->mutable_gaussian_label_dp()->set_release_head_predicts(true);
  targets_.resize(kExamples);
  for (size_t j = 0; j < kExamples; ++j) {
    targets_[j] = static_cast<float>(static_cast<int>(j * 7 % 11)) - 5;
  }
  const std::vector<std::string> honest = Transcript(/*fixed_targets=*/true);
  const NamedParameters honest_predictions = predictions_;
  for (uint8_t& label : run_.label_data.labels) {
    label = 1 - label;
  }
  EXPECT_EQ(Transcript(true), honest);
  EXPECT_EQ(predictions_, honest_predictions);
}

class TranscriptOfTask : public TranscriptTest, public ::testing::WithParamInterface<Task> {
 protected:
  TranscriptOfTask() : TranscriptTest(GetParam()) {}
};

TEST_P(TranscriptOfTask, FlippingLabelsUnderTheSameNoisedLabelsChangesNoByteThatThePeerReceives) {
  for (size_t j = 0; j < kExamples * static_cast<size_t>(GetParam().outputs()); ++j) {
    targets_.push_back(static_cast<float>(static_cast<int>(j * 7 % 11)) - 5);
  }
  const std::vector<std::string> honest = Transcript(/*fixed_targets=*/true);
  const NamedParameters honest_predictions = predictions_;
  EXPECT_GT(honest.size(), 20);
  for (size_t row = 0; row < run_.label_data.ids.size(); ++row) {
    if (GetParam().kind == Task::Kind::kRegression) {
      run_.label_data.targets[row] = 1 - run_.label_data.targets[row];
    } else {
      run_.label_data.labels[row] = row % 4;
    }
  }
  EXPECT_EQ(Transcript(true), honest);
  EXPECT_NE(predictions_, honest_predictions);
}

INSTANTIATE_TEST_SUITE_P(Tasks, TranscriptOfTask,
                         ::testing::Values(Task{Task::Kind::kMultiClass, 4}, Task{Task::Kind::kRegression, 0}),
                         [](const auto& param) {
                           return param.param.kind == Task::Kind::kRegression ? "Number" : "FourClasses";
                         });

// What else a run may be set to, one at a time, and all of it together.
struct Setting {
  const char* name;
  void (*apply)(SmallRun&);
};

void ReadOwnFeatures(SmallRun& run) {  // Beside the wide part, which every run here has.
  run.label_config.mutable_model()->mutable_own_features()->mutable_embedding()->set_dimension(3);
}
void GoWithoutTheCorrection(SmallRun& run) {
  run.label_config.mutable_protection()->mutable_gaussian_label_dp()->set_likelihood_correction(false);
}
void KeepTwoBatchesInFlight(SmallRun& run) { run.agreement.set_in_flight_batches(2); }
void RoundOnTheWire(SmallRun& run) { run.agreement.set_wire_dtype(v1::BFLOAT16); }
void FreezeByTheGate(SmallRun& run) {
  run.label_config.mutable_release()->set_max_step_auc_bound(0.5);
  run.label_config.mutable_release()->set_action(v1::FREEZE_BOTTOM);
}
// What is guessed follows from the activations and what is known of attributes.
void AttackAttributes(SmallRun& run) { run.AttackAttributes(); }
void CutBehindTheEmbeddings(SmallRun& run) {
  run.nonlabel_config.mutable_model()->clear_layers();
  run.agreement.set_cut_width(2 * 4 + 2);
  run.agreement.mutable_audit()->clear_layers();
  run.agreement.mutable_audit()->add_layers("cut");
}

class TranscriptOfSetting : public TranscriptTest, public ::testing::WithParamInterface<Setting> {
 protected:
  TranscriptOfSetting() { GetParam().apply(run_); }
};

TEST_P(TranscriptOfSetting, FlippingLabelsUnderTheSameNoisedLabelsChangesNoByteThatThePeerReceives) {
  for (size_t j = 0; j < kExamples; ++j) {
    targets_.push_back(static_cast<float>(static_cast<int>(j * 7 % 11)) - 5);
  }
  const std::vector<std::string> honest = Transcript(/*fixed_targets=*/true);
  const NamedParameters honest_predictions = predictions_;
  EXPECT_GT(honest.size(), 20);
  v1::CutGradients message;
  const auto is_frozen = [&](const std::string& text) { return message.ParseFromString(text) && message.frozen(); };
  EXPECT_EQ(std::any_of(honest.begin(), honest.end(), is_frozen), run_.label_config.has_release());
  for (uint8_t& label : run_.label_data.labels) {
    label = 1 - label;
  }
  EXPECT_EQ(Transcript(true), honest);
  EXPECT_NE(predictions_, honest_predictions);
}

INSTANTIATE_TEST_SUITE_P(
    Settings, TranscriptOfSetting,
    ::testing::Values(Setting{"OwnFeatures", ReadOwnFeatures}, Setting{"NoCorrection", GoWithoutTheCorrection},
                      Setting{"TwoBatchesInFlight", KeepTwoBatchesInFlight}, Setting{"Bfloat16", RoundOnTheWire},
                      Setting{"FrozenByTheGate", FreezeByTheGate}, Setting{"AttacksOnAttributes", AttackAttributes},
                      Setting{"CutBehindTheEmbeddings", CutBehindTheEmbeddings},
                      Setting{"AllAtOnce",
                              [](SmallRun& run) {
                                ReadOwnFeatures(run);
                                GoWithoutTheCorrection(run);
                                KeepTwoBatchesInFlight(run);
                                RoundOnTheWire(run);
                                CutBehindTheEmbeddings(run);
                              }}),
    [](const auto& param) { return std::string(param.param.name); });

// Batches of 300 in slices of 256 and 44, so that it would show if some were answered whole.
class PatternOfProtection : public TranscriptTest, public ::testing::WithParamInterface<const char*> {
 protected:
  PatternOfProtection() : TranscriptTest({}, 900) {
    run_.agreement.set_batch_size(300);
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(GetParam(), run_.label_config.mutable_protection()));
  }

  // The same run with labels of both classes in every batch, and with those of one class in all batches but one, which
  // one depending on where the aligned order has the only positive of the training examples.
  std::vector<std::vector<std::string>> WithOtherLabels(bool fixed_targets) {
    std::vector<std::vector<std::string>> transcripts = {Transcript(fixed_targets)};
    std::vector<uint8_t>& labels = run_.label_data.labels;
    const SplitRule rule(run_.agreement);
    std::vector<size_t> training, tests;
    for (size_t row = 0; row < labels.size(); ++row) {
      (rule.IsTest(run_.label_data.ids[row]) ? tests : training).push_back(row);
    }
    for (const size_t positive : {0, 7, 400}) {
      labels.assign(labels.size(), 0);
      labels[training[positive]] = labels[tests.front()] = 1;
      transcripts.push_back(Transcript(fixed_targets));
    }
    return transcripts;
  }
};

using LabelDpPattern = PatternOfProtection;

// Every byte: what is sent is made of the noised labels, and so is in how many messages, and after which slice.
TEST_P(LabelDpPattern, FlippingLabelsUnderTheSameNoisedLabelsChangesNothingThatThePeerReceives) {
  for (size_t j = 0; j < examples_; ++j) {
    targets_.push_back(j % 3 == 0 ? 1.2F : -0.2F);
  }
  const std::vector<std::vector<std::string>> transcripts = WithOtherLabels(/*fixed_targets=*/true);
  EXPECT_GT(transcripts.front().size(), 20);
  for (const std::vector<std::string>& transcript : transcripts) {
    EXPECT_EQ(transcript, transcripts.front());
  }
}

INSTANTIATE_TEST_SUITE_P(Protections, LabelDpPattern, ::testing::Values("label_dp { epsilon: 1 }"),
                         [](const auto&) { return "LabelDp"; });

// Without noised labels the bytes differ, but neither their number nor their sizes or order: a batch of one class, the
// first ones among them, is answered like all others.
TEST_P(PatternOfProtection, LabelsMoveNeitherNumberNorSizeNorOrderOfTheMessages) {
  std::vector<std::vector<size_t>> sizes;
  for (const std::vector<std::string>& transcript : WithOtherLabels(/*fixed_targets=*/false)) {
    sizes.emplace_back();
    for (const std::string& message : transcript) {
      const bool is_call = message.size() < 32;
      sizes.back().push_back(is_call ? std::hash<std::string>()(message) : message.size());
    }
  }
  EXPECT_GT(sizes.front().size(), 20);
  for (const std::vector<size_t>& pattern : sizes) {
    EXPECT_EQ(pattern, sizes.front());
  }
}

INSTANTIATE_TEST_SUITE_P(Protections, PatternOfProtection,
                         ::testing::Values("none {}", "iso { t: 1 }", "max_norm {}", "marvell { s: 4 }",
                                           "label_dp { epsilon: 1 }", "sparsify { keep: 0.5 }",
                                           "discretize { bins: 16 }"),
                         [](const auto& param) {
                           const std::string text = param.param;
                           return text.substr(0, text.find(' '));
                         });

// The check above can fail: other noised labels are other messages.
TEST_F(TranscriptTest, OneNoisedLabelMovesThem) {
  targets_.assign(300, 0.5F);
  const std::vector<std::string> before = Transcript(/*fixed_targets=*/true);
  targets_[17] = 3;
  EXPECT_NE(Transcript(true), before);
}

// So can it with the labels themselves: without noised labels between, they move what leaves.
TEST_F(TranscriptTest, LabelsMoveTheMessagesOfARunWithoutProtection) {
  run_.label_config.mutable_protection()->mutable_none();
  const std::vector<std::string> before = Transcript(/*fixed_targets=*/false);
  EXPECT_EQ(Transcript(false), before);
  run_.label_data.labels[17] = 1 - run_.label_data.labels[17];
  EXPECT_NE(Transcript(false), before);
}

}  // namespace
}  // namespace splitveil::testing
