// How live requests between the parties fare, in the text format that Prometheus reads.
#ifndef SPLITVEIL_COMMON_MONITORING_LIVE_METRICS_H_
#define SPLITVEIL_COMMON_MONITORING_LIVE_METRICS_H_

#include <cstdint>
#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <string>

#include "absl/status/status.h"

namespace splitveil {

// Counts and times, of both parties alike; never a position. Thread-safe.
class LiveMetrics {
 public:
  LiveMetrics();

  // One request for `rows` examples, by how it ended: "OK", "UNAVAILABLE".
  void Count(absl::StatusCode code, int64_t rows, double seconds);
  std::string Text() const;

 private:
  prometheus::Registry registry_;
  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Counter& rows_;
  prometheus::Histogram& seconds_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MONITORING_LIVE_METRICS_H_
