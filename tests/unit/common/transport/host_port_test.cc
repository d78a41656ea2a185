#include "common/transport/host_port.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "absl/strings/str_cat.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

// A free port that somebody listens at.
class TakenPort {
 public:
  TakenPort() : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(socket_, 1), 0);
    EXPECT_EQ(getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~TakenPort() { close(socket_); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

 private:
  int socket_;
  uint16_t port_ = 0;
};

TEST(HostPortTest, ReadsHostsOfEveryKind) {
  const auto expect = [](const std::string& address, const std::string& host, uint16_t port) {
    const absl::StatusOr<HostPort> parsed = ParseHostPort("listen_address", address);
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->host, host);
    EXPECT_EQ(parsed->port, port);
  };
  expect("0.0.0.0:7443", "0.0.0.0", 7443);
  expect("label-party.example.com:65535", "label-party.example.com", 65535);
  expect("[::1]:0", "::1", 0);
}

TEST(HostPortTest, RefusesEverythingElseNamingTheField) {
  for (const char* address : {"", ":", "localhost", "localhost:", ":7443", "::1:7443", "localhost:https", "h:65536",
                              "h:-1", "h:+1", "h: 1", "h:1 ", "[::1]", "[]:1", "a b:1", "unix:/tmp/s:1"}) {
    const absl::Status status = ParseHostPort("peer_address", address).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << address;
    EXPECT_EQ(status.message(),
              absl::StrCat("peer_address: expected host:port with a port of 0 to 65535, found \"", address, "\""));
  }
}

// Also where IPv6 has no address: a container's loopback device often has none.
TEST(OfThisMachineTest, EveryAddressIsReachedByIpv4sLoopback) {
  const auto name_of = [](sockaddr_storage address) {
    PortIn(address) = htons(80);
    OfThisMachine(address);
    return NameOfPeer(address);
  };
  sockaddr_storage v4 = {}, v6 = {};
  v4.ss_family = AF_INET;
  v6.ss_family = AF_INET6;
  EXPECT_EQ(name_of(v4), "ipv4:127.0.0.1:80");
  EXPECT_EQ(name_of(v6), "ipv4:127.0.0.1:80");
  reinterpret_cast<sockaddr_in6&>(v6).sin6_addr = in6addr_loopback;
  EXPECT_EQ(name_of(v6), "ipv6:::1:80");
  reinterpret_cast<sockaddr_in&>(v4).sin_addr.s_addr = htonl(0x0A000001);
  EXPECT_EQ(name_of(v4), "ipv4:10.0.0.1:80");
}

TEST(CheckFreeTest, AcceptsAFreePortAndGivesItBack) {
  std::string address;
  {
    const TakenPort taken;
    address = taken.address();
  }
  EXPECT_TRUE(CheckFree("listen_address", address).ok());
  EXPECT_TRUE(CheckFree("listen_address", address).ok());
  EXPECT_TRUE(CheckFree("listen_address", "0.0.0.0:0").ok());
}

TEST(CheckFreeTest, RefusesAPortThatIsTaken) {
  const TakenPort taken;
  const absl::Status status = CheckFree("listen_address", taken.address());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("listen_address: expected a free host:port of this machine, found \"" + taken.address()));
}

TEST(CheckFreeTest, RefusesTheAddressOfAnotherMachine) {
  // TEST-NET-1 (RFC 5737), which no machine has.
  const absl::Status status = CheckFree("listen_address", "192.0.2.1:7443");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("found \"192.0.2.1:7443\": "));
}

TEST(CheckFreeTest, RefusesAHostWithoutAnAddress) {
  EXPECT_EQ(CheckFree("listen_address", "nobody.invalid:7443").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(CheckFree("listen_address", "no port").code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace splitveil
