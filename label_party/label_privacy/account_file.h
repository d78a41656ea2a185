// The file of a privacy account: made, found and read.
#ifndef SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_ACCOUNT_FILE_H_
#define SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_ACCOUNT_FILE_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/crypto/secure_random.h"
#include "common/status/status_macros.h"
#include "common/storage/sqlite_database.h"

namespace splitveil {

struct AccountFile {
  std::unique_ptr<SqliteDatabase> database;
  bool is_new = false;  // Made just now.
};

// The account at `path`, which is made where there is none; whoever comes second finds that of the first. Errors: as
// PrivacyAccount::Open, without the path.
absl::StatusOr<AccountFile> OpenOrMakeAccount(const std::string& path);

// The account that is there, to be read only. Null where OpenOrMakeAccount would make it. Errors: the same.
absl::StatusOr<std::unique_ptr<SqliteDatabase>> OpenAccountToRead(const std::string& path);

// The account that is there, to count in it; nothing of it is read before a transaction begins, so that what that finds
// is what the file has then. Pages that an earlier connection has kept are checked by a counter alone, which another
// file in its place may have in common with it. Errors: NotFound where there is no file; else as PrivacyAccount::Open.
absl::StatusOr<std::unique_ptr<SqliteDatabase>> OpenAccountToCount(const std::string& path);

// The key of the noise. Errors: InvalidArgument where it is missing; as SqliteDatabase.
absl::StatusOr<SecretKey> ReadNoiseKey(SqliteDatabase& database);

// Runs `change` as a transaction: all of it, or nothing.
template <typename Change>
absl::Status InTransaction(SqliteDatabase& database, const Change& change) {
  SPLITVEIL_RETURN_IF_ERROR(database.Execute("BEGIN IMMEDIATE"));
  absl::Status status = change();
  if (status.ok()) {
    status = database.Execute("COMMIT");
  }
  if (!status.ok() && database.in_transaction()) {
    database.Execute("ROLLBACK").IgnoreError();  // What went wrong before says more.
  }
  return status;
}

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_ACCOUNT_FILE_H_
