#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/dataset/party_data.h"

namespace splitveil {
namespace {

absl::Status CheckArguments(const PartyData& data, absl::Span<const uint32_t> rows, absl::Span<const uint32_t> train) {
  const size_t file_rows = data.ids.size();
  for (const NumericColumn& column : data.numeric) {
    if (column.values.size() != file_rows) {
      return absl::InvalidArgumentError(
          absl::StrCat("numeric column: expected ", file_rows, " values, found ", column.values.size()));
    }
  }
  for (const CategoricalColumn& column : data.categorical) {
    if (column.codes.size() != file_rows) {
      return absl::InvalidArgumentError(
          absl::StrCat("categorical column: expected ", file_rows, " codes, found ", column.codes.size()));
    }
    for (const int32_t code : column.codes) {
      if (code < 0 || static_cast<size_t>(code) >= column.values.size()) {
        return absl::InvalidArgumentError(
            absl::StrCat("categorical column: expected codes below ", column.values.size(), ", found ", code));
      }
    }
  }
  if (train.empty()) {
    return absl::InvalidArgumentError("train: expected at least one position, found none");
  }
  for (const uint32_t row : rows) {
    if (row >= file_rows) {
      return absl::InvalidArgumentError(absl::StrCat("rows: expected rows below ", file_rows, ", found ", row));
    }
  }
  for (const uint32_t position : train) {
    if (position >= rows.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("train: expected positions below ", rows.size(), ", found ", position));
    }
  }
  return absl::OkStatus();
}

float FillMissing(float value) { return std::isnan(value) ? 0.0F : value; }

// Writes one scaled column. Differences are taken in double: the range of two floats may overflow a float.
absl::Status ScaleColumn(const std::vector<float>& values, absl::Span<const uint32_t> rows,
                         absl::Span<const uint32_t> train, int64_t column, Matrix* out) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  for (const uint32_t position : train) {
    const double value = FillMissing(values[rows[position]]);
    low = std::min(low, value);
    high = std::max(high, value);
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    const double value = FillMissing(values[rows[i]]);
    if (std::isinf(value)) {
      return absl::InvalidArgumentError("numeric column: expected finite values");
    }
    out->row(static_cast<int64_t>(i))[column] =
        high > low ? static_cast<float>(std::clamp((value - low) / (high - low), 0.0, 1.0)) : 0.0F;
  }
  return absl::OkStatus();
}

// Index of each code within its column: 0 where it does not occur in training, else 1, 2, ... in the order of the
// codes, which is the file's and so does not depend on the alignment. `used` becomes the number of indices.
std::vector<int32_t> IndexOfCode(const CategoricalColumn& column, absl::Span<const uint32_t> rows,
                                 absl::Span<const uint32_t> train, int64_t* used) {
  std::vector<int32_t> index(column.values.size(), 0);
  for (const uint32_t position : train) {
    index[column.codes[rows[position]]] = 1;
  }
  int32_t next = 1;
  for (int32_t& entry : index) {
    entry = entry == 0 ? 0 : next++;
  }
  *used = next;
  return index;
}

}  // namespace

absl::StatusOr<FeatureTable> BuildFeatures(const PartyData& data, absl::Span<const uint32_t> rows,
                                           absl::Span<const uint32_t> train) {
  absl::Status valid = CheckArguments(data, rows, train);
  if (!valid.ok()) {
    return valid;
  }
  FeatureShape shape;
  shape.numeric = static_cast<int64_t>(data.numeric.size());
  shape.categorical = static_cast<int64_t>(data.categorical.size());
  Matrix numeric(static_cast<int64_t>(rows.size()), shape.numeric);
  for (int64_t c = 0; c < shape.numeric; ++c) {
    absl::Status scaled = ScaleColumn(data.numeric[c].values, rows, train, c, &numeric);
    if (!scaled.ok()) {
      return scaled;
    }
  }
  std::vector<int32_t> categories(rows.size() * data.categorical.size());
  for (int64_t c = 0; c < shape.categorical; ++c) {
    const CategoricalColumn& column = data.categorical[c];
    int64_t used = 0;
    const std::vector<int32_t> index = IndexOfCode(column, rows, train, &used);
    if (shape.embedding_rows + used > std::numeric_limits<int32_t>::max()) {
      return absl::InvalidArgumentError("categorical columns: more than 2^31 - 1 distinct values in training");
    }
    const auto offset = static_cast<int32_t>(shape.embedding_rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      categories[i * data.categorical.size() + c] = offset + index[column.codes[rows[i]]];
    }
    shape.embedding_rows += used;
  }
  return FeatureTable(shape, std::move(numeric), std::move(categories));
}

}  // namespace splitveil
