// A party's server among strangers: who holds which of its connections.
#include "common/transport/server.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <grpcpp/grpcpp.h>
#include <memory>
#include <openssl/ssl.h>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/process/runtime.h"
#include "common/process/steady_time.h"
#include "common/transport/client_call.h"
#include "common/transport/connection_listener.h"
#include "common/transport/credentials.h"
#include "common/transport/peer_probe.h"
#include "tests/testing/scratch_folder.h"
#include "tests/unit/common/transport/tls_fixture.h"

#include "splitveil/v1/operations.grpc.pb.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMaxMessageBytes = 1 << 20;
constexpr int kWaitMillis = 20'000;

// Answers with the connection that the call came by.
class ConnectionService : public v1::Operations::Service {
 public:
  grpc::Status GetStatus(grpc::ServerContext* context, const v1::GetStatusRequest*,
                         v1::GetStatusResponse* response) override {
    response->set_phase(context->peer());
    return grpc::Status::OK;
  }
};

// A TCP connection to 127.0.0.1 that says nothing.
class Stranger {
 public:
  explicit Stranger(int port) : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    EXPECT_EQ(connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  ~Stranger() { close(descriptor_); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  // Whether the server ends it within `millis`.
  bool IsEnded(int millis) const {
    pollfd state = {descriptor_, POLLIN, 0};
    char byte = 0;
    return poll(&state, 1, millis) == 1 && recv(descriptor_, &byte, 1, 0) <= 0;
  }

 private:
  const int descriptor_;
};

class ServerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { RequireTls13(); }

  void Start(const std::string& address) {
    absl::StatusOr<RunningServer> running = StartServer({address, kMaxMessageBytes, {&service_}}, identity_);
    ASSERT_TRUE(running.ok()) << running.status();
    running_ = *std::move(running);
  }

  std::shared_ptr<grpc::Channel> Channel(const std::string& host) const {
    return TlsChannel(absl::StrCat(host, ":", running_.port), identity_, kLabelName, kMaxMessageBytes);
  }

  // The connection by which a call over `channel` came; the error where it did not.
  static std::string Connection(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::ClientContext context;
    context.set_deadline(GrpcDeadline(SteadyAfter(absl::Milliseconds(kWaitMillis))));
    context.set_wait_for_ready(true);
    v1::GetStatusResponse response;
    const grpc::Status status = v1::Operations::NewStub(channel)->GetStatus(&context, {}, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return status.ok() ? response.phase() : status.error_message();
  }

  static void WriteFiles(const ScratchFolder& folder, const CertifiedKey& own, const CertifiedKey& authority) {
    for (const auto& [name, text] : {std::pair{"own.pem", own.certificate_pem},
                                     {"own.key", own.private_key_pem},
                                     {"authority.pem", authority.certificate_pem}}) {
      std::filesystem::permissions(folder.Write(name, text), std::filesystem::perms(0600));
    }
  }

  static TlsIdentity IdentityInFiles(const ScratchFolder& folder, const std::string& own, const std::string& peer) {
    absl::StatusOr<TlsIdentity> identity =
        LoadTlsIdentity(own, peer, folder.Path("own.pem"), folder.Path("own.key"), folder.Path("authority.pem"));
    EXPECT_TRUE(identity.ok()) << identity.status();
    return *std::move(identity);
  }

  const CertifiedKey authority_ = NewAuthority();
  TlsIdentity identity_ = IdentityOf(NewCertificate(authority_, kLabelName), kLabelName, kNonLabelName, authority_);
  ConnectionService service_;
  RunningServer running_;
};

TEST_F(ServerTest, AConnectionWithAnAuthorisedCallOutlivesAnyNumberOfStrangers) {
  for (const char* host : {"127.0.0.1", "[::1]"}) {
    Start("0.0.0.0:0");
    const std::shared_ptr<grpc::Channel> channel = Channel(host);
    const std::string connection = Connection(channel);
    std::vector<std::unique_ptr<Stranger>> strangers;
    for (int i = 0; i < 200; ++i) {
      strangers.push_back(std::make_unique<Stranger>(running_.port));
    }
    EXPECT_TRUE(strangers[0]->IsEnded(kWaitMillis));  // All have been seen but the latest 64 at most.
    EXPECT_TRUE(strangers[100]->IsEnded(kWaitMillis));
    EXPECT_EQ(Connection(channel), connection);
    EXPECT_NE(Connection(Channel(host)), connection) << "another one comes through";
    running_.server->Shutdown(GrpcDeadline(SteadyNow()));
  }
}

TEST_F(ServerTest, CountsCallersThatLeaveWithoutAnAuthorisedCall) {
  Start("127.0.0.1:0");
  Connection(Channel("127.0.0.1"));  // Authorised, and ended.
  EXPECT_EQ(running_.listener->turned_away(), 0);
  for (int i = 0; i < 3; ++i) {
    const Stranger stranger(running_.port);
  }
  const CertifiedKey other = NewAuthority();
  identity_ = IdentityOf(NewCertificate(other, kLabelName), kLabelName, kNonLabelName, other);
  ConnectBare(running_.port, identity_, TLS1_3_VERSION);
  const SteadyTime deadline = SteadyAfter(absl::Milliseconds(kWaitMillis));
  while (running_.listener->turned_away() < 4 && SteadyNow() < deadline) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_EQ(running_.listener->turned_away(), 4);
}

TEST_F(ServerTest, FewStrangersAreLeftAlone) {
  Start("127.0.0.1:0");
  const Stranger stranger(running_.port);
  Connection(Channel("127.0.0.1"));
  EXPECT_FALSE(stranger.IsEnded(0));
}

// A year goes by, the authority is another one: a newcomer is shown the new certificate, the connection of the
// run stays, and files that are wrong change nothing.
TEST_F(ServerTest, CertificatesAreReadAgainOnSighupAndConnectionsStay) {
  HandleReloadSignal();
  const ScratchFolder folder;
  WriteFiles(folder, NewCertificate(authority_, kLabelName), authority_);
  identity_ = IdentityInFiles(folder, kLabelName, kNonLabelName);
  Start("127.0.0.1:0");
  const std::shared_ptr<grpc::Channel> old_channel = Channel("127.0.0.1");
  const std::string connection = Connection(old_channel);

  const CertifiedKey authority = NewAuthority();
  WriteFiles(folder, NewCertificate(authority, kLabelName), authority);
  Connection(Channel("127.0.0.1"));  // Nobody has asked yet: the old certificates are those that count.
  raise(SIGHUP);
  identity_ = IdentityOf(NewCertificate(authority, kLabelName), kLabelName, kNonLabelName, authority);
  Connection(Channel("127.0.0.1"));
  EXPECT_EQ(Connection(old_channel), connection);

  folder.Write("own.pem", "no certificate");
  raise(SIGHUP);
  Connection(Channel("127.0.0.1"));
  EXPECT_EQ(Connection(old_channel), connection);
}

// The other direction: calls that begin after SIGHUP show the renewed certificate.
TEST_F(ServerTest, OutgoingCertificatesAreReadAgainOnSighupToo) {
  HandleReloadSignal();
  const ScratchFolder folder;
  const CertifiedKey old = NewAuthority();
  WriteFiles(folder, NewCertificate(old, kNonLabelName), old);
  Start("127.0.0.1:0");
  ReloadedChannel channel(absl::StrCat("127.0.0.1:", running_.port), IdentityInFiles(folder, kNonLabelName, kLabelName),
                          kMaxMessageBytes);
  // The peer may not ask for the status: that it is told so says that its certificate was taken.
  const auto outcome = [](const std::shared_ptr<grpc::Channel>& way) {
    grpc::ClientContext context;
    context.set_deadline(GrpcDeadline(SteadyAfter(absl::Milliseconds(kWaitMillis))));
    v1::GetStatusResponse response;
    return v1::Operations::NewStub(way)->GetStatus(&context, {}, &response).error_code();
  };
  // So does the handshake by which a lost peer is waited for.
  const auto reached = [&] {
    return WaitForPeer(absl::StrCat("127.0.0.1:", running_.port), channel.identity(), kLabelName,
                       SteadyAfter(absl::Milliseconds(kWaitMillis)));
  };
  const std::shared_ptr<grpc::Channel> before = channel.Get();
  EXPECT_EQ(reached().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(outcome(before), grpc::StatusCode::UNAVAILABLE);
  WriteFiles(folder, NewCertificate(authority_, kNonLabelName), authority_);
  EXPECT_EQ(channel.Get(), before);  // Nobody has asked yet.
  raise(SIGHUP);
  EXPECT_TRUE(reached().ok());
  const std::shared_ptr<grpc::Channel> renewed = channel.Get();
  EXPECT_NE(renewed, before);
  EXPECT_EQ(outcome(renewed), grpc::StatusCode::PERMISSION_DENIED);
  folder.Write("own.pem", "no certificate");
  raise(SIGHUP);
  EXPECT_TRUE(reached().ok());
  EXPECT_EQ(channel.Get(), renewed);
}

TEST_F(ServerTest, KnowsThatItsOwnPortAccepts) {
  for (const char* address : {"127.0.0.1:0", "0.0.0.0:0", "localhost:0"}) {
    Start(address);
    for (int i = 0; i < 3; ++i) {
      const absl::Status status = running_.listener->CheckAccepts(absl::Milliseconds(kWaitMillis));
      EXPECT_TRUE(status.ok()) << address << ": " << status;
    }
    Connection(Channel("127.0.0.1"));
    EXPECT_EQ(running_.listener->turned_away(), 0) << "its own tries count for nothing";
  }
}

TEST(ConnectionListenerTest, KnowsThatItsOwnPortDoesNotAccept) {
  const auto listener = *ConnectionListener::Create("listen_address", "127.0.0.1:0", {});
  const absl::Status status = listener->CheckAccepts(absl::Milliseconds(50));  // Nobody serves it.
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "not accepted within 50ms");
}

TEST(ListenerWatchTest, SaysOnceThatThePortAcceptsNoMoreAndOnceThatItDoesAgain) {
  ::testing::internal::CaptureStderr();
  std::atomic<int> asked{0};
  {
    const ListenerWatch watch(7443, absl::Milliseconds(1), [&] {
      const int now = ++asked;
      return now > 3 && now <= 6 ? absl::UnavailableError("not accepted within 5s") : absl::OkStatus();
    });
    const SteadyTime deadline = SteadyAfter(absl::Milliseconds(kWaitMillis));
    while (asked < 10 && SteadyNow() < deadline) {
      absl::SleepFor(absl::Milliseconds(1));
    }
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("WARNING port 7443 no longer accepts connections: not accepted within 5s"));
  EXPECT_THAT(log, HasSubstr("INFO port 7443 accepts connections again"));
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 2) << log;
}

TEST_F(ServerTest, RefusesAnAddressThatIsTaken) {
  Start("127.0.0.1:0");
  const std::string address = absl::StrCat("127.0.0.1:", running_.port);
  const absl::Status status = StartServer({address, kMaxMessageBytes, {}}, identity_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat("listen_address: expected a free host:port, found ", address)));
}

}  // namespace
}  // namespace splitveil
