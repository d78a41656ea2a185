// What makes a table fit to be prepared, once all its rows are counted.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_ROW_CHECKS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_ROW_CHECKS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "deploy/operator/preparation/row_source.h"

#include "common/dataset/label_variety.h"

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

// Whether the labels of the party that holds them differ in the training part. Errors: InvalidArgument that says what
// to look at.
absl::Status CheckTrainingLabels(const std::string& table, const LabelVariety& training);
// The same in another part: "test" or "validation", which `kept_by` keeps rows for ("test_fraction 0.1").
absl::Status CheckHeldOutLabels(const std::string& table, absl::string_view part, const std::string& kept_by,
                                const LabelVariety& labels);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_ROW_CHECKS_H_
