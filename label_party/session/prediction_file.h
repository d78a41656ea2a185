// Predictions of a run that trains nothing, as a table for whoever asked for them.
#ifndef SPLITVEIL_LABEL_PARTY_SESSION_PREDICTION_FILE_H_
#define SPLITVEIL_LABEL_PARTY_SESSION_PREDICTION_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "common/dataset/dataset.h"

namespace splitveil {

// Writes `path` as CSV (RFC 4180), readable by its owner alone, complete or not at all: the id of each of `rows`
// [examples] of `data` as the table writes it, and of its `outputs` [examples * data.task().outputs()], as
// TopPredictor::Predict has them,
//   "id,probability": of the positive label;
//   "id,CLASS,...": the probability of each class of the schema, in its order;
//   "id,prediction": the number, in the unit of the table, within the schema's target range.
// Errors: AlreadyExists where `path` is of another file than an earlier table with the same first line; those of
// PendingFile. Thread-safe.
absl::Status WritePredictions(const std::string& path, const Dataset& data, absl::Span<const uint32_t> rows,
                              absl::Span<const float> outputs);

// Whether WritePredictions may replace what `path` is of, if anything: AlreadyExists where it may not.
absl::Status CheckPredictionPath(const std::string& path, const Dataset& data);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SESSION_PREDICTION_FILE_H_
