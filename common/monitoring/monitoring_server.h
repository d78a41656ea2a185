// A party's page and figures over HTTP, for its own operator.
#ifndef SPLITVEIL_COMMON_MONITORING_MONITORING_SERVER_H_
#define SPLITVEIL_COMMON_MONITORING_MONITORING_SERVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

#include "common/crypto/digest.h"
#include "common/monitoring/monitoring_plan.h"
#include "common/operations/run_status.h"
#include "common/process/runtime.h"
#include "common/transport/certificate.h"
#include "common/transport/credentials.h"

#include "splitveil/v1/operations.pb.h"

namespace splitveil {

// When the certificates that a party shows and trusts expire, as connections use them: once their files are to be read
// again (SIGHUP), the dates are those of the files, unless these are no valid identity. Thread-safe.
class CertificateDates {
 public:
  // `requests`: as IdentityReloader's. An identity without certificates has no dates.
  explicit CertificateDates(const TlsIdentity& identity, int (*requests)() = &ReloadRequests);

  // Adds "own" and "trusted": the first of the own chain to end, and the last of those that are trusted, which may be a
  // peer's certificate in use and the next.
  void AddTo(v1::GetStatusResponse& status) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  IdentityReloader identity_;
  absl::Mutex mutex_;
  int64_t own_ ABSL_GUARDED_BY(mutex_) = 0, trusted_ ABSL_GUARDED_BY(mutex_) = 0;  // Unix time; 0: none.
};

// What is known of a request before anything is done for it. Header fields are empty if they are missing.
struct RequestFacts {
  std::string method, path;
  std::string host, origin, authorization, action;  // `action`: X-Splitveil-Action.
};

// Who may ask for what:
//   the page's own files   everybody who reaches the port; they hold no figure
//   figures (GET)          a request with the token; without a configured token everybody, but of the label party only
//                          its progress
//   changes (every POST)   a request with the token, from the page itself, with a header that no other page can set
//                          without this party's consent; nobody without a configured token
//
// On a loopback address the Host must be a loopback name: an outside page whose name resolves to this machine (DNS
// rebinding) is refused.
// Thread-safe.
class AccessRules {
 public:
  // `token_sha256`: nullopt: what there is to read is for everybody who reaches the port, on loopback alone.
  AccessRules(bool is_loopback, std::optional<Digest> token_sha256)
      : is_loopback_(is_loopback), token_sha256_(token_sha256) {}

  // HTTP status: 200, 401 (no token, or a wrong one) or 403. Tokens are compared in constant time.
  int Check(const RequestFacts& request) const;
  bool has_token() const { return token_sha256_.has_value(); }

 private:
  bool HasToken(const RequestFacts& request) const;

  const bool is_loopback_;
  const std::optional<Digest> token_sha256_;
};

class HttpListener;

// GET /              the page, with its files
//     /status.json   {"status": GetStatusResponse, "history": RunHistory}, in Protobuf's JSON
//     /metrics       figures for Prometheus
// POST /ACTION       does it: what this party's operator may change
//
// AccessRules say who may ask. Thread-safe; ends when it is destroyed.
class MonitoringServer {
 public:
  // By name, "halt": what changes the run; called from other threads.
  using Actions = std::map<std::string, std::function<absl::Status()>>;

  // `status`: not owned; must outlive the server, as must what `actions` and `more_metrics` use. `more_metrics`: what
  // /metrics has behind the run's; null: nothing. Errors: see HttpListener::Start.
  static absl::StatusOr<std::unique_ptr<MonitoringServer>> Start(const MonitoringPlan& plan, const RunStatus* status,
                                                                 const Actions& actions,
                                                                 std::function<std::string()> more_metrics = nullptr);
  ~MonitoringServer();

  // The port that it listens on: the configured one, or the one that port 0 got.
  int port() const;

 private:
  class Routes;
  MonitoringServer(std::unique_ptr<Routes> routes, std::unique_ptr<HttpListener> listener);

  const std::unique_ptr<Routes> routes_;
  const std::unique_ptr<HttpListener> listener_;  // Last: its threads use the routes.
};

// The page of a server that answers with the model `name`: nothing can be changed there. Null without a plan. `status`:
// of its role, and `metrics`: not owned; must outlive the page. Errors: see HttpListener::Start.
absl::StatusOr<std::unique_ptr<MonitoringServer>> StartServingPage(const std::optional<MonitoringPlan>& plan,
                                                                   const std::string& name, RunStatus& status,
                                                                   std::function<std::string()> metrics);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MONITORING_MONITORING_SERVER_H_
