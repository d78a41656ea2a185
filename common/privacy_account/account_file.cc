#include "common/privacy_account/account_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <openssl/crypto.h>
#include <set>
#include <system_error>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "common/privacy_account/debit_blocks.h"
#include "common/status/status_macros.h"
#include "common/storage/file_system.h"
#include "common/storage/sqlite_database.h"

namespace splitveil {
namespace {

// Of a start's name, behind the run's id: its time, and 16 digits.
constexpr size_t kTimeSize = 24, kStartSize = kTimeSize + 17;

constexpr SqliteApplication kOfLabels = {"a privacy account", /*id=*/0x53565041, /*version=*/5};  // "SVPA".
// A kind of file of its own: mu of labels and mu of features never add up.
constexpr SqliteApplication kOfActivations = {"a privacy account of activations", /*id=*/0x53564141, 3};  // "SVAA".

const SqliteApplication& ApplicationOf(LabelKind kind) {
  return kind == LabelKind::kActivations ? kOfActivations : kOfLabels;
}

// Beside kDebitTable. The runs tell an older copy of the file: it does not know of those that came after it.
constexpr char kTables[] = R"sql(
CREATE TABLE account(id TEXT NOT NULL CHECK (id <> ''), noise_key BLOB NOT NULL CHECK (length(noise_key) = 32)) STRICT;
CREATE TABLE label_set(
  number INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  kind INTEGER NOT NULL CHECK (kind IN (0, 1, 2, 3)),
  most_exposed REAL NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE release(
  number INTEGER PRIMARY KEY,
  label_set INTEGER NOT NULL REFERENCES label_set(number),
  sigma_units INTEGER NOT NULL CHECK (sigma_units > 0),
  UNIQUE (label_set, sigma_units)
) STRICT;
CREATE TABLE run(id TEXT PRIMARY KEY CHECK (id <> '')) STRICT, WITHOUT ROWID;
)sql";

// Of a connection that writes. EXTRA: a commit is one also where the power fails right after it.
constexpr char kDurable[] = "PRAGMA synchronous = EXTRA; PRAGMA foreign_keys = ON";

// That the file is this user's alone. `create`: O_CREAT, to make one that is missing: SQLite would make it readable for
// whom the umask lets, and journals like the file. Or 0.
absl::Status CheckFile(const std::string& path, int create) {
  // O_NOFOLLOW, one link, own and private: nobody else can read the key or swap the file.
  const int file = open(path.c_str(), create | O_RDWR | O_CLOEXEC | O_NOFOLLOW, kOwnerOnly);
  if (file < 0) {
    const std::string why = errno == ELOOP ? "expected a file, found a symbolic link" : std::strerror(errno);
    return errno == ENOENT ? absl::NotFoundError("its folder does not exist") : absl::InvalidArgumentError(why);
  }
  // Checked on the open file and not on the path, which could be exchanged between the check and the use.
  struct stat facts = {};
  const bool own = fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_uid == geteuid() &&
                   facts.st_nlink == 1 && (facts.st_mode & (S_IRWXG | S_IRWXO)) == 0;
  close(file);
  return own ? absl::OkStatus()
             : absl::InvalidArgumentError(
                   "expected a file of this user, with one name, that nobody else may read or write (chmod 600)");
}

// Whether it is an account already, not an empty file that is to become one.
absl::StatusOr<bool> IsAccount(SqliteDatabase& database, LabelKind kind) {
  SPLITVEIL_ASSIGN_OR_RETURN(const SqliteFinding found, FindApplication(database, ApplicationOf(kind)));
  // A newer program's file may count what this one does not know of: reading it as if complete would forget releases.
  if (found.content == SqliteContent::kOtherVersion) {
    return absl::InvalidArgumentError(absl::StrCat(
        "version of the privacy account: expected ", ApplicationOf(kind).version, ", found ", found.version,
        ": a different version of the programs made it. Count with that version; or set a different path, and the new "
        "account knows of nothing that was released before"));
  }
  return found.content == SqliteContent::kApplication;
}

std::string NewId() {
  std::array<uint8_t, 16> bytes;
  FillSecureRandom(absl::MakeSpan(bytes));
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// Within a transaction.
absl::Status CreateAccount(SqliteDatabase& database, LabelKind kind) {
  SPLITVEIL_RETURN_IF_ERROR(database.Execute(kTables));
  SPLITVEIL_RETURN_IF_ERROR(database.Execute(kDebitTable));
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement insert, database.Prepare("INSERT INTO account VALUES (?1, ?2)"));
  // The key lives with the counts: noise drawn under another key would be independent, and the two could be averaged.
  const SecretKey key = SecretKey::Generate();
  SPLITVEIL_RETURN_IF_ERROR(insert.Run(NewId(), absl::MakeConstSpan(key.bytes())));
  return SignApplication(database, ApplicationOf(kind));
}

// Within a transaction: another process may have been first.
absl::Status CreateIfMissing(SqliteDatabase& database, LabelKind kind, bool& is_new) {
  SPLITVEIL_ASSIGN_OR_RETURN(const bool is_account, IsAccount(database, kind));
  is_new = !is_account;
  return is_new ? CreateAccount(database, kind) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<Releases> ReadReleases(SqliteDatabase& database, absl::string_view label_set) {
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement select,
                             database.Prepare("SELECT release.number, label_set.name = ?1, sigma_units, kind "
                                              "FROM release JOIN label_set ON label_set.number = release.label_set"));
  SPLITVEIL_RETURN_IF_ERROR(select.Bind(label_set));
  Releases releases;
  while (true) {
    SPLITVEIL_ASSIGN_OR_RETURN(const bool row, select.Next());
    if (!row) {
      return releases;
    }
    releases[select.Int64(0)] = {select.Int64(1) != 0, static_cast<uint32_t>(select.Int64(2)),
                                 static_cast<LabelKind>(select.Int64(3))};
  }
}

// A debit without a strength cannot be added up; skipping it would understate what was released.
absl::StatusOr<Release> FindRelease(const Releases& releases, int64_t number) {
  const auto found = releases.find(number);
  return found != releases.end() ? absl::StatusOr<Release>(found->second)
                                 : absl::DataLossError(absl::StrCat(
                                       "release number ", number,
                                       " has no strength: the file is damaged; restore its latest backup, and count "
                                       "again what was released since"));
}

absl::Status AddRelease(SqliteDatabase& database, absl::string_view label_set, LabelKind kind, uint32_t sigma_units) {
  // OR IGNORE: a concurrent run may have added it; the UNIQUE constraints keep one row.
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement add_set,
                             database.Prepare("INSERT OR IGNORE INTO label_set(name, kind) VALUES (?1, ?2)"));
  SPLITVEIL_RETURN_IF_ERROR(add_set.Run(label_set, static_cast<int64_t>(kind)));
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement add,
                             database.Prepare("INSERT OR IGNORE INTO release(label_set, sigma_units) "
                                              "SELECT number, ?2 FROM label_set WHERE name = ?1"));
  return add.Run(label_set, int64_t{sigma_units});
}

absl::Status OtherLabels(absl::string_view label_set) {
  return absl::InvalidArgumentError(
      absl::StrCat("label_set: \"", label_set,
                   "\" was first used with different labels: set a different label_set for these, which draws new "
                   "noise and adds up; or, if these labels have nothing to do with the others, a different path, or "
                   "ids that no other example has"));
}

absl::Status CheckKind(SqliteDatabase& database, absl::string_view label_set, LabelKind kind) {
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement select, database.Prepare("SELECT kind FROM label_set WHERE name = ?1"));
  SPLITVEIL_RETURN_IF_ERROR(select.Bind(label_set));
  SPLITVEIL_ASSIGN_OR_RETURN(const bool known, select.Next());
  // A label set of a different kind has other sensitivities, so its counts mean something else.
  return !known || select.Int64(0) == static_cast<int64_t>(kind) ? absl::OkStatus() : OtherLabels(label_set);
}

absl::StatusOr<AccountFile> OpenOrMakeAccount(const std::string& path, LabelKind kind) {
  // Before SQLite opens it: the file must never exist with wider permissions, not even for a moment.
  SPLITVEIL_RETURN_IF_ERROR(CheckFile(path, O_CREAT));
  AccountFile file;
  SPLITVEIL_ASSIGN_OR_RETURN(file.database, SqliteDatabase::Open(path, SqliteDatabase::Mode::kCreate));
  SqliteDatabase& database = *file.database;
  SPLITVEIL_RETURN_IF_ERROR(database.Execute("PRAGMA journal_mode = DELETE"));  // A log would be lost in a copy.
  SPLITVEIL_RETURN_IF_ERROR(database.Execute(kDurable));
  SPLITVEIL_ASSIGN_OR_RETURN(const bool is_account, IsAccount(database, kind));
  if (!is_account) {
    SPLITVEIL_RETURN_IF_ERROR(InTransaction(database, [&] { return CreateIfMissing(database, kind, file.is_new); }));
  }
  return file;
}

absl::StatusOr<std::unique_ptr<SqliteDatabase>> OpenAccountToCount(const std::string& path) {
  SPLITVEIL_RETURN_IF_ERROR(CheckFile(path, 0));
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> database,
                             SqliteDatabase::Open(path, SqliteDatabase::Mode::kCreate));
  SPLITVEIL_RETURN_IF_ERROR(database->Execute(kDurable));
  return database;
}

absl::StatusOr<std::unique_ptr<SqliteDatabase>> OpenAccountToRead(const std::string& path, LabelKind kind) {
  // A missing file is an account to come; a missing folder is a mistake in the path, and CheckFile says so.
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored)) &&
      (folder.empty() || std::filesystem::is_directory(folder, ignored))) {
    return nullptr;
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckFile(path, 0));
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> database,
                             SqliteDatabase::Open(path, SqliteDatabase::Mode::kReadOnly));
  SPLITVEIL_ASSIGN_OR_RETURN(const bool is_account, IsAccount(*database, kind));
  return is_account ? std::move(database) : nullptr;
}

absl::StatusOr<std::set<std::string>> ReadRuns(SqliteDatabase& database) {
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement select, database.Prepare("SELECT id FROM run"));
  std::set<std::string> runs;
  while (true) {
    SPLITVEIL_ASSIGN_OR_RETURN(const bool row, select.Next());
    if (!row) {
      return runs;
    }
    runs.insert(select.Text(0));
  }
}

absl::StatusOr<SecretKey> ReadNoiseKey(SqliteDatabase& database) {
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement select, database.Prepare("SELECT noise_key FROM account"));
  SPLITVEIL_ASSIGN_OR_RETURN(const bool found, select.Next());
  std::vector<uint8_t> blob = found ? select.Blob(0) : std::vector<uint8_t>();
  std::array<uint8_t, 32> bytes = {};
  if (blob.size() != bytes.size()) {
    return absl::InvalidArgumentError("the key of the noise is missing");
  }
  std::copy(blob.begin(), blob.end(), bytes.begin());
  SecretKey key(bytes);
  // The key stays in memory in one place only.
  OPENSSL_cleanse(blob.data(), blob.size());
  OPENSSL_cleanse(bytes.data(), bytes.size());
  return key;
}

absl::string_view TimeOfStart(absl::string_view name) {
  return name.size() > kStartSize && name[name.size() - kStartSize - 1] == ' '
             ? name.substr(name.size() - kStartSize, kTimeSize)
             : absl::string_view();
}

bool IsStartOf(absl::string_view run_id, absl::string_view name) {
  return name.size() == run_id.size() + 1 + kStartSize && absl::StartsWith(name, run_id);
}

absl::StatusOr<std::string> InsertStart(SqliteDatabase& database, absl::string_view run_id) {
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement find,
                             database.Prepare("SELECT coalesce(max(substr(id, -41, 24)), '') FROM run "
                                              "WHERE id LIKE '% ____-__-__T__:__:__.___Z ________________'"));
  SPLITVEIL_RETURN_IF_ERROR(find.Next().status());
  absl::Time time = absl::Now(), latest;
  std::string ignored;
  if (absl::ParseTime(absl::RFC3339_full, find.Text(0), &latest, &ignored)) {
    time = std::max(time, latest + absl::Milliseconds(1));
  }
  std::array<uint8_t, 8> random;
  FillSecureRandom(absl::MakeSpan(random));
  const std::string name =
      absl::StrCat(run_id, " ", absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", time, absl::UTCTimeZone()), " ",
                   absl::BytesToHexString({reinterpret_cast<const char*>(random.data()), random.size()}));
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement insert, database.Prepare("INSERT INTO run VALUES (?1)"));
  SPLITVEIL_RETURN_IF_ERROR(insert.Run(name));
  return name;
}

}  // namespace splitveil
