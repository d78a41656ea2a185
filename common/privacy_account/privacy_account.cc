#include "common/privacy_account/privacy_account.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "common/crypto/sha256.h"
#include "common/privacy_account/account_file.h"
#include "common/process/exit_code.h"
#include "common/status/status_context.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr size_t kMaxLabelSet = 1000;
constexpr absl::string_view kPurpose = "splitveil label set v1";
// Examples of one transaction. A transaction of its own makes each take six times as long; one for all of tens of
// millions would keep other runs on the account from counting theirs for longer than they wait.
constexpr size_t kPart = 100'000;
// Between two parts that are written. SQLite looks every 100 ms whether a lock is free (its busy handler), so that
// every other run that waits gets its turn.
constexpr absl::Duration kTurn = absl::Milliseconds(150);
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

// In the order of the table, so that a pass over many examples reads it once.
// The table is clustered by example: in any other order each look-up would touch a page of its own.
std::vector<size_t> InTableOrder(absl::Span<const NoiseRow> examples) {
  std::vector<size_t> order(examples.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return examples[a].bytes() < examples[b].bytes(); });
  return order;
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
  // All that was released of one example.
  // Only the largest sum is kept: the lifetime limit is a promise to every single person, not on average.
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

// Calls `take` with the next examples of `order`, in parts of one transaction each. Once where there is none: the label
// set's kind is checked all the same.
template <typename Take>
absl::Status InParts(absl::Span<const size_t> order, const Take& take) {
  do {
    const absl::Span<const size_t> part = order.subspan(0, kPart);
    order.remove_prefix(part.size());
    SPLITVEIL_RETURN_IF_ERROR(take(part, /*is_last=*/order.empty()));
  } while (!order.empty());
  return absl::OkStatus();
}

// Calls `look_up`, which may read the database, with the index of every example of `part` and the releases there are.
// Within a transaction.
template <typename LookUp>
absl::Status LookUpPart(SqliteDatabase& database, const PrivacyAccountOptions& options, absl::Span<const size_t> part,
                        const LookUp& look_up) {
  SPLITVEIL_RETURN_IF_ERROR(CheckKind(database, options.label_set, options.label_kind));
  SPLITVEIL_ASSIGN_OR_RETURN(const Releases releases, ReadReleases(database, options.label_set));
  for (const size_t i : part) {
    SPLITVEIL_RETURN_IF_ERROR(look_up(i, releases));
  }
  return absl::OkStatus();
}

// The same of every example. Another run may count at a new strength between two parts.
template <typename LookUp>
absl::Status LookUpEach(SqliteDatabase& database, const PrivacyAccountOptions& options,
                        absl::Span<const NoiseRow> examples, const LookUp& look_up) {
  return InParts(InTableOrder(examples), [&](absl::Span<const size_t> part, bool) {
    // Releases are read inside each transaction, since another process may have added a strength since the last one.
    return InTransaction(
        database, [&] { return LookUpPart(database, options, part, look_up); }, kToRead);
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
  absl::StatusOr<SqliteStatement> select = database_->Prepare("SELECT release, label FROM debit WHERE example = ?1");
  SPLITVEIL_RETURN_IF_ERROR(At(select.status()));
  // A changed label with unchanged noise would differ from its earlier release by exactly the change.
  return At(LookUpEach(*database_, options_, examples, [&](size_t i, const Releases& releases) -> absl::Status {
    return ForEachDebit(*select, examples[i], releases, [&](const Release& release) {
      return release.of_label_set && select->Int64(1) != labels[i] ? OtherLabels(options_.label_set) : absl::OkStatus();
    });
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
  absl::StatusOr<SqliteStatement> select = database_->Prepare("SELECT release, draws FROM debit WHERE example = ?1");
  SPLITVEIL_RETURN_IF_ERROR(At(select.status()));
  // The same arithmetic as Debit, without writing: what is announced and what is counted must not differ.
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
        // Never below zero: draws that were counted in excess are not credited to anything else.
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

// What Debit counts, and what it has found so far.
struct PrivacyAccount::Debits {
  absl::Span<const NoiseRow> examples;
  absl::Span<const int64_t> labels;
  DrawsBySigma planned;
  MostExposed most_exposed;
  std::vector<size_t> uncounted;  // In the order of the table: of these the account lacked some of `planned`.
};

absl::StatusOr<LabelPrivacy> PrivacyAccount::Debit(absl::Span<const NoiseRow> examples,
                                                   absl::Span<const int64_t> labels,
                                                   absl::Span<const NoiseReleases> releases) {
  Debits debits = {examples, labels, MostDraws(releases), {}, {}};
  const auto take = [&](absl::Span<const size_t> part, bool writes) -> absl::Status {
    // Reopened for every part: a file descriptor held since the start would go on counting in a file that was replaced.
    SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<SqliteDatabase> database, Reopen());
    return InTransaction(
        *database, [&] { return DebitPart(*database, part, writes, debits); }, writes ? kToWrite : kToRead);
  };
  // All are looked at before the first is counted, so that a run past the limit costs nothing.
  absl::Status status = InParts(InTableOrder(examples),
                                [&](absl::Span<const size_t> part, bool) { return take(part, /*writes=*/false); });
  // A run that is killed in between has counted some and released none: too much, never too little.
  if (status.ok() && !debits.uncounted.empty()) {
    status = InParts(debits.uncounted, [&](absl::Span<const size_t> part, bool is_last) {
      absl::Status taken = take(part, /*writes=*/true);
      absl::SleepFor(is_last ? absl::ZeroDuration() : kTurn);
      return taken;
    });
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

absl::Status PrivacyAccount::DebitPart(SqliteDatabase& database, absl::Span<const size_t> part, bool writes,
                                       Debits& debits) const {
  SPLITVEIL_RETURN_IF_ERROR(CheckSame(database));
  // Numbers are made only when writing, so that a run that is refused leaves no trace in the file.
  std::map<uint32_t, int64_t> numbers;  // Of the table `release`, by strength.
  for (const auto& [units, draws] : writes ? debits.planned : DrawsBySigma()) {
    SPLITVEIL_ASSIGN_OR_RETURN(numbers[units], NumberOf(database, options_.label_set, options_.label_kind, units));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(
      SqliteStatement select,
      database.Prepare("SELECT release, label, draws FROM debit WHERE example = ?1 ORDER BY release"));
  SPLITVEIL_ASSIGN_OR_RETURN(
      SqliteStatement count,
      database.Prepare("INSERT INTO debit(example, release, label, draws) VALUES (?1, ?2, ?3, ?4) "
                       "ON CONFLICT (example, release) DO UPDATE SET draws = excluded.draws"));
  std::vector<Released> made;
  const auto take = [&](size_t i, const Releases& known) -> absl::Status {
    made.clear();
    DrawsBySigma missing = debits.planned;
    SPLITVEIL_RETURN_IF_ERROR(ForEachDebit(select, debits.examples[i], known, [&](const Release& release) {
      if (release.of_label_set && select.Int64(1) != debits.labels[i]) {
        return OtherLabels(options_.label_set);  // A concurrent run has counted others since CheckLabels.
      }
      const auto again = release.of_label_set ? missing.find(release.sigma_units) : missing.end();
      if (again == missing.end() || again->second <= select.Int64(2)) {
        made.push_back({release, select.Int64(2)});
        if (again != missing.end()) {
          missing.erase(again);
        }
      }  // Else some of its draws are new: counted below.
      return absl::OkStatus();
    }));
    for (const auto& [units, draws] : missing) {
      made.push_back({{true, units, options_.label_kind}, draws});
      SPLITVEIL_RETURN_IF_ERROR(writes
                                    ? count.Run(BytesOf(debits.examples[i]), numbers.at(units), debits.labels[i], draws)
                                    : absl::OkStatus());
    }
    // With the planned draws included, so that the limit is held against what will have been released.
    debits.most_exposed.Consider(made);
    if (!writes && !missing.empty()) {
      debits.uncounted.push_back(i);
    }
    return absl::OkStatus();
  };
  SPLITVEIL_RETURN_IF_ERROR(LookUpPart(database, options_, part, take));
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
