#include "label_party/serving/serving_metrics.h"

#include <prometheus/text_serializer.h>

namespace splitveil {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

// 50 microseconds to 13 seconds, and 1 to 262,144 rows.
Buckets Doubling(double first, int count, double factor) {
  Buckets buckets;
  for (int i = 0; i < count; ++i, first *= factor) {
    buckets.push_back(first);
  }
  return buckets;
}

prometheus::Histogram& Make(const char* name, const char* help, const Buckets& buckets,
                            prometheus::Registry& registry) {
  return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
}

const Buckets& Seconds() {
  static const Buckets* const buckets = new Buckets(Doubling(5e-5, 19, 2));
  return *buckets;
}

}  // namespace

ServingMetrics::ServingMetrics()
    : requests_(prometheus::BuildCounter()
                    .Name("splitveil_requests_total")
                    .Help("Requests for predictions, by code and version.")
                    .Register(registry_)),
      waiting_rows_(prometheus::BuildGauge()
                        .Name("splitveil_waiting_rows")
                        .Help("Rows of requests that wait to be computed.")
                        .Register(registry_)
                        .Add({})),
      request_(Make("splitveil_request_seconds", "From a request's arrival to its answer.", Seconds(), registry_)),
      queue_(Make("splitveil_queue_seconds", "What a request waited to be computed.", Seconds(), registry_)),
      compute_(Make("splitveil_compute_seconds", "What a batch took to compute.", Seconds(), registry_)),
      batch_rows_(Make("splitveil_batch_rows", "Rows computed together.", Doubling(1, 10, 4), registry_)) {}

void ServingMetrics::CountRequest(absl::StatusCode code, int64_t version, double seconds) {
  requests_.Add({{"code", absl::StatusCodeToString(code)}, {"version", version == 0 ? "" : std::to_string(version)}})
      .Increment();
  request_.Observe(seconds);
}

void ServingMetrics::ObserveBatch(int64_t rows, double compute_seconds) {
  batch_rows_.Observe(static_cast<double>(rows));
  compute_.Observe(compute_seconds);
}

std::string ServingMetrics::Text() const { return prometheus::TextSerializer().Serialize(registry_.Collect()); }

}  // namespace splitveil
