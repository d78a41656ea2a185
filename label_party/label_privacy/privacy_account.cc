#include "label_party/label_privacy/privacy_account.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/crypto/sha256.h"
#include "common/process/exit_code.h"
#include "common/status/status_macros.h"
#include "label_party/label_privacy/account_file.h"

namespace splitveil {
namespace {

constexpr size_t kMaxLabelSet = 1000;
constexpr absl::string_view kPurpose = "splitveil label set v1";

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
  absl::StatusOr<AccountFile> file = OpenOrMakeAccount(options.path);
  if (!file.ok()) {
    return AtPath(options.path, file.status());
  }
  return Make(std::move(options), std::move(file->database), file->is_new);
}

absl::StatusOr<std::unique_ptr<PrivacyAccount>> PrivacyAccount::OpenToRead(PrivacyAccountOptions options) {
  SPLITVEIL_RETURN_IF_ERROR(CheckOptions(options));
  absl::StatusOr<std::unique_ptr<SqliteDatabase>> database = OpenAccountToRead(options.path);
  if (!database.ok() || *database == nullptr) {
    return database.ok() ? absl::StatusOr<std::unique_ptr<PrivacyAccount>>(nullptr)
                         : AtPath(options.path, database.status());
  }
  return Make(std::move(options), *std::move(database), /*is_new=*/false);
}

absl::StatusOr<std::unique_ptr<PrivacyAccount>> PrivacyAccount::Make(PrivacyAccountOptions options,
                                                                     std::unique_ptr<SqliteDatabase> database,
                                                                     bool is_new) {
  absl::StatusOr<SecretKey> key = ReadNoiseKey(*database);
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
