// Gradients of a batch of which each worker has computed some rows.
#ifndef SPLITVEIL_NONLABEL_PARTY_BOTTOM_GRADIENT_EXCHANGE_H_
#define SPLITVEIL_NONLABEL_PARTY_BOTTOM_GRADIENT_EXCHANGE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

#include "common/matrix/matrix.h"
#include "common/model/embedding_table.h"
#include "common/model/layer_stack.h"
#include "common/workers/worker_group.h"

namespace splitveil {

// Used by every worker at once, at the Update of the same batch. Not thread-safe.
class GradientExchange {
 public:
  // `group`: not owned; must outlive this. `categories`: categorical columns; `dimension`: of their embeddings.
  GradientExchange(WorkerGroup* group, int64_t categories, int64_t dimension)
      : group_(group), categories_(categories), dimension_(dimension) {}

  // Makes the gradients of `layers` (null: none), of `own_rows` rows of the batch (0: none), those of all workers'
  // rows; and, unless there is no embedding, `at_input` the lookups of every worker, by rank, so that each does the
  // same to its table. They then show memory of this object, until the next call. Errors: as WorkerGroup's.
  absl::Status Share(int64_t own_rows, LayerStack* layers, bool has_embedding, std::vector<LookupGradient>& at_input);

 private:
  // Sets rows_of_.
  absl::Status CountRows(int64_t own);
  absl::Status GatherLookups(std::vector<LookupGradient>& at_input);

  WorkerGroup* const group_;
  const int64_t categories_;
  const int64_t dimension_;
  std::vector<int64_t> rows_of_;  // The batch's, by rank.
  std::vector<int64_t> indices_;
  Matrix gradients_;  // [rows of all, categories * dimension].
};

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_BOTTOM_GRADIENT_EXCHANGE_H_
