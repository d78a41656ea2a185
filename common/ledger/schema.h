// The ledger's tables and how a file proves that it holds them.
#ifndef SPLITVEIL_COMMON_LEDGER_SCHEMA_H_
#define SPLITVEIL_COMMON_LEDGER_SCHEMA_H_

#include <string>

#include "absl/status/status.h"

#include "common/storage/sqlite_database.h"

namespace splitveil {

// PRAGMA user_version of the files this build reads and writes. Raise it with every change of a table.
inline constexpr int kLedgerVersion = 7;

// Turns an empty database into a ledger; leaves a ledger of this version alone. Safe against a second process doing
// the same. Errors: InvalidArgument where the file is another database, another version, or no database, or its file
// system cannot do WAL: it is not changed then; else as SqliteDatabase.
absl::Status CreateSchema(SqliteDatabase& database);

// Whether CreateSchema would find a ledger, or nothing: a process that was killed while it made one leaves a database
// without tables. Changes nothing. Errors: InvalidArgument for another database or another version; else as
// SqliteDatabase.
absl::Status CheckMayBecomeLedger(SqliteDatabase& database);

// Errors: InvalidArgument where the file is no ledger of this version; else as SqliteDatabase.
absl::Status CheckSchema(SqliteDatabase& database);

// OK where `path` is a ledger of this version that may be written, or where a new one can be made. Makes none. Errors:
// NotFound for a folder that does not exist; InvalidArgument for another file, a ledger of another version, or one
// that may not be written, as one line that begins with the path; else as SqliteDatabase.
absl::Status CheckLedgerPath(const std::string& path);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEDGER_SCHEMA_H_
