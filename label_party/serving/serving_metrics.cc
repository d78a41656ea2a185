#include "label_party/serving/serving_metrics.h"

#include <cmath>
#include <prometheus/text_serializer.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/telemetry/log.h"

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

const char* DayName(const DriftWatch::Day& day) { return day.days_ago == 0 ? "today" : "yesterday"; }

void AddDrifts(const ModelDrifts& drifts, prometheus::Registry& registry) {
  auto& rows = prometheus::BuildGauge()
                   .Name("splitveil_drift_rows")
                   .Help("Rows that were asked for and found on a day (UTC).")
                   .Register(registry);
  auto& columns = prometheus::BuildGauge()
                      .Name("splitveil_column_drift_psi")
                      .Help("Population stability index of a column: a day's rows against those of the training.")
                      .Register(registry);
  auto& scores = prometheus::BuildGauge()
                     .Name("splitveil_score_drift_psi")
                     .Help("Population stability index of the predictions: a day's rows against those of the training.")
                     .Register(registry);
  for (const auto& [model, days] : drifts) {
    for (const DriftWatch::Day& day : days) {
      const prometheus::Labels labels = {{"model", model}, {"day", DayName(day)}};
      rows.Add(labels).Set(static_cast<double>(day.rows));
      if (!std::isnan(day.scores)) {
        scores.Add(labels).Set(day.scores);
      }
      for (const auto& [column, index] : day.columns) {
        if (!std::isnan(index)) {
          prometheus::Labels of_column = labels;
          of_column["column"] = column;
          columns.Add(of_column).Set(index);
        }
      }
    }
  }
}

std::string DriftLine(const std::string& name, double index) {
  if (std::isnan(index)) {
    return absl::StrFormat("       -  %s\n", name);
  }
  const char* const reading = index >= 0.25 ? "  shifted" : index >= 0.1 ? "  moved" : "";
  return absl::StrFormat("  %6.3f  %s%s\n", index, name, reading);
}

}  // namespace

std::string DriftTable(const ModelDrifts& drifts) {
  std::string text;
  for (const auto& [model, days] : drifts) {
    for (const DriftWatch::Day& day : days) {
      absl::StrAppendFormat(&text, "%s, %s (UTC): %d rows against the training; PSI from %d rows of each on\n", model,
                            DayName(day), day.rows, DriftWatch::kLeastRows);
      absl::StrAppend(&text, DriftLine("(predictions)", day.scores));
      for (const auto& [column, index] : day.columns) {
        absl::StrAppend(&text, DriftLine(OneLine(column), index));
      }
    }
  }
  return text.empty() ? "nothing has been asked for yet\n" : text;
}

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

std::string ServingMetrics::Text(const std::map<int64_t, int64_t>& stored_seconds, const ModelDrifts& drifts) const {
  prometheus::Registry now;  // Versions come and go.
  auto& stored = prometheus::BuildGauge()
                     .Name("splitveil_version_stored_timestamp_seconds")
                     .Help("When a version that can be asked for was stored, since 1970.")
                     .Register(now);
  for (const auto& [version, seconds] : stored_seconds) {
    stored.Add({{"version", std::to_string(version)}}).Set(static_cast<double>(seconds));
  }
  AddDrifts(drifts, now);
  return prometheus::TextSerializer().Serialize(registry_.Collect()) +
         prometheus::TextSerializer().Serialize(now.Collect());
}

}  // namespace splitveil
