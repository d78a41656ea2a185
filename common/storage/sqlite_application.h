// How a SQLite file says whose it is: PRAGMA application_id and user_version, https://www.sqlite.org/fileformat.html.
#ifndef SPLITVEIL_COMMON_STORAGE_SQLITE_APPLICATION_H_
#define SPLITVEIL_COMMON_STORAGE_SQLITE_APPLICATION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/storage/sqlite_database.h"

namespace splitveil {

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

#endif  // SPLITVEIL_COMMON_STORAGE_SQLITE_APPLICATION_H_
