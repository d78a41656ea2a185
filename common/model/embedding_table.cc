#include "common/model/embedding_table.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <new>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/model/parameter_optimizer.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr int64_t kMaxDimension = 4096;
// In a large table each row is a cache miss; asking this many rows ahead lets them overlap.
constexpr size_t kPrefetchRows = 16;

// Both ends: a short row may lie across two cache lines. Of a long row, the processor fetches the rest by itself.
void Prefetch(const float* row, int64_t size) {
  __builtin_prefetch(row);
  __builtin_prefetch(row + size - 1);
}

absl::Status CheckOptions(const EmbeddingTable::Options& options) {
  if (options.dimension < 1 || options.dimension > kMaxDimension) {
    return absl::InvalidArgumentError(
        absl::StrCat("embedding.dimension: expected 1 to ", kMaxDimension, ", found ", options.dimension));
  }
  // So that no product of rows, dimension and bytes overflows.
  const int64_t max_rows = std::numeric_limits<int64_t>::max() / static_cast<int64_t>(sizeof(float)) / kMaxDimension;
  if (options.rows < 1 || options.rows > max_rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("embedding rows: expected 1 to ", max_rows, ", found ", options.rows));
  }
  if (!(options.initial_range >= 0 && options.initial_range <= 10)) {
    return absl::InvalidArgumentError(
        absl::StrCat("embedding.initial_range: expected a number in [0, 10], found ", options.initial_range));
  }
  return absl::OkStatus();
}

// The values, what the optimiser remembers of them and their average.
// Beside one another in a row's block: a lazy step then touches one run of memory a row.
int64_t Parts(const OptimizerOptions& optimizer) { return 1 + optimizer.moments() + (optimizer.has_average() ? 1 : 0); }

// std::uniform_real_distribution differs between standard libraries; this gives the same table everywhere.
void FillUniform(double range, uint64_t seed, const StridedRows& rows) {
  std::mt19937_64 generator(seed);
  for (int64_t r = 0; r < rows.rows; ++r) {
    for (float& value : rows.row(r)) {
      const double unit = static_cast<double>(generator() >> 11) * 0x1p-53;
      value = static_cast<float>(range * (2 * unit - 1));
    }
  }
}

}  // namespace

absl::StatusOr<EmbeddingTable> EmbeddingTable::Create(const Options& options) {
  SPLITVEIL_RETURN_IF_ERROR(CheckOptions(options));
  const size_t size = static_cast<size_t>(options.rows * options.dimension);
  const auto parts = static_cast<size_t>(Parts(options.optimizer));
  try {
    EmbeddingTable table(options, HugePageVector<float>(parts * size, InitialMoment(options.optimizer)));
    FillUniform(options.initial_range, options.seed, table.values());
    table.average_steps_.resize(table.has_average() ? static_cast<size_t>(options.rows) : 0);
    // The average starts at the values, not at 0.
    table.RestartAverage();
    return table;
  } catch (const std::exception&) {  // bad_alloc or length_error: a configured table may exceed the memory.
    return absl::InternalError(absl::StrCat("embedding of ", options.rows, " rows of ", options.dimension,
                                            " numbers: no memory for ", parts, " x ", size * sizeof(float), " bytes"));
  }
}

EmbeddingTable::EmbeddingTable(const Options& options, HugePageVector<float> blocks)
    : rows_(options.rows),
      dimension_(options.dimension),
      optimizer_(options.optimizer),
      block_size_(Parts(options.optimizer) * options.dimension),
      blocks_(std::move(blocks)) {}

void EmbeddingTable::RestartAverage() {
  const StridedRows trained = values();
  const StridedRows average = values(ParameterUse::kPrediction);
  for (int64_t r = 0; r < rows_ && has_average(); ++r) {
    std::copy_n(trained.row(r).begin(), dimension_, average.row(r).begin());
    average_steps_[r] = 0;
  }
}

absl::StatusOr<int64_t> EmbeddingTable::CheckLookup(absl::Span<const int64_t> indices, int64_t matrix_rows,
                                                    int64_t matrix_cols) const {
  const int64_t count = static_cast<int64_t>(indices.size());
  if (matrix_rows < 1 || count % matrix_rows != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("embedding indices: expected a multiple of ", matrix_rows, " rows, found ", count));
  }
  const int64_t columns = count / matrix_rows;
  // By division: a product of two large numbers could overflow.
  if (columns > matrix_cols / dimension_) {
    return absl::InvalidArgumentError(absl::StrCat("embedding matrix: expected at least ", columns, " x ", dimension_,
                                                   " columns, found ", matrix_cols));
  }
  // A negative index wraps around to a huge one, so one comparison covers both ends.
  uint64_t largest = 0;
  for (const int64_t index : indices) {
    largest = std::max(largest, static_cast<uint64_t>(index));
  }
  if (count > 0 && largest >= static_cast<uint64_t>(rows_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("embedding indices: expected 0 to ", rows_ - 1, ", found one outside"));
  }
  return columns;
}

absl::Status EmbeddingTable::Gather(absl::Span<const int64_t> indices, ParameterUse use, Matrix& out) const {
  SPLITVEIL_ASSIGN_OR_RETURN(const int64_t columns, CheckLookup(indices, out.rows(), out.cols()));
  const float* values = blocks_.data() + ValuesPart(use) * dimension_;
  size_t i = 0;
  for (int64_t b = 0; b < out.rows(); ++b) {
    float* target = out.data() + b * out.cols();
    for (int64_t c = 0; c < columns; ++c, ++i, target += dimension_) {
      Prefetch(values + indices[std::min(i + kPrefetchRows, indices.size() - 1)] * block_size_, dimension_);
      std::copy_n(values + indices[i] * block_size_, dimension_, target);
    }
  }
  return absl::OkStatus();
}

int32_t EmbeddingTable::FindOrInsert(int64_t row) {
  const size_t mask = hash_table_.size() - 1;
  size_t slot = (static_cast<uint64_t>(row) * 0x9E3779B97F4A7C15u) >> hash_shift_;  // Fibonacci hashing
  while (hash_table_[slot] >= 0) {
    if (occurring_rows_[hash_table_[slot]] == row) {
      return hash_table_[slot];
    }
    slot = (slot + 1) & mask;
  }
  // New rows are numbered as they come, so that their sums lie back to back.
  const int32_t position = static_cast<int32_t>(occurring_rows_.size());
  hash_table_[slot] = position;
  occurring_rows_.push_back(row);
  return position;
}

void EmbeddingTable::SumByRow(absl::Span<const LookupGradient> lookups) {
  size_t count = 0;
  for (const LookupGradient& lookup : lookups) {
    count += lookup.indices.size();
  }
  int bits = 4;
  // At most half full, so that linear probing stays short.
  while ((size_t{1} << bits) < 2 * count) {
    ++bits;
  }
  hash_shift_ = 64 - bits;
  hash_table_.assign(size_t{1} << bits, -1);
  occurring_rows_.clear();
  occurring_rows_.reserve(count);
  // Summed by row first, as a sparse optimiser step is not linear in the gradient.
  gradient_sums_.assign(count * static_cast<size_t>(dimension_), 0.0f);

  for (const auto& [indices, gradient] : lookups) {
    const int64_t columns = static_cast<int64_t>(indices.size()) / gradient.rows();
    const int64_t* index = indices.data();
    for (int64_t b = 0; b < gradient.rows(); ++b) {
      const float* source = gradient.data() + b * gradient.cols();
      for (int64_t c = 0; c < columns; ++c, source += dimension_) {
        float* sum = gradient_sums_.data() + FindOrInsert(*index++) * dimension_;
        for (int64_t d = 0; d < dimension_; ++d) {
          sum[d] += source[d];
        }
      }
    }
  }
}

void EmbeddingTable::StepOccurringRows(double gradient_scale) {
  // Offsets within a row's block; 0 for a moment that the method does not have, which its rule does not touch.
  const int64_t first = moments() > 0 ? dimension_ : 0;
  const int64_t second = moments() > 1 ? 2 * dimension_ : 0;
  const int64_t average = ValuesPart(ParameterUse::kPrediction) * dimension_;
  WithRule(optimizer_, steps_++, /*dense=*/false, gradient_scale, [&](const auto& rule) {
    for (size_t i = 0; i < occurring_rows_.size(); ++i) {
      const size_t ahead = std::min(i + kPrefetchRows, occurring_rows_.size() - 1);
      Prefetch(blocks_.data() + occurring_rows_[ahead] * block_size_, block_size_);
      float* values = blocks_.data() + occurring_rows_[i] * block_size_;
      rule.Apply(gradient_sums_.data() + i * dimension_, dimension_, values, values + first, values + second);
      if (average > 0) {
        // By the row's own steps: by the table's, a rare row's average would stay at its random start late in training.
        Prefetch(average_steps_.data() + occurring_rows_[ahead], 1);
        float& own_steps = average_steps_[occurring_rows_[i]];
        const auto rate = static_cast<float>(optimizer_.AverageRate(static_cast<int64_t>(own_steps++)));
        for (int64_t d = 0; d < dimension_; ++d) {
          values[average + d] += (values[d] - values[average + d]) * rate;
        }
      }
    }
  });
}

absl::Status EmbeddingTable::Update(absl::Span<const LookupGradient> lookups, double gradient_scale) {
  // All indices first: after a bad one the table would be half updated.
  for (const auto& [indices, gradient] : lookups) {
    SPLITVEIL_RETURN_IF_ERROR(CheckLookup(indices, gradient.rows(), gradient.cols()).status());
  }
  SumByRow(lookups);
  StepOccurringRows(gradient_scale);
  return absl::OkStatus();
}

}  // namespace splitveil
