#include "label_party/label_privacy/privacy_account.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <openssl/crypto.h>
#include <optional>
#include <set>
#include <system_error>
#include <unordered_map>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/crypto/sha256.h"
#include "common/process/exit_code.h"
#include "common/status/status_macros.h"
#include "common/storage/sqlite_application.h"

namespace splitveil {
namespace {

constexpr SqliteApplication kAccount = {"a privacy account", /*id=*/0x53565041, /*version=*/2};  // "SVPA".
constexpr mode_t kOwnerOnly = 0600;
constexpr size_t kMaxLabelSet = 1000;
constexpr absl::string_view kPurpose = "splitveil label set v1";

constexpr char kTables[] = R"sql(
CREATE TABLE account(id TEXT NOT NULL CHECK (id <> ''), noise_key BLOB NOT NULL CHECK (length(noise_key) = 32)) STRICT;
CREATE TABLE label_set(
  number INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  kind INTEGER NOT NULL CHECK (kind IN (0, 1, 2))
) STRICT;
CREATE TABLE release(
  number INTEGER PRIMARY KEY,
  label_set INTEGER NOT NULL REFERENCES label_set(number),
  sigma_units INTEGER NOT NULL CHECK (sigma_units > 0),
  UNIQUE (label_set, sigma_units)
) STRICT;
CREATE TABLE debit(
  example BLOB NOT NULL CHECK (length(example) = 12),
  release INTEGER NOT NULL REFERENCES release(number),
  label INTEGER NOT NULL,
  PRIMARY KEY (example, release)
) STRICT, WITHOUT ROWID;
)sql";

// A number of the table `release`.
struct Release {
  bool of_label_set = false;
  uint32_t sigma_units = 0;
  LabelKind kind = LabelKind::kBinary;
};
using Releases = std::unordered_map<int64_t, Release>;

// As the table `label_set` has it: 0 binary, 1 one-hot, 2 of the unit interval.
int64_t NumberOfKind(LabelKind kind) { return kind == LabelKind::kBinary ? 0 : kind == LabelKind::kOneHot ? 1 : 2; }
LabelKind KindOfNumber(int64_t number) {
  return number == 0 ? LabelKind::kBinary : number == 1 ? LabelKind::kOneHot : LabelKind::kUnitInterval;
}

absl::Status CheckOptions(const PrivacyAccountOptions& options) {
  if (options.label_set.empty() || options.label_set.size() > kMaxLabelSet) {
    return absl::InvalidArgumentError(absl::StrCat("label_set: expected a name of 1 to ", kMaxLabelSet,
                                                   " bytes, found ", options.label_set.size(), " bytes"));
  }
  if (!(options.max_lifetime_auc_bound >= 0.5 && options.max_lifetime_auc_bound <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("max_lifetime_auc_bound: expected a number from 0.5 to 1, found ",
                                                   options.max_lifetime_auc_bound));
  }
  return absl::OkStatus();
}

// That the file is this user's alone. `create`: O_CREAT, to make one that is missing: SQLite would make it readable for
// whom the umask lets, and journals like the file. Or 0.
absl::Status CheckFile(const std::string& path, int create) {
  const int file = open(path.c_str(), create | O_RDWR | O_CLOEXEC | O_NOFOLLOW, kOwnerOnly);
  if (file < 0) {
    const std::string why = errno == ELOOP ? "expected a file, found a symbolic link" : std::strerror(errno);
    return errno == ENOENT ? absl::NotFoundError("its folder does not exist") : absl::InvalidArgumentError(why);
  }
  struct stat facts = {};
  const bool own = fstat(file, &facts) == 0 && S_ISREG(facts.st_mode) && facts.st_uid == geteuid() &&
                   facts.st_nlink == 1 && (facts.st_mode & (S_IRWXG | S_IRWXO)) == 0;
  close(file);
  return own ? absl::OkStatus()
             : absl::InvalidArgumentError(
                   "expected a file of this user, with one name, that nobody else may read or write (chmod 600)");
}

// Whether it is an account already.
absl::StatusOr<bool> IsAccount(SqliteDatabase& database) {
  SPLITVEIL_ASSIGN_OR_RETURN(const SqliteFinding found, FindApplication(database, kAccount));
  if (found.content == SqliteContent::kOtherVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat("version of the privacy account: expected ", kAccount.version, ", found ", found.version));
  }
  return found.content == SqliteContent::kApplication;
}

std::string NewId() {
  std::array<uint8_t, 16> bytes;
  FillSecureRandom(absl::MakeSpan(bytes));
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

// Within a transaction.
absl::Status CreateAccount(SqliteDatabase& database) {
  SPLITVEIL_RETURN_IF_ERROR(database.Execute(kTables));
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement insert, database.Prepare("INSERT INTO account VALUES (?1, ?2)"));
  const SecretKey key = SecretKey::Generate();
  SPLITVEIL_RETURN_IF_ERROR(insert.Run(NewId(), absl::MakeConstSpan(key.bytes())));
  return SignApplication(database, kAccount);
}

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

// The file of an account.
struct AccountFile {
  std::unique_ptr<SqliteDatabase> database;
  bool is_new = false;  // Made just now.
};

absl::StatusOr<AccountFile> OpenOrMake(const std::string& path) {
  SPLITVEIL_RETURN_IF_ERROR(CheckFile(path, O_CREAT));
  AccountFile file;
  SPLITVEIL_ASSIGN_OR_RETURN(file.database, SqliteDatabase::Open(path, SqliteDatabase::Mode::kCreate));
  SqliteDatabase& database = *file.database;
  // EXTRA: a commit is one also where the power fails right after it. A write-ahead log would be lost in a copy.
  SPLITVEIL_RETURN_IF_ERROR(
      database.Execute("PRAGMA journal_mode = DELETE; PRAGMA synchronous = EXTRA; PRAGMA foreign_keys = ON"));
  SPLITVEIL_ASSIGN_OR_RETURN(const bool is_account, IsAccount(database));
  if (!is_account) {
    SPLITVEIL_RETURN_IF_ERROR(InTransaction(database, [&]() -> absl::Status {
      SPLITVEIL_ASSIGN_OR_RETURN(const bool was_made, IsAccount(database));  // Another process may have been first.
      file.is_new = !was_made;
      return was_made ? absl::OkStatus() : CreateAccount(database);
    }));
  }
  return file;
}

// Null where OpenOrMake would make it.
absl::StatusOr<std::unique_ptr<SqliteDatabase>> OpenWhatIsThere(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!std::filesystem::exists(std::filesystem::symlink_status(path, ignored)) &&
      (folder.empty() || std::filesystem::is_directory(folder, ignored))) {
    return nullptr;
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckFile(path, 0));
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> database,
                             SqliteDatabase::Open(path, SqliteDatabase::Mode::kReadOnly));
  SPLITVEIL_ASSIGN_OR_RETURN(const bool is_account, IsAccount(*database));
  return is_account ? std::move(database) : nullptr;
}

absl::StatusOr<SecretKey> ReadKey(SqliteDatabase& database) {
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement select, database.Prepare("SELECT noise_key FROM account"));
  SPLITVEIL_ASSIGN_OR_RETURN(const bool found, select.Next());
  std::vector<uint8_t> blob = found ? select.Blob(0) : std::vector<uint8_t>();
  std::array<uint8_t, 32> bytes = {};
  if (blob.size() != bytes.size()) {
    return absl::InvalidArgumentError("expected the key of the noise, found none");
  }
  std::copy(blob.begin(), blob.end(), bytes.begin());
  SecretKey key(bytes);
  OPENSSL_cleanse(blob.data(), blob.size());
  OPENSSL_cleanse(bytes.data(), bytes.size());
  return key;
}

// The releases there are.
absl::StatusOr<Releases> ReadReleases(SqliteDatabase& database, const std::string& label_set) {
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement select,
                             database.Prepare("SELECT release.number, label_set.name = ?1, sigma_units, kind "
                                              "FROM release JOIN label_set ON label_set.number = release.label_set"));
  SPLITVEIL_RETURN_IF_ERROR(select.Bind(absl::string_view(label_set)));
  Releases releases;
  while (true) {
    SPLITVEIL_ASSIGN_OR_RETURN(const bool row, select.Next());
    if (!row) {
      return releases;
    }
    releases[select.Int64(0)] = {select.Int64(1) != 0, static_cast<uint32_t>(select.Int64(2)),
                                 KindOfNumber(select.Int64(3))};
  }
}

// The number of a release, which is made if it is new. Within a transaction.
absl::StatusOr<int64_t> NumberOf(SqliteDatabase& database, const PrivacyAccountOptions& options, uint32_t sigma_units) {
  const absl::string_view name = options.label_set;
  const int64_t units = sigma_units;
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement add_set,
                             database.Prepare("INSERT OR IGNORE INTO label_set(name, kind) VALUES (?1, ?2)"));
  SPLITVEIL_RETURN_IF_ERROR(add_set.Run(name, NumberOfKind(options.label_kind)));
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement add,
                             database.Prepare("INSERT OR IGNORE INTO release(label_set, sigma_units) "
                                              "SELECT number, ?2 FROM label_set WHERE name = ?1"));
  SPLITVEIL_RETURN_IF_ERROR(add.Run(name, units));
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement select,
                             database.Prepare("SELECT release.number FROM release JOIN label_set ON label_set.number = "
                                              "release.label_set WHERE name = ?1 AND sigma_units = ?2"));
  SPLITVEIL_RETURN_IF_ERROR(select.Bind(name, units));
  SPLITVEIL_ASSIGN_OR_RETURN(const bool found, select.Next());
  return found ? absl::StatusOr<int64_t>(select.Int64(0)) : absl::InternalError("expected a release, found none");
}

absl::Status OtherLabels(const std::string& label_set) {
  return absl::InvalidArgumentError(
      absl::StrCat("label_set: expected the labels that \"", label_set,
                   "\" was first used with, found others: name these labels differently, which draws all of their "
                   "noise anew and adds up, or set another path where they have nothing to do with those"));
}

// Labels of one name are of one kind.
absl::Status CheckKind(SqliteDatabase& database, const PrivacyAccountOptions& options) {
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement select, database.Prepare("SELECT kind FROM label_set WHERE name = ?1"));
  SPLITVEIL_RETURN_IF_ERROR(select.Bind(absl::string_view(options.label_set)));
  SPLITVEIL_ASSIGN_OR_RETURN(const bool known, select.Next());
  return !known || select.Int64(0) == NumberOfKind(options.label_kind) ? absl::OkStatus()
                                                                       : OtherLabels(options.label_set);
}

// In the order of the table, so that a pass over many examples reads it once.
std::vector<size_t> InTableOrder(absl::Span<const NoiseRow> examples) {
  std::vector<size_t> order(examples.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return examples[a].bytes() < examples[b].bytes(); });
  return order;
}

// Of one release, in units of 1 / (sigma units)^2.
double Divergence(const Release& release) {
  const double sensitivity = LabelSensitivity(release.kind);
  return sensitivity * sensitivity / release.sigma_units / release.sigma_units;
}

absl::StatusOr<LabelPrivacy> Composed(absl::Span<const Release> releases) {
  std::vector<LabelPrivacy> parts;
  for (const LabelKind kind : {LabelKind::kBinary, LabelKind::kOneHot, LabelKind::kUnitInterval}) {
    std::vector<uint32_t> sigmas;
    for (const Release& release : releases) {
      if (release.kind == kind) {
        sigmas.push_back(release.sigma_units);
      }
    }
    SPLITVEIL_ASSIGN_OR_RETURN(parts.emplace_back(), LabelPrivacy::OfReleases(kind, sigmas));
  }
  return LabelPrivacy::Compose(parts);
}

// The example whose releases disclose the most.
class MostExposed {
 public:
  // Releases of one example.
  void Consider(const std::vector<Release>& releases) {
    double divergence = 0;
    for (const Release& release : releases) {
      divergence += Divergence(release);
    }
    if (divergence > divergence_) {
      divergence_ = divergence;
      releases_ = releases;
    }
  }
  absl::StatusOr<LabelPrivacy> Privacy() const { return Composed(releases_); }

 private:
  std::vector<Release> releases_;
  double divergence_ = 0;
};

// OK stays OK.
absl::Status AtPath(const std::string& path, const absl::Status& status) {
  return status.ok() ? status : absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

absl::Span<const uint8_t> BytesOf(const NoiseRow& example) { return absl::MakeConstSpan(example.bytes()); }

}  // namespace

absl::StatusOr<std::unique_ptr<PrivacyAccount>> PrivacyAccount::Open(PrivacyAccountOptions options) {
  SPLITVEIL_RETURN_IF_ERROR(CheckOptions(options));
  absl::StatusOr<AccountFile> file = OpenOrMake(options.path);
  if (!file.ok()) {
    return AtPath(options.path, file.status());
  }
  return Make(std::move(options), std::move(file->database), file->is_new);
}

absl::StatusOr<std::unique_ptr<PrivacyAccount>> PrivacyAccount::OpenToRead(PrivacyAccountOptions options) {
  SPLITVEIL_RETURN_IF_ERROR(CheckOptions(options));
  absl::StatusOr<std::unique_ptr<SqliteDatabase>> database = OpenWhatIsThere(options.path);
  if (!database.ok() || *database == nullptr) {
    return database.ok() ? absl::StatusOr<std::unique_ptr<PrivacyAccount>>(nullptr)
                         : AtPath(options.path, database.status());
  }
  return Make(std::move(options), *std::move(database), /*is_new=*/false);
}

absl::StatusOr<std::unique_ptr<PrivacyAccount>> PrivacyAccount::Make(PrivacyAccountOptions options,
                                                                     std::unique_ptr<SqliteDatabase> database,
                                                                     bool is_new) {
  absl::StatusOr<SecretKey> key = ReadKey(*database);
  absl::StatusOr<std::string> id = database->QueryText("SELECT id FROM account");
  if (!key.ok() || !id.ok()) {
    return AtPath(options.path, key.ok() ? id.status() : key.status());
  }
  return std::unique_ptr<PrivacyAccount>(
      new PrivacyAccount(std::move(options), std::move(database), *std::move(key), *std::move(id), is_new));
}

absl::StatusOr<LabelNoise> PrivacyAccount::Noise(uint32_t sigma_units) const {
  Sha256Hasher hasher;
  hasher.Update(kPurpose);
  hasher.Update(options_.label_set);
  return LabelNoise::Create(key_, hasher.Finish(), {sigma_units});
}

absl::Status PrivacyAccount::CheckLabels(absl::Span<const NoiseRow> examples, absl::Span<const int64_t> labels) {
  SPLITVEIL_RETURN_IF_ERROR(At(CheckKind(*database_, options_)));
  const absl::StatusOr<Releases> releases = ReadReleases(*database_, options_.label_set);
  absl::StatusOr<SqliteStatement> select = database_->Prepare("SELECT release, label FROM debit WHERE example = ?1");
  if (!releases.ok() || !select.ok()) {
    return At(releases.ok() ? select.status() : releases.status());
  }
  for (size_t i : InTableOrder(examples)) {
    SPLITVEIL_RETURN_IF_ERROR(At(select->Bind(BytesOf(examples[i]))));
    while (true) {
      const absl::StatusOr<bool> row = select->Next();
      SPLITVEIL_RETURN_IF_ERROR(At(row.status()));
      if (!*row) {
        break;
      }
      const auto release = releases->find(select->Int64(0));
      if (release != releases->end() && release->second.of_label_set && select->Int64(1) != labels[i]) {
        return OtherLabels(options_.label_set);
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ForeseenDebit> PrivacyAccount::Foresee(absl::Span<const NoiseRow> examples,
                                                      absl::Span<const uint32_t> sigma_units) {
  SPLITVEIL_RETURN_IF_ERROR(At(CheckKind(*database_, options_)));
  absl::StatusOr<Releases> releases = ReadReleases(*database_, options_.label_set);
  absl::StatusOr<SqliteStatement> select = database_->Prepare("SELECT release FROM debit WHERE example = ?1");
  if (!releases.ok() || !select.ok()) {
    return At(releases.ok() ? select.status() : releases.status());
  }
  ForeseenDebit foreseen;
  MostExposed so_far, lifetime;
  for (size_t i : InTableOrder(examples)) {
    std::vector<Release> made;
    std::set<uint32_t> missing(sigma_units.begin(), sigma_units.end());
    SPLITVEIL_RETURN_IF_ERROR(At(select->Bind(BytesOf(examples[i]))));
    while (true) {
      const absl::StatusOr<bool> row = select->Next();
      SPLITVEIL_RETURN_IF_ERROR(At(row.status()));
      if (!*row) {
        break;
      }
      const Release& earlier = (*releases)[select->Int64(0)];
      made.push_back(earlier);
      if (earlier.of_label_set) {
        missing.erase(earlier.sigma_units);
      }
    }
    so_far.Consider(made);
    for (const uint32_t units : missing) {
      made.push_back({true, units, options_.label_kind});
    }
    lifetime.Consider(made);
    foreseen.releases += static_cast<int64_t>(missing.size());
    foreseen.examples += missing.empty() ? 0 : 1;
  }
  SPLITVEIL_ASSIGN_OR_RETURN(foreseen.so_far, so_far.Privacy());
  SPLITVEIL_ASSIGN_OR_RETURN(foreseen.lifetime, lifetime.Privacy());
  return foreseen;
}

absl::StatusOr<ForeseenDebit> PrivacyAccount::ForeseeNew(LabelKind kind, int64_t examples,
                                                         absl::Span<const uint32_t> sigma_units) {
  const std::set<uint32_t> distinct(sigma_units.begin(), sigma_units.end());
  ForeseenDebit foreseen;
  foreseen.releases = examples * static_cast<int64_t>(distinct.size());
  foreseen.examples = distinct.empty() ? 0 : examples;
  SPLITVEIL_ASSIGN_OR_RETURN(foreseen.lifetime,
                             LabelPrivacy::OfReleases(kind, std::vector<uint32_t>(distinct.begin(), distinct.end())));
  return foreseen;
}

absl::StatusOr<LabelPrivacy> PrivacyAccount::Debit(absl::Span<const NoiseRow> examples,
                                                   absl::Span<const int64_t> labels, uint32_t sigma_units) {
  absl::StatusOr<LabelPrivacy> lifetime = LabelPrivacy();
  const absl::Status counted = InTransaction(*database_, [&] {
    lifetime = DebitInTransaction(examples, labels, sigma_units);
    return lifetime.status();
  });
  SPLITVEIL_RETURN_IF_ERROR(IsHalt(counted) ? counted : At(counted));
  return lifetime;
}

absl::StatusOr<LabelPrivacy> PrivacyAccount::DebitInTransaction(absl::Span<const NoiseRow> examples,
                                                                absl::Span<const int64_t> labels,
                                                                uint32_t sigma_units) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string id, database_->QueryText("SELECT id FROM account"));
  if (id != id_) {
    return absl::InternalError("expected the account that the run began with, found another one in its place");
  }
  SPLITVEIL_RETURN_IF_ERROR(CheckKind(*database_, options_));
  SPLITVEIL_ASSIGN_OR_RETURN(const int64_t release, NumberOf(*database_, options_, sigma_units));
  SPLITVEIL_ASSIGN_OR_RETURN(Releases releases, ReadReleases(*database_, options_.label_set));
  SPLITVEIL_ASSIGN_OR_RETURN(
      SqliteStatement select,
      database_->Prepare("SELECT release, label FROM debit WHERE example = ?1 ORDER BY release"));
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement insert, database_->Prepare("INSERT INTO debit VALUES (?1, ?2, ?3)"));
  MostExposed most_exposed;
  std::vector<Release> made;
  for (size_t i : InTableOrder(examples)) {
    SPLITVEIL_RETURN_IF_ERROR(select.Bind(BytesOf(examples[i])));
    made = {releases[release]};
    bool known = false;
    while (true) {
      SPLITVEIL_ASSIGN_OR_RETURN(const bool row, select.Next());
      if (!row) {
        break;
      }
      const Release earlier = releases[select.Int64(0)];
      if (earlier.of_label_set && select.Int64(1) != labels[i]) {
        return OtherLabels(options_.label_set);  // Another run has counted others since CheckLabels.
      }
      if (select.Int64(0) == release) {
        known = true;
        continue;
      }
      made.push_back(earlier);
    }
    most_exposed.Consider(made);
    if (!known) {
      SPLITVEIL_RETURN_IF_ERROR(insert.Run(BytesOf(examples[i]), release, static_cast<int64_t>(labels[i])));
    }
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const LabelPrivacy lifetime, most_exposed.Privacy());
  if (lifetime.AucBound() > options_.max_lifetime_auc_bound) {
    return AsHalt(absl::ResourceExhaustedError(absl::StrFormat(
        "privacy_account.max_lifetime_auc_bound: expected at most %.6g, found %.6g with this run: nothing is released",
        options_.max_lifetime_auc_bound, lifetime.AucBound())));
  }
  return lifetime;
}

absl::Status PrivacyAccount::At(const absl::Status& status) const { return AtPath(options_.path, status); }

}  // namespace splitveil
