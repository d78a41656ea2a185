#include <gtest/gtest.h>
#include <optional>
#include <string>

#include "common/crypto/sha256.h"
#include "common/monitoring/monitoring_server.h"

namespace splitveil {
namespace {

constexpr char kToken[] = "0123456789abcdef";

RequestFacts Ask(const std::string& path, const std::string& token = "") {
  RequestFacts request;
  request.method = "GET";
  request.path = path;
  request.host = "127.0.0.1:9443";
  request.authorization = token.empty() ? "" : "Bearer " + token;
  return request;
}

RequestFacts Halt(const std::string& token = kToken) {
  RequestFacts request = Ask("/halt", token);
  request.method = "POST";
  request.origin = "http://127.0.0.1:9443";
  request.action = "halt";
  return request;
}

class AccessRulesTest : public ::testing::Test {
 protected:
  const AccessRules open_{/*is_loopback=*/true, std::nullopt};
  const AccessRules guarded_{/*is_loopback=*/true, Sha256(kToken)};
  const AccessRules remote_{/*is_loopback=*/false, Sha256(kToken)};
};

TEST_F(AccessRulesTest, FiguresAreForWhoHasTheTokenAndThePageForEverybody) {
  for (const char* page : {"/", "/console.js", "/console.css", "/chart.js"}) {
    EXPECT_EQ(guarded_.Check(Ask(page)), 200) << page;
  }
  for (const char* figures : {"/metrics", "/status.json", "/anything", "/console.js2"}) {
    EXPECT_EQ(guarded_.Check(Ask(figures)), 401) << figures;
    EXPECT_EQ(guarded_.Check(Ask(figures, "0123456789abcdeX")), 401) << figures;
    EXPECT_EQ(guarded_.Check(Ask(figures, "0123456789abcde")), 401) << figures;
    EXPECT_EQ(guarded_.Check(Ask(figures, kToken)), 200) << figures;
    EXPECT_EQ(open_.Check(Ask(figures)), 200) << figures;
  }
}

TEST_F(AccessRulesTest, TheTokenIsABearerTokenAndNothingElse) {
  RequestFacts request = Ask("/metrics");
  for (const char* other : {"0123456789abcdef", "Basic 0123456789abcdef", "bearer 0123456789abcdef", "Bearer ",
                            "Bearer  0123456789abcdef", "Bearer 0123456789abcdef "}) {
    request.authorization = other;
    EXPECT_EQ(guarded_.Check(request), 401) << other;
  }
}

// A page elsewhere can neither set the header nor hide where it is from, and has no token.
TEST_F(AccessRulesTest, OnlyThePageItselfChangesTheRun) {
  EXPECT_EQ(guarded_.Check(Halt()), 200);
  EXPECT_EQ(guarded_.Check(Halt("")), 401);
  RequestFacts request = Halt();
  request.action = "";
  EXPECT_EQ(guarded_.Check(request), 403);
  request.action = "status.json";
  EXPECT_EQ(guarded_.Check(request), 403);
  for (const char* origin :
       {"", "null", "http://evil.example", "http://127.0.0.1", "https://127.0.0.1:9443", "http://127.0.0.1:9444"}) {
    request = Halt();
    request.origin = origin;
    EXPECT_EQ(guarded_.Check(request), 403) << origin;
  }
}

TEST_F(AccessRulesTest, WithoutATokenNothingCanBeChanged) {
  EXPECT_FALSE(open_.has_token());
  EXPECT_EQ(open_.Check(Halt()), 403);
  EXPECT_EQ(open_.Check(Halt("")), 403);
}

TEST_F(AccessRulesTest, OtherMethodsAreRefused) {
  for (const char* method : {"PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", ""}) {
    RequestFacts request = Ask("/metrics", kToken);
    request.method = method;
    EXPECT_EQ(guarded_.Check(request), 403) << method;
  }
}

TEST_F(AccessRulesTest, ANameThatIsMadeToLeadHereIsRefused) {
  RequestFacts request = Ask("/metrics");
  for (const char* host : {"evil.example", "evil.example:9443", "", "127.0.0.1.evil.example", "127.evil.example",
                           "[::2]:9443", "10.0.0.1:9443"}) {
    request.host = host;
    EXPECT_EQ(open_.Check(request), 403) << host;
    request.path = "/";
    EXPECT_EQ(open_.Check(request), 403) << host;
    request.path = "/metrics";
  }
  for (const char* host : {"localhost:9443", "LOCALHOST", "127.0.0.1", "127.1.2.3:80", "[::1]:9443", "[::1]"}) {
    request.host = host;
    EXPECT_EQ(open_.Check(request), 200) << host;
  }
}

TEST_F(AccessRulesTest, ElsewhereThePageIsOverHttps) {
  RequestFacts request = Halt();
  request.host = "label-party.example:9443";
  request.origin = "https://label-party.example:9443";
  EXPECT_EQ(remote_.Check(request), 200);
  request.origin = "http://label-party.example:9443";
  EXPECT_EQ(remote_.Check(request), 403);
}

}  // namespace
}  // namespace splitveil
