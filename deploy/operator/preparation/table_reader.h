// Rows of a user's table: several files in a row, read by one schema.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_TABLE_READER_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_TABLE_READER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "deploy/operator/preparation/cell_reader.h"
#include "deploy/operator/preparation/column_profile.h"
#include "deploy/operator/preparation/line_reader.h"
#include "deploy/operator/preparation/profile_queue.h"
#include "deploy/operator/preparation/table_row.h"

#include "splitveil/v1/table_schema.pb.h"

namespace splitveil {

// Constant memory. Lines whose cells are all empty hold no row. Messages name file, line and column, never what stands
// there. Not thread-safe.
class TableReader {
 public:
  // Features that the header line may lack: no row has a value of them. Nullopt: none, and errors do not propose it.
  using MayLack = std::optional<std::vector<std::string>>;
  // `paths`: as TableFiles takes them. `schema`: valid by its options. Errors: those of TableFiles; NotFound;
  // InvalidArgument for a schema that contradicts itself or the header line of a file, or a file that cannot be read.
  static absl::StatusOr<std::unique_ptr<TableReader>> Open(std::vector<std::string> paths, v1::TableSchema schema,
                                                           MayLack may_lack = std::nullopt);

  const TableColumns& columns() const { return columns_; }
  // From now on every row with the right number of cells goes into `profile`, whose columns are the schema's. Not
  // owned; must outlive this, and has all rows at the end of the last file.
  void set_profile(TableProfile* profile);

  // The next row, usable or not; false at the end of the last file. The row borrows until the next call. A row that
  // cannot be used is a fault of the row and no error; a truncated file is one row of fault kFile, and the next
  // file follows. Errors: as Open, for a later file.
  absl::StatusOr<bool> Next(TableRow& row);

  // The same table once more, from its start. Errors: as Open.
  absl::StatusOr<std::unique_ptr<TableReader>> Again() const { return Open(paths_, schema_, may_lack_); }
  // Line of the latest row in its file, from 1.
  int64_t line_number() const { return lines_->line_number(); }
  // Where the latest row stands: "FILE:LINE".
  std::string place() const;
  // Files that the inputs stand for.
  size_t files() const { return paths_.size(); }
  // Rows so far in all files, those that cannot be used among them.
  int64_t rows_read() const { return rows_read_; }
  // Marks the latest row as one that cannot be used.
  void SetFault(RowFault fault, int64_t column, absl::string_view message, TableRow& row) const;
  // Column of the id, of the image's name, in the file under way, from 1; 1 if there is none.
  int64_t column_of(v1::TableSchema::Kind kind) const;

 private:
  TableReader(std::vector<std::string> paths, v1::TableSchema schema, MayLack may_lack);
  // Opens the next file and finds what its columns are.
  absl::Status OpenFile();
  absl::Status ReadHeader();
  absl::Status AssignRoles();
  // Of a column that the header line lacks. Error: InvalidArgument if it must be there.
  absl::Status AddAbsent(const v1::TableSchema::Column& column, TableColumns& columns) const;
  // Clears what the row before left in `row`.
  void ReadRow(absl::string_view line, TableRow& row);

  std::vector<std::string> paths_;
  v1::TableSchema schema_;
  MayLack may_lack_;
  CellSplitter splitter_;
  CellReader cell_reader_;  // Borrows schema_.
  TableColumns columns_;
  size_t next_path_ = 0;
  std::unique_ptr<LineReader> lines_;  // Null once the file under way has ended.
  std::vector<ColumnRole> roles_;      // In the order of the file.
  std::vector<absl::string_view> cells_;
  int64_t rows_read_ = 0;
  TableProfile* profile_ = nullptr;
  std::unique_ptr<ProfileQueue> queue_;  // Into profile_, of the file under way; null: none.
};

// Profiles without a row of the schema's columns, as it says their cells are to be read.
TableProfile EmptyProfile(const v1::TableSchema& schema);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_TABLE_READER_H_
