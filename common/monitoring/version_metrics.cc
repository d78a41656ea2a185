#include "common/monitoring/version_metrics.h"

#include <cmath>
#include <map>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/telemetry/log.h"

namespace splitveil {
namespace {

using Gauges = prometheus::Family<prometheus::Gauge>;

Gauges& Add(const char* name, const char* help, prometheus::Registry& registry) {
  return prometheus::BuildGauge().Name(name).Help(help).Register(registry);
}

const char* DayName(const DriftWatch::Day& day) { return day.days_ago == 0 ? "today" : "yesterday"; }

// By model.
std::map<std::string, std::vector<DriftWatch::Day>> DaysOf(const std::vector<VersionFigures>& versions) {
  std::map<std::string, std::vector<DriftWatch::Day>> days;
  for (const VersionFigures& version : versions) {
    days[version.checkpoint] = version.days;
  }
  return days;
}

void AddDrifts(const std::vector<VersionFigures>& versions, prometheus::Registry& registry) {
  Gauges& rows = Add("splitveil_drift_rows", "Rows that were asked for and found on a day (UTC).", registry);
  Gauges& columns =
      Add("splitveil_column_drift_psi",
          "Population stability index of a column: a day's rows against those of the training.", registry);
  Gauges& scores =
      Add("splitveil_score_drift_psi",
          "Population stability index of the predictions: a day's rows against those of the training.", registry);
  for (const auto& [model, days] : DaysOf(versions)) {
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

std::string VersionMetrics(const std::vector<VersionFigures>& versions) {
  prometheus::Registry now;  // Versions come and go.
  Gauges& stored = Add("splitveil_version_stored_timestamp_seconds",
                       "When a version that can be asked for was stored, since 1970.", now);
  Gauges& rows = Add("splitveil_version_rows", "Shared examples that a version answers for, with its model.", now);
  for (const VersionFigures& version : versions) {
    const std::string number = absl::StrCat(version.number);
    // Prometheus' time() beyond it is its age.
    stored.Add({{"version", number}}).Set(static_cast<double>(version.stored_seconds));
    rows.Add({{"version", number}, {"model", version.checkpoint}}).Set(static_cast<double>(version.rows));
  }
  AddDrifts(versions, now);
  return prometheus::TextSerializer().Serialize(now.Collect());
}

std::string DriftTable(const std::vector<VersionFigures>& versions) {
  std::string text;
  for (const auto& [model, days] : DaysOf(versions)) {
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

}  // namespace splitveil
