// Rows of a table that is read by the names in its header line, without a schema.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_NAMED_TABLE_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_NAMED_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "deploy/operator/preparation/line_reader.h"

namespace splitveil {

// Text, plain or packed (LineReader), with a header line; cells are parted by tabs, commas or semicolons, whichever
// parts the header line so that it has the columns. Constant memory. No message holds a cell. Not thread-safe.
class NamedTable {
 public:
  // `columns`: names that the header line must have, each once; `what` they are, for messages. Errors: those of
  // LineReader; InvalidArgument if the header line lacks one.
  static absl::StatusOr<NamedTable> Open(const std::string& path, const std::vector<std::string>& columns,
                                         absl::string_view what);

  // False at the end. Lines without a cell are passed over. Error: InvalidArgument for a row of more or fewer cells.
  absl::StatusOr<bool> Next();

  // All names in the header line.
  const std::vector<std::string>& names() const { return names_; }
  // Of the latest row, without blanks around them; they borrow until the next call: all, or that of columns[i].
  absl::Span<const absl::string_view> cells() const { return cells_; }
  absl::string_view cell(size_t i) const { return cells_[places_[i]]; }
  int64_t line() const { return lines_->line_number(); }

 private:
  NamedTable(std::unique_ptr<LineReader> lines, CellSplitter splitter)
      : lines_(std::move(lines)), splitter_(std::move(splitter)) {}

  std::unique_ptr<LineReader> lines_;
  CellSplitter splitter_;
  std::vector<std::string> names_;
  std::vector<size_t> places_;  // Of the columns, among the names.
  std::vector<absl::string_view> cells_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_NAMED_TABLE_H_
