// Vertical split of a Criteo file between the two parties.
#ifndef SPLITVEIL_COMMON_DATASET_PREPARE_CRITEO_H_
#define SPLITVEIL_COMMON_DATASET_PREPARE_CRITEO_H_

#include <array>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

#include "common/dataset/criteo_row.h"

namespace splitveil {

struct PrepareCriteoOptions {
  // Criteo's TSV (criteo_row.h), plain or gzip.
  std::string input_path;
  // Made if it does not exist; files of the same names in it are replaced.
  std::string out_dir;
  // Fixes ids, membership and order: the same input and options give the same bytes on every machine.
  uint64_t seed = 1;
  // Expected shares of the rows that one party alone holds; each in [0, 1), together below 1.
  double only_label_fraction = 0.01;
  double only_nonlabel_fraction = 0.01;
  // Rows a party's shuffle holds, at least 1. A row moves on to a random place up to a few times this far behind where
  // it stood; larger mixes better and costs about 300 bytes a row and party.
  int64_t shuffle_buffer_rows = 65536;
};

struct PrepareCriteoResult {
  std::string label_path;
  std::string nonlabel_path;
  int64_t rows = 0;  // Of the input, each held by one party or both.
  int64_t positives = 0;
  int64_t label_rows = 0;
  int64_t nonlabel_rows = 0;
  int64_t common_rows = 0;
  // Share of empty cells of I1..I13, C1..C26 in the input, in [0, 1].
  std::array<double, kCriteoFeatures> missing_rates = {};
};

// Writes OUT_DIR/label_party.tsv (id, label, and all features, for the wide part) and OUT_DIR/nonlabel_party.tsv (id
// and all features) as ReadPartyData reads them; cells are copied byte for byte. The parties' rows partly overlap and
// stand in different orders. Ids are 32 hexadecimal digits of a hash keyed by the seed over the row's number and hold
// nothing of the row; whoever knows the seed can recompute the numbers. Constant memory.
//
// Both files appear complete or neither does. Errors: NotFound; InvalidArgument for options, an empty input, and with
// file, line and column, never the value, for a malformed row; Internal where the files cannot be written.
absl::StatusOr<PrepareCriteoResult> PrepareCriteo(const PrepareCriteoOptions& options);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_DATASET_PREPARE_CRITEO_H_
