// A pass over a table of which nothing is known yet.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_INIT_TABLE_PROFILE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_INIT_TABLE_PROFILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "deploy/operator/init/table_layout.h"
#include "deploy/operator/preparation/column_profile.h"

namespace splitveil {

struct ProfiledTable {
  TableLayout layout;
  TableProfile profile;  // By the order of the layout's names.
  size_t files = 1;
  int64_t rows = 0;
  int64_t odd_lines = 0;  // Passed over, where that was asked for: another number of cells.
};

// Reads `paths` (TableFiles; at least one) once, to their end: how its cells are written is found out. Errors:
// NotFound, InvalidArgument as LineReader and FindLayout, for a file without rows, and, unless they are to be skipped,
// for a row with another number of cells, as one line with file and line and without a cell's text.
absl::StatusOr<ProfiledTable> ProfileTable(const std::vector<std::string>& paths, const LayoutFlags& flags);

// Null if there is none of this name.
const ColumnProfile* FindColumn(const ProfiledTable& table, const std::string& name);

// "customers.csv: 5700 rows; separator comma, header line".
std::string ProfileHead(const std::string& path, const ProfiledTable& table);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_INIT_TABLE_PROFILE_H_
