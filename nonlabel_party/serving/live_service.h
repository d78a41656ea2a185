// v1.Live over the versions that this party has.
#ifndef SPLITVEIL_NONLABEL_PARTY_SERVING_LIVE_SERVICE_H_
#define SPLITVEIL_NONLABEL_PARTY_SERVING_LIVE_SERVICE_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"

#include "common/monitoring/live_metrics.h"
#include "common/transport/server.h"
#include "nonlabel_party/serving/live_version.h"

#include "splitveil/v1/live.grpc.pb.h"

namespace splitveil {

// Thread-safe.
class LiveService final : public v1::Live::Service {
 public:
  // The label party needs one at a time.
  static constexpr int kMostCalls = 8;

  struct Options {
    int64_t max_rows = 0;  // Of a request.
    v1::DataType wire_dtype = v1::FLOAT32;
  };
  // `versions`, `metrics`: not owned; must outlive this.
  LiveService(const Options& options, const LiveVersions* versions, LiveMetrics* metrics)
      : options_(options), versions_(versions), metrics_(metrics) {}

  grpc::Status Activate(grpc::ServerContext* context, const v1::ActivateRequest* request,
                        v1::ActivateResponse* response) override;

  bool ready() const { return !stopping_ && versions_->Find() != nullptr; }
  // New requests are refused from now on; those under way go on.
  void StopAnswering() { stopping_ = true; }
  int under_way() const { return under_way_; }

 private:
  absl::Status Answer(const v1::ActivateRequest& request, v1::ActivateResponse& response) const;

  const Options options_;
  const LiveVersions* const versions_;
  LiveMetrics* const metrics_;
  CallLimit calls_{kMostCalls};
  std::atomic<int> under_way_{0};
  std::atomic<bool> stopping_{false};
};

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SERVING_LIVE_SERVICE_H_
