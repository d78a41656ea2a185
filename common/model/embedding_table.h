// Lookup table of trained vectors, one per category, with an optimiser that touches only the rows of the batch.
#ifndef SPLITVEIL_COMMON_MODEL_EMBEDDING_TABLE_H_
#define SPLITVEIL_COMMON_MODEL_EMBEDDING_TABLE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/matrix/matrix.h"
#include "common/model/huge_page_vector.h"
#include "common/model/optimizer_options.h"
#include "common/model/parameters.h"

namespace splitveil {

// Gradients of some rows of a batch: `indices` and `gradient` have the layout of EmbeddingTable::Gather's `indices` and
// `out`.
struct LookupGradient {
  absl::Span<const int64_t> indices;
  ConstMatrixView gradient;
};

// [rows, dimension] float32. Memory: the table, the optimiser's moments and the average (Adam: three times the table,
// with an average four times and one number a row), of which those of a row lie behind its values: in a large table
// what a step reads and writes of a row is then found, and fetched, at once. The cost of a step depends on the batch,
// not on the number of rows. Results depend on the order of the batch and on nothing else. Not thread-safe, except that
// Gather may run concurrently with itself.
class EmbeddingTable {
 public:
  struct Options {
    int64_t rows = 0;       // >= 1
    int64_t dimension = 0;  // [1, 4096]
    // Rows start uniform in [-initial_range, initial_range].
    double initial_range = 0.05;
    uint64_t seed = 0;
    OptimizerOptions optimizer;
  };

  // Errors: InvalidArgument; Internal if the memory cannot be had.
  static absl::StatusOr<EmbeddingTable> Create(const Options& options);

  // Looks up `indices` [batch * columns], row-major, and writes the `columns` vectors of example b, one after the
  // other, to the front of row b of `out` [batch, >= columns * dimension]; what is behind them stays. Errors:
  // InvalidArgument if the shapes do not fit or an index is outside the table; `out` is then unspecified.
  absl::Status Gather(absl::Span<const int64_t> indices, ParameterUse use, Matrix& out) const;

  // One lazy step (v1::Optimizer): the gradients of an index that occurs several times are summed in the order of the
  // batch; moments, values and averages change only in rows that occur; bias corrections and the
  // schedule use the number of Updates so far, whether or not a row took part in them, the average's decay those that
  // touched the row. `lookups`: those of the batch, part by part; `gradient_scale` multiplies every sum. Errors:
  // InvalidArgument as in Gather; nothing is changed.
  absl::Status Update(absl::Span<const LookupGradient> lookups, double gradient_scale);

  int64_t rows() const { return rows_; }
  int64_t dimension() const { return dimension_; }
  // [rows, dimension].
  StridedRows values(ParameterUse use = ParameterUse::kTraining) { return Part(ValuesPart(use)); }
  // What the optimiser remembers of each value, `index` < moments(), as ParameterOptimizer::moment: [rows, dimension].
  StridedRows moment(int index) { return Part(1 + index); }
  int moments() const { return optimizer_.moments(); }
  bool has_average() const { return optimizer_.has_average(); }
  // Steps in each row's average, whole numbers up to 2^24: [rows, 1]. If there is an average.
  StridedRows average_steps() { return {average_steps_.data(), rows_, 1, 1}; }
  // The average, if there is one, restarts from the values.
  void RestartAverage();
  // Updates so far, if training resumes from a saved state.
  void set_steps(int64_t steps) { steps_ = steps; }

 private:
  EmbeddingTable(const Options& options, HugePageVector<float> blocks);

  // Of the blocks: 0 the values, then the moments, then the average.
  StridedRows Part(int part) { return {blocks_.data() + part * dimension_, rows_, dimension_, block_size_}; }
  int ValuesPart(ParameterUse use) const {
    return use == ParameterUse::kPrediction && has_average() ? 1 + moments() : 0;
  }
  // `columns` of a lookup in matrices of this shape.
  absl::StatusOr<int64_t> CheckLookup(absl::Span<const int64_t> indices, int64_t matrix_rows,
                                      int64_t matrix_cols) const;
  // Fills occurring_rows_ (in order of first occurrence) and gradient_sums_.
  void SumByRow(absl::Span<const LookupGradient> lookups);
  // Steps those rows by those sums, times `gradient_scale`.
  void StepOccurringRows(double gradient_scale);
  // Position of `row` in occurring_rows_, appended if it is new.
  int32_t FindOrInsert(int64_t row);

  int64_t rows_;
  int64_t dimension_;
  OptimizerOptions optimizer_;
  int64_t steps_ = 0;
  int64_t block_size_;                   // Parts * dimension.
  HugePageVector<float> blocks_;         // [rows, block_size]: a row's values, first moments, second moments, average.
  HugePageVector<float> average_steps_;  // [rows]; empty without an average.

  // Scratch of Update, kept to avoid allocations. The hash table has open addressing, a power-of-two size and holds
  // positions in occurring_rows_, -1 if empty.
  std::vector<int32_t> hash_table_;
  int hash_shift_ = 0;
  std::vector<int64_t> occurring_rows_;
  std::vector<float> gradient_sums_;  // [occurring rows, dimension]
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_EMBEDDING_TABLE_H_
