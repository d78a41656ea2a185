// The REST half of the Open Inference Protocol over an OpenInference.
#ifndef SPLITVEIL_LABEL_PARTY_SERVING_REST_INFERENCE_H_
#define SPLITVEIL_LABEL_PARTY_SERVING_REST_INFERENCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

#include "common/monitoring/monitoring_plan.h"
#include "label_party/serving/open_inference.h"

namespace splitveil {

// GET  /v2/health/live, /v2/health/ready
//      /v2                                      about the server
//      /v2/models/NAME[/versions/N][/ready]     about the model
// POST /v2/models/NAME[/versions/N]/infer
// GET  /metrics                                 figures for Prometheus
// GET  /drift                                   how what is asked for differs from the training, as a table
//
// Errors are {"error": "..."}. A connection ends with its request. Health is for everybody, all else for callers. A
// body is read once its caller is known, and may take 30 seconds; all else has 16 KiB and the place's request_limit.
// Thread-safe.
class RestInference {
 public:
  // `max_values`: see InferRequestOfJson. `protocol`: not owned; must outlive this. Errors: as HttpListener::Start.
  static absl::StatusOr<std::unique_ptr<RestInference>> Start(const HttpPlace& place, size_t max_body_bytes,
                                                              int64_t max_values, OpenInference* protocol);
  ~RestInference();

  int port() const;
  // Requests that have been read and whose answers have not been sent.
  int under_way() const;

 private:
  class Routes;
  explicit RestInference(std::unique_ptr<Routes> routes);

  const std::unique_ptr<Routes> routes_;
  std::unique_ptr<class HttpListener> listener_;  // Last: its threads use the routes.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SERVING_REST_INFERENCE_H_
