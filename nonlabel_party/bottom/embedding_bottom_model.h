// The bottom model of embeddings alone: the cut lies directly behind them, and every layer is the label party's.
#ifndef SPLITVEIL_NONLABEL_PARTY_BOTTOM_EMBEDDING_BOTTOM_MODEL_H_
#define SPLITVEIL_NONLABEL_PARTY_BOTTOM_EMBEDDING_BOTTOM_MODEL_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "nonlabel_party/bottom/bottom_model.h"

namespace splitveil {

// What can be said against `options` without making the table: no categories to embed, so that nothing but features
// would leave, or embeddings and numeric columns that are together not the cut width. Errors: InvalidArgument.
absl::Status CheckEmbeddingBottomModel(const BottomModelOptions& options);

// `options.spec` is a bottom half (BottomHalf) without layers. An example's activations are its embeddings, column by
// column, then its numeric columns: who receives them sees those as they are, and which examples share a category.
// Errors: as BottomModel::Create.
absl::StatusOr<std::unique_ptr<BottomModel>> CreateEmbeddingBottomModel(const BottomModelOptions& options);

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_BOTTOM_EMBEDDING_BOTTOM_MODEL_H_
