// A look at the beginning of a table.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_INIT_TABLE_SAMPLE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_INIT_TABLE_SAMPLE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "deploy/operator/init/table_layout.h"
#include "deploy/operator/preparation/id_form.h"
#include "deploy/operator/preparation/number_scaling.h"

namespace splitveil {

// Of a text of a column.
struct Occurrences {
  int64_t rows = 0;
  int64_t first_line = 0;
};

// Counts of a column's cells. Holds texts of the column: print counts, never them. Memory: 8 to 16 bytes per distinct
// text, kMaxTexts texts, and a sample of the numbers. Not thread-safe.
class ColumnSummary {
 public:
  // Distinct texts that are kept, with their counts; of a column with more, none is.
  static constexpr size_t kMaxTexts = 256;
  static constexpr int64_t kSurveyedRows = 1000;

  explicit ColumnSummary(std::string name) : name_(std::move(name)) {}

  // `line`: of the file, from 1.
  void Add(const std::string& cell, int64_t line);

  const std::string& name() const { return name_; }
  int64_t rows() const { return rows_; }
  int64_t empty() const { return empty_; }
  int64_t numbers() const { return numbers_; }
  int64_t integers() const { return integers_; }
  int64_t dates() const { return dates_; }
  // Numbers with zeros in front, as in "007" and "01234": codes.
  int64_t padded() const { return padded_; }
  // Cells that are a text which mostly means "missing", by text: kept apart from all other counts.
  const std::map<std::string, int64_t>& markers() const { return markers_; }
  int64_t marked() const;
  // Texts but the empty one and markers.
  int64_t texts() const { return rows_ - empty_ - marked(); }
  v1::TableSchema::Scaling proposed_scaling() const { return ProposedScaling(sample_); }
  int64_t distinct() const { return static_cast<int64_t>(hashes_.size()); }
  // Whether every row has a text of its own.
  bool names_rows() const { return rows_ > 1 && distinct() == rows_; }
  // How its texts are written as ids: all of them if names_rows(), else at least the first kSurveyedRows.
  const IdSurvey& ids() const { return ids_; }
  // Distinct texts and where each occurs; empty if there are more than kMaxTexts.
  const std::map<std::string, Occurrences>& counts() const { return counts_; }

 private:
  std::string name_;
  int64_t rows_ = 0;
  int64_t empty_ = 0;
  int64_t numbers_ = 0;
  int64_t integers_ = 0;
  int64_t padded_ = 0;
  int64_t dates_ = 0;
  ColumnSample sample_{0};  // Of the numbers.
  std::map<std::string, int64_t> markers_;
  absl::flat_hash_set<uint64_t> hashes_;  // Of texts; two that share one count as one, once in 2^40 columns.
  std::map<std::string, Occurrences> counts_;
  IdSurvey ids_;
};

struct TableSample {
  TableLayout layout;
  std::vector<ColumnSummary> columns;
  int64_t rows = 0;
  int64_t bytes = 0;      // Of these rows.
  bool whole = true;      // Whether these are all rows of the table.
  int64_t odd_lines = 0;  // Passed over, where that was asked for: another number of cells.
};

// The most that is looked at: rows, and bytes of them.
inline constexpr int64_t kMaxSampledRows = 100'000;
inline constexpr int64_t kMaxSampledBytes = int64_t{16} << 20;

// Reads `path` (TableFiles) from its start to its end or to the limits. Errors: NotFound, InvalidArgument as
// LineReader and FindLayout, for a file without rows, and, unless they
// are to be skipped, for a row with another number of cells, as one line with file
// and line and without a cell's text.
absl::StatusOr<TableSample> SampleTable(const std::string& path, const LayoutFlags& flags);

// "customers.csv: 5700 rows, all of the file; separator comma, header line".
std::string SampleText(const std::string& path, const TableSample& sample);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_INIT_TABLE_SAMPLE_H_
