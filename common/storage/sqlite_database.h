// SQLite with owners, typed binding and absl::Status: the part of its C interface that ledgers and accounts need.
#ifndef SPLITVEIL_COMMON_STORAGE_SQLITE_DATABASE_H_
#define SPLITVEIL_COMMON_STORAGE_SQLITE_DATABASE_H_

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace splitveil {

// A prepared statement. Values are always bound, never pasted into SQL. Not thread-safe. The database must outlive it.
// Errors here and in SqliteDatabase: InvalidArgument where the file is no database or cannot be opened or written, or a
// row breaks a constraint; AlreadyExists for a key that is taken; DataLoss for a damaged file; Internal for the rest:
// disk full, input or output failed, no memory, locked by another process for a minute. Messages are SQLite's.
class SqliteStatement {
 public:
  SqliteStatement() = default;

  // Binds ?1, ?2, ... and runs a statement without result to its end.
  template <typename... Values>
  absl::Status Run(const Values&... values) {
    absl::Status bound = Bind(values...);
    return bound.ok() ? RunBound() : bound;
  }

  // Binds ?1, ?2, ... for Next. A double that is not finite is bound as NULL.
  template <typename... Values>
  absl::Status Bind(const Values&... values) {
    Reset();
    int index = 0;
    bool bound = true;
    ((bound = bound && BindOne(++index, values)), ...);
    return bound ? absl::OkStatus() : Error();
  }

  // Run with the columns of `row`'s current row as they are. Errors: InvalidArgument where `row` has others.
  absl::Status RunWith(const SqliteStatement& row);

  // Steps to the next row of the result; false after the last.
  absl::StatusOr<bool> Next();

  // How many columns its result has.
  int columns() const;
  // Columns of the current row, from 0. NULL is 0, NaN, the empty string.
  int64_t Int64(int column) const;
  double Double(int column) const;
  std::string Text(int column) const;
  // A copy.
  std::vector<uint8_t> Blob(int column) const;

 private:
  friend class SqliteDatabase;
  struct Finalizer {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };

  explicit SqliteStatement(sqlite3_stmt* statement) : statement_(statement) {}
  bool BindOne(int index, int64_t value);
  bool BindOne(int index, double value);
  bool BindOne(int index, absl::string_view value);
  bool BindOne(int index, absl::Span<const uint8_t> value);
  absl::Status RunBound();
  void Reset();
  absl::Status Error() const;

  std::unique_ptr<sqlite3_stmt, Finalizer> statement_;
};

// A connection. Not thread-safe.
class SqliteDatabase {
 public:
  // kReadOnly leaves nothing beside a file that nobody writes. A file that kCreate makes is its owner's alone.
  enum class Mode { kReadOnly, kCreate };

  // Errors: NotFound where the file (unless kCreate) or its folder (kCreate) does not exist; InvalidArgument for a
  // folder, or where it cannot be opened; Internal without memory. Whether the file is a database at all shows only at
  // the first query.
  static absl::StatusOr<std::unique_ptr<SqliteDatabase>> Open(const std::string& path, Mode mode);

  // Runs statements without parameters.
  absl::Status Execute(const char* sql);
  absl::StatusOr<SqliteStatement> Prepare(const char* sql);
  // The first column of the first row.
  absl::StatusOr<int64_t> QueryInt64(const char* sql);
  absl::StatusOr<std::string> QueryText(const char* sql);
  // Whether a transaction is open; SQLite closes it by itself after some errors (full disk).
  bool in_transaction() const { return sqlite3_get_autocommit(connection_.get()) == 0; }

 private:
  struct Closer {
    void operator()(sqlite3* connection) const { sqlite3_close_v2(connection); }
  };

  std::unique_ptr<sqlite3, Closer> connection_;
};

// How a SQLite file says whose it is: PRAGMA application_id and user_version, https://www.sqlite.org/fileformat.html.

// A kind of file.
struct SqliteApplication {
  const char* name;  // With its article: "a privacy account".
  int32_t id;        // Sets it apart from any other database with the same version. Not 0.
  int32_t version;   // Of the files that this build reads and writes. From 1.
};

enum class SqliteContent {
  kNothing,      // An empty database or file: one to be made.
  kApplication,  // Of this version.
  kOtherVersion,
};

struct SqliteFinding {
  SqliteContent content = SqliteContent::kNothing;
  int64_t version = 0;  // As the file says it.
};

// What `database` holds. Changes nothing, not an empty file either. Errors: InvalidArgument for another application's
// database; else as SqliteDatabase.
absl::StatusOr<SqliteFinding> FindApplication(SqliteDatabase& database, const SqliteApplication& application);

// Makes `database`, with nothing of another's in it, one of `application`. Within the transaction that makes its
// tables.
absl::Status SignApplication(SqliteDatabase& database, const SqliteApplication& application);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_STORAGE_SQLITE_DATABASE_H_
