// How live requests between the parties fare, in the text format that Prometheus reads.
#ifndef SPLITVEIL_COMMON_MONITORING_LIVE_METRICS_H_
#define SPLITVEIL_COMMON_MONITORING_LIVE_METRICS_H_

#include <cstdint>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <string>

#include "absl/status/status.h"

namespace splitveil {

// Counts and times, of both parties alike; never a position. Thread-safe.
class LiveMetrics {
 public:
  // `fallback`: what answers while the other party does not, as configured; empty: of the other party itself.
  explicit LiveMetrics(const std::string& fallback = "");

  // One request for `rows` examples, by how it ended: "OK", "UNAVAILABLE".
  void Count(absl::StatusCode code, int64_t rows, double seconds);
  std::string Text() const;

 private:
  prometheus::Registry registry_;
  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Counter& rows_;
  prometheus::Histogram& seconds_;
  prometheus::Gauge* falls_back_ = nullptr;  // Of the registry. Null: there is none.
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MONITORING_LIVE_METRICS_H_
