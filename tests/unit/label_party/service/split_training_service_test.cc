// The label party's gRPC adapters against a peer that sends what the generated stubs never would.
#include "label_party/service/split_training_service.h"

#include <atomic>
#include <gmock/gmock.h>
#include <grpcpp/channel.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"

#include "common/process/exit_code.h"
#include "common/process/steady_time.h"
#include "tests/unit/label_party/service/split_training_service_fixture.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

TEST_F(SplitTrainingServiceTest, BytesThatAreNoMessageAreNoCleanEndOfATraining) {
  Serve();
  const grpc::Status status = SendRaw("/splitveil.v1.SplitTraining/Train", kNoMessage);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("Train: expected a message CutActivations, found 4 bytes"));
  TrainOneBatch();  // The run goes on.
  EXPECT_EQ(FromLedger("SELECT count(*) FROM event WHERE kind = 'refused'"), "1");
}

TEST_F(SplitTrainingServiceTest, BytesThatAreNoMessageAreNoCleanEndOfAnEvaluation) {
  Serve();
  TrainEpoch(0);
  const grpc::Status status = SendRaw("/splitveil.v1.SplitTraining/Evaluate", kNoMessage);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("Evaluate: expected a message CutActivations"));
  EXPECT_EQ(FromLedger("SELECT count(*) FROM event WHERE kind = 'refused'"), "1");
}

TEST_F(SplitTrainingServiceTest, BytesThatAreNoMessageAreRefusedInAnAlignment) {
  Open();
  ServeSession();
  grpc::ClientContext context;
  const grpc::internal::RpcMethod raw("/splitveil.v1.Alignment/Align", grpc::internal::RpcMethod::BIDI_STREAMING,
                                      channel_);
  const std::unique_ptr<grpc::ClientReaderWriter<grpc::ByteBuffer, v1::AlignmentMessage>> stream(
      grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, v1::AlignmentMessage>::Create(channel_.get(), raw,
                                                                                                &context));
  const grpc::Slice slice{std::string(kNoMessage)};
  EXPECT_TRUE(stream->Write(grpc::ByteBuffer(&slice, 1)));
  v1::AlignmentMessage answer;
  while (stream->Read(&answer)) {
  }
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("Align: expected a message AlignmentMessage, found 4 bytes"));
  EXPECT_EQ(ExitCodeFor(session_->WaitUntilEnded([] { return false; })), ExitCode::kRefused);
}

TEST_F(SplitTrainingServiceTest, AnEvaluationIsAnsweredOverTheWire) {
  Serve();
  TrainEpoch(0);
  grpc::ClientContext context;
  v1::EvaluateResponse response;
  const auto stream = stub_->Evaluate(&context, &response);
  uint32_t batch = 0;
  for (int64_t done = 0; done < test_examples_; done += run_.agreement.batch_size()) {
    EXPECT_TRUE(stream->Write(
        ActivationsOf(0, batch++, std::min<int64_t>(run_.agreement.batch_size(), test_examples_ - done))));
  }
  stream->WritesDone();
  const grpc::Status status = stream->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.examples(), test_examples_);
}

TEST_F(SplitTrainingServiceTest, StreamsThatAreLeftAloneTakeFewThreads) {
  Serve();
  constexpr int kStreams = 12, kMost = 4;
  {
    std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
    std::vector<std::unique_ptr<grpc::ClientReaderWriter<v1::CutActivations, v1::CutGradients>>> streams;
    std::vector<std::thread> readers;
    std::atomic<int> refused{0};
    for (int i = 0; i < kStreams; ++i) {
      contexts.push_back(std::make_unique<grpc::ClientContext>());
      streams.push_back(stub_->Train(contexts.back().get()));
      readers.emplace_back([&refused, stream = streams.back().get()] {
        v1::CutGradients none;
        EXPECT_FALSE(stream->Read(&none));
        refused += stream->Finish().error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED ? 1 : 0;
      });
    }
    const SteadyTime deadline = SteadyAfter(absl::Seconds(30));
    while (refused < kStreams - kMost && SteadyNow() < deadline) {
      std::this_thread::yield();
    }
    for (const auto& context : contexts) {
      context->TryCancel();
    }
    for (std::thread& reader : readers) {
      reader.join();
    }
    EXPECT_EQ(refused, kStreams - kMost);
  }
  // Their places are free again once the service has seen that they are gone.
  grpc::Status status(grpc::StatusCode::RESOURCE_EXHAUSTED, "");
  const SteadyTime deadline = SteadyAfter(absl::Seconds(30));
  while (status.error_code() == grpc::StatusCode::RESOURCE_EXHAUSTED && SteadyNow() < deadline) {
    status = SendRaw("/splitveil.v1.SplitTraining/Train", kNoMessage);
  }
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  TrainOneBatch();
}

// It holds no id and sends back what it gets; were it not refused, it would share all of them.
TEST_F(SplitTrainingServiceTest, APeerThatSendsOurPointsBackSharesNothing) {
  Open();
  ServeSession();
  const auto stub = v1::Alignment::NewStub(channel_);
  grpc::ClientContext context;
  const auto stream = stub->Align(&context);
  v1::AlignmentMessage message;
  while (stream->Read(&message)) {
    EXPECT_FALSE(message.has_masked());
    stream->Write(message);
  }
  stream->WritesDone();
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
  EXPECT_THAT(status.error_message(), HasSubstr("the peer sent our own"));
  EXPECT_FALSE(session_->WaitUntilEnded([] { return false; }).ok());
  EXPECT_EQ(LedgerValue(run_.files.File("label_party.db"), "SELECT detail FROM event WHERE kind = 'alignment_failed'"),
            "INVALID_ARGUMENT");
}

// A peer that came back: the stream of its old connection, which the service may not know to be lost, is in nobody's
// way.
TEST_F(SplitTrainingServiceTest, AStreamThatTakesAnothersPlaceGetsTheSameBytesAndCutsItOff) {
  Serve();
  grpc::ClientContext old_context, new_context;
  const auto old_stream = stub_->Train(&old_context);
  v1::CutGradients first, again;
  ASSERT_TRUE(old_stream->Write(Activations(0, 0)));
  ASSERT_TRUE(old_stream->Read(&first));
  const auto new_stream = stub_->Train(&new_context);
  ASSERT_TRUE(new_stream->Write(Activations(0, 0)));
  ASSERT_TRUE(new_stream->Read(&again));
  EXPECT_EQ(again.SerializeAsString(), first.SerializeAsString());
  EXPECT_FALSE(old_stream->Read(&first));
  EXPECT_EQ(old_stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  ASSERT_TRUE(new_stream->Write(Activations(0, 1)));  // The run goes on.
  ASSERT_TRUE(new_stream->Read(&again));
  EXPECT_EQ(again.batch(), 1);
  new_stream->WritesDone();
  EXPECT_TRUE(new_stream->Finish().ok());
  EXPECT_EQ(FromLedger("SELECT count(*) FROM event WHERE kind = 'interrupted'"), "1");
  EXPECT_EQ(LedgerValue(run_.files.File("label_party.db"), "SELECT count(*) FROM step"), "2");
}

// A peer that opens a second stream to be refused has lost no connection, and is granted no patience for it.
TEST_F(SplitTrainingServiceTest, ASecondStreamThatIsRefusedIsNoInterruption) {
  Serve();
  grpc::ClientContext context, refused_context;
  const auto stream = stub_->Train(&context);
  v1::CutGradients answer;
  ASSERT_TRUE(stream->Write(Activations(0, 0)));
  ASSERT_TRUE(stream->Read(&answer));
  const auto refused = stub_->Train(&refused_context);
  ASSERT_TRUE(refused->Write(Activations(0, 2)));
  EXPECT_FALSE(refused->Read(&answer));
  EXPECT_EQ(refused->Finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  ASSERT_TRUE(stream->Write(Activations(0, 1)));  // The run goes on where it was.
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_EQ(FromLedger("SELECT group_concat(kind) FROM event WHERE kind IN ('interrupted', 'refused')"), "refused");
}

TEST_F(SplitTrainingServiceTest, AStreamThatWaitsForThePeerEndsWithTheRun) {
  Serve();
  grpc::ClientContext context;
  const auto stream = stub_->Train(&context);
  v1::CutGradients answer;
  ASSERT_TRUE(stream->Write(Activations(0, 0)));
  ASSERT_TRUE(stream->Read(&answer));
  EXPECT_TRUE(IsStoppedOnRequest(session_->WaitUntilEnded([] { return true; })));
  service_->EndStreams();
  EXPECT_FALSE(stream->Read(&answer));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(SplitTrainingServiceTest, APeerThatIsRefusedForEverFillsNoDisk) {
  Serve();
  for (int i = 0; i < 300; ++i) {
    grpc::ClientContext context;
    v1::CloseRequest request;
    v1::CloseResponse response;
    request.set_run_id("another\n\x1b[2J");
    EXPECT_EQ(stub_->Close(&context, request, &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  }
  EXPECT_EQ(FromLedger("SELECT count(*) FROM event WHERE kind = 'refused'"), "100");
}

TEST(LatestStreamTest, AnEarlierStreamDoesNotTakeThePlaceBack) {
  LatestStream latest;
  grpc::ServerContext earlier_context, later_context;
  LatestStream::Turn earlier(&latest, &earlier_context);
  LatestStream::Turn later(&latest, &later_context);
  EXPECT_FALSE(earlier.overtaken());
  ASSERT_TRUE(later.Accepted());
  EXPECT_TRUE(earlier.overtaken());
  EXPECT_FALSE(earlier.overtakes());
  EXPECT_FALSE(earlier.Accepted());
  EXPECT_FALSE(earlier.counts());
  EXPECT_TRUE(later.counts());
  EXPECT_TRUE(later.Accepted());
}

TEST(LatestStreamTest, AnEarlierStreamStaysOvertakenOnceTheLaterOneHasEnded) {
  LatestStream latest;
  grpc::ServerContext earlier_context, later_context;
  LatestStream::Turn earlier(&latest, &earlier_context);
  {
    LatestStream::Turn later(&latest, &later_context);
    ASSERT_TRUE(later.Accepted());
  }
  EXPECT_FALSE(earlier.Accepted());
  EXPECT_FALSE(earlier.counts());
}

TEST(LatestStreamTest, ALaterStreamOvertakesTheOneThatCounts) {
  LatestStream latest;
  grpc::ServerContext earlier_context, later_context;
  LatestStream::Turn earlier(&latest, &earlier_context);
  ASSERT_TRUE(earlier.Accepted());
  const LatestStream::Turn later(&latest, &later_context);
  EXPECT_TRUE(later.overtakes());
  EXPECT_FALSE(earlier.overtakes());
  EXPECT_TRUE(earlier.counts());
}

}  // namespace
}  // namespace splitveil::testing
