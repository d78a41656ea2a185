// How requests fare, in the text format that Prometheus reads.
#ifndef SPLITVEIL_LABEL_PARTY_SERVING_SERVING_METRICS_H_
#define SPLITVEIL_LABEL_PARTY_SERVING_SERVING_METRICS_H_

#include <cstdint>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <string>

#include "absl/status/status.h"

namespace splitveil {

// Counts and times; never an id or a score. Thread-safe.
class ServingMetrics {
 public:
  ServingMetrics();

  // One request, by its code ("OK", "RESOURCE_EXHAUSTED") and the version that answered; 0: none.
  void CountRequest(absl::StatusCode code, int64_t version, double seconds);
  void SetWaitingRows(int64_t rows) { waiting_rows_.Set(static_cast<double>(rows)); }
  void ObserveQueue(double seconds) { queue_.Observe(seconds); }
  void ObserveBatch(int64_t rows, double compute_seconds);

  std::string Text() const;

 private:
  prometheus::Registry registry_;
  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Gauge& waiting_rows_;
  prometheus::Histogram &request_, &queue_, &compute_, &batch_rows_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SERVING_SERVING_METRICS_H_
