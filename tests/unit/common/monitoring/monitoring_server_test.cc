// The server over real connections.
#include "common/monitoring/monitoring_server.h"

#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <atomic>
#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/crypto/sha256.h"
#include "common/monitoring/http_listener.h"
#include "common/process/steady_time.h"
#include "tests/testing/process/no_threads.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

constexpr char kToken[] = "0123456789abcdef";

class MonitoringServerTest : public ::testing::Test {
 protected:
  void Start(std::optional<Digest> token = std::nullopt, const MonitoringServer::Actions& actions = {}) {
    MonitoringPlan plan;
    plan.listen_address = "127.0.0.1:0";
    plan.token_sha256 = token;
    plan.request_limit = limit_;
    absl::StatusOr<std::unique_ptr<MonitoringServer>> server = MonitoringServer::Start(plan, &status_, actions);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    client_ = std::make_unique<httplib::Client>("127.0.0.1", server_->port());
  }
  // Connected, and nothing sent.
  int Connect() const {
    const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(server_->port()));
    EXPECT_EQ(connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return descriptor;
  }
  // All that comes back.
  static std::string ReadAll(int descriptor) {
    std::string all;
    char buffer[4096];
    for (ssize_t got = recv(descriptor, buffer, sizeof(buffer), 0); got > 0;
         got = recv(descriptor, buffer, sizeof(buffer), 0)) {
      all.append(buffer, static_cast<size_t>(got));
    }
    return all;
  }

  absl::Duration limit_ = absl::Seconds(20);
  RunStatus status_{"label_party"};
  std::unique_ptr<MonitoringServer> server_;
  std::unique_ptr<httplib::Client> client_;
};

TEST_F(MonitoringServerTest, ServesPageFiguresAndMetrics) {
  Start();
  for (const auto& [path, type, text] :
       {std::tuple<const char*, const char*, const char*>{"/", "text/html; charset=utf-8", "<html"},
        {"/console.js", "text/javascript; charset=utf-8", "\"use strict\""},
        {"/console.css", "text/css; charset=utf-8", ":root"},
        {"/chart.js", "text/javascript; charset=utf-8", "Chart"},
        {"/status.json", "application/json", "\"role\":\"label_party\""},
        {"/metrics", "text/plain; version=0.0.4; charset=utf-8", "splitveil_steps_total 0"}}) {
    const httplib::Result answer = client_->Get(path);
    ASSERT_TRUE(answer) << path;
    EXPECT_EQ(answer->status, 200) << path;
    EXPECT_EQ(answer->get_header_value("Content-Type"), type);
    EXPECT_THAT(answer->body, HasSubstr(text));
    EXPECT_THAT(answer->get_header_value("Content-Security-Policy"), HasSubstr("default-src 'none'"));
    EXPECT_EQ(answer->get_header_value("X-Content-Type-Options"), "nosniff");
    EXPECT_EQ(answer->get_header_value("Cache-Control"), "no-store");
  }
  EXPECT_EQ(client_->Get("/ledger.db")->status, 404);
  EXPECT_EQ(client_->Get("/../../etc/passwd")->status, 404);
}

// All that the page asks for is here.
TEST_F(MonitoringServerTest, ThePageNamesNothingElsewhere) {
  Start();
  for (const char* path : {"/", "/console.js", "/console.css"}) {
    std::string body = client_->Get(path)->body;
    const std::string svg = "http://www.w3.org/2000/svg";  // A name space.
    if (const size_t at = body.find(svg); at != std::string::npos) {
      body.erase(at, svg.size());
    }
    EXPECT_EQ(body.find("http://"), std::string::npos) << path;
    EXPECT_EQ(body.find("https://"), std::string::npos) << path;
    EXPECT_EQ(body.find("url("), std::string::npos) << path;
  }
}

TEST_F(MonitoringServerTest, FiguresNeedTheTokenWhereThereIsOne) {
  Start(Sha256(kToken));
  EXPECT_EQ(client_->Get("/")->status, 200);
  EXPECT_EQ(client_->Get("/metrics")->status, 401);
  EXPECT_EQ(client_->Get("/metrics")->get_header_value("WWW-Authenticate"), "Bearer");
  EXPECT_EQ(client_->Get("/status.json")->body.find("role"), std::string::npos);
  EXPECT_EQ(client_->Get("/metrics", {{"Authorization", absl::StrCat("Bearer ", kToken)}})->status, 200);
}

// Every user of the machine reaches a loopback address.
TEST_F(MonitoringServerTest, WithoutATokenTheLabelPartyShowsItsProgressAlone) {
  status_.Update([](v1::GetStatusResponse& status) {
    status.set_step(7);
    status.set_loss(0.6931);
    status.set_bound_exceeded(3);
    status.add_events()->set_detail("of_labels");
    status.mutable_label_party()->set_run_auc_bound(0.7654);
    status.mutable_label_party()->set_frozen(true);
  });
  const auto all = [&](const httplib::Headers& headers) {
    return client_->Get("/status.json", headers)->body + client_->Get("/metrics", headers)->body;
  };
  const std::vector<const char*> figures = {"0.6931", "bound_exceeded", "of_labels", "0.7654", "frozen"};
  Start();
  EXPECT_THAT(all({}), HasSubstr("splitveil_run_step 7"));
  for (const char* figure : figures) {
    EXPECT_EQ(all({}).find(figure), std::string::npos) << figure;
  }
  Start(Sha256(kToken));
  for (const char* figure : figures) {
    EXPECT_THAT(all({{"Authorization", absl::StrCat("Bearer ", kToken)}}), HasSubstr(figure));
  }
}

TEST_F(MonitoringServerTest, HaltsOnceWithTheTokenAndFromThePage) {
  std::atomic<int> halts{0};
  Start(Sha256(kToken), {{"halt", [&halts] {
                            return halts++ == 0 ? absl::OkStatus()
                                                : absl::FailedPreconditionError("halt: expected a run under way");
                          }}});
  const std::string own = absl::StrCat("http://127.0.0.1:", server_->port());
  const httplib::Headers good = {
      {"Authorization", absl::StrCat("Bearer ", kToken)}, {"Origin", own}, {"X-Splitveil-Action", "halt"}};
  EXPECT_EQ(client_->Post("/halt")->status, 401);
  EXPECT_EQ(client_->Post("/halt", {{"Authorization", absl::StrCat("Bearer ", kToken)}}, "", "text/plain")->status,
            403);
  EXPECT_EQ(client_->Get("/halt", good)->status, 404);
  EXPECT_EQ(halts, 0);
  EXPECT_EQ(client_->Post("/halt", good, "", "text/plain")->status, 200);
  EXPECT_EQ(halts, 1);
  const httplib::Result again = client_->Post("/halt", good, "", "text/plain");
  EXPECT_EQ(again->status, 409);
  EXPECT_THAT(again->body, HasSubstr("expected a run under way"));
}

TEST_F(MonitoringServerTest, ARequestWithoutABodyNeedsNoLengthAndOneTooLongIsRefused) {
  std::atomic<int> halts{0};
  Start(Sha256(kToken), {{"halt", [&halts] {
                            ++halts;
                            return absl::OkStatus();
                          }}});
  const std::string host = absl::StrCat("127.0.0.1:", server_->port());
  const std::string head = absl::StrCat("POST /halt HTTP/1.1\r\nHost: ", host, "\r\nAuthorization: Bearer ", kToken,
                                        "\r\nX-Splitveil-Action: halt\r\nOrigin: http://", host, "\r\n");
  const auto answer = [&](const std::string& rest) {
    const int descriptor = Connect();
    const std::string request = head + rest;
    EXPECT_EQ(send(descriptor, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
    std::string all = ReadAll(descriptor);
    close(descriptor);
    return all;
  };
  EXPECT_THAT(answer("\r\n"), HasSubstr(" 200 "));
  EXPECT_EQ(halts, 1);
  EXPECT_THAT(answer("Content-Length: 5\r\n\r\n12345"), HasSubstr(" 200 "));
  EXPECT_EQ(halts, 2);
  EXPECT_THAT(answer("Content-Length: 2000\r\n\r\n" + std::string(2000, 'x')), HasSubstr(" 413 "));
  EXPECT_EQ(halts, 2);
}

TEST_F(MonitoringServerTest, APartyThatCannotHaltHasNoSuchPlace) {
  Start(Sha256(kToken));
  EXPECT_EQ(client_
                ->Post("/halt",
                       {{"Authorization", absl::StrCat("Bearer ", kToken)},
                        {"Origin", absl::StrCat("http://127.0.0.1:", server_->port())},
                        {"X-Splitveil-Action", "halt"}},
                       "", "text/plain")
                ->status,
            404);
}

// Headers without an end: the connection is closed at the limit, and others are served meanwhile.
TEST_F(MonitoringServerTest, ARequestIsNoLongerThanItsLimit) {
  Start();
  const int descriptor = Connect();
  const std::string line = "X-Header: " + std::string(1000, 'x') + "\r\n";
  std::string request = "GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n";
  while (request.size() < 4 * HttpConnection::kMaxRequestBytes) {
    request += line;
  }
  (void)send(descriptor, request.data(), request.size(), MSG_NOSIGNAL);
  EXPECT_EQ(ReadAll(descriptor).find("splitveil_"), std::string::npos);
  close(descriptor);
  EXPECT_EQ(client_->Get("/metrics")->status, 200);
}

// A range more costs the client three bytes, and would cost the party the whole file once more; reading thousands of
// them costs megabytes of stack.
TEST_F(MonitoringServerTest, RefusesRangesBeforeAnythingIsMadeOfThem) {
  Start(Sha256(kToken));
  const auto answer = [&](const std::string& fields) {
    const int descriptor = Connect();
    const std::string request = absl::StrCat("GET /console.js HTTP/1.1\r\nHost: 127.0.0.1\r\n", fields, "\r\n");
    EXPECT_EQ(send(descriptor, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
    std::string all = ReadAll(descriptor);
    close(descriptor);
    return all;
  };
  std::string many = "Range: bytes=0-", shortest = "rANGE: bytes=-1";  // About as long as a line may be.
  for (int i = 0; i < 2600; ++i) {
    many += ",0-";
  }
  for (int i = 0; i < 4000; ++i) {
    shortest += ",-";
  }
  for (const std::string& range : {std::string("Range: bytes=0-9"), std::string("RANGE:bytes=9-0"), many, shortest}) {
    const std::string refused = answer("Accept: */*\r\n" + range + "\r\n");
    EXPECT_THAT(refused.substr(0, 40), HasSubstr(" 400 ")) << range.substr(0, 30);
    EXPECT_LT(refused.size(), 500) << range.substr(0, 30);
  }
  const std::string whole = answer("If-Range: x\r\nX-Range: 1\r\nRanges: 2\r\nAccept: Range: 3\r\n");
  EXPECT_THAT(whole.substr(0, 40), HasSubstr(" 200 "));
  EXPECT_THAT(whole, HasSubstr("\"use strict\""));
}

// More than there are threads, all silent: a newcomer is served once the time of the first is over.
TEST_F(MonitoringServerTest, SilentConnectionsAreGivenUp) {
  limit_ = absl::Milliseconds(200);
  Start();
  std::vector<int> silent;
  for (int i = 0; i < 2 * MonitoringPlan().threads; ++i) {
    silent.push_back(Connect());
  }
  client_->set_read_timeout(30);
  const httplib::Result answer = client_->Get("/metrics");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  for (const int descriptor : silent) {
    close(descriptor);
  }
}

TEST_F(MonitoringServerTest, EndsAtOnceAlthoughACallerIsConnected) {
  Start();
  std::vector<int> silent;
  for (int i = 0; i < MonitoringPlan().threads; ++i) {
    silent.push_back(Connect());
    (void)send(silent.back(), "GET /me", 7, MSG_NOSIGNAL);
  }
  const SteadyTime before = SteadyNow();
  server_.reset();
  EXPECT_LT(SecondsSince(before), 2);
  for (const int descriptor : silent) {
    EXPECT_EQ(ReadAll(descriptor), "");
    close(descriptor);
  }
}

TEST_F(MonitoringServerTest, ATakenPortIsRefusedAndNamed) {
  Start();
  MonitoringPlan plan;
  plan.listen_address = absl::StrCat("127.0.0.1:", server_->port());
  const absl::StatusOr<std::unique_ptr<MonitoringServer>> second = MonitoringServer::Start(plan, &status_, {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("party.monitoring.listen_address"));
}

TEST_F(MonitoringServerTest, WithoutAThreadItSaysSo) {
  const testing::NoThreads no_threads;
  MonitoringPlan plan;
  plan.listen_address = "127.0.0.1:0";
  const absl::Status status = MonitoringServer::Start(plan, &status_, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no thread is to be had"));
}

TEST_F(MonitoringServerTest, AnswersWhileTheRunWrites) {
  Start();
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int64_t step = 0; !done; ++step) {
      status_.Update([&](v1::GetStatusResponse& status) { status.set_step(static_cast<uint64_t>(step)); });
    }
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(client_->Get("/status.json")->status, 200);
  }
  done = true;
  writer.join();
}

}  // namespace
}  // namespace splitveil
