// First layer of either model half: a party's features become the numbers its dense layers read.
#ifndef SPLITVEIL_COMMON_MODEL_INPUT_LAYER_H_
#define SPLITVEIL_COMMON_MODEL_INPUT_LAYER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/dataset/feature_table.h"
#include "common/dataset/features.h"
#include "common/matrix/matrix.h"
#include "common/model/embedding_table.h"
#include "common/model/optimizer_options.h"
#include "common/model/parameters.h"

#include "splitveil/v1/model.pb.h"

namespace splitveil {

// Row b of the output is [embedding of column 1, ..., of the last categorical column, numeric columns], each of the
// latter in its pieces (v1::ModelSpec.numeric_pieces).
// Not thread-safe.
class InputLayer {
 public:
  struct Options {
    std::string field;  // Where `embedding` stands in the configuration, for error messages: "model".
    FeatureShape features;
    const v1::Embedding* embedding = nullptr;  // Null if the specification has none. Read by Create only.
    OptimizerOptions optimizer;
    uint64_t seed = 0;
    int64_t pieces = 1;  // Inputs of a number, >= 1.
  };

  // Errors: InvalidArgument if there are no features at all, categorical columns but no embedding, or images in
  // pieces.
  static absl::StatusOr<std::unique_ptr<InputLayer>> Create(const Options& options);

  // Columns of the output: categorical * dimension + numeric * pieces.
  int64_t width() const { return width_; }
  int64_t pieces() const { return pieces_; }
  bool has_embedding() const { return table_.has_value(); }

  // Output [batch.rows, width] for `batch`, with the embeddings of `use`: a view of `storage`, or of batch.numeric
  // itself if nothing has to be looked up. Both must outlive the view. Errors: InvalidArgument if the batch does
  // not have the features' shape.
  absl::StatusOr<ConstMatrixView> Assemble(const FeatureBatch& batch, ParameterUse use, Matrix& storage) const;

  // One optimiser step on the embeddings with the mean over the batch of its per-example gradients. `parts`: slices of
  // the batch, each the categories and the gradient [rows, width] at the output that Assemble made of them. Does
  // nothing without an embedding.
  absl::Status Update(absl::Span<const LookupGradient> parts);

  // Inner products of what several objectives are at the embeddings, [m, m] row-major; each objective's gradients as
  // Update takes them, and the mean over the batch as there. Zeros without an embedding. Changes nothing.
  std::vector<double> GradientProducts(absl::Span<const std::vector<LookupGradient>> objectives) const;

  // "`prefix`embedding", or none.
  std::vector<ParameterView> parameters(const std::string& prefix, ParameterUse use = ParameterUse::kTraining);
  // What else training resumes from: its moments under MomentName, its average under AverageName and, with
  // ".steps" behind that, the steps in each row's.
  std::vector<ParameterView> optimizer_state(const std::string& prefix);
  // The average, if there is one, restarts from the embeddings.
  void RestartAverage();
  // Steps of the optimiser so far, if training resumes from a saved state.
  void set_steps(int64_t steps);

 private:
  InputLayer(const FeatureShape& features, std::optional<EmbeddingTable> table, int64_t pieces);

  FeatureShape features_;
  std::optional<EmbeddingTable> table_;
  int64_t pieces_;
  int64_t width_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_INPUT_LAYER_H_
