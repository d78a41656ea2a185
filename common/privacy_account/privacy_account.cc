#include "common/privacy_account/privacy_account.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/crypto/sha256.h"
#include "common/privacy_account/account_file.h"
#include "common/process/exit_code.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr size_t kMaxLabelSet = 1000;
constexpr absl::string_view kPurpose = "splitveil label set v1";
// Look-ups of one transaction. A transaction of its own makes each take six times as long; one for all of tens of
// millions would keep other runs on the account from counting theirs for longer than they wait.
constexpr size_t kLookUps = 100'000;
constexpr char kExpected[] = "expected the account that the run began with, ";

// What was released of an example with noise of one strength.
struct Released {
  Release release;
  int64_t draws = 0;
};

// Draws by strength, the larger number of each. Ordered, so that equal sets are equal.
using DrawsBySigma = std::map<uint32_t, int64_t>;

DrawsBySigma MostDraws(absl::Span<const NoiseReleases> releases) {
  DrawsBySigma most;
  for (const NoiseReleases& some : releases) {
    int64_t& draws = most[some.sigma_units];
    draws = std::max<int64_t>(draws, some.draws);
  }
  return most;
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

// In the order of the table, so that a pass over many examples reads it once.
std::vector<size_t> InTableOrder(absl::Span<const NoiseRow> examples) {
  std::vector<size_t> order(examples.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return examples[a].bytes() < examples[b].bytes(); });
  return order;
}

// In units of 1 / (sigma units)^2.
double Divergence(const Released& released) {
  const double sensitivity = LabelSensitivity(released.release.kind);
  const double sigma = released.release.sigma_units;
  return static_cast<double>(released.draws) * sensitivity * sensitivity / sigma / sigma;
}

absl::StatusOr<LabelPrivacy> Composed(absl::Span<const Released> all) {
  std::vector<LabelPrivacy> parts;
  for (const LabelKind kind :
       {LabelKind::kBinary, LabelKind::kOneHot, LabelKind::kUnitInterval, LabelKind::kActivations}) {
    std::vector<uint32_t> sigmas;
    for (const Released& released : all) {
      if (released.release.kind == kind) {
        sigmas.insert(sigmas.end(), static_cast<size_t>(released.draws), released.release.sigma_units);
      }
    }
    SPLITVEIL_ASSIGN_OR_RETURN(parts.emplace_back(), LabelPrivacy::OfReleases(kind, sigmas));
  }
  return LabelPrivacy::Compose(parts);
}

// The example whose releases disclose the most.
class MostExposed {
 public:
  // All that was released of one example.
  void Consider(const std::vector<Released>& all) {
    double divergence = 0;
    for (const Released& released : all) {
      divergence += Divergence(released);
    }
    if (divergence > divergence_) {
      divergence_ = divergence;
      all_ = all;
    }
  }
  absl::StatusOr<LabelPrivacy> Privacy() const { return Composed(all_); }

 private:
  std::vector<Released> all_;
  double divergence_ = 0;
};

// OK stays OK.
absl::Status AtPath(const std::string& path, const absl::Status& status) {
  return status.ok() ? status : absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

absl::Span<const uint8_t> BytesOf(const NoiseRow& example) { return absl::MakeConstSpan(example.bytes()); }

// Calls `debit` with each row that `select` (bound to ?1) has for `example`, and the release it is of.
template <typename OnDebit>
absl::Status ForEachDebit(SqliteStatement& select, const NoiseRow& example, const Releases& releases,
                          const OnDebit& debit) {
  SPLITVEIL_RETURN_IF_ERROR(select.Bind(BytesOf(example)));
  while (true) {
    SPLITVEIL_ASSIGN_OR_RETURN(const bool row, select.Next());
    if (!row) {
      return absl::OkStatus();
    }
    SPLITVEIL_ASSIGN_OR_RETURN(const Release release, FindRelease(releases, select.Int64(0)));
    SPLITVEIL_RETURN_IF_ERROR(debit(release));
  }
}

// Calls `look_up`, which may read the database, with the index of every example and the releases there are when it is
// looked up: those of its part, since another run may count at a new strength between two parts.
template <typename LookUp>
absl::Status LookUpEach(SqliteDatabase& database, const PrivacyAccountOptions& options,
                        absl::Span<const NoiseRow> examples, const LookUp& look_up) {
  const std::vector<size_t> order = InTableOrder(examples);
  absl::Span<const size_t> left = order;
  do {  // Once where there is no example: the label set's kind is checked all the same.
    const absl::Span<const size_t> some = left.subspan(0, kLookUps);
    left.remove_prefix(some.size());
    SPLITVEIL_RETURN_IF_ERROR(database.Execute("BEGIN"));
    const auto look_up_all = [&]() -> absl::Status {
      SPLITVEIL_RETURN_IF_ERROR(CheckKind(database, options.label_set, options.label_kind));
      SPLITVEIL_ASSIGN_OR_RETURN(const Releases releases, ReadReleases(database, options.label_set));
      for (const size_t i : some) {
        SPLITVEIL_RETURN_IF_ERROR(look_up(i, releases));
      }
      return absl::OkStatus();
    };
    absl::Status status = look_up_all();
    status.Update(database.Execute("COMMIT"));  // Nothing was written.
    SPLITVEIL_RETURN_IF_ERROR(status);
  } while (!left.empty());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<PrivacyAccount>> PrivacyAccount::Open(PrivacyAccountOptions options) {
  SPLITVEIL_RETURN_IF_ERROR(CheckOptions(options));
  absl::StatusOr<AccountFile> file = OpenOrMakeAccount(options.path, options.label_kind);
  if (!file.ok()) {
    return AtPath(options.path, file.status());
  }
  return Make(std::move(options), std::move(file->database), file->is_new ? Access::kCountInNew : Access::kCount);
}

absl::StatusOr<std::unique_ptr<PrivacyAccount>> PrivacyAccount::OpenToRead(PrivacyAccountOptions options) {
  SPLITVEIL_RETURN_IF_ERROR(CheckOptions(options));
  absl::StatusOr<std::unique_ptr<SqliteDatabase>> database = OpenAccountToRead(options.path, options.label_kind);
  if (!database.ok() || *database == nullptr) {
    return database.ok() ? absl::StatusOr<std::unique_ptr<PrivacyAccount>>(nullptr)
                         : AtPath(options.path, database.status());
  }
  return Make(std::move(options), *std::move(database), Access::kRead);
}

absl::StatusOr<std::unique_ptr<PrivacyAccount>> PrivacyAccount::Make(PrivacyAccountOptions options,
                                                                     std::unique_ptr<SqliteDatabase> database,
                                                                     Access access) {
  absl::StatusOr<SecretKey> key = ReadNoiseKey(*database);
  absl::StatusOr<std::string> id = database->QueryText("SELECT id FROM account");
  if (!key.ok() || !id.ok()) {
    return AtPath(options.path, key.ok() ? id.status() : key.status());
  }
  return std::unique_ptr<PrivacyAccount>(
      new PrivacyAccount(std::move(options), std::move(database), *std::move(key), *std::move(id), access));
}

absl::StatusOr<LabelNoise> PrivacyAccount::Noise(const NoiseReleases& releases) const {
  Sha256Hasher hasher;
  hasher.Update(kPurpose);
  // A label set of its own has noise of its own, under one key.
  hasher.Update(options_.label_set);
  return LabelNoise::Create(key_, hasher.Finish(), std::vector<uint32_t>(releases.draws, releases.sigma_units));
}

absl::Status PrivacyAccount::CheckLabels(absl::Span<const NoiseRow> examples, absl::Span<const int64_t> labels) {
  absl::StatusOr<SqliteStatement> select = database_->Prepare("SELECT release, label FROM debit WHERE example = ?1");
  SPLITVEIL_RETURN_IF_ERROR(At(select.status()));
  return At(LookUpEach(*database_, options_, examples, [&](size_t i, const Releases& releases) -> absl::Status {
    return ForEachDebit(*select, examples[i], releases, [&](const Release& release) {
      return release.of_label_set && select->Int64(1) != labels[i] ? OtherLabels(options_.label_set) : absl::OkStatus();
    });
  }));
}

absl::StatusOr<ForeseenDebit> PrivacyAccount::Foresee(absl::Span<const NoiseRow> examples,
                                                      absl::Span<const NoiseReleases> releases) {
  absl::StatusOr<SqliteStatement> select = database_->Prepare("SELECT release, draws FROM debit WHERE example = ?1");
  SPLITVEIL_RETURN_IF_ERROR(At(select.status()));
  const DrawsBySigma planned = MostDraws(releases);
  ForeseenDebit foreseen;
  MostExposed so_far, lifetime;
  std::vector<Released> made;
  const auto look_up = [&](size_t i, const Releases& known) -> absl::Status {
    made.clear();
    DrawsBySigma missing = planned;
    SPLITVEIL_RETURN_IF_ERROR(ForEachDebit(*select, examples[i], known, [&](const Release& release) {
      made.push_back({release, select->Int64(1)});
      // What was released under the same label set is released again for nothing.
      const auto again = missing.find(release.sigma_units);
      if (release.of_label_set && again != missing.end()) {
        again->second = std::max<int64_t>(0, again->second - made.back().draws);
      }
      return absl::OkStatus();
    }));
    so_far.Consider(made);
    int64_t more = 0;
    for (const auto& [units, draws] : missing) {
      made.push_back({{true, units, options_.label_kind}, draws});
      more += draws;
    }
    lifetime.Consider(made);
    foreseen.releases += more;
    foreseen.examples += more > 0 ? 1 : 0;
    return absl::OkStatus();
  };
  SPLITVEIL_RETURN_IF_ERROR(At(LookUpEach(*database_, options_, examples, look_up)));
  SPLITVEIL_ASSIGN_OR_RETURN(foreseen.so_far, so_far.Privacy());
  SPLITVEIL_ASSIGN_OR_RETURN(foreseen.lifetime, lifetime.Privacy());
  return foreseen;
}

absl::StatusOr<ForeseenDebit> PrivacyAccount::ForeseeNew(LabelKind kind, int64_t examples,
                                                         absl::Span<const NoiseReleases> releases) {
  ForeseenDebit foreseen;
  std::vector<Released> all;
  for (const auto& [units, draws] : MostDraws(releases)) {
    all.push_back({{true, units, kind}, draws});
    foreseen.releases += examples * draws;
  }
  foreseen.examples = all.empty() ? 0 : examples;
  SPLITVEIL_ASSIGN_OR_RETURN(foreseen.lifetime, Composed(all));
  return foreseen;
}

absl::StatusOr<LabelPrivacy> PrivacyAccount::Debit(absl::Span<const NoiseRow> examples,
                                                   absl::Span<const int64_t> labels,
                                                   absl::Span<const NoiseReleases> releases) {
  absl::StatusOr<LabelPrivacy> lifetime = LabelPrivacy();
  const absl::StatusOr<std::unique_ptr<SqliteDatabase>> database = Reopen();
  SPLITVEIL_RETURN_IF_ERROR(At(database.status()));
  const absl::Status counted = InTransaction(**database, [&] {
    lifetime = DebitInTransaction(**database, examples, labels, releases);
    return lifetime.status();
  });
  // A halt is no problem of the file: it keeps its text, and the transaction was rolled back.
  SPLITVEIL_RETURN_IF_ERROR(IsHalt(counted) ? counted : At(counted));
  return lifetime;
}

absl::StatusOr<std::unique_ptr<SqliteDatabase>> PrivacyAccount::Reopen() const {
  if (access_ == Access::kRead) {
    return absl::InvalidArgumentError("expected an account that was opened to count in it, found one opened to read");
  }
  absl::StatusOr<std::unique_ptr<SqliteDatabase>> database = OpenAccountToCount(options_.path);
  if (absl::IsNotFound(database.status())) {
    return absl::InternalError(absl::StrCat(kExpected, "found none: restore that file. Nothing has been released"));
  }
  return database;
}

absl::Status PrivacyAccount::CheckSame(SqliteDatabase& database) const {
  // The file may have been replaced by a copy since the run began: a debit there would be lost.
  const absl::Status another = absl::InternalError(
      absl::StrCat(kExpected, "found a different one in its place: restore that file. Nothing has been released"));
  const absl::StatusOr<std::string> id = database.QueryText("SELECT id FROM account");
  if (!id.ok() || *id != id_) {
    return absl::IsInvalidArgument(id.status()) || id.ok() ? another : id.status();
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const SecretKey key, ReadNoiseKey(database));
  return key.bytes() == key_.bytes() ? absl::OkStatus() : another;
}

absl::StatusOr<LabelPrivacy> PrivacyAccount::DebitInTransaction(SqliteDatabase& database,
                                                                absl::Span<const NoiseRow> examples,
                                                                absl::Span<const int64_t> labels,
                                                                absl::Span<const NoiseReleases> releases) const {
  SPLITVEIL_RETURN_IF_ERROR(CheckSame(database));
  SPLITVEIL_RETURN_IF_ERROR(CheckKind(database, options_.label_set, options_.label_kind));
  std::map<int64_t, int64_t> planned;  // Draws, by number of the table `release`.
  for (const auto& [units, draws] : MostDraws(releases)) {
    SPLITVEIL_ASSIGN_OR_RETURN(const int64_t number,
                               NumberOf(database, options_.label_set, options_.label_kind, units));
    planned[number] = draws;
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const Releases known, ReadReleases(database, options_.label_set));
  SPLITVEIL_ASSIGN_OR_RETURN(
      SqliteStatement select,
      database.Prepare("SELECT release, label, draws FROM debit WHERE example = ?1 ORDER BY release"));
  SPLITVEIL_ASSIGN_OR_RETURN(
      SqliteStatement count,
      database.Prepare("INSERT INTO debit(example, release, label, draws) VALUES (?1, ?2, ?3, ?4) "
                       "ON CONFLICT (example, release) DO UPDATE SET draws = excluded.draws"));
  MostExposed most_exposed;
  std::vector<Released> made;
  for (size_t i : InTableOrder(examples)) {
    made.clear();
    std::map<int64_t, int64_t> draws = planned;  // Of this example, with this run.
    SPLITVEIL_RETURN_IF_ERROR(ForEachDebit(select, examples[i], known, [&](const Release& release) {
      if (release.of_label_set && select.Int64(1) != labels[i]) {
        return OtherLabels(options_.label_set);  // A concurrent run has counted others since CheckLabels.
      }
      const auto again = draws.find(select.Int64(0));
      if (again == draws.end() || again->second <= select.Int64(2)) {
        made.push_back({release, select.Int64(2)});
        draws.erase(select.Int64(0));
      }  // Else some of its draws are new: counted below.
      return absl::OkStatus();
    }));
    for (const auto& [number, total] : draws) {
      made.push_back({known.at(number), total});  // NumberOf made it.
      SPLITVEIL_RETURN_IF_ERROR(count.Run(BytesOf(examples[i]), number, static_cast<int64_t>(labels[i]), total));
    }
    most_exposed.Consider(made);
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const LabelPrivacy lifetime, most_exposed.Privacy());
  // Within the transaction: an error rolls the debit back, so that a run that is refused costs nothing.
  SPLITVEIL_RETURN_IF_ERROR(CheckLifetime(lifetime.AucBound(), options_.max_lifetime_auc_bound));
  return lifetime;
}

absl::Status PrivacyAccount::CheckLifetime(double auc_bound, double limit) {
  return auc_bound <= limit ? absl::OkStatus()
                            : AsHalt(absl::ResourceExhaustedError(
                                  absl::StrFormat("privacy_account.max_lifetime_auc_bound: expected at most %.6g, "
                                                  "found %.6g with this run: nothing is released; use more noise or "
                                                  "fewer releases, or raise the limit",
                                                  limit, auc_bound)));
}

absl::Status PrivacyAccount::At(const absl::Status& status) const { return AtPath(options_.path, status); }

}  // namespace splitveil
