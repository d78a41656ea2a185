// When the label party takes its peer for gone, by a clock that the test sets: what it refuses is not heard and changes
// nothing, and the wall clock has no say.
#include <chrono>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "common/operations/run_facts.h"
#include "common/process/exit_code.h"
#include "label_party/session/run.h"
#include "tests/unit/label_party/session/label_session_fixture.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

class LabelSessionSilenceTest : public LabelSessionTest {
 protected:
  struct Sent {
    const char* what;
    std::function<void()> before;        // Brings the session to where it is sent.
    std::function<absl::Status()> send;  // What the session says to it.
  };

  LabelSessionSilenceTest() {
    clock_ = [this] { return now_; };
    v1::Deadlines& deadlines = *run_.agreement.mutable_deadlines();
    deadlines.set_connect_seconds(10);
    deadlines.set_step_seconds(10);
    deadlines.set_alignment_chunk_seconds(10);
    deadlines.set_max_outage_seconds(0);
  }

  // Whether the session ends at this moment since it has not heard of its peer.
  bool EndsOfSilence() {
    static int asked;
    asked = 0;
    const absl::Status outcome = session_->WaitUntilEnded([] { return ++asked > 1; });
    EXPECT_TRUE(IsStoppedOnRequest(outcome) || absl::IsUnavailable(outcome)) << outcome;
    return absl::IsUnavailable(outcome);
  }

  // What an operator and the run's result say of the session.
  std::string Visible() const {
    const std::optional<RunFigures> report = session_->figures();
    return run_.label_status.Snapshot().DebugString() + (report.has_value() ? FullResultJson(*report) : "");
  }

  v1::CutActivations Altered(const std::function<void(v1::CutActivations&)>& alter) const {
    v1::CutActivations message = Activations(0, 0);
    alter(message);
    return message;
  }

  v1::CloseRequest Complete() const {
    v1::CloseRequest close;
    close.set_run_id(run_id_);
    close.set_completed(true);
    return close;
  }

  // A message that names the run, and nothing else.
  template <typename Request>
  Request Bare() const {
    Request request;
    request.set_run_id(run_id_);
    return request;
  }

  v1::OpenRequest WithoutCommitment() const {
    v1::OpenRequest request = OpenRequest();
    request.clear_seed_commitment();
    return request;
  }
  v1::StartRequest WithAnotherSeed() const {
    v1::StartRequest request = StartRequest();
    request.mutable_seed_reveal()->back() ^= 1;
    return request;
  }

  std::vector<Sent> Refused() {
    const auto create = [this] { Create(); };
    const auto open = [this] { Open(); };
    const auto start = [this] { Start(); };
    const auto first_batch = [this] {
      Start();
      ASSERT_TRUE(session_->Train(Activations(0, 0)).ok());
      ASSERT_TRUE(session_->Learn().ok());
    };
    const auto first_epoch = [this] {
      Start();
      TrainEpoch(0);
    };
    const auto train = [this](const std::function<void(v1::CutActivations&)>& alter) {
      return std::function<absl::Status()>([=] { return session_->Train(Altered(alter)).status(); });
    };
    LabelSession::Evaluation& evaluation = evaluation_;
    return {
        {"Open without a commitment", create, [this] { return session_->Open(WithoutCommitment()).status(); }},
        {"Start before the alignment", open, [this] { return session_->Start(StartRequest()).status(); }},
        {"Train before the alignment", open, [this] { return session_->Train(Bare<v1::CutActivations>()).status(); }},
        {"a second Open", start, [this] { return session_->Open(OpenRequest()).status(); }},
        {"a second Align", start,
         [this] {
           AlignmentChannelPair pair(4);
           return session_->Align(*pair.second);
         }},
        {"a second Start, with another seed", start, [this] { return session_->Start(WithAnotherSeed()).status(); }},
        {"a batch of another run", start, train([](auto& message) { message.set_run_id("another"); })},
        {"a batch out of order", start, train([](auto& message) { message.set_batch(1); })},
        {"a slice that is not due", start, train([](auto& message) { message.set_first_row(7); })},
        {"activations without numbers", start, train([](auto& message) { message.clear_activations(); })},
        {"activations of another width", start,
         train([](auto& message) { message.mutable_activations()->set_shape(1, 4); })},
        {"a batch again, with other activations", first_batch,
         [this] { return session_->Train(Activations(0, 0, 2.0f)).status(); }},
        {"the next batch, malformed", first_batch, train([](auto& message) {
           message.set_batch(1);
           message.clear_activations();
         })},
        {"an evaluation out of turn", start,
         [this, &evaluation] { return session_->Evaluate(ActivationsOf(0, 0, 64), evaluation); }},
        {"an evaluation of other rows", first_epoch,
         [this, &evaluation] { return session_->Evaluate(ActivationsOf(0, 0, 1), evaluation); }},
        {"the end of an evaluation of nothing", first_epoch,
         [this, &evaluation] { return session_->FinishEvaluation(evaluation).status(); }},
        {"AuxiliaryLabels, not agreed", first_epoch,
         [this] { return session_->AuxiliaryLabels(Bare<v1::AuxiliaryLabelsRequest>()).status(); }},
        {"ScoreExamples, not agreed", first_epoch,
         [this] { return session_->ScoreExamples(Bare<v1::ScoreExamplesRequest>()).status(); }},
        {"ScoreBatch of no batch", start,
         [this] { return session_->ScoreBatch(Bare<v1::ScoreBatchRequest>()).status(); }},
        {"Close before the last epoch", first_epoch, [this] { return session_->Close(Complete()); }},
    };
  }

  std::vector<Sent> Taken() {
    const auto start = [this] { Start(); };
    const auto first_batch = [this] {
      Start();
      ASSERT_TRUE(session_->Train(Activations(0, 0)).ok());
    };
    const auto first_epoch = [this] {
      Start();
      TrainEpoch(0);
    };
    const auto evaluated = [this, first_epoch] {
      first_epoch();
      evaluation_ = EvaluateAll(0);
    };
    return {
        {"Open", [this] { Create(); }, [this] { return session_->Open(OpenRequest()).status(); }},
        {"Start", [this] { Align(); }, [this] { return session_->Start(StartRequest()).status(); }},
        {"a batch", start, [this] { return session_->Train(Activations(0, 0)).status(); }},
        {"what follows its answer", first_batch, [this] { return session_->Learn(); }},
        {"a batch again", first_batch, [this] { return session_->Train(Activations(0, 0)).status(); }},
        {"its scores", first_batch, [this] { return session_->ScoreBatch(Scores(0, 0)).status(); }},
        {"a batch of an evaluation", first_epoch,
         [this] {
           EvaluateAll(0);
           return absl::OkStatus();
         }},
        {"the end of an evaluation", evaluated, [this] { return session_->FinishEvaluation(evaluation_).status(); }},
    };
  }

  SteadyTime now_;
  LabelSession::Evaluation evaluation_;
};

TEST_F(LabelSessionSilenceTest, WhatIsRefusedIsNotHeardAndChangesNothing) {
  for (const Sent& sent : Refused()) {
    SCOPED_TRACE(sent.what);
    sent.before();
    now_ += seconds(8);
    const std::string before = Visible();
    EXPECT_FALSE(sent.send().ok());
    EXPECT_EQ(Visible(), before);
    now_ += seconds(8);
    EXPECT_TRUE(EndsOfSilence());
  }
}

TEST_F(LabelSessionSilenceTest, WhatIsTakenIsHeard) {
  for (const Sent& sent : Taken()) {
    SCOPED_TRACE(sent.what);
    sent.before();
    now_ += seconds(8);
    const absl::Status status = sent.send();
    EXPECT_TRUE(status.ok()) << status;
    now_ += seconds(8);
    EXPECT_FALSE(EndsOfSilence());
  }
}

TEST_F(LabelSessionSilenceTest, APeerWhoseConnectionIsLostMayComeBackWithinTheAgreedOutage) {
  run_.agreement.mutable_deadlines()->set_max_outage_seconds(100);
  Start();
  session_->StreamOpened();
  ASSERT_TRUE(session_->Train(Activations(0, 0)).ok());
  session_->TrainStreamEnded(/*cut_off=*/true);
  now_ += seconds(99);
  ASSERT_TRUE(session_->Train(Activations(0, 0)).ok());  // What it may not have got.
  now_ += seconds(11);
  EXPECT_TRUE(EndsOfSilence());  // It is there, and says nothing.
  EXPECT_EQ(LedgerValue(run_.files.File("label_party.db"), "SELECT detail FROM event WHERE kind = 'interrupted'"),
            "99.0 s without the non-label party");
}

TEST_F(LabelSessionSilenceTest, AnAlignmentWhoseConnectionIsLostMayRestartWithinTheAgreedOutage) {
  run_.agreement.mutable_deadlines()->set_max_outage_seconds(100);
  run_.agreement.mutable_alignment()->set_chunk_ids(100);
  for (int messages = 0; messages < 8; ++messages) {  // Before its points, within them, within its answers.
    SCOPED_TRACE(messages);
    Open();
    EXPECT_EQ(AlignAndLose(messages).code(), absl::StatusCode::kUnavailable);
    now_ += seconds(99);
    AlignAgain();
    ASSERT_TRUE(session_->Start(StartRequest()).ok());
    AlignmentChannelPair late(4);  // What both have is kept.
    EXPECT_EQ(session_->Align(*late.second).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_FALSE(session_->WaitUntilEnded([] { return true; }).ok());
    const std::string of_run = absl::StrCat(" FROM event WHERE run_id = '", run_id_, "' AND kind = ");
    const std::string path = run_.files.File("label_party.db");
    EXPECT_EQ(LedgerValue(path, "SELECT detail" + of_run + "'interrupted'"), "99.0 s without the non-label party");
    EXPECT_EQ(LedgerValue(path, "SELECT count(*) FROM alignment WHERE run_id = '" + run_id_ + "'"), "2");
    EXPECT_EQ(LedgerValue(path, "SELECT detail" + of_run + "'alignment_failed'"), "UNAVAILABLE");
  }
}

TEST_F(LabelSessionSilenceTest, ASilenceFarLongerThanUsualWithinAStreamIsAStall) {
  Start();
  session_->StreamOpened();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(session_->Train(Activations(0, 0)).ok());  // The same again, as often as it likes.
  }
  now_ += seconds(6);
  ASSERT_TRUE(session_->Train(Activations(0, 1)).ok());
  EXPECT_FALSE(session_->WaitUntilEnded([] { return true; }).ok());
  EXPECT_EQ(
      LedgerValue(run_.files.File("label_party.db"),
                  "SELECT group_concat(kind || ' ' || detail) FROM event WHERE kind IN ('stalled', 'interrupted')"),
      "stalled 6.0 s without the non-label party, the connection held");
}

// The first 100 of a run are recorded, however often it is resumed.
TEST_F(LabelSessionSilenceTest, StallsBeforeAResumeCountAfterIt) {
  const v1::Deadlines deadlines;
  const std::string path = run_.files.File("stalls.db");
  const auto ledger = BeginLedger(path, {"run-1", "label_party", "00", "none", "{}"}, v1::LABEL_SIDE_ONLY);
  ASSERT_TRUE(ledger.ok()) << ledger.status();
  const auto stall = [&] {
    PeerPresence presence(&deadlines, [this] { return now_; });
    presence.RecordIn(ledger->get());
    presence.StreamOpened();
    for (int i = 0; i < 20; ++i) {
      now_ += seconds(1);
      presence.Heard();
    }
    now_ += seconds(100);
    presence.Heard();
  };
  stall();
  for (int i = 1; i < 100; ++i) {
    ASSERT_TRUE((*ledger)->RecordEvent("stalled", "100.0 s").ok());
  }
  stall();
  ASSERT_TRUE((*ledger)->Commit().ok());
  EXPECT_EQ(LedgerValue(path, "SELECT count(*) FROM event WHERE kind = 'stalled'"), "100");
}

TEST_F(LabelSessionSilenceTest, APeerThatLostItsAlignmentIsGivenUpAfterTheAgreedOutage) {
  run_.agreement.mutable_deadlines()->set_max_outage_seconds(100);
  for (const auto& [waited, given_up] : {std::pair{99, false}, {101, true}}) {
    Open();
    EXPECT_EQ(AlignAndLose(1).code(), absl::StatusCode::kUnavailable);
    now_ += seconds(waited);
    EXPECT_EQ(EndsOfSilence(), given_up) << waited;
  }
}

TEST_F(LabelSessionSilenceTest, AnAlignmentThatOnlyThePeerKnowsToBeLostMayRestart) {
  run_.agreement.mutable_deadlines()->set_max_outage_seconds(100);
  Align();
  now_ += seconds(5);
  AlignAgain();
  EXPECT_TRUE(session_->Start(StartRequest()).ok());
  EXPECT_FALSE(session_->WaitUntilEnded([] { return true; }).ok());
  EXPECT_EQ(LedgerValue(run_.files.File("label_party.db"), "SELECT detail FROM event WHERE kind = 'interrupted'"),
            "5.0 s without the non-label party");
}

TEST_F(LabelSessionSilenceTest, AnAlignmentStillUnderWayGivesWayToALaterOne) {
  run_.agreement.mutable_deadlines()->set_max_outage_seconds(100);
  Open();
  AlignmentChannelPair stalled(64);
  absl::Notification taken;
  absl::Status verdict;
  std::thread label([&] { verdict = session_->Align(*stalled.second, [&] { taken.Notify(); }); });
  taken.WaitForNotification();
  AlignmentChannelPair pair(64);
  absl::Status later;
  std::thread again([&] { later = session_->Align(*pair.second, [&] { stalled.second->Close(); }); });
  AlignmentOptions options;
  options.run_id = run_id_;
  const absl::StatusOr<AlignedIds> aligned = AlignIds(run_.nonlabel_data.ids, options, *pair.first);
  label.join();
  again.join();
  EXPECT_EQ(verdict.code(), absl::StatusCode::kCancelled);
  EXPECT_TRUE(later.ok()) << later;
  ASSERT_TRUE(aligned.ok()) << aligned.status();
  aligned_ = *aligned;
  EXPECT_TRUE(session_->Start(StartRequest()).ok());
}

TEST_F(LabelSessionSilenceTest, WithoutAnAgreedOutageALostAlignmentEndsTheRun) {
  Open();
  EXPECT_EQ(AlignAndLose(1).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(session_->WaitUntilEnded([] { return false; }).code(), absl::StatusCode::kUnavailable);
}

// Each attempt lets it try another list of ids.
TEST_F(LabelSessionSilenceTest, APeerThatLosesEveryAlignmentIsRefused) {
  run_.agreement.mutable_deadlines()->set_max_outage_seconds(100);
  Open();
  for (int i = 0; i < kMostAlignments; ++i) {
    EXPECT_EQ(AlignAndLose(1).code(), absl::StatusCode::kUnavailable);
  }
  AlignmentChannelPair pair(4);
  EXPECT_EQ(session_->Align(*pair.second).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ExitCodeFor(session_->WaitUntilEnded([] { return false; })), ExitCode::kRefused);
}

TEST_F(LabelSessionSilenceTest, AnOpeningMessageThatComesAgainTellsOfAnInterruption) {
  run_.agreement.mutable_deadlines()->set_max_outage_seconds(100);
  Open();
  now_ += seconds(3);
  EXPECT_TRUE(session_->Open(OpenRequest()).ok());
  AlignAgain();
  ASSERT_TRUE(session_->Start(StartRequest()).ok());
  now_ += seconds(4);
  EXPECT_TRUE(session_->Start(StartRequest()).ok());
  EXPECT_FALSE(session_->WaitUntilEnded([] { return true; }).ok());
  EXPECT_EQ(LedgerValue(run_.files.File("label_party.db"),
                        "SELECT group_concat(detail) FROM event WHERE kind = 'interrupted'"),
            "3.0 s without the non-label party,4.0 s without the non-label party");
}

TEST_F(LabelSessionSilenceTest, APeerWhoseConnectionIsLostIsGivenUpAfterTheAgreedOutage) {
  run_.agreement.mutable_deadlines()->set_max_outage_seconds(100);
  Start();
  ASSERT_TRUE(session_->Train(Activations(0, 0)).ok());
  session_->TrainStreamEnded(/*cut_off=*/true);
  now_ += seconds(101);
  const absl::Status outcome = session_->WaitUntilEnded([] { return false; });
  EXPECT_EQ(outcome.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(outcome.message()), HasSubstr("within 1m40s: its connection is lost"));
}

TEST_F(LabelSessionSilenceTest, BetweenStreamsThePeerHasAsLongAsForAnOutage) {
  run_.agreement.mutable_deadlines()->set_max_outage_seconds(100);
  Start();
  session_->StreamOpened();
  TrainEpoch(0);
  session_->TrainStreamEnded(/*cut_off=*/false);
  session_->StreamClosed();
  now_ += seconds(99);
  EXPECT_FALSE(EndsOfSilence());
}

TEST_F(LabelSessionSilenceTest, BetweenStreamsThePeerIsGivenUpAfterTheAgreedOutage) {
  run_.agreement.mutable_deadlines()->set_max_outage_seconds(100);
  Start();
  now_ += seconds(101);
  EXPECT_TRUE(EndsOfSilence());
}

TEST_F(LabelSessionSilenceTest, AStreamThatEndsWithAnEpochIsNoLoss) {
  run_.agreement.mutable_deadlines()->set_max_outage_seconds(100);
  Start();
  session_->StreamOpened();  // The next one.
  TrainEpoch(0);
  session_->TrainStreamEnded(/*cut_off=*/false);
  now_ += seconds(11);
  EXPECT_TRUE(EndsOfSilence());
}

TEST_F(LabelSessionSilenceTest, ASilentPeerEndsTheRun) {
  Start();
  now_ += seconds(11);
  const absl::Status outcome = session_->WaitUntilEnded([] { return false; });
  EXPECT_EQ(outcome.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(outcome.message()), HasSubstr("within 10s: it is silent"));
}

TEST_F(LabelSessionSilenceTest, APeerThatPreparesItsAlignedIdsIsWaitedForLongerThanForAStep) {
  run_.agreement.mutable_deadlines()->set_alignment_chunk_seconds(60);
  Align();
  now_ += seconds(30);
  EXPECT_FALSE(EndsOfSilence());
}

// A wall clock that is set moves every other clock than the one that is asked.
TEST_F(LabelSessionSilenceTest, TimeThatOnlyTheWallClockSeesEndsNoRun) {
  run_.agreement.mutable_deadlines()->set_step_seconds(0.05);
  Start();
  absl::SleepFor(absl::Milliseconds(100));
  EXPECT_FALSE(EndsOfSilence());
}

}  // namespace
}  // namespace splitveil::testing
