// From what a top model gives for an example to what a person reads.
#ifndef SPLITVEIL_LABEL_PARTY_TOP_PREDICTED_VALUES_H_
#define SPLITVEIL_LABEL_PARTY_TOP_PREDICTED_VALUES_H_

#include <vector>

#include "absl/types/span.h"

#include "common/dataset/dataset.h"

namespace splitveil {

// Of one example's `outputs` [data.task().outputs()], as TopPredictor::Predict has them: the probability of the
// positive label; of each class of the schema, in its order; or the number, in the unit of the table and within the
// schema's target range. Thread-safe.
std::vector<double> PredictedValues(const Dataset& data, absl::Span<const float> outputs);

// The one number of an example by which the drift of predictions is watched: its probability, or number; of several
// classes the number of the most probable one. `values`: of PredictedValues. Thread-safe.
float WatchedScore(const Dataset& data, absl::Span<const double> values);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TOP_PREDICTED_VALUES_H_
