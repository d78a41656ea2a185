#include "common/transport/credentials.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <grpcpp/grpcpp.h>
#include <memory>
#include <openssl/ssl.h>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "deploy/operator/certificates/certificate_authority.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/process/exit_code.h"
#include "common/process/steady_time.h"
#include "common/transport/client_call.h"
#include "common/transport/peer_probe.h"
#include "tests/unit/common/transport/tls_fixture.h"

#include "splitveil/v1/operations.grpc.pb.h"
#include "splitveil/v1/split_training.grpc.pb.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMaxMessageBytes = 1 << 20;

// Counts every call that reaches a handler, and answers as a test says.
class CountingTraining : public v1::SplitTraining::Service {
 public:
  grpc::Status Close(grpc::ServerContext*, const v1::CloseRequest*, v1::CloseResponse*) override {
    ++calls;
    return verdict;
  }
  std::atomic<int> calls{0};
  grpc::Status verdict;  // Set before the call.
};

class CountingOperations : public v1::Operations::Service {
 public:
  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*, v1::GetStatusResponse* response) override {
    ++calls;
    response->set_role("label_party");
    return grpc::Status::OK;
  }
  std::atomic<int> calls{0};
};

// A label party's server on a free port, and calls to it under any name.
class CredentialsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    RequireTls13();
    authority_ = new CertifiedKey(NewAuthority());
    other_authority_ = new CertifiedKey(NewAuthority());  // Same name, another key.
  }
  static void TearDownTestSuite() {
    delete authority_;
    delete other_authority_;
  }

  void SetUp() override { Serve(LabelIdentity()); }
  void TearDown() override {
    if (server_ != nullptr) {
      server_->Shutdown();
    }
  }

  void Serve(const TlsIdentity& identity) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", ServerTlsCredentials(identity), &port_);
    LimitServer(builder, kMaxMessageBytes);
    builder.RegisterService(&training_);
    builder.RegisterService(&operations_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }

  static TlsIdentity LabelIdentity() {
    return IdentityOf(NewCertificate(*authority_, kLabelName), kLabelName, kNonLabelName, *authority_);
  }
  static TlsIdentity NonLabelIdentity() {
    return IdentityOf(NewCertificate(*authority_, kNonLabelName), kNonLabelName, kLabelName, *authority_);
  }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  absl::Status CallTraining(const TlsIdentity& caller, const std::string& server_name = kLabelName,
                            size_t request_bytes = 0) {
    grpc::ClientContext context;
    context.set_deadline(GrpcDeadline(SteadyAfter(absl::Seconds(5))));
    v1::CloseRequest request;
    request.set_run_id(std::string(request_bytes, 'r'));
    v1::CloseResponse response;
    const auto channel = TlsChannel(address(), caller, server_name, kMaxMessageBytes);
    return FromGrpcStatus(v1::SplitTraining::NewStub(channel)->Close(&context, request, &response));
  }

  absl::Status CallOperations(const TlsIdentity& caller) {
    grpc::ClientContext context;
    context.set_deadline(GrpcDeadline(SteadyAfter(absl::Seconds(5))));
    v1::GetStatusResponse response;
    const auto channel = TlsChannel(address(), caller, kLabelName, kMaxMessageBytes);
    return FromGrpcStatus(v1::Operations::NewStub(channel)->GetStatus(&context, {}, &response));
  }

  absl::Status Wait(const TlsIdentity& caller, const std::string& server_name = kLabelName,
                    absl::Duration patience = absl::Seconds(5)) {
    return WaitForPeer(address(), caller, server_name, SteadyAfter(patience));
  }

  int calls() const { return training_.calls + operations_.calls; }

  static CertifiedKey* authority_;
  static CertifiedKey* other_authority_;
  CountingTraining training_;
  CountingOperations operations_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

CertifiedKey* CredentialsTest::authority_ = nullptr;
CertifiedKey* CredentialsTest::other_authority_ = nullptr;

TEST_F(CredentialsTest, PeerMayTrain) {
  EXPECT_EQ(CallTraining(NonLabelIdentity()), absl::OkStatus());
  EXPECT_EQ(calls(), 1);
}

TEST_F(CredentialsTest, PeerMayNotReadTheStatus) {
  // The exact training loss after every batch would tell of that batch's labels.
  const absl::Status status = CallOperations(NonLabelIdentity());
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected name label.test, found nonlabel.test"));
  EXPECT_EQ(calls(), 0);
}

TEST_F(CredentialsTest, OwnIdentityMayAskForStatus) {
  EXPECT_EQ(CallOperations(LabelIdentity()), absl::OkStatus());
  EXPECT_EQ(calls(), 1);
}

TEST_F(CredentialsTest, OwnIdentityMayNotTrain) {
  const absl::Status status = CallTraining(LabelIdentity());
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected name nonlabel.test, found label.test"));
  EXPECT_TRUE(RefusedByPeer(status));
  EXPECT_EQ(calls(), 0);
}

TEST_F(CredentialsTest, OtherIdentityOfTheSameAuthorityIsRefusedByName) {
  const TlsIdentity stranger =
      IdentityOf(NewCertificate(*authority_, "stranger.test"), "stranger.test", kLabelName, *authority_);
  for (const absl::Status& status : {CallTraining(stranger), CallOperations(stranger)}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(std::string(status.message()), HasSubstr("found stranger.test"));
    EXPECT_TRUE(RefusedByPeer(status));
  }
  EXPECT_EQ(calls(), 0);
}

TEST_F(CredentialsTest, NameThatOnlyContainsThePeersIsRefused) {
  for (const std::string name : {"nonlabel.test.evil", "x.nonlabel.test", "nonlabel"}) {
    const TlsIdentity caller = IdentityOf(NewCertificate(*authority_, name), name, kLabelName, *authority_);
    EXPECT_EQ(CallTraining(caller).code(), absl::StatusCode::kPermissionDenied) << name;
  }
  EXPECT_EQ(calls(), 0);
}

TEST_F(CredentialsTest, CertificateOfAnotherAuthorityIsRefused) {
  const TlsIdentity caller =
      IdentityOf(NewCertificate(*other_authority_, kNonLabelName), kNonLabelName, kLabelName, *authority_);
  EXPECT_EQ(CallTraining(caller).code(), absl::StatusCode::kUnavailable);
  const absl::Status cause = Wait(caller);
  EXPECT_EQ(cause.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(cause.message()), HasSubstr("the peer refused our certificate"));
  EXPECT_TRUE(RefusedByPeer(cause));
  EXPECT_EQ(calls(), 0);
}

TEST_F(CredentialsTest, CertificateThatDoesNotHoldIsRefused) {
  for (const CertifiedKey& certified :
       {ExpiredCertificate(*authority_, kNonLabelName), FutureCertificate(*authority_, kNonLabelName),
        SelfSignedCertificate(kNonLabelName)}) {
    const TlsIdentity caller = IdentityOf(certified, kNonLabelName, kLabelName, *authority_);
    EXPECT_EQ(CallTraining(caller).code(), absl::StatusCode::kUnavailable);
    const absl::Status cause = Wait(caller);
    EXPECT_EQ(cause.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(std::string(cause.message()), HasSubstr("the peer refused our certificate"));
  }
  EXPECT_EQ(calls(), 0);
}

TEST_F(CredentialsTest, CallerWithoutCertificateIsRefused) {
  grpc::SslCredentialsOptions options;
  options.pem_root_certs = authority_->certificate_pem;
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride(kLabelName);
  const auto channel = grpc::CreateCustomChannel(address(), grpc::SslCredentials(options), arguments);
  grpc::ClientContext context;
  context.set_deadline(GrpcDeadline(SteadyAfter(absl::Seconds(5))));
  v1::GetStatusResponse response;
  const grpc::Status status = v1::Operations::NewStub(channel)->GetStatus(&context, {}, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(calls(), 0);
}

TEST_F(CredentialsTest, CallerWithoutTlsIsRefused) {
  const auto channel = grpc::CreateChannel(address(), grpc::InsecureChannelCredentials());
  grpc::ClientContext context;
  context.set_deadline(GrpcDeadline(SteadyAfter(absl::Seconds(5))));
  v1::GetStatusResponse response;
  EXPECT_FALSE(v1::Operations::NewStub(channel)->GetStatus(&context, {}, &response).ok());
  EXPECT_EQ(calls(), 0);
}

TEST_F(CredentialsTest, ServerOfAnotherNameIsRefusedByTheCaller) {
  EXPECT_EQ(CallTraining(NonLabelIdentity(), "someone-else.test").code(), absl::StatusCode::kUnavailable);
  const absl::Status cause = Wait(NonLabelIdentity(), "someone-else.test");
  EXPECT_EQ(cause.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(cause.message()), HasSubstr("expected name someone-else.test, found label.test"));
  EXPECT_TRUE(RefusedByPeer(cause));
  EXPECT_EQ(calls(), 0);
}

TEST_F(CredentialsTest, ServerOfAnotherAuthorityIsRefusedByTheCaller) {
  const TlsIdentity caller =
      IdentityOf(NewCertificate(*authority_, kNonLabelName), kNonLabelName, kLabelName, *other_authority_);
  EXPECT_EQ(CallTraining(caller).code(), absl::StatusCode::kUnavailable);
  const absl::Status cause = Wait(caller);
  EXPECT_EQ(cause.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(cause.message()), HasSubstr("not signed by it"));
  EXPECT_EQ(calls(), 0);
}

TEST_F(CredentialsTest, ServerWhoseCertificateDoesNotHoldIsRefusedByTheCaller) {
  for (const auto& [certified, reason] :
       {std::pair{ExpiredCertificate(*authority_, kLabelName), "certificate has expired"},
        {FutureCertificate(*authority_, kLabelName), "certificate is not yet valid"},
        {SelfSignedCertificate(kLabelName), "not signed by it"}}) {
    server_->Shutdown();
    Serve(IdentityOf(certified, kLabelName, kNonLabelName, *authority_));
    EXPECT_EQ(CallTraining(NonLabelIdentity()).code(), absl::StatusCode::kUnavailable);
    const absl::Status cause = Wait(NonLabelIdentity());
    EXPECT_EQ(cause.code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(std::string(cause.message()), HasSubstr(reason));
  }
  EXPECT_EQ(calls(), 0);
}

// Each party trusts the other's own certificate and nothing else.
class PinnedCredentialsTest : public CredentialsTest {
 protected:
  void SetUp() override { Serve(IdentityOf(label_, kLabelName, kNonLabelName, nonlabel_)); }

  TlsIdentity Caller(const CertifiedKey& own, const std::string& name) const {
    return IdentityOf(own, name, kLabelName, label_);
  }
  void ExpectRefused(const TlsIdentity& caller) {
    EXPECT_EQ(CallTraining(caller).code(), absl::StatusCode::kUnavailable);
    const absl::Status cause = Wait(caller);
    EXPECT_EQ(cause.code(), absl::StatusCode::kPermissionDenied) << cause;
    EXPECT_THAT(std::string(cause.message()), HasSubstr("the peer refused our certificate"));
    EXPECT_EQ(calls(), 0);
  }

  const CertifiedKey label_ = *CreateSelfSigned(kLabelName, 30);
  const CertifiedKey nonlabel_ = *CreateSelfSigned(kNonLabelName, 30);
};

TEST_F(PinnedCredentialsTest, ThePinnedCertificateMayTrain) {
  EXPECT_EQ(Wait(Caller(nonlabel_, kNonLabelName)), absl::OkStatus());
  EXPECT_EQ(CallTraining(Caller(nonlabel_, kNonLabelName)), absl::OkStatus());
  EXPECT_EQ(calls(), 1);
}

TEST_F(PinnedCredentialsTest, AnotherCertificateOfTheSameNameIsRefused) {
  ExpectRefused(Caller(*CreateSelfSigned(kNonLabelName, 30), kNonLabelName));  // Same subject, too.
  ExpectRefused(Caller(NewCertificate(*authority_, kNonLabelName), kNonLabelName));
}

TEST_F(PinnedCredentialsTest, ACertificateThatThePinnedKeySignedIsRefused) {
  // Someone who has the peer's key could as well use its certificate; but a pinned certificate is one, not an
  // authority.
  const CertifiedKey signed_by_pinned = SignedBy(nonlabel_, kNonLabelName);
  TlsIdentity caller = Caller(signed_by_pinned, kNonLabelName);
  ExpectRefused(caller);
  caller.certificate_pem += nonlabel_.certificate_pem;  // With its chain.
  ExpectRefused(caller);
}

TEST_F(PinnedCredentialsTest, ThePinnedCertificateUnderAnotherNameIsRefusedByName) {
  server_->Shutdown();
  const CertifiedKey stranger = *CreateSelfSigned("stranger.test", 30);
  Serve(IdentityOf(label_, kLabelName, kNonLabelName, stranger));
  const absl::Status status = CallTraining(Caller(stranger, "stranger.test"));
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected name nonlabel.test, found stranger.test"));
  EXPECT_EQ(calls(), 0);
}

TEST_F(PinnedCredentialsTest, AServerWithAnotherCertificateOfItsNameIsRefusedByTheCaller) {
  server_->Shutdown();
  for (const CertifiedKey& other : {*CreateSelfSigned(kLabelName, 30), SignedBy(label_, kLabelName)}) {
    Serve(IdentityOf(other, kLabelName, kNonLabelName, nonlabel_));
    EXPECT_EQ(CallTraining(Caller(nonlabel_, kNonLabelName)).code(), absl::StatusCode::kUnavailable);
    EXPECT_EQ(Wait(Caller(nonlabel_, kNonLabelName)).code(), absl::StatusCode::kPermissionDenied);
    server_->Shutdown();
  }
  EXPECT_EQ(calls(), 0);
}

TEST_F(CredentialsTest, MessageWithinTheLimitPassesAndAboveItIsRefused) {
  EXPECT_EQ(CallTraining(NonLabelIdentity(), kLabelName, kMaxMessageBytes - 100), absl::OkStatus());
  const absl::Status refused = CallTraining(NonLabelIdentity(), kLabelName, kMaxMessageBytes + 100);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ExitCodeFor(refused), ExitCode::kRefused) << "not a halt";
  EXPECT_EQ(calls(), 1);
}

TEST_F(CredentialsTest, HaltOfTheServersReleaseGateIsAHaltOfTheCaller) {
  training_.verdict = ToGrpcStatus(AsHalt(absl::ResourceExhaustedError("release gate: step 7")));
  const absl::Status received = CallTraining(NonLabelIdentity());
  EXPECT_EQ(received.message(), "release gate: step 7");
  EXPECT_EQ(ExitCodeFor(received), ExitCode::kHalted);
}

TEST_F(CredentialsTest, ServerSpeaksTls13) {
  const Handshake handshake = ConnectBare(port_, NonLabelIdentity(), TLS1_3_VERSION);
  EXPECT_TRUE(handshake.completed);
  EXPECT_EQ(handshake.version, "TLSv1.3");
}

TEST_F(CredentialsTest, ServerRefusesTls12) {
  EXPECT_FALSE(ConnectBare(port_, NonLabelIdentity(), TLS1_2_VERSION).completed);
}

TEST_F(CredentialsTest, ChannelSpeaksTls13) {
  BareServer server(LabelIdentity(), TLS1_3_VERSION);
  port_ = server.port();
  EXPECT_FALSE(CallTraining(NonLabelIdentity()).ok());  // It closes after the handshake.
  const Handshake handshake = server.Result();
  EXPECT_TRUE(handshake.completed);
  EXPECT_EQ(handshake.version, "TLSv1.3");
}

TEST_F(CredentialsTest, ChannelRefusesTls12) {
  BareServer server(LabelIdentity(), TLS1_2_VERSION);
  port_ = server.port();
  EXPECT_EQ(CallTraining(NonLabelIdentity()).code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(server.Result().completed);
}

TEST_F(CredentialsTest, WaitForPeerReturnsOnceThePeerServes) {
  EXPECT_EQ(Wait(NonLabelIdentity()), absl::OkStatus());
  EXPECT_EQ(Wait(LabelIdentity()), absl::OkStatus());  // Who may call what is decided call by call.
  EXPECT_EQ(calls(), 0);
}

TEST_F(CredentialsTest, WaitForPeerWaitsForAPeerThatStartsLater) {
  server_->Shutdown();
  auto waiting = std::async(std::launch::async, [&, address = address()] {
    return WaitForPeer(address, NonLabelIdentity(), kLabelName, SteadyAfter(absl::Seconds(20)));
  });
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address(), ServerTlsCredentials(LabelIdentity()), &port_);
  builder.RegisterService(&operations_);
  server_ = builder.BuildAndStart();
  ASSERT_NE(server_, nullptr);
  EXPECT_EQ(waiting.get(), absl::OkStatus());
}

TEST_F(CredentialsTest, WaitForPeerFailsWhereNobodyListens) {
  server_->Shutdown();
  const absl::Status status = Wait(NonLabelIdentity(), kLabelName, absl::Milliseconds(30));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Connection refused"));
  EXPECT_FALSE(RefusedByPeer(status));
}

TEST_F(CredentialsTest, WaitForPeerSaysWhatItWaitsFor) {
  server_->Shutdown();
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(
      WaitForPeer(address(), NonLabelIdentity(), kLabelName, SteadyAfter(absl::Seconds(1)), {}, absl::Milliseconds(20))
          .code(),
      absl::StatusCode::kUnavailable);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr(absl::StrCat("INFO waiting for ", kLabelName, " at ", address(),
                                     " (Connection refused): 0 already, at most ")));
}

TEST_F(CredentialsTest, WaitForPeerFailsWhereTheListenerIsSilent) {
  int port = 0;
  const int listener = ListenOnFreePort(&port);
  const absl::Status status = WaitForPeer(absl::StrCat("127.0.0.1:", port), NonLabelIdentity(), kLabelName,
                                          SteadyAfter(absl::Milliseconds(30)));
  close(listener);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(RefusedByPeer(status));
}

TEST_F(CredentialsTest, WaitForPeerRefusesTls12) {
  BareServer server(LabelIdentity(), TLS1_2_VERSION);
  port_ = server.port();
  const absl::Status status = Wait(NonLabelIdentity());
  EXPECT_EQ(status.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(status.message()), HasSubstr("TLS"));
  EXPECT_FALSE(server.Result().completed);
}

TEST_F(CredentialsTest, WaitForPeerRefusesAMalformedAddress) {
  for (const std::string address : {"", "host", "host:", ":7443"}) {
    EXPECT_EQ(WaitForPeer(address, NonLabelIdentity(), kLabelName, SteadyNow()).code(),
              absl::StatusCode::kInvalidArgument)
        << address;
  }
}

}  // namespace
}  // namespace splitveil
