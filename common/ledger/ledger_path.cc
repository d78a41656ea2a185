#include "common/ledger/ledger_path.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"

#include "common/ledger/schema.h"
#include "common/status/status_macros.h"
#include "common/storage/sqlite_database.h"

namespace splitveil {
namespace {

absl::Status CheckPlaceForLedger(const std::string& path) {
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  folder = folder.empty() ? "." : folder;
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    return absl::NotFoundError(
        absl::StrCat(path, ": expected a folder to make the ledger in, found none of that name"));
  }
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a folder that can be written to, found: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckLedgerPath(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return CheckPlaceForLedger(path);
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<SqliteDatabase> database,
                             SqliteDatabase::Open(path, SqliteDatabase::Mode::kReadOnly));
  if (const absl::Status status = CheckMayBecomeLedger(*database); !status.ok()) {
    return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
  }
  if (access(path.c_str(), W_OK) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": expected a ledger that can be written, found: ", std::strerror(errno)));
  }
  return CheckPlaceForLedger(path);  // SQLite keeps its journal beside it.
}

}  // namespace splitveil
