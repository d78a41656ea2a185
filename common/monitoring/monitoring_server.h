// A party's page and figures over HTTP, for its own operator.
#ifndef SPLITVEIL_COMMON_MONITORING_MONITORING_SERVER_H_
#define SPLITVEIL_COMMON_MONITORING_MONITORING_SERVER_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/monitoring/monitoring_plan.h"
#include "common/operations/run_status.h"

namespace splitveil {

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

  // `status`: not owned; must outlive the server, as must what `actions` use. Errors: as HttpListener::Start.
  static absl::StatusOr<std::unique_ptr<MonitoringServer>> Start(const MonitoringPlan& plan, const RunStatus* status,
                                                                 const Actions& actions);
  ~MonitoringServer();

  int port() const;

 private:
  class Routes;
  MonitoringServer(std::unique_ptr<Routes> routes, std::unique_ptr<HttpListener> listener);

  const std::unique_ptr<Routes> routes_;
  const std::unique_ptr<HttpListener> listener_;  // Last: its threads use the routes.
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MONITORING_MONITORING_SERVER_H_
