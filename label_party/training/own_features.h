// What the label party's own features tell of the labels by themselves.
#ifndef SPLITVEIL_LABEL_PARTY_TRAINING_OWN_FEATURES_H_
#define SPLITVEIL_LABEL_PARTY_TRAINING_OWN_FEATURES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "label_party/top/top_model.h"
#include "label_party/training/batch_source.h"

namespace splitveil {

// Outputs for the test examples [test examples * outputs] of a top model of its own that gets zeros in place of
// activations: trained, before anything is released, on the labels of the training examples, `epochs` times at most,
// but no more than 200,000 rows in all, and tested on as many at most. Bounds on gradients are not about what it reads:
// someone who knows these features can tell labels so well without any gradient. A better model may tell them better.
//
// nullopt if there are no own features or no test examples, or if the model cannot be trained alone: the run must not
// depend on it. Stays at this party. Not thread-safe.
std::optional<std::vector<float>> PredictFromOwnFeatures(const TopModelOptions& options, const TrainingData& data,
                                                         int64_t batch_size, int64_t epochs);

// Of data.test, those that it predicts: the test part, without what is held out for validation, as far as it goes.
std::vector<uint32_t> TestedPositions(const TrainingData& data);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TRAINING_OWN_FEATURES_H_
