// A party's file as it was read: ids, labels and raw feature values, before alignment.
#ifndef SPLITVEIL_COMMON_DATASET_PARTY_DATA_H_
#define SPLITVEIL_COMMON_DATASET_PARTY_DATA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/dataset/feature_table.h"

namespace splitveil {

class LineReader;

// One categorical column: each row's value as a code into `values` (order of first occurrence).
struct CategoricalColumn {
  std::string name;
  std::vector<std::string> values;
  std::vector<int32_t> codes;
};

struct NumericColumn {
  std::string name;
  std::vector<float> values;  // NaN where the cell is empty.
};

struct PartyData {
  std::vector<std::string> ids;  // Trimmed, distinct, not empty.
  std::vector<uint8_t> labels;   // Empty where the file has no label column.
  std::vector<NumericColumn> numeric;
  std::vector<CategoricalColumn> categorical;
};

// Reads a typed tab-separated file (plain or .gz): header `id`, optionally `label`, then `numeric:NAME` and
// `categorical:NAME`. Errors: NotFound; InvalidArgument with file, line and column for a malformed row, with a count
// and line numbers for empty or repeated ids. Never an id or a value in a message.
absl::StatusOr<PartyData> ReadPartyData(const std::string& path);

// The same from an open reader.
absl::StatusOr<PartyData> ParsePartyData(LineReader* lines);

// Preprocessing of A.6.1, fitted on the training rows only: an empty numeric cell becomes 0, numbers are scaled to [0,
// 1] by the training range and clipped; a category seen in training gets an index of its own, all others share one.
// `rows`: the party's row for each aligned position; `train`: positions in the aligned order.
absl::StatusOr<FeatureTable> BuildFeatures(const PartyData& data, absl::Span<const uint32_t> rows,
                                           absl::Span<const uint32_t> train);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_DATASET_PARTY_DATA_H_
