// What the cells of a row mean, by the kind of their column: ids, labels, numbers, categories, attributes, times.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_CELL_READER_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_CELL_READER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "deploy/operator/preparation/cell_form.h"
#include "deploy/operator/preparation/id_form.h"
#include "deploy/operator/preparation/table_row.h"

#include "splitveil/v1/table_schema.pb.h"

namespace splitveil {

// A column of the file under way.
struct ColumnRole {
  const v1::TableSchema::Column* column;  // Of the schema.
  size_t place;                           // In the schema.
  size_t index = 0;                       // Among the features of its kind, or the attributes.
  size_t feature = 0;                     // Among the categorical features, of an attribute that is one, too.
  NumberFormat format = {};
  std::vector<double> missing_numbers = {};  // MissingNumbersOf(*column).
};

// What stands for missing in a column of numbers and is a number.
std::vector<double> MissingNumbersOf(const v1::TableSchema::Column& column);

// Borrows the schema, which CheckTableSchema has found valid. Messages never hold what stands in a cell. Not
// thread-safe.
class CellReader {
 public:
  // Why a cell makes its row unusable. kNone: it does not.
  struct Fault {
    RowFault fault = RowFault::kNone;
    std::string message;  // With the column's name, what was expected and what was found.
  };

  explicit CellReader(const v1::TableSchema& schema);

  // Takes `cell` into `row`, which borrows from it, or from this until the next call with an id.
  Fault Read(const ColumnRole& role, absl::string_view cell, TableRow& row);

 private:
  Fault ReadId(const ColumnRole& role, absl::string_view cell, TableRow& row);
  // Of a column that says what is to be predicted.
  Fault ReadLabel(const ColumnRole& role, absl::string_view cell, TableRow& row) const;
  // Of a column that says how rows are split.
  Fault ReadGroupOrTime(const v1::TableSchema::Column& column, absl::string_view cell, TableRow& row) const;
  absl::string_view CategoryOf(const v1::TableSchema::Column& column, absl::string_view cell) const;
  Fault ReadAttribute(const ColumnRole& role, absl::string_view cell, TableRow& row) const;
  bool IsMissing(const v1::TableSchema::Column& column, absl::string_view cell) const;

  const v1::TableSchema& schema_;
  std::vector<std::string> positive_, negative_;
  absl::flat_hash_map<std::string, uint8_t> classes_;  // Labels by their texts.
  IdNormalForm id_form_;
  std::optional<absl::TimeZone> time_zone_;  // Of times of day without an offset.
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_CELL_READER_H_
