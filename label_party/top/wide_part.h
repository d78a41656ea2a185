// Wide part of the top model: a linear function of the label party's own features.
#ifndef SPLITVEIL_LABEL_PARTY_TOP_WIDE_PART_H_
#define SPLITVEIL_LABEL_PARTY_TOP_WIDE_PART_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/dataset/feature_table.h"
#include "common/matrix/matrix.h"
#include "common/model/half_script.h"
#include "common/model/input_layer.h"
#include "common/model/layer_stack.h"
#include "common/model/optimizer_options.h"
#include "common/model/parameters.h"

#include "splitveil/v1/model.pb.h"

namespace splitveil {

// Term of the outputs: W . [embeddings of the categorical columns, numeric columns] + b (Cheng et al., "Wide & deep
// learning for recommender systems", DLRS 2016, section 3.1). Not thread-safe.
class WidePart {
 public:
  // Errors: InvalidArgument where the specification does not fit the features.
  static absl::StatusOr<std::unique_ptr<WidePart>> Create(const v1::WidePart& spec, const FeatureShape& features,
                                                          int64_t outputs, const OptimizerOptions& optimizer,
                                                          uint64_t seed);

  // Terms [batch, outputs].
  absl::StatusOr<Matrix> Predict(const FeatureBatch& own) const;
  // The pass, whose output are the terms, reads `own` and `storage`, which must outlive it.
  absl::StatusOr<LayerPass> Forward(const FeatureBatch& own, Matrix& storage) const;
  // Back-propagates per-example gradients [batch, outputs] at the terms: those at the input.
  absl::StatusOr<StackGradients> Backward(LayerPass& pass, ConstMatrixView logit_gradient);
  // One optimiser step of the embedding; `parts` as InputLayer::Update. That of linear() goes with the party's other
  // layers.
  absl::Status UpdateEmbedding(absl::Span<const LookupGradient> parts);
  LayerStack* linear() { return linear_.get(); }

  // "wide.embedding" (with categorical columns), "wide.weight", "wide.bias".
  std::vector<ParameterView> parameters(ParameterUse use);
  // What else training goes on from.
  std::vector<ParameterView> optimizer_state();
  void set_steps(int64_t steps);
  // The averages, where there are any, start anew from the parameters.
  void RestartAverage();
  // Assigns the terms to `variable`.
  void Describe(const std::string& variable, HalfScript& script) const;

 private:
  WidePart(std::unique_ptr<InputLayer> input, std::unique_ptr<LayerStack> linear);

  std::unique_ptr<InputLayer> input_;
  std::unique_ptr<LayerStack> linear_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TOP_WIDE_PART_H_
