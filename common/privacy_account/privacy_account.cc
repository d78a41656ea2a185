#include "common/privacy_account/privacy_account.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "common/crypto/sha256.h"
#include "common/privacy_account/account_file.h"
#include "common/privacy_account/debit_blocks.h"
#include "common/process/exit_code.h"
#include "common/status/status_context.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr size_t kMaxLabelSet = 1000;
constexpr absl::string_view kPurpose = "splitveil label set v1";
// Between two transactions that write. SQLite looks every 100 ms whether a lock is free (its busy handler), so that
// every other run that waits gets its turn.
constexpr absl::Duration kTurn = absl::Milliseconds(150);
constexpr char kExpected[] = "expected the account that the run began with, ";

// What was released of an example with noise of one strength.
struct Released {
  Release release;
  int64_t draws = 0;
};

// Draws by strength, the larger number of each.
using DrawsBySigma = std::map<uint32_t, int64_t>;

DrawsBySigma MostDraws(absl::Span<const NoiseReleases> releases) {
  DrawsBySigma most;
  for (const NoiseReleases& some : releases) {
    if (some.draws == 0) {
      continue;
    }
    int64_t& draws = most[some.sigma_units];
    // Draws of one strength are numbered and taken in order, so two plans share the first ones: the longer one has them
    // all.
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

// In units of 1 / (sigma units)^2.
// The squared mu of the Gaussian part; enough to rank examples, as the slack is many orders smaller.
double Divergence(const Released& released) {
  const double sensitivity = LabelSensitivity(released.release.kind);
  const double sigma = released.release.sigma_units;
  return static_cast<double>(released.draws) * sensitivity * sensitivity / sigma / sigma;
}

absl::StatusOr<LabelPrivacy> Composed(absl::Span<const Released> all) {
  std::vector<LabelPrivacy> parts;
  // By kind, since the sensitivity of a release depends on it.
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
  // All that was released of one example. Error: as FindRelease.
  // Only the largest sum is kept: the lifetime limit is a promise to every single person, not on average.
  absl::Status Consider(absl::Span<const CountedDraws> debits, const Releases& releases) {
    one_.clear();
    double divergence = 0;
    for (const CountedDraws& debit : debits) {
      SPLITVEIL_ASSIGN_OR_RETURN(const Release release, FindRelease(releases, debit.release));
      one_.push_back({release, debit.draws});
      divergence += Divergence(one_.back());
    }
    if (divergence > divergence_) {
      divergence_ = divergence;
      all_ = one_;
    }
    return absl::OkStatus();
  }
  absl::StatusOr<LabelPrivacy> Privacy() const { return Composed(all_); }

 private:
  std::vector<Released> all_, one_;
  double divergence_ = 0;
};

// What is known of releases within a transaction.
struct Strengths {
  Releases releases;
  // Of the account's label set, in what is planned: numbers of `releases`, and draws.
  std::vector<std::pair<int64_t, int64_t>> planned;
};

// Again in each transaction: another run may have counted at a new strength since the last one. A planned strength that
// the account does not have yet gets a number below 0.
absl::StatusOr<Strengths> ReadStrengths(SqliteDatabase& database, const PrivacyAccountOptions& options,
                                        const DrawsBySigma& planned) {
  SPLITVEIL_RETURN_IF_ERROR(CheckKind(database, options.label_set, options.label_kind));
  Strengths strengths;
  SPLITVEIL_ASSIGN_OR_RETURN(strengths.releases, ReadReleases(database, options.label_set));
  for (const auto& [units, draws] : planned) {
    auto of = absl::c_find_if(strengths.releases, [&, units = units](const auto& entry) {
      return entry.second.of_label_set && entry.second.sigma_units == units;
    });
    if (of == strengths.releases.end()) {
      const int64_t number = -1 - static_cast<int64_t>(strengths.planned.size());
      of = strengths.releases.emplace(number, Release{true, units, options.label_kind}).first;
    }
    strengths.planned.emplace_back(of->first, draws);
  }
  return strengths;
}

// Makes `debits`, which an example of this label has, what they are with all that is planned. Returns how many draws
// are new. Never below zero: draws that were counted in excess are not credited to anything else.
int64_t AddPlanned(const Strengths& strengths, int64_t label, std::vector<CountedDraws>& debits) {
  int64_t added = 0;
  for (const auto& [number, draws] : strengths.planned) {
    const auto of =
        absl::c_find_if(debits, [number = number](const CountedDraws& debit) { return debit.release == number; });
    if (of == debits.end()) {
      debits.push_back({number, draws, label});
      added += draws;
    } else {
      // What was released under the same label set is released again for nothing.
      added += std::max<int64_t>(0, draws - of->draws);
      of->draws = std::max(of->draws, draws);
    }
  }
  return added;
}

// A changed label with unchanged noise would differ from its earlier release by exactly the change.
absl::Status CheckLabel(absl::string_view label_set, int64_t label, absl::Span<const CountedDraws> debits,
                        const Releases& releases) {
  for (const CountedDraws& debit : debits) {
    SPLITVEIL_ASSIGN_OR_RETURN(const Release release, FindRelease(releases, debit.release));
    if (release.of_label_set && debit.label != label) {
      return OtherLabels(label_set);
    }
  }
  return absl::OkStatus();
}

// Calls `take`, which removes those that it has taken from the front, until `order` is empty, with a pause in between.
// Once where it is empty: the label set's kind is checked all the same.
absl::Status InParts(absl::Span<const uint32_t> order, absl::Duration pause,
                     absl::FunctionRef<absl::Status(absl::Span<const uint32_t>&)> take) {
  while (true) {
    SPLITVEIL_RETURN_IF_ERROR(take(order));
    if (order.empty()) {
      return absl::OkStatus();
    }
    absl::SleepFor(pause);
  }
}

// Calls `look_up` with the index of every example, its debits, which it may change for itself, and what is known of
// releases then.
template <typename LookUp>
absl::Status LookUpEach(SqliteDatabase& database, const PrivacyAccountOptions& options,
                        absl::Span<const NoiseRow> examples, const DrawsBySigma& planned, const LookUp& look_up) {
  const std::vector<uint32_t> order = InTableOrder(examples);
  return InParts(order, absl::ZeroDuration(), [&](absl::Span<const uint32_t>& left) {
    const auto look = [&]() -> absl::Status {
      SPLITVEIL_ASSIGN_OR_RETURN(const Strengths strengths, ReadStrengths(database, options, planned));
      return ForEachExample(
          database, examples, /*writes=*/false,
          [&](uint32_t i, std::vector<CountedDraws>& debits) { return look_up(i, debits, strengths); }, left);
    };
    return InTransaction(database, look, kToRead);
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<PrivacyAccount>> PrivacyAccount::Open(PrivacyAccountOptions options) {
  SPLITVEIL_RETURN_IF_ERROR(CheckOptions(options));
  absl::StatusOr<AccountFile> file = OpenOrMakeAccount(options.path, options.label_kind);
  if (!file.ok()) {
    return Within(options.path, file.status());
  }
  return Make(std::move(options), std::move(file->database), file->is_new ? Access::kCountInNew : Access::kCount);
}

absl::StatusOr<std::unique_ptr<PrivacyAccount>> PrivacyAccount::OpenToRead(PrivacyAccountOptions options) {
  SPLITVEIL_RETURN_IF_ERROR(CheckOptions(options));
  absl::StatusOr<std::unique_ptr<SqliteDatabase>> database = OpenAccountToRead(options.path, options.label_kind);
  // No account yet is an answer, not an error: `validate` foresees what the first run would count.
  if (!database.ok() || *database == nullptr) {
    return database.ok() ? absl::StatusOr<std::unique_ptr<PrivacyAccount>>(nullptr)
                         : Within(options.path, database.status());
  }
  return Make(std::move(options), *std::move(database), Access::kRead);
}

absl::StatusOr<std::unique_ptr<PrivacyAccount>> PrivacyAccount::Make(PrivacyAccountOptions options,
                                                                     std::unique_ptr<SqliteDatabase> database,
                                                                     Access access) {
  // Read once and held: CheckSame compares with these before every debit.
  absl::StatusOr<SecretKey> key = ReadNoiseKey(*database);
  absl::StatusOr<std::string> id = database->QueryText("SELECT id FROM account");
  absl::StatusOr<std::set<std::string>> runs = ReadRuns(*database);
  for (const absl::Status& status : {key.status(), id.status(), runs.status()}) {
    SPLITVEIL_RETURN_IF_ERROR(Within(options.path, status));
  }
  return std::unique_ptr<PrivacyAccount>(new PrivacyAccount(std::move(options), std::move(database), *std::move(key),
                                                            *std::move(id), *std::move(runs), access));
}

absl::StatusOr<LabelNoise> PrivacyAccount::Noise(const NoiseReleases& releases) const {
  // The run does not enter: the same label under the same strength gets the same noise in every run, so nothing can be
  // averaged.
  Sha256Hasher hasher;
  hasher.Update(kPurpose);
  // A label set of its own has noise of its own, under one key.
  hasher.Update(options_.label_set);
  return LabelNoise::Create(key_, hasher.Finish(), std::vector<uint32_t>(releases.draws, releases.sigma_units));
}

absl::Status PrivacyAccount::CheckLabels(absl::Span<const NoiseRow> examples, absl::Span<const int64_t> labels) {
  return At(LookUpEach(*database_, options_, examples, {},
                       [&](uint32_t i, const std::vector<CountedDraws>& debits, const Strengths& strengths) {
                         return CheckLabel(options_.label_set, labels[i], debits, strengths.releases);
                       }));
}

bool PrivacyAccount::Knows(absl::string_view run_id) const {
  return absl::c_any_of(remembered_, [&](const std::string& name) { return IsStartOf(run_id, name); });
}

absl::StatusOr<PrivacyAccount::Start> PrivacyAccount::RememberStart(absl::string_view run_id,
                                                                    double most_exposed) const {
  Start start;
  SPLITVEIL_RETURN_IF_ERROR(Change([&](SqliteDatabase& database) -> absl::Status {
    SPLITVEIL_ASSIGN_OR_RETURN(start.name, InsertStart(database, run_id));
    SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement update,
                               database.Prepare("UPDATE label_set SET most_exposed = max(most_exposed, ?2) "
                                                "WHERE name = ?1 RETURNING most_exposed"));
    SPLITVEIL_RETURN_IF_ERROR(update.Bind(options_.label_set, most_exposed));
    SPLITVEIL_ASSIGN_OR_RETURN(const bool found, update.Next());
    start.most_exposed = found ? update.Double(0) : most_exposed;
    return absl::OkStatus();
  }));
  return start;
}

absl::Status PrivacyAccount::Remember(absl::string_view name) const {
  return Change([&](SqliteDatabase& database) -> absl::Status {
    SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement insert, database.Prepare("INSERT OR IGNORE INTO run VALUES (?1)"));
    return insert.Run(name);
  });
}

absl::Status PrivacyAccount::Change(absl::FunctionRef<absl::Status(SqliteDatabase&)> change) const {
  const absl::StatusOr<std::unique_ptr<SqliteDatabase>> database = Reopen();
  SPLITVEIL_RETURN_IF_ERROR(At(database.status()));
  return At(InTransaction(
      **database,
      [&]() -> absl::Status {
        SPLITVEIL_RETURN_IF_ERROR(CheckSame(**database));
        return change(**database);
      },
      kToWrite));
}

absl::StatusOr<ForeseenDebit> PrivacyAccount::Foresee(absl::Span<const NoiseRow> examples,
                                                      absl::Span<const NoiseReleases> releases) {
  // The same arithmetic as Debit, without writing: what is announced and what is counted must not differ.
  ForeseenDebit foreseen;
  MostExposed so_far, lifetime;
  const auto look_up = [&](uint32_t, std::vector<CountedDraws>& debits, const Strengths& strengths) -> absl::Status {
    SPLITVEIL_RETURN_IF_ERROR(so_far.Consider(debits, strengths.releases));
    const int64_t added = AddPlanned(strengths, /*label=*/0, debits);
    foreseen.releases += added;
    foreseen.examples += added > 0 ? 1 : 0;
    return lifetime.Consider(debits, strengths.releases);
  };
  SPLITVEIL_RETURN_IF_ERROR(At(LookUpEach(*database_, options_, examples, MostDraws(releases), look_up)));
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

// What Debit counts, and what it has found so far.
struct PrivacyAccount::Debits {
  absl::Span<const NoiseRow> examples;
  absl::Span<const int64_t> labels;
  DrawsBySigma planned;
  MostExposed most_exposed;
  std::vector<uint32_t> uncounted;  // In the order of the table: of these the account lacked some of `planned`.
};

absl::StatusOr<LabelPrivacy> PrivacyAccount::Debit(absl::Span<const NoiseRow> examples,
                                                   absl::Span<const int64_t> labels,
                                                   absl::Span<const NoiseReleases> releases) {
  Debits debits = {examples, labels, MostDraws(releases), {}, {}};
  const auto take = [&](absl::Span<const uint32_t>& left, bool writes) -> absl::Status {
    // Reopened for every part: a file descriptor held since the start would go on counting in a file that was replaced.
    SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<SqliteDatabase> database, Reopen());
    return InTransaction(
        *database, [&] { return DebitPart(*database, writes, debits, left); }, writes ? kToWrite : kToRead);
  };
  // All are looked at before the first is counted, so that a run past the limit costs nothing.
  const std::vector<uint32_t> order = InTableOrder(examples);
  absl::Status status = InParts(order, absl::ZeroDuration(),
                                [&](absl::Span<const uint32_t>& left) { return take(left, /*writes=*/false); });
  // A run that is killed in between has counted some and released none: too much, never too little.
  if (status.ok() && !debits.uncounted.empty()) {
    status =
        InParts(debits.uncounted, kTurn, [&](absl::Span<const uint32_t>& left) { return take(left, /*writes=*/true); });
  }
  // A halt is no problem of the file: it keeps its text.
  SPLITVEIL_RETURN_IF_ERROR(IsHalt(status) ? status : At(status));
  return debits.most_exposed.Privacy();
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
  // A new account has neither this id nor this key. An older copy of the same one has both, but not the later runs.
  const absl::StatusOr<std::string> id = database.QueryText("SELECT id FROM account");
  if (!id.ok() || *id != id_) {
    return absl::IsInvalidArgument(id.status()) || id.ok() ? another : id.status();
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const SecretKey key, ReadNoiseKey(database));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::set<std::string> runs, ReadRuns(database));
  return key.bytes() != key_.bytes() ? another
         : std::includes(runs.begin(), runs.end(), remembered_.begin(), remembered_.end())
             ? absl::OkStatus()
             : absl::InternalError(absl::StrCat(
                   kExpected, "found an older copy of it in its place: restore the latest. Nothing has been released"));
}

absl::Status PrivacyAccount::DebitPart(SqliteDatabase& database, bool writes, Debits& debits,
                                       absl::Span<const uint32_t>& left) const {
  SPLITVEIL_RETURN_IF_ERROR(CheckSame(database));
  // Numbers are made only when writing, so that a run that is refused leaves no trace in the file.
  for (const auto& [units, draws] : writes ? debits.planned : DrawsBySigma()) {
    SPLITVEIL_RETURN_IF_ERROR(AddRelease(database, options_.label_set, options_.label_kind, units));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const Strengths strengths, ReadStrengths(database, options_, debits.planned));
  const auto visit = [&](uint32_t i, std::vector<CountedDraws>& of_example) -> absl::Status {
    // A concurrent run may have counted others since CheckLabels.
    SPLITVEIL_RETURN_IF_ERROR(CheckLabel(options_.label_set, debits.labels[i], of_example, strengths.releases));
    if (AddPlanned(strengths, debits.labels[i], of_example) > 0 && !writes) {
      debits.uncounted.push_back(i);
    }
    // With the planned draws included, so that the limit is held against what will have been released.
    return debits.most_exposed.Consider(of_example, strengths.releases);
  };
  SPLITVEIL_RETURN_IF_ERROR(ForEachExample(database, debits.examples, writes, visit, left));
  SPLITVEIL_ASSIGN_OR_RETURN(const LabelPrivacy lifetime, debits.most_exposed.Privacy());
  // Within the transaction: where another run has counted since all were looked at, an error rolls this part back.
  return CheckLifetime(lifetime.AucBound(), options_.max_lifetime_auc_bound);
}

absl::Status PrivacyAccount::CheckLifetime(double auc_bound, double limit) {
  return auc_bound <= limit ? absl::OkStatus()
                            : AsHalt(absl::ResourceExhaustedError(
                                  absl::StrFormat("privacy_account.max_lifetime_auc_bound: expected at most %.6g, "
                                                  "found %.6g with this run: nothing is released; use more noise or "
                                                  "fewer releases, or raise the limit, unless an earlier run has "
                                                  "promised it",
                                                  limit, auc_bound)));
}

absl::Status PrivacyAccount::At(const absl::Status& status) const { return Within(options_.path, status); }

}  // namespace splitveil
