// Over the wire: every message in every wrong state, numbers on the edge of what a float is, and a peer that takes no
// answer.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <gmock/gmock.h>
#include <grpcpp/support/channel_arguments.h>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "common/process/steady_time.h"
#include "common/transport/client_call.h"
#include "common/transport/tensor_codec.h"
#include "tests/unit/label_party/service/split_training_service_fixture.h"

#include "splitveil/v1/leak_audit.grpc.pb.h"

namespace splitveil::testing {
namespace {

using grpc::StatusCode;

class HostilePeerTest : public SplitTrainingServiceTest {
 protected:
  // What a call that sends one message and then nothing more ends with.
  template <typename Stream, typename Request>
  static StatusCode Verdict(Stream& stream, const Request& request) {
    stream.Write(request);
    stream.WritesDone();
    return stream.Finish().error_code();
  }

  StatusCode Open() {
    grpc::ClientContext context;
    v1::OpenRequest request = OpenRequest();
    request.set_version("another one: not what came before");
    v1::OpenResponse response;
    return stub_->Open(&context, request, &response).error_code();
  }
  StatusCode Align() {
    grpc::ClientContext context;
    const auto stream = v1::Alignment::NewStub(channel_)->Align(&context);
    v1::AlignmentMessage message;
    message.set_run_id(run_id_);
    return Verdict(*stream, message);
  }
  StatusCode Start() {
    grpc::ClientContext context;
    v1::StartRequest request;
    request.set_run_id(run_id_);
    v1::StartResponse response;
    return stub_->Start(&context, request, &response).error_code();
  }
  // The second batch of an epoch that has had none.
  StatusCode Train() {
    grpc::ClientContext context;
    const auto stream = stub_->Train(&context);
    return Verdict(*stream, ActivationsOf(epoch_, 1, 64));
  }
  StatusCode Evaluate() {
    grpc::ClientContext context;
    v1::EvaluateResponse response;
    const auto stream = stub_->Evaluate(&context, &response);
    return Verdict(*stream, ActivationsOf(3, 0, 64));
  }
  template <typename Request, typename Response>
  StatusCode Audit(grpc::Status (v1::LeakAudit::Stub::*call)(grpc::ClientContext*, const Request&, Response*)) {
    grpc::ClientContext context;
    Request request;
    request.set_run_id(run_id_);
    Response response;
    return ((*v1::LeakAudit::NewStub(channel_)).*call)(&context, request, &response).error_code();
  }
  StatusCode Close() {
    grpc::ClientContext context;
    v1::CloseRequest request;
    request.set_run_id(run_id_);
    request.set_completed(true);
    v1::CloseResponse response;
    return stub_->Close(&context, request, &response).error_code();
  }

  // Open, Align, Start, Train, Evaluate, ScoreBatch, AuxiliaryLabels, ScoreExamples, Close, each as above.
  std::vector<StatusCode> SendAllBut(const std::vector<std::string>& due) {
    const std::vector<std::pair<std::string, std::function<StatusCode()>>> calls = {
        {"Open", [this] { return Open(); }},
        {"Align", [this] { return Align(); }},
        {"Start", [this] { return Start(); }},
        {"Train", [this] { return Train(); }},
        {"Evaluate", [this] { return Evaluate(); }},
        {"ScoreBatch", [this] { return Audit(&v1::LeakAudit::Stub::ScoreBatch); }},
        {"AuxiliaryLabels", [this] { return Audit(&v1::LeakAudit::Stub::AuxiliaryLabels); }},
        {"ScoreExamples", [this] { return Audit(&v1::LeakAudit::Stub::ScoreExamples); }},
        {"Close", [this] { return Close(); }}};
    std::vector<StatusCode> codes;
    for (const auto& [name, call] : calls) {
      if (std::find(due.begin(), due.end(), name) == due.end()) {
        codes.push_back(call());
      }
    }
    return codes;
  }

  // The run has not ended, and its ledger names each of them.
  void ExpectNoted(size_t refusals) {
    EXPECT_EQ(FromLedger("SELECT count(*) FROM event WHERE kind = 'refused'"), absl::StrCat(refusals));
  }

  uint32_t epoch_ = 0;
};

constexpr StatusCode kWrongState = StatusCode::FAILED_PRECONDITION;

TEST_F(HostilePeerTest, BeforeOpenNothingElseIsTaken) {
  LabelSessionTest::Create();
  ServeSession();
  EXPECT_THAT(SendAllBut({"Open"}), ::testing::Each(StatusCode::ABORTED));  // The run must be opened again.
  EXPECT_EQ(session_->opened(), false);
}

TEST_F(HostilePeerTest, OnceOpenedOnlyAlignmentIsDue) {
  LabelSessionTest::Open();
  ServeSession();
  const std::vector<StatusCode> codes = SendAllBut({"Align", "Open"});
  EXPECT_THAT(codes, ::testing::Each(kWrongState));
  ExpectNoted(codes.size());
}

// By another process of the peer's, as far as anybody can tell: another run takes this one's place.
TEST_F(HostilePeerTest, BeforeAnythingHasLeftAnotherOpenEndsTheRun) {
  LabelSessionTest::Align();
  ServeSession();
  EXPECT_EQ(Open(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(session_->WaitUntilEnded([] { return false; }).code(), absl::StatusCode::kAborted);
  EXPECT_FALSE(session_->may_have_released());
}

TEST_F(HostilePeerTest, OnceAlignedOnlyStartIsDueOrTheAlignmentAgain) {
  LabelSessionTest::Align();
  ServeSession();
  const std::vector<StatusCode> codes = SendAllBut({"Start", "Align", "Open"});
  EXPECT_THAT(codes, ::testing::Each(kWrongState));
  ExpectNoted(codes.size());
}

TEST_F(HostilePeerTest, InAnEpochOnlyItsNextBatchIsDue) {
  Serve();
  const std::vector<StatusCode> codes = SendAllBut({});
  EXPECT_THAT(codes, ::testing::ElementsAre(kWrongState, kWrongState, kWrongState, kWrongState, kWrongState,
                                            StatusCode::INVALID_ARGUMENT, StatusCode::PERMISSION_DENIED,
                                            StatusCode::PERMISSION_DENIED, kWrongState));
  TrainOneBatch();
  ExpectNoted(codes.size());
}

TEST_F(HostilePeerTest, AfterAnEpochOnlyItsEvaluationOrTheNextIsDue) {
  Serve();
  TrainEpoch(0);
  epoch_ = 1;
  const std::vector<StatusCode> codes = SendAllBut({});
  EXPECT_THAT(codes, ::testing::ElementsAre(kWrongState, kWrongState, kWrongState, kWrongState, kWrongState,
                                            StatusCode::INVALID_ARGUMENT, StatusCode::PERMISSION_DENIED,
                                            StatusCode::PERMISSION_DENIED, kWrongState));
  ExpectNoted(codes.size());
}

TEST_F(HostilePeerTest, OnceTheRunHasEndedThePeerIsToldSo) {
  Serve();
  EXPECT_TRUE(IsStoppedOnRequest(session_->WaitUntilEnded([] { return true; })));
  const std::vector<StatusCode> codes = SendAllBut({"Open"});
  EXPECT_THAT(codes, ::testing::Each(StatusCode::CANCELLED));
  EXPECT_EQ(Open(), kWrongState);
  EXPECT_EQ(LedgerValue(run_.files.File("label_party.db"), "SELECT count(*) FROM event WHERE kind = 'refused'"), "0");
}

// They are numbers like any other: next to zero, which is what they are answered as.
TEST_F(HostilePeerTest, DenormalActivationsAreAnswered) {
  Serve();
  grpc::ClientContext context;
  const auto stream = stub_->Train(&context);
  EXPECT_TRUE(stream->Write(Activations(0, 0, std::numeric_limits<float>::denorm_min() * 100)));
  v1::CutGradients answer;
  ASSERT_TRUE(stream->Read(&answer));
  const absl::StatusOr<Matrix> decoded =
      DecodeMatrix(answer.gradients(), {"gradients", v1::FLOAT32, schedule_->batch_rows(0), 8});
  EXPECT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_TRUE(stream->Write(Activations(0, 1)));  // The run goes on.
  EXPECT_TRUE(stream->Read(&answer));
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
  ExpectNoted(0);
}

// Its answers fill what the transport holds for it, then nothing more is read of it: memory is bounded, other calls are
// answered, and it is given up like any other peer that is silent.
TEST_F(HostilePeerTest, APeerThatTakesNoAnswersIsGivenUp) {
  std::atomic<int64_t> waited_seconds{0};
  clock_ = [&] { return SteadyNow() + std::chrono::seconds(waited_seconds); };
  run_.agreement.set_epochs(5000);
  run_.agreement.set_test_fraction(0);
  Serve();
  grpc::ChannelArguments small_window;
  small_window.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 1024);
  small_window.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  small_window.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  const auto channel =
      grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port_), grpc::InsecureChannelCredentials(), small_window);
  const auto stub = v1::SplitTraining::NewStub(channel);
  grpc::ClientContext context;
  const auto stream = stub->Train(&context);
  std::atomic<int64_t> sent{0};
  std::thread writer([&] {
    const auto batches = static_cast<uint32_t>(schedule_->batches_per_epoch());
    for (uint32_t i = 0; i < 5000 * batches && stream->Write(Activations(i / batches, i % batches)); ++i) {
      ++sent;
    }
  });
  // Until nothing moves any more: a second without a message, where one takes a millisecond.
  const SteadyTime deadline = SteadyAfter(absl::Seconds(60));
  for (int64_t before = -1; before != sent && SteadyNow() < deadline;) {
    before = sent;
    absl::SleepFor(absl::Seconds(1));
  }
  EXPECT_LT(sent, 5000);
  EXPECT_EQ(Close(), kWrongState);  // Others are answered meanwhile.
  waited_seconds = 3600;
  EXPECT_EQ(ExitCodeFor(session_->WaitUntilEnded([] { return false; })), ExitCode::kPeerUnreachable);
  server_->Shutdown(GrpcDeadline(SteadyNow()));
  context.TryCancel();
  writer.join();
}

}  // namespace
}  // namespace splitveil::testing
