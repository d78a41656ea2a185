// A look at the beginning of a table.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_INIT_TABLE_SAMPLE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_INIT_TABLE_SAMPLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "deploy/operator/init/column_summary.h"
#include "deploy/operator/init/table_layout.h"

namespace splitveil {

struct TableSample {
  TableLayout layout;
  std::vector<ColumnSummary> columns;
  int64_t rows = 0;
  bool whole = false;     // Whether these are all rows of the file.
  int64_t odd_lines = 0;  // Passed over, where that was asked for: another number of cells.
};

// The most that is looked at: rows, and bytes of them.
inline constexpr int64_t kMaxSampledRows = 100'000;
inline constexpr int64_t kMaxSampledBytes = int64_t{16} << 20;

// Reads `path` (plain or gzip) from its start to its end or to the limits. Errors: NotFound, InvalidArgument as
// LineReader and FindLayout, for a file without rows, and, unless they
// are to be skipped, for a row with another number of cells, as one line with file
// and line and without a cell's text.
absl::StatusOr<TableSample> SampleTable(const std::string& path, const LayoutFlags& flags);

// "customers.csv: 5700 rows, all of the file; separator comma, header line".
std::string SampleText(const std::string& path, const TableSample& sample);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_INIT_TABLE_SAMPLE_H_
