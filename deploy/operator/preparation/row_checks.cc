#include "deploy/operator/preparation/row_checks.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/match.h"
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

absl::Status CheckTrainingLabels(const std::string& table, const LabelVariety& training) {
  const absl::Status status = training.Check("training rows");
  return status.ok() ? status
                     : absl::InvalidArgumentError(absl::StrCat(
                           table, ": ", status.message(),
                           "; see whether the table was filtered by its label, and whether the schema says which texts "
                           "the labels are (positive, negative)"));
}

absl::Status CheckHeldOutLabels(const std::string& table, absl::string_view part, const std::string& kept_by,
                                const LabelVariety& labels) {
  const absl::Status status = labels.Check(absl::StrCat(part, " rows"));
  return status.ok() ? status
                     : absl::InvalidArgumentError(
                           absl::StrCat(table, ": ", status.message(), ", which ", kept_by, " keeps for ",
                                        part == "test" ? "testing" : "validation", "; use a larger table",
                                        absl::StartsWith(kept_by, "test_after")
                                            ? " or another time"
                                            : absl::StrCat(", a larger ", part, "_fraction or ", part, "_fraction 0")));
}

}  // namespace splitveil
