// What is shown of a table's profile.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PROFILE_PROFILE_REPORT_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PROFILE_PROFILE_REPORT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "deploy/operator/preparation/column_profile.h"

#include "common/figures/json_number.h"

#include "splitveil/v1/table_schema.pb.h"

namespace splitveil {

// Borrows all.
struct ProfileReport {
  const std::string& table;  // The file's name.
  const v1::TableSchema& schema;
  const TableProfile& profile;  // Of the schema's columns.
  const std::vector<std::string>& warnings;
};

// One aligned line for each column: share missing, distinct texts, least, median and greatest number, and the forms of
// its cells with the lines of the first and the last; then a line "WARNING: ..." for each warning. Numbers are those of
// NUMERIC columns alone.
std::string ProfileText(const ProfileReport& report);

// {"table", "rows", "columns": [{"name", "kind", "rows", "missing": {"empty", "words": {TEXT: ROWS}}, "distinct",
// "distinct_is_exact", "forms": {FORM: {"rows", "first_line", "last_line"}}}], "warnings"}. Columns of kind NUMERIC
// have besides: "quantiles": {"0", "0.01", ..., "1"} (within 1.6% of the ranks; ends exact), "least" and "greatest":
// the eight numbers at each end with their rows, and "histogram": {"from", "to", "shares"} from the 1% to the 99%
// quantile, what is outside in the first and last bar.
Json ProfileJson(const ProfileReport& report);

// That WriteProfile replaces nothing but an earlier profile or, with .html, a page of this tool; an empty path is none.
// Error: AlreadyExists.
absl::Status CheckProfilePath(const std::string& path);
// Writes the page to `path` if it ends with .html, else the JSON; for its owner alone. Errors: as CheckProfilePath,
// WriteFile.
absl::Status WriteProfile(const std::string& path, const ProfileReport& report);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PROFILE_PROFILE_REPORT_H_
