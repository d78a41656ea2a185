// The label party's service, and a peer that sends what the generated stubs never would.
#ifndef SPLITVEIL_TESTS_UNIT_LABEL_PARTY_SERVICE_SPLIT_TRAINING_SERVICE_FIXTURE_H_
#define SPLITVEIL_TESTS_UNIT_LABEL_PARTY_SERVICE_SPLIT_TRAINING_SERVICE_FIXTURE_H_

#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"

#include "common/process/exit_code.h"
#include "label_party/service/split_training_service.h"
#include "tests/unit/label_party/session/label_session_fixture.h"
#include "tests/unit/nonlabel_party/session/ledger_value.h"

namespace splitveil::testing {

// No protobuf message: an end-of-group tag of a group that never began.
inline constexpr char kNoMessage[] = "\xff\xff\xff\xff";

class SplitTrainingServiceTest : public LabelSessionTest {
 protected:
  void Serve() {
    Start();
    ServeSession();
  }

  // The session as it is. Over TCP: an in-process channel hands the peer's own memory over, in an order that
  // ThreadSanitizer cannot see.
  void ServeSession() {
    service_ = std::make_unique<SplitTrainingService>(session_.get());
    alignment_ = std::make_unique<AlignmentService>(session_.get());
    audit_ = std::make_unique<LeakAuditService>(session_.get());
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(service_.get());
    builder.RegisterService(alignment_.get());
    builder.RegisterService(audit_.get());
    server_ = builder.BuildAndStart();
    channel_ = grpc::CreateChannel(absl::StrCat("127.0.0.1:", port_), grpc::InsecureChannelCredentials());
    stub_ = v1::SplitTraining::NewStub(channel_);
  }

  // Sends `bytes` as the one message of a call of `method`; what the service says of it.
  grpc::Status SendRaw(const char* method, const std::string& bytes) {
    grpc::ClientContext context;
    const grpc::internal::RpcMethod raw(method, grpc::internal::RpcMethod::BIDI_STREAMING, channel_);
    const std::unique_ptr<grpc::ClientReaderWriter<grpc::ByteBuffer, v1::CutGradients>> stream(
        grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer, v1::CutGradients>::Create(channel_.get(), raw,
                                                                                              &context));
    const grpc::Slice slice(bytes);
    stream->Write(grpc::ByteBuffer(&slice, 1));
    stream->WritesDone();
    v1::CutGradients answer;
    EXPECT_FALSE(stream->Read(&answer));
    return stream->Finish();
  }

  // One honest batch over the wire.
  void TrainOneBatch() {
    grpc::ClientContext context;
    const auto stream = stub_->Train(&context);
    EXPECT_TRUE(stream->Write(Activations(0, 0)));
    stream->WritesDone();
    v1::CutGradients answer;
    EXPECT_TRUE(stream->Read(&answer));
    const grpc::Status status = stream->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  // Ends the run, which completes the ledger.
  std::string FromLedger(const std::string& query) {
    EXPECT_TRUE(IsStoppedOnRequest(session_->WaitUntilEnded([] { return true; })));
    return LedgerValue(run_.files.File("label_party.db"), query);
  }

  std::unique_ptr<SplitTrainingService> service_;
  std::unique_ptr<AlignmentService> alignment_;
  std::unique_ptr<LeakAuditService> audit_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::SplitTraining::Stub> stub_;
};

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_UNIT_LABEL_PARTY_SERVICE_SPLIT_TRAINING_SERVICE_FIXTURE_H_
