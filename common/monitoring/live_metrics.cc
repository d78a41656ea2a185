#include "common/monitoring/live_metrics.h"

#include <prometheus/text_serializer.h>

namespace splitveil {
namespace {

// 50 microseconds to 13 seconds.
prometheus::Histogram::BucketBoundaries LiveSeconds() {
  prometheus::Histogram::BucketBoundaries buckets;
  for (double bound = 5e-5; buckets.size() < 19; bound *= 2) {
    buckets.push_back(bound);
  }
  return buckets;
}

}  // namespace

LiveMetrics::LiveMetrics(const std::string& fallback)
    : requests_(prometheus::BuildCounter()
                    .Name("splitveil_live_requests_total")
                    .Help("Live requests between the parties, by code.")
                    .Register(registry_)),
      rows_(prometheus::BuildCounter()
                .Name("splitveil_live_rows_total")
                .Help("Rows of live requests that were answered.")
                .Register(registry_)
                .Add({})),
      seconds_(prometheus::BuildHistogram()
                   .Name("splitveil_live_request_seconds")
                   .Help("What a live request took at this party.")
                   .Register(registry_)
                   .Add({}, LiveSeconds())) {
  if (!fallback.empty()) {
    falls_back_ = &prometheus::BuildGauge()
                       .Name("splitveil_live_fallback")
                       .Help("1: the latest live request was not answered by the other party, but as `fallback` says.")
                       .Register(registry_)
                       .Add({{"fallback", fallback}});
  }
}

void LiveMetrics::Count(absl::StatusCode code, int64_t rows, double seconds) {
  requests_.Add({{"code", absl::StatusCodeToString(code)}}).Increment();
  rows_.Increment(code == absl::StatusCode::kOk ? static_cast<double>(rows) : 0);
  seconds_.Observe(seconds);
  if (falls_back_ != nullptr) {
    falls_back_->Set(code == absl::StatusCode::kOk ? 0 : 1);
  }
}

std::string LiveMetrics::Text() const { return prometheus::TextSerializer().Serialize(registry_.Collect()); }

}  // namespace splitveil
