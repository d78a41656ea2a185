// gaussian_label_dp: whatever the labels are, the same noised labels give the peer the same messages.
#include <algorithm>
#include <filesystem>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "label_party/protection/gaussian_label_dp_planner.h"
#include "label_party/session/label_session.h"
#include "nonlabel_party/session/nonlabel_session.h"
#include "tests/testing/local_label_party.h"
#include "tests/testing/small_run.h"

// In place of the library's, for the whole process: what is drawn is always the same, so that keys, masks and with them
// the aligned order are, and runs differ in nothing but what a test changes.
extern "C" int RAND_priv_bytes(unsigned char* bytes, int count) {  // NOLINT(readability-identifier-naming): OpenSSL's
  std::fill_n(bytes, count, static_cast<unsigned char>(0x5a));
  return 1;
}

namespace splitveil::testing {
namespace {

constexpr int kExamples = 300;

// The noised labels of another run, whatever the labels.
class FixedTargets final : public LabelTargets {
 public:
  FixedTargets(std::shared_ptr<LabelTargets> drawn, std::vector<float> targets)
      : drawn_(std::move(drawn)), targets_(std::move(targets)) {}

  absl::StatusOr<std::vector<float>> TrainingTargets(absl::Span<const NoiseRow> examples,
                                                     absl::Span<const float> labels) override {
    EXPECT_TRUE(drawn_->TrainingTargets(examples, labels).ok());
    const size_t outputs = targets_.size() / kExamples;
    EXPECT_LE(labels.size(), kExamples);
    return std::vector<float>(targets_.begin(), targets_.begin() + static_cast<int64_t>(outputs * labels.size()));
  }
  bool drawn() const override { return drawn_->drawn(); }
  bool needs_release_head() const override { return true; }
  double target_noise() const override { return drawn_->target_noise(); }
  std::optional<AccountedReleases> accounted() const override { return drawn_->accounted(); }

 private:
  const std::shared_ptr<LabelTargets> drawn_;
  const std::vector<float> targets_;
};

class TranscriptTest : public ::testing::Test {
 protected:
  explicit TranscriptTest(const Task& task = {}) : run_(kExamples, task) {
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
      options.protection.labels = std::make_shared<FixedTargets>(options.protection.labels, targets_);
    }
    absl::StatusOr<std::unique_ptr<LabelSession>> created = LabelSession::Create(std::move(options));
    EXPECT_TRUE(created.ok()) << created.status();
    const std::unique_ptr<LabelSession> label = *std::move(created);
    LocalLabelParty peer(label.get());
    std::vector<std::string> messages;
    peer.on_call = [&](const std::string& call) { messages.push_back(call); };
    peer.alter_gradients = [&](v1::CutGradients& message) { messages.push_back(message.SerializeAsString()); };
    peer.alter_evaluation = [&](v1::EvaluateResponse& message) { messages.push_back(message.SerializeAsString()); };
    peer.alter_leaks = [&](v1::ScoreBatchResponse& message) { messages.push_back(message.SerializeAsString()); };
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
  labels.assign(labels.size(), 0);
  labels[0] = labels[1] = labels[2] = 1;
  EXPECT_EQ(Transcript(true), honest);
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
