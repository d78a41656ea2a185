// Whole runs through a peer that loses requests and answers, at seeded random: as if nothing had been lost.
#include <atomic>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/process/exit_code.h"
#include "tests/testing/local_label_party.h"
#include "tests/testing/small_run.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

absl::Status ConnectionLost() { return absl::UnavailableError("connection reset"); }

// When something is lost. Of alignments: the first few, each after some more messages.
class Faults {
 public:
  Faults(unsigned seed, double rate, int lost_alignments = 0)
      : draw_(seed), rate_(rate), lost_alignments_(lost_alignments) {}
  // Messages of the next alignment until it is lost.
  int MessagesOfAlignment() {
    constexpr int kAll = 1'000'000;
    return alignments_++ < lost_alignments_ ? alignments_ : kAll;
  }
  int alignments() const { return alignments_; }
  bool Next() {
    const bool lost = std::uniform_real_distribution<>()(draw_) < rate_;
    lost_ += lost ? 1 : 0;
    return lost;
  }
  int lost() const { return lost_; }

 private:
  std::mt19937 draw_;
  const double rate_;
  const int lost_alignments_;
  int lost_ = 0, alignments_ = 0;
};

class LossyAlignment final : public AlignmentStream {
 public:
  LossyAlignment(std::unique_ptr<AlignmentStream> stream, int messages) : stream_(std::move(stream)), left_(messages) {}
  absl::Status Send(const v1::AlignmentMessage& message) override {
    if (left_-- > 0) {
      return stream_->Send(message);
    }
    Cancel();
    return ConnectionLost();
  }
  absl::StatusOr<v1::AlignmentMessage> Receive() override {
    absl::StatusOr<v1::AlignmentMessage> message = stream_->Receive();
    return message.ok() ? std::move(message) : ConnectionLost();
  }
  absl::Status Finish() override {
    const absl::Status status = stream_->Finish();
    return left_ < 0 ? ConnectionLost() : status;
  }
  void Cancel() override { stream_->Cancel(); }

 private:
  const std::unique_ptr<AlignmentStream> stream_;
  std::atomic<int> left_;
};

class LossyTraining final : public TrainingStream {
 public:
  LossyTraining(std::unique_ptr<TrainingStream> stream, Faults* faults) : stream_(std::move(stream)), faults_(faults) {}
  absl::Status Send(const v1::CutActivations& message) override {
    broken_ = broken_ || faults_->Next();
    return broken_ ? ConnectionLost() : stream_->Send(message);
  }
  absl::StatusOr<v1::CutGradients> Receive() override {
    broken_ = broken_ || faults_->Next();
    return broken_ ? ConnectionLost() : stream_->Receive();
  }
  absl::Status Finish() override { return broken_ || faults_->Next() ? ConnectionLost() : stream_->Finish(); }

 private:
  const std::unique_ptr<TrainingStream> stream_;
  Faults* const faults_;
  bool broken_ = false;
};

class LossyEvaluation final : public EvaluationStream {
 public:
  LossyEvaluation(std::unique_ptr<EvaluationStream> stream, Faults* faults)
      : stream_(std::move(stream)), faults_(faults) {}
  absl::Status Send(const v1::CutActivations& message) override {
    broken_ = broken_ || faults_->Next();
    return broken_ ? ConnectionLost() : stream_->Send(message);
  }
  absl::StatusOr<v1::EvaluateResponse> Finish() override {
    if (broken_) {
      return ConnectionLost();
    }
    absl::StatusOr<v1::EvaluateResponse> response = stream_->Finish();
    return faults_->Next() ? ConnectionLost() : response;
  }

 private:
  const std::unique_ptr<EvaluationStream> stream_;
  Faults* const faults_;
  bool broken_ = false;
};

// Before a call is heard, or once it has been answered.
class LossyPeer final : public LabelPartyPeer {
 public:
  LossyPeer(LabelPartyPeer* peer, Faults* faults) : peer_(peer), faults_(faults) {}

  absl::StatusOr<v1::OpenResponse> Open(const v1::OpenRequest& request) override {
    return Lose<v1::OpenResponse>([&] { return peer_->Open(request); });
  }
  absl::StatusOr<std::unique_ptr<AlignmentStream>> Align() override {
    return std::make_unique<LossyAlignment>(*peer_->Align(), faults_->MessagesOfAlignment());
  }
  absl::StatusOr<std::vector<v1::MeasureLinkResponse>> MeasureLink(const v1::MeasureLinkRequest& request,
                                                                   int calls) override {
    return Lose<std::vector<v1::MeasureLinkResponse>>([&] { return peer_->MeasureLink(request, calls); });
  }
  absl::StatusOr<v1::StartResponse> Start(const v1::StartRequest& request) override {
    return Lose<v1::StartResponse>([&] { return peer_->Start(request); });
  }
  absl::StatusOr<std::unique_ptr<TrainingStream>> Train() override {
    return std::make_unique<LossyTraining>(*peer_->Train(), faults_);
  }
  absl::StatusOr<std::unique_ptr<EvaluationStream>> Evaluate() override {
    return std::make_unique<LossyEvaluation>(*peer_->Evaluate(), faults_);
  }
  absl::StatusOr<std::unique_ptr<EmbeddingStream>> EmbedAuxiliary() override { return peer_->EmbedAuxiliary(); }
  absl::StatusOr<std::unique_ptr<GuessStream>> GuessAttributes(const v1::GuessAttributesRequest& request) override {
    return Lose<std::unique_ptr<GuessStream>>([&] { return peer_->GuessAttributes(request); });
  }
  absl::StatusOr<v1::ScoreBatchResponse> ScoreBatch(const v1::ScoreBatchRequest& request) override {
    return Lose<v1::ScoreBatchResponse>([&] { return peer_->ScoreBatch(request); });
  }
  absl::StatusOr<v1::AuxiliaryLabelsResponse> AuxiliaryLabels(const v1::AuxiliaryLabelsRequest& request) override {
    return Lose<v1::AuxiliaryLabelsResponse>([&] { return peer_->AuxiliaryLabels(request); });
  }
  absl::StatusOr<v1::ScoreExamplesResponse> ScoreExamples(const v1::ScoreExamplesRequest& request) override {
    return Lose<v1::ScoreExamplesResponse>([&] { return peer_->ScoreExamples(request); });
  }
  absl::Status Close(const v1::CloseRequest& request) override {
    if (faults_->Next()) {
      return ConnectionLost();
    }
    absl::Status status = peer_->Close(request);
    return faults_->Next() ? ConnectionLost() : status;
  }

 private:
  template <typename Response, typename Call>
  absl::StatusOr<Response> Lose(const Call& call) {
    if (faults_->Next()) {
      return ConnectionLost();
    }
    absl::StatusOr<Response> response = call();
    if (faults_->Next()) {
      return ConnectionLost();
    }
    return response;
  }

  LabelPartyPeer* const peer_;
  Faults* const faults_;
};

class LossyRunTest : public ::testing::Test {
 protected:
  struct Outcome {
    absl::Status label, nonlabel;
    NamedParameters label_model, nonlabel_model;
    std::string steps, leaks, evaluations, interruptions;
    std::string begun_alignments;  // "LABEL_PARTY NONLABEL_PARTY".
  };

  Outcome Run(Faults* faults, const std::function<absl::Status(SteadyTime)>& reach) {
    SmallRun run(300);
    run.agreement.set_in_flight_batches(in_flight_batches_);
    run.agreement.mutable_audit()->set_auxiliary_labels(20);
    std::unique_ptr<LabelSession> label = *LabelSession::Create(run.LabelOptions());
    LocalLabelParty local(label.get());
    LossyPeer peer(&local, faults);
    NonLabelSessionOptions options = run.NonLabelOptions(&peer);
    options.reach = reach;
    NonLabelSession nonlabel(std::move(options));
    Outcome outcome;
    outcome.nonlabel = nonlabel.Run();
    outcome.label = label->WaitUntilEnded([] { return true; });
    if (outcome.nonlabel.ok() && outcome.label.ok()) {
      outcome.label_model = label->model()->Parameters();
      outcome.nonlabel_model = nonlabel.model()->Parameters();
    }
    const std::string ledger = run.files.File("label_party.db");
    outcome.steps =
        LedgerValue(ledger, "SELECT group_concat(step || ' ' || epoch || ' ' || batch || ' ' || loss) FROM step");
    outcome.leaks = LedgerValue(ledger,
                                "SELECT group_concat(auc) FROM (SELECT auc FROM leak "
                                "ORDER BY observer, step, layer, attack)");
    outcome.evaluations = LedgerValue(ledger, "SELECT group_concat(auc) FROM evaluation");
    outcome.interruptions =
        LedgerValue(run.files.File("nonlabel_party.db"), "SELECT count(*) FROM event WHERE kind = 'interrupted'");
    constexpr char kBegun[] = "SELECT count(*) FROM alignment";
    outcome.begun_alignments =
        absl::StrCat(LedgerValue(ledger, kBegun), " ", LedgerValue(run.files.File("nonlabel_party.db"), kBegun));
    return outcome;
  }

  static absl::Status AlwaysThere(SteadyTime) { return absl::OkStatus(); }

  int in_flight_batches_ = 1;
};

TEST_F(LossyRunTest, WhateverIsLostTheRunIsTheSame) {
  for (const int in_flight : {1, 3}) {
    in_flight_batches_ = in_flight;
    Faults none(0, 0);
    const Outcome expected = Run(&none, AlwaysThere);
    ASSERT_TRUE(expected.nonlabel.ok()) << expected.nonlabel;
    ASSERT_TRUE(expected.label.ok()) << expected.label;
    EXPECT_EQ(expected.interruptions, "0");
    int lost = 0;
    for (unsigned seed = 1; seed <= 5; ++seed) {
      Faults faults(seed, 0.1);
      const Outcome found = Run(&faults, AlwaysThere);
      ASSERT_TRUE(found.nonlabel.ok()) << seed << ": " << found.nonlabel;
      ASSERT_TRUE(found.label.ok()) << seed << ": " << found.label;
      lost += faults.lost();
      EXPECT_EQ(found.label_model, expected.label_model) << seed;
      EXPECT_EQ(found.nonlabel_model, expected.nonlabel_model) << seed;
      EXPECT_EQ(found.steps, expected.steps) << seed;
      EXPECT_EQ(found.leaks, expected.leaks) << seed;
      EXPECT_EQ(found.evaluations, expected.evaluations) << seed;
      EXPECT_EQ(found.interruptions == "0", faults.lost() == 0);
    }
    EXPECT_GT(lost, 10);
  }
}

// Its outcome is then the one of the attempt that succeeded, at both.
TEST_F(LossyRunTest, AnAlignmentThatIsLostRestarts) {
  Faults none(0, 0);
  const Outcome expected = Run(&none, AlwaysThere);
  ASSERT_TRUE(expected.nonlabel.ok()) << expected.nonlabel;
  Faults faults(0, 0, 3);
  const Outcome found = Run(&faults, AlwaysThere);
  ASSERT_TRUE(found.nonlabel.ok()) << found.nonlabel;
  ASSERT_TRUE(found.label.ok()) << found.label;
  EXPECT_EQ(faults.alignments(), 4);
  EXPECT_EQ(found.label_model, expected.label_model);
  EXPECT_EQ(found.nonlabel_model, expected.nonlabel_model);
  EXPECT_EQ(found.steps, expected.steps);
  EXPECT_EQ(expected.begun_alignments, "1 1");
  EXPECT_EQ(found.begun_alignments, "4 4");
  EXPECT_NE(found.interruptions, "0");
}

TEST_F(LossyRunTest, AnAlignmentThatIsLostEveryTimeEndsTheRun) {
  Faults faults(0, 0, 1000);
  const Outcome outcome = Run(&faults, AlwaysThere);
  EXPECT_EQ(ExitCodeFor(outcome.nonlabel), ExitCode::kRefused) << outcome.nonlabel;
  EXPECT_THAT(std::string(outcome.nonlabel.message()),
              HasSubstr("attempts succeeded: find out what breaks the connection"));
  EXPECT_FALSE(outcome.label.ok());
}

TEST_F(LossyRunTest, WithoutAWayBackALossEndsTheRun) {
  Faults faults(1, 0.1);
  const Outcome outcome = Run(&faults, nullptr);
  EXPECT_EQ(ExitCodeFor(outcome.nonlabel), ExitCode::kPeerUnreachable) << outcome.nonlabel;
  EXPECT_THAT(std::string(outcome.nonlabel.message()), HasSubstr("connection reset"));
}

TEST_F(LossyRunTest, SomebodyElseInTheLabelPartysPlaceEndsTheRun) {
  Faults faults(1, 0.1);
  const Outcome outcome =
      Run(&faults, [](SteadyTime) { return AsRefusal(absl::PermissionDeniedError("another certificate")); });
  EXPECT_EQ(ExitCodeFor(outcome.nonlabel), ExitCode::kRefused) << outcome.nonlabel;
  EXPECT_EQ(outcome.nonlabel.message(), "another certificate");
}

}  // namespace
}  // namespace splitveil::testing
