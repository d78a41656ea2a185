#include "common/preparation/row_checks.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace splitveil {
namespace {

// The fault of most of the rows that were left out.
RowFault MostFrequentFault(const FaultCounts& skipped) {
  return static_cast<RowFault>(std::max_element(skipped.begin(), skipped.end()) - skipped.begin());
}

}  // namespace

absl::Status CheckUsableRows(const UsableRowsOptions& options, const std::string& table, int64_t usable,
                             const RowSource& source) {
  const FaultCounts& skipped = source.skipped();
  if (skipped[static_cast<size_t>(RowFault::kFile)] > 0 && options.expected_rows == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(source.first_error(RowFault::kFile).message(),
                     "; how many rows that costs cannot be known: get the whole file, or say with --rows how many the "
                     "table has"));
  }
  const int64_t read = std::accumulate(skipped.begin(), skipped.end(), usable);
  const int64_t total = std::max(options.expected_rows, read);
  if (static_cast<double>(usable) >= options.min_usable_share * static_cast<double>(total)) {
    return absl::OkStatus();
  }
  std::string error = absl::StrFormat("%s: expected at least %g%% of the %d rows to be usable, found %d", table,
                                      100 * options.min_usable_share, total, usable);
  if (read > usable) {
    const RowFault fault = MostFrequentFault(skipped);
    absl::StrAppend(&error, "; most often ", kRowFaultNames[static_cast<size_t>(fault)], ", first ",
                    source.first_error(fault).message());
  }
  return absl::InvalidArgumentError(absl::StrCat(error, "; --min_usable_share sets the share"));
}

absl::Status CheckLabelVariety(const std::string& table, double test_fraction, const LabelVariety& training,
                               const LabelVariety& test) {
  if (const absl::Status status = training.Check("training rows"); !status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(table, ": ", status.message(),
                     "; see whether the table was filtered by its label, and whether the schema says which texts the "
                     "labels are (positive, negative)"));
  }
  if (test_fraction == 0) {
    return absl::OkStatus();
  }
  const absl::Status status = test.Check("test rows");
  return status.ok() ? status
                     : absl::InvalidArgumentError(absl::StrCat(
                           table, ": ", status.message(), ", which test_fraction ", test_fraction,
                           " keeps for testing; use a larger table, a larger test_fraction or test_fraction 0"));
}

}  // namespace splitveil
