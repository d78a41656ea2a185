// The peer of a label session in tests, message by message: a test sends what an honest party would, then something
// else.
#ifndef SPLITVEIL_TESTS_UNIT_LABEL_PARTY_SESSION_LABEL_SESSION_FIXTURE_H_
#define SPLITVEIL_TESTS_UNIT_LABEL_PARTY_SESSION_LABEL_SESSION_FIXTURE_H_

#include <algorithm>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/schedule/schedule.h"
#include "label_party/session/label_session.h"
#include "tests/testing/alignment_channel_pair.h"
#include "tests/testing/peer_messages.h"
#include "tests/testing/small_run.h"

namespace splitveil::testing {

// A peer's end whose connection breaks in the place of its next message once it has sent so many.
class BreakingChannel final : public AlignmentChannel {
 public:
  // `channel`: not owned; must outlive this.
  BreakingChannel(InMemoryAlignmentChannel* channel, int messages) : channel_(channel), left_(messages) {}

  absl::Status Send(const v1::AlignmentMessage& message) override {
    if (left_-- > 0) {
      return channel_->Send(message);
    }
    channel_->Close();
    return absl::UnavailableError("connection reset");
  }
  absl::StatusOr<v1::AlignmentMessage> Receive() override {
    absl::StatusOr<v1::AlignmentMessage> message = channel_->Receive();
    return absl::IsOutOfRange(message.status()) ? absl::UnavailableError("connection reset") : std::move(message);
  }

 private:
  InMemoryAlignmentChannel* const channel_;
  int left_;
};

class LabelSessionTest : public ::testing::Test {
 protected:
  explicit LabelSessionTest(int examples = 300) : run_(examples) {}

  void Create() {
    LabelSessionOptions options = run_.LabelOptions();
    options.clock = clock_;
    options.only_continues = only_continues_;
    options.keep_report = keep_report_;
    absl::StatusOr<std::unique_ptr<LabelSession>> session = LabelSession::Create(std::move(options));
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
    absl::StatusOr<SeedExchange> seed = SeedExchange::Create(SeedRole::kNonLabelParty, std::string(32, 's'));
    ASSERT_TRUE(seed.ok());
    seed_ = std::make_unique<SeedExchange>(*std::move(seed));
  }

  v1::OpenRequest OpenRequest() const {
    v1::OpenRequest request = OpenRequestOf(run_.agreement, *seed_);
    request.set_resumed_from(continues_);
    if (!run_.known_attributes.ids.empty()) {
      for (const std::string& digest : AttributeValueDigests(run_.nonlabel_data.Store()->preprocessing(),
                                                             run_.agreement.attribute_audit().attributes())) {
        request.add_attribute_values_sha256(digest);
      }
    }
    for (const std::string& name : unfinished_) {
      request.add_unfinished(name);
    }
    return request;
  }

  void Open() {
    Create();
    const absl::StatusOr<v1::OpenResponse> response = session_->Open(OpenRequest());
    ASSERT_TRUE(response.ok()) << response.status();
    run_id_ = response->run_id();
    commitment_ = response->seed_commitment();
  }

  void Align() {
    Open();
    AlignAgain();
  }

  void AlignAgain() {
    const absl::StatusOr<AlignedIds> aligned = AlignWith(*session_, run_, run_id_);
    ASSERT_TRUE(aligned.ok()) << aligned.status();
    aligned_ = *aligned;
  }

  // The peer begins to align, and its connection breaks once it has sent `messages`. The label party's verdict.
  absl::Status AlignAndLose(int messages) {
    AlignmentChannelPair pair(64);
    absl::Status verdict;
    std::thread label([&] {
      verdict = session_->Align(*pair.second);
      pair.second->Close();
    });
    AlignmentOptions options;
    options.run_id = run_id_;
    options.chunk_ids = run_.agreement.alignment().chunk_ids();
    BreakingChannel channel(pair.first.get(), messages);
    EXPECT_FALSE(AlignIds(run_.nonlabel_data.ids, options, channel).ok());
    label.join();
    return verdict;
  }

  // The peer holds of the examples only those that `kept` says, by number.
  void ShareOnly(const std::function<bool(size_t)>& kept) {
    for (size_t i = 0; i < 300; ++i) {
      run_.nonlabel_data.ids[i] += kept(i) ? "" : " of another table";
    }
  }

  v1::StartRequest StartRequest() const { return StartRequestOf(run_id_, aligned_, *seed_); }

  void Start() {
    Align();
    const absl::StatusOr<v1::StartResponse> response = session_->Start(StartRequest());
    ASSERT_TRUE(response.ok()) << response.status();
    const absl::StatusOr<JointSeed> joint = seed_->Combine(commitment_, response->seed_reveal());
    ASSERT_TRUE(joint.ok());
    absl::StatusOr<PeerSchedule> schedule = ScheduleOf(run_, *joint, aligned_);
    ASSERT_TRUE(schedule.ok()) << schedule.status();
    schedule_ = std::make_unique<Schedule>(std::move(schedule->schedule));
    test_examples_ = schedule->test_examples;
    auxiliary_examples_ = schedule->auxiliary_examples;
  }

  // Batches of up to 300 examples, which travel in a slice of 256 rows and one of the rest.
  void StartWithLongBatches(double test_fraction) {
    run_.agreement.set_batch_size(300);
    run_.agreement.set_test_fraction(test_fraction);
    Start();
  }

  // Activations of a batch: any finite numbers serve.
  v1::CutActivations ActivationsOf(uint32_t epoch, uint32_t batch, int64_t rows, float scale = 1) const {
    v1::CutActivations message = MadeUpActivations(run_, rows, scale);
    message.set_run_id(run_id_);
    message.set_epoch(epoch);
    message.set_batch(batch);
    return message;
  }
  v1::CutActivations Activations(uint32_t epoch, uint32_t batch, float scale = 1) const {
    return ActivationsOf(epoch, batch, schedule_->batch_rows(batch), scale);
  }

  void TrainEpoch(uint32_t epoch) {
    for (uint32_t batch = 0; batch < schedule_->batches_per_epoch(); ++batch) {
      const absl::StatusOr<SharedGradients> response = session_->Train(Activations(epoch, batch));
      ASSERT_TRUE(response.ok()) << response.status();
      ASSERT_TRUE(session_->Learn().ok());
    }
  }

  // Sends every test batch of `epoch`.
  LabelSession::Evaluation EvaluateAll(uint32_t epoch) {
    LabelSession::Evaluation evaluation;
    const int64_t batch_size = run_.agreement.batch_size();
    for (int64_t done = 0; done < test_examples_; done += batch_size) {
      const int64_t rows = std::min(batch_size, test_examples_ - done);
      EXPECT_TRUE(session_->Evaluate(ActivationsOf(epoch, evaluation.next_batch, rows), evaluation).ok());
    }
    return evaluation;
  }

  // The message is refused with `code`, and the honest one still passes afterwards: nothing has changed.
  void ExpectRefused(v1::CutActivations message, absl::StatusCode code, const std::string& text) {
    const absl::StatusOr<SharedGradients> refused = session_->Train(std::move(message));
    EXPECT_EQ(refused.status().code(), code) << refused.status();
    EXPECT_THAT(std::string(refused.status().message()), ::testing::HasSubstr(text));
    EXPECT_TRUE(session_->Train(Activations(0, 0)).ok());
  }

  v1::ScoreBatchRequest Scores(uint32_t epoch, uint32_t batch) const {
    v1::ScoreBatchRequest request = MadeUpScores(schedule_->batch_rows(batch));
    request.set_run_id(run_id_);
    request.set_epoch(epoch);
    request.set_batch(batch);
    return request;
  }

  SmallRun run_;
  SteadyClock clock_ = SteadyNow;
  std::function<absl::Status(const RunFigures&, bool complete)> keep_report_;
  std::unique_ptr<LabelSession> session_;
  std::unique_ptr<SeedExchange> seed_;
  std::unique_ptr<Schedule> schedule_;
  bool only_continues_ = false;
  std::string continues_;                // What the peer says at Open,
  std::vector<std::string> unfinished_;  // and which broken runs it can continue.
  std::string run_id_, commitment_;
  AlignedIds aligned_;
  int64_t test_examples_ = 0, auxiliary_examples_ = 0;
};

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_UNIT_LABEL_PARTY_SESSION_LABEL_SESSION_FIXTURE_H_
