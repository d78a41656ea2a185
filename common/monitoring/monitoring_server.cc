#include "common/monitoring/monitoring_server.h"

#include <httplib.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <google/protobuf/util/json_util.h>
#include <nlohmann/json.hpp>
#include <openssl/crypto.h>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "common/crypto/sha256.h"
#include "common/monitoring/http_listener.h"
#include "common/monitoring/metrics_text.h"
#include "common/page/embedded.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "common/transport/certificate.h"

namespace splitveil {

SPLITVEIL_EMBEDDED(ConsoleHtml);
SPLITVEIL_EMBEDDED(PageCss);
SPLITVEIL_EMBEDDED(ConsoleCss);
SPLITVEIL_EMBEDDED(PageJs);
SPLITVEIL_EMBEDDED(ConsoleJs);
SPLITVEIL_EMBEDDED(ChartJs);

namespace {

// The ends of all certificates in `pem`, ascending; empty if it cannot be read.
std::vector<int64_t> Ends(const std::string& pem) {
  std::vector<int64_t> ends;
  if (const absl::StatusOr<std::vector<CertificateFacts>> facts = ReadCertificateFacts(pem); facts.ok()) {
    for (const CertificateFacts& each : *facts) {
      ends.push_back(each.not_after_unix);
    }
  }
  std::sort(ends.begin(), ends.end());
  return ends;
}

void Add(const char* name, int64_t not_after, v1::GetStatusResponse& status) {
  if (not_after > 0) {
    v1::CertificateEnd& end = *status.add_certificates();
    end.set_certificate(name);
    end.set_not_after(not_after);
  }
}

}  // namespace

CertificateDates::CertificateDates(const TlsIdentity& identity, int (*requests)()) : identity_(identity, requests) {}

void CertificateDates::AddTo(v1::GetStatusResponse& status) {
  const absl::MutexLock lock(&mutex_);
  if (const std::optional<TlsIdentity> changed = identity_.Next(); changed.has_value()) {
    const std::vector<int64_t> own = Ends(changed->certificate_pem), trusted = Ends(changed->authority_pem);
    // Own chain: the first certificate to end ends the connection. Trusted ones: any valid one is enough.
    own_ = own.empty() ? 0 : own.front();
    trusted_ = trusted.empty() ? 0 : trusted.back();
  }
  Add("own", own_, status);
  Add("trusted", trusted_, status);
}

namespace {

constexpr int kOk = 200, kUnauthorized = 401, kForbidden = 403;
constexpr std::array<absl::string_view, 4> kPageFiles = {"/", "/console.css", "/console.js", "/chart.js"};

// The host in "host:port", "[::1]:9443", or without a port.
absl::string_view HostOf(absl::string_view host) {
  if (absl::StartsWith(host, "[")) {
    return host.substr(0, host.find(']') + 1);
  }
  return host.substr(0, host.find(':'));
}

bool LeadsBack(absl::string_view host) {
  const absl::string_view name = HostOf(host);
  const bool is_v4 = absl::StartsWith(name, "127.") &&
                     std::all_of(name.begin(), name.end(), [](char c) { return absl::ascii_isdigit(c) || c == '.'; });
  return is_v4 || absl::EqualsIgnoreCase(name, "localhost") || name == "[::1]";
}

}  // namespace

bool AccessRules::HasToken(const RequestFacts& request) const {
  absl::string_view token = request.authorization;
  if (!token_sha256_.has_value() || !absl::ConsumePrefix(&token, "Bearer ")) {
    return false;
  }
  const Digest digest = Sha256(token);
  // In constant time, and of digests: the time reveals nothing of the token.
  return CRYPTO_memcmp(digest.data(), token_sha256_->data(), digest.size()) == 0;
}

int AccessRules::Check(const RequestFacts& request) const {
  // DNS rebinding: a page of a stranger whose name resolves to 127.0.0.1 would be same-origin with this one.
  if (is_loopback_ && !LeadsBack(request.host)) {
    return kForbidden;
  }
  if (request.method == "GET" || request.method == "HEAD") {
    const bool is_page = std::find(kPageFiles.begin(), kPageFiles.end(), request.path) != kPageFiles.end();
    return is_page || !token_sha256_.has_value() || HasToken(request) ? kOk : kUnauthorized;
  }
  if (request.method != "POST" || !token_sha256_.has_value()) {
    return kForbidden;
  }
  if (!HasToken(request)) {
    return kUnauthorized;
  }
  // Cross-site requests carry the victim's network access: a change needs our origin and a header no form can set.
  const std::string own_origin = absl::StrCat(is_loopback_ ? "http://" : "https://", request.host);
  return request.origin == own_origin && absl::StrCat("/", request.action) == request.path ? kOk : kForbidden;
}

namespace {

constexpr int kConflict = 409, kRefused = 400;
constexpr int kMaxRefusalsLogged = 20;
constexpr size_t kMaxBodyBytes = 1024;

// Allows the page's own files and answers, and nothing from elsewhere.
constexpr char kContentPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

std::string JsonOf(const google::protobuf::Message& message) {
  std::string json;
  google::protobuf::util::JsonPrintOptions print;
  print.preserve_proto_field_names = true;
  (void)google::protobuf::util::MessageToJsonString(message, &json, print);
  return json;
}

RequestFacts FactsOf(const httplib::Request& request) {
  return {request.method,
          request.path,
          request.get_header_value("Host"),
          request.get_header_value("Origin"),
          request.get_header_value("Authorization"),
          request.get_header_value("X-Splitveil-Action")};
}

}  // namespace

// cpp-httplib reads a request and finds its handler; the connection and its threads are HttpListener's.
class MonitoringServer::Routes : private HttpRoutes {
 public:
  Routes(const MonitoringPlan& plan, const RunStatus* status, const Actions& actions,
         std::function<std::string()> more_metrics)
      : rules_(plan.is_loopback, plan.token_sha256),
        status_(status),
        can_halt_(actions.count("halt") > 0),
        certificates_(plan.identity),
        more_metrics_(std::move(more_metrics)) {
    // No request needs a body: this is only a limit on what is skipped.
    set_payload_max_length(kMaxBodyBytes);
    set_pre_routing_handler(
        [this](const httplib::Request& request, httplib::Response& response) { return Admit(request, response); });
    AddFile("/", "text/html; charset=utf-8", std::string(EmbeddedConsoleHtml()));
    AddFile("/console.css", "text/css; charset=utf-8", absl::StrCat(EmbeddedPageCss(), EmbeddedConsoleCss()));
    AddFile("/console.js", "text/javascript; charset=utf-8", absl::StrCat(EmbeddedPageJs(), EmbeddedConsoleJs()));
    AddFile("/chart.js", "text/javascript; charset=utf-8", std::string(EmbeddedChartJs()));
    Get("/status.json", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(StatusJson(), "application/json");
    });
    Get("/metrics", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(MetricsText(Snapshot()) + (more_metrics_ == nullptr ? "" : more_metrics_()),
                           kMetricsContentType);
    });
    for (const auto& [name, act] : actions) {
      Post(absl::StrCat("/", name),
           [name = name, act = act](const httplib::Request& request, httplib::Response& response,
                                    const httplib::ContentReader& body) {
             if (HasNoUsedBody(request, body)) {
               const absl::Status done = act();
               // Logged also if it failed: the log shows every attempt to change the run.
               LogWarning("operator: ", name, " asked for: ", done.ok() ? "done" : done.message());
               Answer(done, response);
             }
           });
    }
  }

  using HttpRoutes::Serve;

 private:
  // Passes over a body, which must not be too long. A request that announces none has none (RFC 9112, section 6.3);
  // cpp-httplib would read until the client closes.
  static bool HasNoUsedBody(const httplib::Request& request, const httplib::ContentReader& body) {
    return (!request.has_header("Content-Length") && !request.has_header("Transfer-Encoding")) ||
           body([](const char*, size_t) { return true; });
  }

  void AddFile(const char* path, const char* type, std::string contents) {
    Get(path, [type, contents = std::move(contents)](const httplib::Request&, httplib::Response& response) {
      response.set_content(contents, type);
    });
  }

  HandlerResponse Admit(const httplib::Request& request, httplib::Response& response) {
    // Run names and events come from configurations and the peer: nothing in them may run as script.
    response.set_header("Content-Security-Policy", kContentPolicy);
    response.set_header("X-Content-Type-Options", "nosniff");
    response.set_header("X-Frame-Options", "DENY");
    response.set_header("Referrer-Policy", "no-referrer");
    response.set_header("Cross-Origin-Resource-Policy", "same-origin");
    response.set_header("Cache-Control", "no-store");
    response.status = rules_.Check(FactsOf(request));
    if (response.status < kRefused) {
      response.status = -1;  // cpp-httplib: the handler sets it.
      return HandlerResponse::Unhandled;
    }
    if (response.status == kUnauthorized) {
      response.set_header("WWW-Authenticate", "Bearer");
    }
    response.set_content(
        response.status == kUnauthorized ? "expected the token of monitoring.token_path\n" : "refused\n", "text/plain");
    // A scanner must not fill the disk with log lines.
    if (refusals_.fetch_add(1) < kMaxRefusalsLogged) {
      LogWarning("monitoring: refused a request with ", response.status);
    }
    return HandlerResponse::Handled;
  }

  // The label party's losses, leaks and events reveal labels: without a token any user of the machine could read them.
  bool HidesFigures(const v1::GetStatusResponse& status) const {
    return !rules_.has_token() && status.role() == "label_party";
  }

  v1::GetStatusResponse Snapshot() {
    v1::GetStatusResponse status = status_->Snapshot();
    certificates_.AddTo(status);
    if (HidesFigures(status)) {
      status.clear_loss();
      status.clear_bound_exceeded();
      status.clear_events();
      status.clear_label_party();
    }
    return status;
  }

  std::string StatusJson() {
    v1::GetStatusResponse status = Snapshot();
    // The button shows only if pressing it would be allowed.
    if (status.has_label_party()) {
      status.mutable_label_party()->set_halt_allowed(can_halt_ && rules_.has_token());
    }
    const v1::RunHistory history = HidesFigures(status) ? v1::RunHistory() : status_->History();
    return absl::StrCat("{\"status\":", JsonOf(status), ",\"history\":", JsonOf(history), "}");
  }

  static void Answer(const absl::Status& done, httplib::Response& response) {
    response.status = done.ok() ? kOk : kConflict;
    response.set_content(nlohmann::json({{"done", done.ok()}, {"message", std::string(done.message())}}).dump(),
                         "application/json");
  }

  const AccessRules rules_;
  const RunStatus* const status_;
  const bool can_halt_;
  CertificateDates certificates_;
  const std::function<std::string()> more_metrics_;
  std::atomic<int> refusals_{0};
};

MonitoringServer::MonitoringServer(std::unique_ptr<Routes> routes, std::unique_ptr<HttpListener> listener)
    : routes_(std::move(routes)), listener_(std::move(listener)) {}

MonitoringServer::~MonitoringServer() = default;

absl::StatusOr<std::unique_ptr<MonitoringServer>> MonitoringServer::Start(const MonitoringPlan& plan,
                                                                          const RunStatus* status,
                                                                          const Actions& actions,
                                                                          std::function<std::string()> more_metrics) {
  auto routes = std::make_unique<Routes>(plan, status, actions, std::move(more_metrics));
  SPLITVEIL_ASSIGN_OR_RETURN(
      std::unique_ptr<HttpListener> listener,
      HttpListener::Start(plan, [serves = routes.get()](HttpConnection& connection) { serves->Serve(connection); }));
  LogInfo("monitoring on ", plan.is_loopback ? "http" : "https", " port ", listener->port(),
          plan.token_sha256.has_value() ? ", with a token"
                                        : ", read-only; what reveals labels needs monitoring.token_path");
  return std::unique_ptr<MonitoringServer>(new MonitoringServer(std::move(routes), std::move(listener)));
}

int MonitoringServer::port() const { return listener_->port(); }

absl::StatusOr<std::unique_ptr<MonitoringServer>> StartServingPage(const std::optional<MonitoringPlan>& plan,
                                                                   const std::string& name, RunStatus& status,
                                                                   std::function<std::string()> metrics) {
  status.Update([&](v1::GetStatusResponse& message) {
    message.set_phase(kServingPhase);
    message.set_run_id(name);
  });
  return plan.has_value() ? MonitoringServer::Start(*plan, &status, /*actions=*/{}, std::move(metrics)) : nullptr;
}

}  // namespace splitveil
