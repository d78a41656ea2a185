// The ledger's tables and how a file proves that it holds them.
#ifndef SPLITVEIL_COMMON_LEDGER_SCHEMA_H_
#define SPLITVEIL_COMMON_LEDGER_SCHEMA_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/ledger/ledger_rows.h"
#include "common/status/status_macros.h"
#include "common/storage/sqlite_database.h"

namespace splitveil {

// PRAGMA user_version of the files this build reads and writes. Raise it with every change of a table.
inline constexpr int kLedgerVersion = 9;

// Turns an empty database into a ledger; leaves a ledger of this version alone. Safe against a second process doing
// the same. Errors: InvalidArgument if the file is another database, another version, or no database, or its file
// system cannot do WAL: it is not changed then; else as SqliteDatabase.
absl::Status CreateSchema(SqliteDatabase& database);

// The tables alone, and no mark, in an empty database: of rows on their way into a ledger.
absl::Status CreateTables(SqliteDatabase& database);

// Whether CreateSchema would find a ledger, or nothing: a process that was killed while it made one leaves a database
// without tables. Changes nothing. Errors: InvalidArgument for another database or another version; else as
// SqliteDatabase.
absl::Status CheckMayBecomeLedger(SqliteDatabase& database);

// Errors: InvalidArgument if the file is no ledger of this version; else as SqliteDatabase.
absl::Status CheckSchema(SqliteDatabase& database);

// OK if `path` is a ledger of this version that may be written, or if a new one can be made. Makes none. Errors:
// NotFound for a folder that does not exist; InvalidArgument for another file, a ledger of another version, or one
// that may not be written, as one line that begins with the path; else as SqliteDatabase.
absl::Status CheckLedgerPath(const std::string& path);

// The statements that remove the rows of single steps of the run ?1 before step ?2, to be run in this order in one
// transaction. What audits judge of them goes into the summaries first: a run must not pass because its bad steps are
// gone. Figures of epochs stay.
std::vector<std::string> RemovalOfSteps();

// Turns "no such table" or "no such column" into DataLoss: a ledger of this version has every one that is read.
absl::Status AsDamage(const absl::Status& status);

// How a field is stored: texts and numbers as they are.
inline int64_t Stored(bool value) { return value ? 1 : 0; }
inline int64_t Stored(int64_t value) { return value; }
inline double Stored(double value) { return value; }
inline const std::string& Stored(const std::string& value) { return value; }
inline std::string Stored(v1::GateAction value) { return GateActionName(value); }

// Takes the columns of a statement's current row one after the other.
class ColumnReader {
 public:
  explicit ColumnReader(const SqliteStatement& statement) : statement_(statement) {}

  template <typename... Fields>
  void operator()(Fields&... fields) {
    (Take(fields), ...);
  }

 private:
  void Take(bool& field) { field = statement_.Int64(++column_) != 0; }
  void Take(int64_t& field) { field = statement_.Int64(++column_); }
  void Take(double& field) { field = statement_.Double(++column_); }
  void Take(std::string& field) { field = statement_.Text(++column_); }
  void Take(v1::GateAction& field) { field = GateActionOf(statement_.Text(++column_)); }

  const SqliteStatement& statement_;
  int column_ = 0;  // Of the latest field; 0 is run_id.
};

// Columns of the table of `Row`, run_id included.
template <typename Row>
int CountColumns() {
  int columns = 1;
  const auto count = [&](const auto&... fields) { columns += sizeof...(fields); };
  Row().serialize(count);
  return columns;
}

// The statement for WriteRow.
template <typename Row>
std::string InsertionOf() {
  return absl::StrCat("INSERT INTO ", Row::kTable, " VALUES (?",
                      absl::StrJoin(std::vector<std::string>(CountColumns<Row>() - 1, ", ?"), ""), ")");
}

// Inserts `row`; `insertion`: of InsertionOf<Row>. Errors: AlreadyExists for a key that is there; else as
// SqliteDatabase.
template <typename Row>
absl::Status WriteRow(const std::string& run_id, const Row& row, SqliteStatement& insertion) {
  absl::Status status;
  const auto write = [&](const auto&... fields) { status = insertion.Run(run_id, Stored(fields)...); };
  const_cast<Row&>(row).serialize(write);  // Only read: archives that load need it to be mutable.
  return status;
}

// Calls `take` with each row that `sql` selects with `values` bound: the columns of the table of `Row`, run_id
// included. Errors: DataLoss for a table that lacks what a ledger of this version has; else as SqliteDatabase.
template <typename Row, typename Take, typename... Values>
absl::Status EachRow(SqliteDatabase& database, const std::string& sql, const Take& take, const Values&... values) {
  absl::StatusOr<SqliteStatement> statement = database.Prepare(sql.c_str());
  if (!statement.ok()) {
    return AsDamage(statement.status());
  }
  if (statement->columns() != CountColumns<Row>()) {
    return absl::DataLossError(absl::StrCat("table ", Row::kTable, " has ", statement->columns(), " columns"));
  }
  SPLITVEIL_RETURN_IF_ERROR(statement->Bind(values...));
  while (true) {
    SPLITVEIL_ASSIGN_OR_RETURN(const bool more, statement->Next());
    if (!more) {
      return absl::OkStatus();
    }
    Row row;
    ColumnReader reader(*statement);
    row.serialize(reader);
    take(std::move(row));
  }
}

// All of them.
template <typename Row, typename... Values>
absl::StatusOr<std::vector<Row>> SelectRows(SqliteDatabase& database, const std::string& sql, const Values&... values) {
  std::vector<Row> rows;
  SPLITVEIL_RETURN_IF_ERROR(EachRow<Row>(
      database, sql, [&rows](Row row) { rows.push_back(std::move(row)); }, values...));
  return rows;
}

// The run's rows in the `order` of an ORDER BY clause. Errors: see EachRow.
template <typename Row>
absl::StatusOr<std::vector<Row>> ReadRows(SqliteDatabase& database, const std::string& run_id, const char* order) {
  return SelectRows<Row>(database, absl::StrCat("SELECT * FROM ", Row::kTable, " WHERE run_id = ?1 ORDER BY ", order),
                         run_id);
}

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEDGER_SCHEMA_H_
