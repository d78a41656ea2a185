#include "common/ledger/ledger_path.h"

#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"

#include "common/ledger/schema.h"
#include "common/status/status_macros.h"
#include "common/storage/file_system.h"
#include "common/storage/sqlite_database.h"

namespace splitveil {

absl::Status CheckLedgerPath(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return CheckFolderOf(path);
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<SqliteDatabase> database,
                             SqliteDatabase::Open(path, SqliteDatabase::Mode::kReadOnly));
  if (const absl::Status status = CheckMayBecomeLedger(*database); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
  }
  return CheckFolderOf(path);  // SQLite keeps its journal beside it.
}

}  // namespace splitveil
