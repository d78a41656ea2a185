// The privacy account's file: its tables, who may read it, and the strengths in it by label set.
#ifndef SPLITVEIL_COMMON_PRIVACY_ACCOUNT_ACCOUNT_FILE_H_
#define SPLITVEIL_COMMON_PRIVACY_ACCOUNT_ACCOUNT_FILE_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/crypto/secure_random.h"
#include "common/privacy/label_privacy.h"
#include "common/status/status_macros.h"
#include "common/storage/sqlite_database.h"

namespace splitveil {

// A number of the table `release`: a strength.
struct Release {
  bool of_label_set = false;
  uint32_t sigma_units = 0;
  LabelKind kind = LabelKind::kBinary;
};
using Releases = std::unordered_map<int64_t, Release>;

// The releases there are. Errors of this and of the others: also as SqliteDatabase.
absl::StatusOr<Releases> ReadReleases(SqliteDatabase& database, absl::string_view label_set);

// Of a number that an example was released with. Error: DataLoss where there is none of it: it must not count as none.
absl::StatusOr<Release> FindRelease(const Releases& releases, int64_t number);

// Makes a release where there is none of this strength. Within a transaction.
absl::Status AddRelease(SqliteDatabase& database, absl::string_view label_set, LabelKind kind, uint32_t sigma_units);

// InvalidArgument, with what to do where `label_set` was first used with other labels.
absl::Status OtherLabels(absl::string_view label_set);

// Labels of one name are of one kind. Error: OtherLabels.
absl::Status CheckKind(SqliteDatabase& database, absl::string_view label_set, LabelKind kind);

// Names of starts in the table `run` (PrivacyAccount::Start): the time of one, empty where the name is none; whether
// one is of this run; and a new one, later than all that are there, whatever the clock says. The last within a
// transaction.
absl::string_view TimeOfStart(absl::string_view name);
bool IsStartOf(absl::string_view run_id, absl::string_view name);
absl::StatusOr<std::string> InsertStart(SqliteDatabase& database, absl::string_view run_id);

struct AccountFile {
  std::unique_ptr<SqliteDatabase> database;
  bool is_new = false;  // Made just now.
};

// The account of labels, or of activations, at `path`, which is made where there is none; the second to come finds that
// of the first. Errors: as PrivacyAccount::Open, without the path.
absl::StatusOr<AccountFile> OpenOrMakeAccount(const std::string& path, LabelKind kind);

// The account that is there, to be read only. Null where OpenOrMakeAccount would make it. Errors: the same.
absl::StatusOr<std::unique_ptr<SqliteDatabase>> OpenAccountToRead(const std::string& path, LabelKind kind);

// The account that is there, to count in it; nothing of it is read before a transaction begins, so that what that finds
// is what the file has then. Pages that an earlier connection has kept are checked by a counter alone, which another
// file in its place may have in common with it. Errors: NotFound where there is no file; else as PrivacyAccount::Open.
absl::StatusOr<std::unique_ptr<SqliteDatabase>> OpenAccountToCount(const std::string& path);

// The runs that the account has counted. Errors: as SqliteDatabase.
absl::StatusOr<std::set<std::string>> ReadRuns(SqliteDatabase& database);

// The key of the noise. Errors: InvalidArgument where it is missing; as SqliteDatabase.
absl::StatusOr<SecretKey> ReadNoiseKey(SqliteDatabase& database);

// How a transaction begins that only reads, and one that also writes.
inline constexpr char kToRead[] = "BEGIN", kToWrite[] = "BEGIN IMMEDIATE";

// Runs `change` as a transaction: all of it, or nothing.
template <typename Change>
absl::Status InTransaction(SqliteDatabase& database, const Change& change, const char* begin = kToWrite) {
  SPLITVEIL_RETURN_IF_ERROR(database.Execute(begin));
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

#endif  // SPLITVEIL_COMMON_PRIVACY_ACCOUNT_ACCOUNT_FILE_H_
