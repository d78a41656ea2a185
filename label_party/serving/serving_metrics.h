// How requests fare, in the text format that Prometheus reads.
#ifndef SPLITVEIL_LABEL_PARTY_SERVING_SERVING_METRICS_H_
#define SPLITVEIL_LABEL_PARTY_SERVING_SERVING_METRICS_H_

#include <cstdint>
#include <map>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "common/dataset/drift_watch.h"

namespace splitveil {

// How what is asked for differs from the training, by the name of the model's checkpoint.
using ModelDrifts = std::map<std::string, std::vector<DriftWatch::Day>>;

// As a table for people: a line for each column, and what its index is read as.
std::string DriftTable(const ModelDrifts& drifts);

// Counts and times; never an id or a score. Thread-safe.
class ServingMetrics {
 public:
  ServingMetrics();

  // One request, by its code ("OK", "RESOURCE_EXHAUSTED") and the version that answered; 0: none.
  void CountRequest(absl::StatusCode code, int64_t version, double seconds);
  void SetWaitingRows(int64_t rows) { waiting_rows_.Set(static_cast<double>(rows)); }
  void ObserveQueue(double seconds) { queue_.Observe(seconds); }
  void ObserveBatch(int64_t rows, double compute_seconds);

  // `stored_seconds`: by version, when it was stored, since 1970: its age is what Prometheus' time() says beyond it.
  std::string Text(const std::map<int64_t, int64_t>& stored_seconds, const ModelDrifts& drifts = {}) const;

 private:
  prometheus::Registry registry_;
  prometheus::Family<prometheus::Counter>& requests_;
  prometheus::Gauge& waiting_rows_;
  prometheus::Histogram &request_, &queue_, &compute_, &batch_rows_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SERVING_SERVING_METRICS_H_
