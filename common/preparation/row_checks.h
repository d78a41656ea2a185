// What makes a table fit to be prepared, once all its rows are counted.
#ifndef SPLITVEIL_COMMON_PREPARATION_ROW_CHECKS_H_
#define SPLITVEIL_COMMON_PREPARATION_ROW_CHECKS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

#include "common/dataset/label_variety.h"
#include "common/preparation/row_source.h"

namespace splitveil {

struct UsableRowsOptions {
  // Least share of the rows that must be usable, in [0, 1].
  double min_usable_share = 0;
  // How many rows the table has, where that is known; 0: not known.
  int64_t expected_rows = 0;
};

// Whether enough of the table was read: `usable` rows, and of those left out what `source` says, which is at its end. A
// file that breaks off hides how many rows it had, so without `expected_rows` it is refused whatever the share. Error:
// InvalidArgument with both figures and the first row left out.
absl::Status CheckUsableRows(const UsableRowsOptions& options, const std::string& table, int64_t usable,
                             const RowSource& source);

// Whether the labels of the party that holds them differ, in training and, where `test_fraction` keeps rows for it, in
// testing. Error: InvalidArgument with the part and what to do.
absl::Status CheckLabelVariety(const std::string& table, double test_fraction, const LabelVariety& training,
                               const LabelVariety& test);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_PREPARATION_ROW_CHECKS_H_
