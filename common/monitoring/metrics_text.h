// A run's figures in the text format that Prometheus reads.
#ifndef SPLITVEIL_COMMON_MONITORING_METRICS_TEXT_H_
#define SPLITVEIL_COMMON_MONITORING_METRICS_TEXT_H_

#include <string>

#include "splitveil/v1/operations.pb.h"

namespace splitveil {

// Content-Type of MetricsText: version 0.0.4 of the Prometheus text format.
inline constexpr char kMetricsContentType[] = "text/plain; version=0.0.4; charset=utf-8";

// The phase of a process that answers with a trained model: it has no run, and so no figures of one.
inline constexpr char kServingPhase[] = "serving";

// All names begin with "splitveil_"; README.md lists them. Figures that are not known yet are left out. Thread-safe.
std::string MetricsText(const v1::GetStatusResponse& status);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MONITORING_METRICS_TEXT_H_
