// What a stranger, and a caller who means no good, gets from the REST half. No version is needed for that.
#include "label_party/serving/rest_inference.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "tests/testing/process/temp_folder.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kInfer[] = "POST /v2/models/m/infer HTTP/1.1\r\nHost: h\r\n";
constexpr char kToken[] = "Authorization: Bearer 0123456789abcdef\r\n";
constexpr char kShop[] = "Authorization: Bearer fedcba9876543210\r\n";
constexpr size_t kMaxBody = size_t{4} << 20;
constexpr int64_t kMaxValues = 1000;

class RestInferenceTest : public ::testing::Test {
 protected:
  RestInferenceTest() {
    v1::ServingConfig config;
    for (const auto& [name, token] : {std::pair("app", "0123456789abcdef"), {"shop", "fedcba9876543210"}}) {
      std::ofstream(files_.File(name)) << token << "\n";
      std::filesystem::permissions(files_.File(name), std::filesystem::perms::owner_read);
      v1::Caller& caller = *config.add_callers();
      caller.set_name(name);
      caller.set_token_path(files_.File(name));
    }
    config.mutable_callers(1)->set_outside(true);
    v1::GradientProtection protection;
    protection.mutable_gaussian_label_dp()->set_release_head_predicts(true);
    callers_ = *Callers::Create(config, protection);
    queue_ = *RequestQueue::Create({100, absl::ZeroDuration(), 1000}, &metrics_);
    versions_ = std::make_unique<ServedVersions>(VersionsIn(ServedVersion::Training(), files_.File("versions")));
    protocol_ = std::make_unique<OpenInference>(OpenInference::Options{"m", std::nullopt, ""}, versions_.get(),
                                                queue_.get(), callers_.get(), &metrics_);
    Start(absl::Milliseconds(500));
  }

  void Start(absl::Duration request_limit) {
    HttpPlace place;
    place.listen_address = "127.0.0.1:0";
    place.threads = 2 * Callers::kMostUnderWay;
    place.request_limit = request_limit;
    rest_ = *RestInference::Start(place, kMaxBody, kMaxValues, protocol_.get());
  }

  int Connect() const {
    const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(rest_->port()));
    EXPECT_EQ(connect(descriptor, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    const timeval limit = {20, 0};
    EXPECT_EQ(setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
    return descriptor;
  }
  static void Send(int descriptor, const std::string& bytes) {
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t more = send(descriptor, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (more <= 0) {
        return;  // It may have closed already: that is what some tests expect.
      }
      sent += static_cast<size_t>(more);
    }
  }
  // All that comes back until it closes.
  static std::string Rest(int descriptor) {
    std::string all;
    char buffer[4096];
    for (ssize_t got = recv(descriptor, buffer, sizeof(buffer), 0); got > 0;
         got = recv(descriptor, buffer, sizeof(buffer), 0)) {
      all.append(buffer, static_cast<size_t>(got));
    }
    close(descriptor);
    return all;
  }
  std::string Ask(const std::string& bytes) const {
    const int descriptor = Connect();
    Send(descriptor, bytes);
    return Rest(descriptor);
  }
  static std::string WithLength(const std::string& body) {
    return absl::StrCat("Content-Length: ", body.size(), "\r\n\r\n", body);
  }

  const TempFolder files_;
  ServingMetrics metrics_;
  std::unique_ptr<Callers> callers_;
  std::unique_ptr<RequestQueue> queue_;
  std::unique_ptr<ServedVersions> versions_;
  std::unique_ptr<OpenInference> protocol_;
  std::unique_ptr<RestInference> rest_;
};

TEST_F(RestInferenceTest, AStrangersBodyIsNotRead) {
  Start(absl::Hours(1));
  // Nothing of the body is ever sent: a server that waited for it would wait for longer than this test reads.
  EXPECT_THAT(Ask(absl::StrCat(kInfer, "Content-Length: 4000000\r\n\r\n")), HasSubstr(" 401 "));
  EXPECT_THAT(Ask(absl::StrCat(kInfer, "Authorization: Bearer 0123456789abcdeg\r\n", WithLength("{}"))),
              HasSubstr(" 401 "));
  EXPECT_THAT(Ask("GET /v2 HTTP/1.1\r\n\r\n"), HasSubstr(" 401 "));
  EXPECT_THAT(Ask("GET /v2/models/m HTTP/1.1\r\n\r\n"), HasSubstr(" 401 "));
  EXPECT_THAT(Ask("GET /metrics HTTP/1.1\r\n\r\n"), HasSubstr(" 401 "));
}

TEST_F(RestInferenceTest, HealthIsForEverybodyAndNamesAreForCallers) {
  EXPECT_THAT(Ask("GET /v2/health/live HTTP/1.1\r\n\r\n"), HasSubstr(R"({"live":true})"));
  EXPECT_THAT(Ask("GET /v2/health/ready HTTP/1.1\r\n\r\n"), HasSubstr(R"({"ready":false})"));
  const std::string own = "/v2/models/m", other = "/v2/models/other";
  for (const std::string& path :
       {own + "/ready", other + "/ready", own + "/versions/1/ready", own, other, std::string("/v2"),
        std::string("/metrics"), std::string("/drift"), std::string("/v3")}) {
    EXPECT_THAT(Ask(absl::StrCat("GET ", path, " HTTP/1.1\r\n\r\n")), HasSubstr(" 401 ")) << path;
  }
  EXPECT_THAT(Ask(absl::StrCat("GET ", own, "/ready HTTP/1.1\r\n", kToken, "\r\n")), HasSubstr(R"({"ready":false})"));
  EXPECT_THAT(Ask(absl::StrCat("GET ", other, "/ready HTTP/1.1\r\n", kToken, "\r\n")), HasSubstr(" 404 "));
}

TEST_F(RestInferenceTest, ACallerThatSendsSlowlyLeavesHalfToOthers) {
  const std::string more = absl::StrCat("GET /v2 HTTP/1.1\r\n", kToken, "\r\n");
  std::vector<int> slow;
  // Whether all slow ones have come is seen by a request of the same caller, which is refused then. One that came
  // before may have been under way when the last slow one did, and refused that: then once more.
  bool all = false;
  for (int attempt = 0; attempt < 10 && !all; ++attempt) {
    for (const int descriptor : std::exchange(slow, {})) {
      Send(descriptor, "}");
      Rest(descriptor);
    }
    for (int i = 0; i < Callers::kMostUnderWay; ++i) {
      slow.push_back(Connect());
      Send(slow.back(), absl::StrCat(kInfer, kToken, "Content-Length: 2\r\n\r\n{"));
    }
    const SteadyTime limit = SteadyAfter(absl::Seconds(5));
    while (!all && SteadyNow() < limit) {
      all = absl::StrContains(Ask(more), " 429 ");
    }
  }
  EXPECT_THAT(Ask(more), HasSubstr("too many requests: 16 of this caller are under way"));
  EXPECT_THAT(Ask(absl::StrCat("GET /v2 HTTP/1.1\r\n", kShop, "\r\n")), HasSubstr(" 200 "));
  EXPECT_THAT(Ask("GET /v2/health/live HTTP/1.1\r\n\r\n"), HasSubstr(" 200 "));
  for (const int descriptor : slow) {
    Send(descriptor, "}");
    EXPECT_THAT(Rest(descriptor), HasSubstr(" 400 "));
  }
  EXPECT_THAT(Ask(more), HasSubstr(" 200 "));
}

// How often others ask is for the label party's own callers.
TEST_F(RestInferenceTest, MetricsCountWhatIsRefusedAndAreNotForOutsideCallers) {
  EXPECT_THAT(Ask(absl::StrCat("GET /metrics HTTP/1.1\r\n", kShop, "\r\n")), HasSubstr(" 403 "));
  EXPECT_THAT(Ask(absl::StrCat("GET /metrics HTTP/1.1\r\n", kToken, "\r\n")), HasSubstr("splitveil_request_seconds"));
  EXPECT_THAT(Ask(absl::StrCat("GET /drift HTTP/1.1\r\n", kShop, "\r\n")), HasSubstr(" 403 "));
  EXPECT_THAT(Ask(absl::StrCat("GET /drift HTTP/1.1\r\n", kToken, "\r\n")),
              HasSubstr("nothing has been asked for yet"));
  // What is refused is counted, whenever it is.
  Ask(absl::StrCat(kInfer, WithLength("{}")));
  Ask(absl::StrCat(kInfer, kToken, WithLength("{}")));
  Ask(absl::StrCat(kInfer, kToken, WithLength(R"({"inputs":[]})")));
  const std::string metrics = Ask(absl::StrCat("GET /metrics HTTP/1.1\r\n", kToken, "\r\n"));
  for (const char* code : {"UNAUTHENTICATED", "INVALID_ARGUMENT", "UNAVAILABLE"}) {
    EXPECT_THAT(metrics, HasSubstr(absl::StrCat("splitveil_requests_total{code=\"", code, "\",version=\"\"} 1")));
  }
}

// Both would be more than the bytes that were announced: a form's parts, and what is inflated.
TEST_F(RestInferenceTest, ABodyIsPlainJson) {
  const std::string form = "--b\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n{}\r\n--b--\r\n";
  EXPECT_THAT(Ask(absl::StrCat(kInfer, kToken, "Content-Type: multipart/form-data; boundary=b\r\n", WithLength(form))),
              HasSubstr("send plain JSON"));
  EXPECT_THAT(Ask(absl::StrCat(kInfer, kToken, "Content-Encoding: gzip\r\n", WithLength("{}"))),
              HasSubstr("send plain JSON"));
}

TEST_F(RestInferenceTest, RefusesWhatIsTooLong) {
  EXPECT_THAT(Ask(absl::StrCat(kInfer, kToken, "Content-Length: 4194305\r\n\r\n")),
              HasSubstr("body: has more than 4194304 bytes: ask for fewer ids at a time"));
  const std::string chunk = absl::StrCat("100000\r\n", std::string(0x100000, ' '), "\r\n");
  std::string chunks;
  for (int i = 0; i < 8; ++i) {
    chunks += chunk;
  }
  EXPECT_FALSE(absl::StrContains(
      Ask(absl::StrCat(kInfer, kToken, "Transfer-Encoding: chunked\r\n\r\n", chunks, "0\r\n\r\n")), " 200 "));
  std::string header;
  for (int i = 0; i < 100; ++i) {
    absl::StrAppend(&header, "X", i, ": ", std::string(1000, 'x'), "\r\n");
  }
  EXPECT_FALSE(absl::StrContains(Ask(absl::StrCat("GET /v2/health/live HTTP/1.1\r\n", header, "\r\n")), " 200 "));
  EXPECT_THAT(Ask("GET /v2/health/live HTTP/1.1\r\n\r\n"), HasSubstr(" 200 "));
}

// Whatever a proxy before it thinks: there is no second request in a connection.
TEST_F(RestInferenceTest, AConnectionHasOneRequest) {
  const std::string health = "GET /v2/health/live HTTP/1.1\r\n\r\n";
  for (const std::string& first :
       {health,
        absl::StrCat(kInfer, kToken, "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"),
        absl::StrCat(kInfer, kToken, "Content-Length: 2\r\nContent-Length: 9\r\n\r\n{}"),
        absl::StrCat("GET /v2/health/live HTTP/1.1\r\nContent-Length: ", health.size(), "\r\n\r\n")}) {
    const std::string answer = Ask(first + health);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 "));
    EXPECT_EQ(answer.find("HTTP/1.1 "), answer.rfind("HTTP/1.1 ")) << answer;
  }
}

TEST_F(RestInferenceTest, AStrangerHasLittleTimeAndACallerMore) {
  const int silent = Connect();
  Send(silent, "GET /v2/hea");
  const int slow = Connect();
  Send(slow, absl::StrCat(kInfer, kToken, "Content-Length: 2\r\n\r\n{"));
  const SteadyTime start = SteadyNow();
  EXPECT_FALSE(absl::StrContains(Rest(silent), " 200 "));
  EXPECT_LT(SecondsSince(start), 5);
  absl::SleepFor(absl::Milliseconds(700));
  Send(slow, "}");
  EXPECT_THAT(Rest(slow), HasSubstr("inputs and, if there are any, outputs to be lists"));
}

}  // namespace
}  // namespace splitveil::testing
