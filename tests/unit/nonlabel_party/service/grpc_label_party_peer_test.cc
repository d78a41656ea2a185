// The streams of the non-label party over gRPC, against label parties that answer, stall, or say too much.
#include "nonlabel_party/service/grpc_label_party_peer.h"

#include <atomic>
#include <functional>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;
using TrainingCall = grpc::ServerReaderWriter<v1::CutGradients, v1::CutActivations>;
using AlignmentCall = grpc::ServerReaderWriter<v1::AlignmentMessage, v1::AlignmentMessage>;

constexpr size_t kLargeBytes = size_t{4} << 20;  // Far more than gRPC takes in before it is read.

// What a call does, set by the test while the service runs. The lock orders both for ThreadSanitizer, which does not
// see that gRPC does.
template <typename Call>
class Script {
 public:
  using Handler = std::function<grpc::Status(grpc::ServerContext*, Call*)>;

  Script& operator=(Handler handler) {
    absl::MutexLock lock(&mutex_);
    handler_ = std::move(handler);
    return *this;
  }
  grpc::Status operator()(grpc::ServerContext* context, Call* call) {
    Handler handler;
    {
      absl::MutexLock lock(&mutex_);
      handler = handler_;
    }
    return handler(context, call);
  }

 private:
  absl::Mutex mutex_;
  Handler handler_ ABSL_GUARDED_BY(mutex_);
};

class ScriptedTraining final : public v1::SplitTraining::Service {
 public:
  grpc::Status Start(grpc::ServerContext*, const v1::StartRequest*, v1::StartResponse*) override {
    absl::SleepFor(start_takes);
    return grpc::Status::OK;
  }
  grpc::Status Train(grpc::ServerContext* context, TrainingCall* call) override { return train(context, call); }
  absl::Duration start_takes;
  Script<TrainingCall> train;
};

class ScriptedAlignment final : public v1::Alignment::Service {
 public:
  grpc::Status Align(grpc::ServerContext* context, AlignmentCall* call) override { return align(context, call); }
  Script<AlignmentCall> align;
};

class ScriptedAudit final : public v1::LeakAudit::Service {
 public:
  grpc::Status AuxiliaryLabels(grpc::ServerContext*, const v1::AuxiliaryLabelsRequest* request,
                               v1::AuxiliaryLabelsResponse* response) override {
    if (request->run_id() != "run") {
      return {grpc::StatusCode::FAILED_PRECONDITION, "another run"};
    }
    response->add_positions(7);
    response->set_labels(std::string(1, 1));
    return grpc::Status::OK;
  }
  grpc::Status ScoreExamples(grpc::ServerContext* context, const v1::ScoreExamplesRequest* request,
                             v1::ScoreExamplesResponse*) override;

  uint64_t first = 0;  // Of the latest chunk.
  bool stalls = false;
};

grpc::Status StallUntilCancelled(grpc::ServerContext* context) {
  while (!context->IsCancelled()) {
    absl::SleepFor(absl::Milliseconds(5));
  }
  return grpc::Status::CANCELLED;
}

grpc::Status ScriptedAudit::ScoreExamples(grpc::ServerContext* context, const v1::ScoreExamplesRequest* request,
                                          v1::ScoreExamplesResponse*) {
  first = request->first();
  return stalls ? StallUntilCancelled(context) : grpc::Status::OK;
}

// Answers each message with a large one, and reads no further before it is written: as the label party's service does.
grpc::Status AnswerEach(TrainingCall* call) {
  v1::CutActivations message;
  while (call->Read(&message)) {
    v1::CutGradients answer;
    answer.set_batch(message.batch());
    answer.mutable_gradients()->set_data(std::string(kLargeBytes, 'g'));
    if (!call->Write(answer)) {
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
    }
  }
  return grpc::Status::OK;
}

v1::CutActivations LargeActivations(uint32_t batch) {
  v1::CutActivations message;
  message.set_batch(batch);
  message.mutable_activations()->set_data(std::string(kLargeBytes, 'a'));
  return message;
}

v1::AlignmentMessage LargeAlignmentMessage() {
  v1::AlignmentMessage message;
  message.mutable_masked()->set_points(std::string(kLargeBytes, 'p'));
  return message;
}

class GrpcLabelPartyPeerTest : public ::testing::Test {
 protected:
  GrpcLabelPartyPeerTest() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.SetMaxReceiveMessageSize(-1);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    builder.RegisterService(&training_);
    builder.RegisterService(&alignment_);
    builder.RegisterService(&audit_);
    server_ = builder.BuildAndStart();
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // Else what gRPC takes in before it is read grows to tens of MiB.
    channel_ =
        grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials(), arguments);
    training_.train = [](grpc::ServerContext*, TrainingCall* call) { return AnswerEach(call); };
  }

  // `limit`: both deadlines of messages. The gradients of a batch take as many bytes as `large` large messages.
  std::unique_ptr<GrpcLabelPartyPeer> Peer(absl::Duration limit, int in_flight_batches, int large = 1) {
    return Peer(limit, limit, in_flight_batches, large);
  }
  std::unique_ptr<GrpcLabelPartyPeer> Peer(absl::Duration limit, absl::Duration alignment_limit, int in_flight_batches,
                                           int large) {
    constexpr int kCutWidth = 256;
    v1::RunAgreement agreement;
    agreement.mutable_deadlines()->set_step_seconds(absl::ToDoubleSeconds(limit));
    agreement.mutable_deadlines()->set_alignment_chunk_seconds(absl::ToDoubleSeconds(alignment_limit));
    agreement.set_in_flight_batches(in_flight_batches);
    agreement.set_cut_width(kCutWidth);
    agreement.set_batch_size(static_cast<int>(large * kLargeBytes / (kCutWidth * sizeof(float))));
    return std::make_unique<GrpcLabelPartyPeer>([this] { return channel_; }, agreement);
  }

  ScriptedTraining training_;
  ScriptedAlignment alignment_;
  ScriptedAudit audit_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(GrpcLabelPartyPeerTest, ManyLargeBatchesAreSentBeforeAnAnswerIsTaken) {
  constexpr uint32_t kInFlight = 4;
  const auto peer = Peer(absl::Seconds(20), kInFlight);
  auto stream = peer->Train();
  ASSERT_TRUE(stream.ok()) << stream.status();
  for (uint32_t batch = 0; batch < kInFlight; ++batch) {
    ASSERT_TRUE((*stream)->Send(LargeActivations(batch)).ok());
  }
  for (uint32_t batch = 0; batch < kInFlight; ++batch) {
    const auto answer = (*stream)->Receive();
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->batch(), batch);
  }
  EXPECT_TRUE((*stream)->Finish().ok());
}

// The label party writes the slices of one answer while this party still writes those of the next batch.
TEST_F(GrpcLabelPartyPeerTest, ABatchIsSentWhileTheSlicesOfAnAnswerCome) {
  constexpr int kSlices = 4;
  training_.train = [](grpc::ServerContext*, TrainingCall* call) {
    v1::CutActivations message;
    v1::CutGradients answer;
    answer.mutable_gradients()->set_data(std::string(kLargeBytes, 'g'));
    for (int read = 1; call->Read(&message); ++read) {
      for (int slice = 0; read % kSlices == 0 && slice < kSlices; ++slice) {
        call->Write(answer);
      }
    }
    return grpc::Status::OK;
  };
  const auto peer = Peer(absl::Seconds(5), 2, kSlices);
  auto stream = peer->Train();
  ASSERT_TRUE(stream.ok()) << stream.status();
  for (int message = 0; message < 2 * kSlices; ++message) {
    const absl::Status sent = (*stream)->Send(LargeActivations(0));
    ASSERT_TRUE(sent.ok()) << sent;
  }
  for (int message = 0; message < 2 * kSlices; ++message) {
    ASSERT_TRUE((*stream)->Receive().ok());
  }
  EXPECT_TRUE((*stream)->Finish().ok());
}

TEST_F(GrpcLabelPartyPeerTest, TheStartOfARunIsWaitedForLongerThanAStep) {
  training_.start_takes = absl::Milliseconds(600);
  EXPECT_TRUE(Peer(absl::Milliseconds(100), absl::Seconds(20), 1, 1)->Start({}).ok());
  EXPECT_TRUE(
      absl::IsDeadlineExceeded(Peer(absl::Milliseconds(100), absl::Milliseconds(100), 1, 1)->Start({}).status()));
}

TEST_F(GrpcLabelPartyPeerTest, AsksForAuxiliaryLabelsAndSubmitsScoresOfExamples) {
  const auto peer = Peer(absl::Seconds(20), 1);
  v1::AuxiliaryLabelsRequest request;
  request.set_run_id("run");
  const auto labels = peer->AuxiliaryLabels(request);
  ASSERT_TRUE(labels.ok()) << labels.status();
  EXPECT_EQ(labels->positions(0), 7);
  v1::ScoreExamplesRequest scores;
  scores.set_first(1024);
  EXPECT_TRUE(peer->ScoreExamples(scores).ok());
  EXPECT_EQ(audit_.first, 1024);
}

TEST_F(GrpcLabelPartyPeerTest, AuxiliaryLabelsThatAreRefusedKeepTheirCode) {
  EXPECT_EQ(Peer(absl::Seconds(20), 1)->AuxiliaryLabels({}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(GrpcLabelPartyPeerTest, ScoresThatNobodyTakesEndAtTheDeadline) {
  audit_.stalls = true;
  EXPECT_EQ(Peer(absl::Milliseconds(100), 1)->ScoreExamples({}).status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(GrpcLabelPartyPeerTest, AnswersThatNobodyTakesDoNotHoldUpFinish) {
  const auto peer = Peer(absl::Seconds(20), 2);
  auto stream = peer->Train();
  ASSERT_TRUE(stream.ok()) << stream.status();
  for (uint32_t batch = 0; batch < 2; ++batch) {
    ASSERT_TRUE((*stream)->Send(LargeActivations(batch)).ok());
  }
  EXPECT_TRUE((*stream)->Finish().ok());
}

TEST_F(GrpcLabelPartyPeerTest, LeavingAStreamEarlyEndsIt) {
  training_.train = [](grpc::ServerContext* context, TrainingCall*) { return StallUntilCancelled(context); };
  const auto peer = Peer(absl::Hours(1), 1);
  (void)peer->Train();
  const absl::Time limit = absl::Now() + absl::Seconds(20);
  server_->Shutdown(absl::ToChronoTime(limit));
  server_->Wait();
  EXPECT_LT(absl::Now(), limit);
}

TEST_F(GrpcLabelPartyPeerTest, SilenceInTrainingIsADeadline) {
  training_.train = [](grpc::ServerContext* context, TrainingCall*) { return StallUntilCancelled(context); };
  const auto peer = Peer(absl::Milliseconds(100), 1);
  auto stream = peer->Train();
  ASSERT_TRUE(stream.ok()) << stream.status();
  EXPECT_TRUE(absl::IsDeadlineExceeded((*stream)->Receive().status()));
  EXPECT_TRUE(absl::IsDeadlineExceeded((*stream)->Finish()));
}

TEST_F(GrpcLabelPartyPeerTest, ALabelPartyThatKeepsSendingIsHeldBackAndThenCutOff) {
  const auto written = std::make_shared<std::atomic<int>>(0);  // The handler ends after the test.
  training_.train = [written](grpc::ServerContext*, TrainingCall* call) {
    v1::CutGradients answer;
    answer.mutable_gradients()->set_data(std::string(kLargeBytes, 'g'));
    while (call->Write(answer)) {
      ++*written;
    }
    return grpc::Status::CANCELLED;
  };
  const auto peer = Peer(absl::Milliseconds(1500), 2);  // One large message comes in less on a busy machine, too.
  auto stream = peer->Train();
  ASSERT_TRUE(stream.ok()) << stream.status();
  ASSERT_TRUE((*stream)->Receive().ok());
  absl::SleepFor(absl::Milliseconds(200));  // Time to flood memory in.
  EXPECT_LT(*written, 12);
  EXPECT_TRUE(absl::IsDeadlineExceeded((*stream)->Finish()));
}

TEST_F(GrpcLabelPartyPeerTest, TheLabelPartysVerdictIsWhatFinishSays) {
  training_.train = [](grpc::ServerContext*, TrainingCall*) {
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "the gate");
  };
  const auto peer = Peer(absl::Seconds(20), 1);
  auto stream = peer->Train();
  ASSERT_TRUE(stream.ok()) << stream.status();
  EXPECT_TRUE(absl::IsUnavailable((*stream)->Receive().status()));
  EXPECT_TRUE(absl::IsResourceExhausted((*stream)->Finish()));
}

TEST_F(GrpcLabelPartyPeerTest, ALabelPartyThatDoesNotReadInAlignmentIsADeadline) {
  alignment_.align = [](grpc::ServerContext* context, AlignmentCall*) { return StallUntilCancelled(context); };
  const auto peer = Peer(absl::Milliseconds(200), 1);
  auto stream = peer->Align();
  ASSERT_TRUE(stream.ok()) << stream.status();
  absl::Status status;
  for (int i = 0; status.ok() && i < 20; ++i) {
    status = (*stream)->Send(LargeAlignmentMessage());
  }
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("read"));
}

TEST_F(GrpcLabelPartyPeerTest, CancelEndsBothDirectionsOfAnAlignment) {
  alignment_.align = [](grpc::ServerContext* context, AlignmentCall*) { return StallUntilCancelled(context); };
  const auto peer = Peer(absl::Hours(1), 1);
  auto stream = peer->Align();
  ASSERT_TRUE(stream.ok()) << stream.status();
  std::thread reader([&] { EXPECT_FALSE((*stream)->Receive().ok()); });
  std::thread canceller([&] { (*stream)->Cancel(); });
  while ((*stream)->Send(LargeAlignmentMessage()).ok()) {
  }
  canceller.join();
  reader.join();
  EXPECT_FALSE((*stream)->Finish().ok());
}

}  // namespace
}  // namespace splitveil
