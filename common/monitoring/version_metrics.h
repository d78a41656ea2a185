// The versions of a model that a server answers with, and how what it is asked for differs from the training.
#ifndef SPLITVEIL_COMMON_MONITORING_VERSION_METRICS_H_
#define SPLITVEIL_COMMON_MONITORING_VERSION_METRICS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/dataset/drift_watch.h"

namespace splitveil {

// A version that can be asked for.
struct VersionFigures {
  int64_t number = 0;
  std::string checkpoint;      // The model's: "RUN_ID/EPOCHS".
  int64_t rows = 0;            // Shared examples that it answers for.
  int64_t stored_seconds = 0;  // When it was stored, since 1970.
  // Of the model; where two versions of it cannot share a watch, the latest one's is shown.
  std::vector<DriftWatch::Day> days;
};

// Those of `versions`, a VersionWatch, ascending.
template <typename Versions>
std::vector<VersionFigures> FiguresOf(const Versions& versions) {
  std::vector<VersionFigures> figures;
  for (const int64_t number : versions.Numbers()) {
    if (const auto version = versions.Find(number); version != nullptr) {
      figures.push_back({number, version->checkpoint(), version->rows(), version->stored_seconds(),
                         version->drift().Days(DriftWatch::Today())});
    }
  }
  return figures;
}

// In the text format that Prometheus reads, ascending versions; never an id, a position or a value. Thread-safe.
std::string VersionMetrics(const std::vector<VersionFigures>& versions);

// The drift as a table for people: a line for each column, and what its index is read as. Thread-safe.
std::string DriftTable(const std::vector<VersionFigures>& versions);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MONITORING_VERSION_METRICS_H_
