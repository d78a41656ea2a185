#include "common/storage/sqlite_application.h"

#include "absl/strings/str_cat.h"

#include "common/status/status_macros.h"

namespace splitveil {

absl::StatusOr<SqliteFinding> FindApplication(SqliteDatabase& database, const SqliteApplication& application) {
  SPLITVEIL_ASSIGN_OR_RETURN(const int64_t id, database.QueryInt64("PRAGMA application_id"));
  SPLITVEIL_ASSIGN_OR_RETURN(const int64_t version, database.QueryInt64("PRAGMA user_version"));
  SPLITVEIL_ASSIGN_OR_RETURN(const int64_t objects, database.QueryInt64("SELECT count(*) FROM sqlite_schema"));
  if (id == 0 && version == 0 && objects == 0) {
    return SqliteFinding();
  }
  if (id != application.id) {
    return absl::InvalidArgumentError(absl::StrCat("expected ", application.name, ", found another SQLite database"));
  }
  return SqliteFinding{version == application.version ? SqliteContent::kApplication : SqliteContent::kOtherVersion,
                       version};
}

absl::Status SignApplication(SqliteDatabase& database, const SqliteApplication& application) {
  return database.Execute(
      absl::StrCat("PRAGMA application_id = ", application.id, "; PRAGMA user_version = ", application.version)
          .c_str());
}

}  // namespace splitveil
