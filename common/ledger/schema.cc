#include "common/ledger/schema.h"

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "common/status/status_context.h"
#include "common/status/status_macros.h"
#include "common/storage/file_system.h"
#include "common/storage/sqlite_database.h"

namespace splitveil {
namespace {

constexpr SqliteApplication kLedger = {"a Splitveil ledger", /*id=*/0x53564c47,
                                       kLedgerVersion};  // "SVLG" in ASCII, SQLite's application_id.

// STRICT refuses a text in a number's place. WITHOUT ROWID stores a run's rows of a table together, in step order.
constexpr char kTables[] = R"sql(
CREATE TABLE run(
  run_id TEXT PRIMARY KEY NOT NULL CHECK (run_id <> ''),
  role TEXT NOT NULL,
  agreement_sha256 TEXT NOT NULL,
  protection TEXT NOT NULL,
  started_at TEXT NOT NULL,
  finished_at TEXT,
  status TEXT NOT NULL,
  config_json TEXT NOT NULL,
  resumed_from TEXT NOT NULL,
  data_sha256 TEXT NOT NULL,
  label_set TEXT NOT NULL,
  account TEXT NOT NULL,
  max_lifetime_auc_bound REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE step(
  run_id TEXT NOT NULL REFERENCES run(run_id),
  step INTEGER NOT NULL, epoch INTEGER NOT NULL, batch INTEGER NOT NULL, examples INTEGER NOT NULL,
  loss REAL, seconds REAL, bytes_sent INTEGER NOT NULL, bytes_received INTEGER NOT NULL,
  PRIMARY KEY (run_id, step)
) STRICT, WITHOUT ROWID;
CREATE TABLE step_time(
  run_id TEXT NOT NULL REFERENCES run(run_id),
  step INTEGER NOT NULL,
  data REAL, forward REAL, serialise REAL, wire REAL, wait REAL, backward REAL, protection REAL, update_seconds REAL,
  attacks REAL,
  PRIMARY KEY (run_id, step)
) STRICT, WITHOUT ROWID;
CREATE TABLE protection(
  run_id TEXT NOT NULL REFERENCES run(run_id),
  step INTEGER NOT NULL, method TEXT NOT NULL,
  u REAL, v REAL, g REAL, p REAL, power REAL,
  lambda1_neg REAL, lambda2_neg REAL, lambda1_pos REAL, lambda2_pos REAL,
  sum_kl REAL, auc_bound REAL, gate TEXT NOT NULL,
  PRIMARY KEY (run_id, step)
) STRICT, WITHOUT ROWID;
CREATE TABLE leak(
  run_id TEXT NOT NULL REFERENCES run(run_id),
  step INTEGER NOT NULL, observer TEXT NOT NULL, layer TEXT NOT NULL, attack TEXT NOT NULL,
  auc REAL, examples INTEGER NOT NULL,
  PRIMARY KEY (run_id, step, observer, layer, attack)
) STRICT, WITHOUT ROWID;
CREATE TABLE epoch_leak(
  run_id TEXT NOT NULL REFERENCES run(run_id),
  epoch INTEGER NOT NULL, observer TEXT NOT NULL, layer TEXT NOT NULL, attack TEXT NOT NULL,
  examples INTEGER NOT NULL, positives INTEGER NOT NULL,
  auc REAL, auc_low REAL, auc_high REAL,
  tpr_1pct REAL, tpr_1pct_low REAL, tpr_1pct_high REAL,
  tpr_01pct REAL, tpr_01pct_low REAL, tpr_01pct_high REAL,
  gaussian_auc_bound REAL, auc_bound REAL,
  PRIMARY KEY (run_id, epoch, observer, layer, attack)
) STRICT, WITHOUT ROWID;
CREATE TABLE distribution(
  run_id TEXT NOT NULL REFERENCES run(run_id),
  epoch INTEGER NOT NULL, quantity TEXT NOT NULL, class INTEGER NOT NULL CHECK (class IN (0, 1)),
  bin INTEGER NOT NULL, low REAL NOT NULL, high REAL NOT NULL, examples INTEGER NOT NULL,
  PRIMARY KEY (run_id, epoch, quantity, class, bin)
) STRICT, WITHOUT ROWID;
CREATE TABLE evaluation(
  run_id TEXT NOT NULL REFERENCES run(run_id),
  step INTEGER NOT NULL, split TEXT NOT NULL,
  log_loss REAL, auc REAL, accuracy REAL, calibration_error REAL, rmse REAL, r_squared REAL,
  kept TEXT NOT NULL,
  PRIMARY KEY (run_id, step, split)
) STRICT, WITHOUT ROWID;
CREATE TABLE claim_check(
  run_id TEXT PRIMARY KEY NOT NULL REFERENCES run(run_id),
  claimed_mu REAL NOT NULL, claimed_epsilon REAL, mu_lower REAL NOT NULL, epsilon_lower REAL,
  delta REAL NOT NULL, confidence REAL NOT NULL, test TEXT NOT NULL,
  examples INTEGER NOT NULL, positives INTEGER NOT NULL,
  true_positive_rate_low REAL, false_positive_rate_high REAL,
  failing_mu_lower REAL NOT NULL, failing_confidence REAL NOT NULL, half_noise_mu_lower REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE all_runs(
  run_id TEXT PRIMARY KEY NOT NULL REFERENCES run(run_id),
  account TEXT NOT NULL, examples INTEGER NOT NULL, auc_bound REAL NOT NULL, table_rows INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE privacy_loss(
  run_id TEXT NOT NULL REFERENCES run(run_id),
  step INTEGER NOT NULL, attribute TEXT NOT NULL, privacy_loss REAL, threshold REAL, weight REAL, utility_weight REAL,
  correction_steps INTEGER NOT NULL, at_front INTEGER NOT NULL CHECK (at_front IN (0, 1)),
  PRIMARY KEY (run_id, step, attribute)
) STRICT, WITHOUT ROWID;
CREATE TABLE activation_bound(
  run_id TEXT PRIMARY KEY NOT NULL REFERENCES run(run_id),
  releases INTEGER NOT NULL, mu REAL NOT NULL, auc_bound REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE attribute_leak(
  run_id TEXT NOT NULL REFERENCES run(run_id),
  epoch INTEGER NOT NULL, attack TEXT NOT NULL, attribute TEXT NOT NULL,
  examples TEXT NOT NULL CHECK (examples IN ('test', 'training')),
  rows INTEGER NOT NULL, accuracy REAL, accuracy_low REAL, accuracy_high REAL, floor REAL, auc REAL,
  PRIMARY KEY (run_id, epoch, attack, attribute, examples)
) STRICT, WITHOUT ROWID;
CREATE TABLE label_release(
  run_id TEXT NOT NULL REFERENCES run(run_id),
  noise TEXT NOT NULL CHECK (noise IN ('gaussian', 'flip')),
  sigma_units INTEGER NOT NULL, draws INTEGER NOT NULL CHECK (draws > 0), strength REAL NOT NULL,
  PRIMARY KEY (run_id, noise, sigma_units)
) STRICT, WITHOUT ROWID;
CREATE TABLE step_summary(
  run_id TEXT NOT NULL REFERENCES run(run_id),
  method TEXT NOT NULL, gate TEXT NOT NULL,
  steps INTEGER NOT NULL, first_step INTEGER NOT NULL, last_step INTEGER NOT NULL,
  last_epoch INTEGER NOT NULL, examples INTEGER NOT NULL,
  worst_auc_bound REAL, worst_sum_kl REAL, worst_step INTEGER NOT NULL,
  PRIMARY KEY (run_id, method, gate)
) STRICT, WITHOUT ROWID;
CREATE TABLE leak_summary(
  run_id TEXT NOT NULL REFERENCES run(run_id),
  observer TEXT NOT NULL, layer TEXT NOT NULL, attack TEXT NOT NULL,
  steps INTEGER NOT NULL, sum REAL NOT NULL, squares REAL NOT NULL, worst_auc REAL, worst_step INTEGER NOT NULL,
  PRIMARY KEY (run_id, observer, layer, attack)
) STRICT, WITHOUT ROWID;
CREATE TABLE privacy_loss_summary(
  run_id TEXT NOT NULL REFERENCES run(run_id),
  attribute TEXT NOT NULL, steps INTEGER NOT NULL, worst_privacy_loss REAL, worst_step INTEGER NOT NULL,
  PRIMARY KEY (run_id, attribute)
) STRICT, WITHOUT ROWID;
CREATE TABLE alignment(
  run_id TEXT NOT NULL,
  at TEXT NOT NULL, program TEXT NOT NULL CHECK (program IN ('run', 'align')), ids INTEGER NOT NULL,
  repeated TEXT NOT NULL CHECK (repeated IN ('refuse', 'first', 'last')), left_out INTEGER NOT NULL
) STRICT;
CREATE TABLE event(
  run_id TEXT NOT NULL REFERENCES run(run_id),
  at TEXT NOT NULL, kind TEXT NOT NULL, detail TEXT NOT NULL
) STRICT;
CREATE INDEX event_of_run ON event(run_id);
)sql";

// Those of the steps to be removed that are not summarised yet. After an interruption a run records some steps again
// that were summarised before; they are the same (architecture rule 2), so they count once.
constexpr char kNewSteps[] =
    "run_id = ?1 AND step < ?2 AND step > (SELECT coalesce(max(last_step), -1) FROM step_summary WHERE run_id = ?1)";

// With a single max() in a SELECT, SQLite takes the bare column `step` from the row with the maximum. 9e999 is
// infinite: a figure that is not known counts as the worst. $NEW: kNewSteps. step_summary comes last, since the other
// statements look up there what is summarised already.
constexpr const char* kSummaries[] = {R"sql(
INSERT INTO leak_summary
SELECT run_id, observer, layer, attack, count(leak), coalesce(sum(leak), 0), coalesce(sum(leak * leak), 0), max(leak),
  step
FROM (SELECT *, 0.5 + abs(auc - 0.5) AS leak FROM leak WHERE $NEW)
GROUP BY observer, layer, attack
ON CONFLICT (run_id, observer, layer, attack) DO UPDATE SET
  steps = steps + excluded.steps, sum = sum + excluded.sum, squares = squares + excluded.squares,
  worst_step = iif(excluded.worst_auc > coalesce(worst_auc, 0), excluded.worst_step, worst_step),
  worst_auc = nullif(max(coalesce(worst_auc, 0), coalesce(excluded.worst_auc, 0)), 0)
)sql",
                                      R"sql(
INSERT INTO privacy_loss_summary
SELECT run_id, attribute, count(*), nullif(max(coalesce(privacy_loss, 9e999)), 9e999), step
FROM privacy_loss WHERE $NEW
GROUP BY attribute
ON CONFLICT (run_id, attribute) DO UPDATE SET
  steps = steps + excluded.steps,
  worst_step = iif(coalesce(excluded.worst_privacy_loss, 9e999) > coalesce(worst_privacy_loss, 9e999),
                   excluded.worst_step, worst_step),
  worst_privacy_loss = max(worst_privacy_loss, excluded.worst_privacy_loss)
)sql",
                                      R"sql(
WITH removed AS (
  SELECT step, method, gate, epoch, examples, coalesce(auc_bound, 9e999) AS auc_bound, coalesce(sum_kl, 9e999) AS sum_kl
  FROM (SELECT * FROM protection WHERE $NEW) LEFT JOIN step USING (run_id, step)
  UNION ALL
  SELECT step, '', '', epoch, examples, 9e999, 9e999
  FROM step WHERE $NEW AND NOT EXISTS
    (SELECT 1 FROM protection WHERE protection.run_id = ?1 AND protection.step = step.step))
INSERT INTO step_summary
SELECT ?1, method, gate, count(*), min(step), max(step), coalesce(max(epoch), -1), coalesce(sum(examples), 0),
  nullif(max(auc_bound), 9e999), nullif(max(sum_kl), 9e999),
  (SELECT step FROM removed AS worst WHERE worst.method = removed.method AND worst.gate = removed.gate
   ORDER BY worst.auc_bound DESC, step LIMIT 1)
FROM removed WHERE TRUE
GROUP BY method, gate
ON CONFLICT (run_id, method, gate) DO UPDATE SET
  steps = steps + excluded.steps, last_step = excluded.last_step, last_epoch = max(last_epoch, excluded.last_epoch),
  examples = examples + excluded.examples,
  worst_step = iif(coalesce(excluded.worst_auc_bound, 9e999) > coalesce(worst_auc_bound, 9e999), excluded.worst_step,
                   worst_step),
  worst_auc_bound = max(worst_auc_bound, excluded.worst_auc_bound),
  worst_sum_kl = max(worst_sum_kl, excluded.worst_sum_kl)
)sql"};

constexpr int kAttempts = 500;
constexpr absl::Duration kPause = absl::Milliseconds(10);

constexpr size_t kMaxOrigin = 100;  // Bytes that are believed: any program may have written the file.

// What wrote a ledger of a different version, as far as its latest run says: " (its latest run: version 0.1.0,
// 2026-01-31)". These columns are as old as ledgers; empty if they cannot be read.
std::string Origin(SqliteDatabase& database) {
  const absl::StatusOr<std::string> origin = database.QueryText(
      "SELECT ' (its latest run: version ' || json_extract(config_json, '$.version') || ', ' || substr(started_at, 1, "
      "10)"
      " || ')' FROM run ORDER BY started_at DESC LIMIT 1");
  return origin.ok() && origin->size() <= kMaxOrigin ? *origin : "";
}

absl::Status AnotherVersion(int64_t version, SqliteDatabase& database) {
  // Tables are not migrated: a report over half-understood rows would be worse than none.
  const char* const age = version < kLedgerVersion ? "an earlier" : "a later";
  return absl::InvalidArgumentError(
      absl::StrCat("ledger version: expected ", kLedgerVersion, ", found ", version, ", written by ", age,
                   " version of Splitveil", Origin(database),
                   "; to report on its runs, use the `splitveil` of that version; to record new runs, set a different "
                   "ledger_path"));
}

// Whether it is a ledger already.
absl::StatusOr<bool> IsLedger(SqliteDatabase& database) {
  SPLITVEIL_ASSIGN_OR_RETURN(const SqliteFinding found, FindApplication(database, kLedger));
  return found.content == SqliteContent::kOtherVersion ? absl::StatusOr<bool>(AnotherVersion(found.version, database))
                                                       : found.content == SqliteContent::kApplication;
}

// WAL lets others read while the run writes; SQLite answers with the mode it could set.
absl::Status SetWriteAheadLog(SqliteDatabase& database) {
  absl::StatusOr<std::string> journal = database.QueryText("PRAGMA journal_mode = WAL");
  // For this change SQLite does not wait for another process that makes the same file.
  for (int attempt = 0; attempt < kAttempts && absl::StrContains(journal.status().message(), "is locked"); ++attempt) {
    absl::SleepFor(kPause);
    journal = database.QueryText("PRAGMA journal_mode = WAL");
  }
  if (journal.ok() && *journal != "wal") {
    return absl::InvalidArgumentError(
        absl::StrCat("journal mode: expected wal, found ", *journal, " (a network file system?)"));
  }
  return journal.status();
}

absl::Status MakeLedger(SqliteDatabase& database) {
  SPLITVEIL_RETURN_IF_ERROR(CreateTables(database));
  SPLITVEIL_RETURN_IF_ERROR(SignApplication(database, kLedger));
  return database.Execute("COMMIT");
}

}  // namespace

absl::Status CreateTables(SqliteDatabase& database) { return database.Execute(kTables); }

absl::Status CreateSchema(SqliteDatabase& database) {
  absl::StatusOr<bool> is_ledger = IsLedger(database);
  if (!is_ledger.ok() || *is_ledger) {
    return is_ledger.status();
  }
  SPLITVEIL_RETURN_IF_ERROR(SetWriteAheadLog(database));
  // A second process may create the same file at this moment: only one gets the write lock.
  SPLITVEIL_RETURN_IF_ERROR(database.Execute("BEGIN IMMEDIATE"));
  is_ledger = IsLedger(database);  // Now under the lock: another process may have been first.
  absl::Status created = is_ledger.ok() && !*is_ledger ? MakeLedger(database) : is_ledger.status();
  if (database.in_transaction()) {
    absl::Status closed = database.Execute("ROLLBACK");
    created.Update(closed);
  }
  return created;
}

absl::Status CheckMayBecomeLedger(SqliteDatabase& database) { return IsLedger(database).status(); }

absl::Status CheckSchema(SqliteDatabase& database) {
  SPLITVEIL_ASSIGN_OR_RETURN(const bool is_ledger, IsLedger(database));
  return is_ledger ? absl::OkStatus() : absl::InvalidArgumentError("expected a Splitveil ledger, found an empty file");
}

absl::Status CheckLedgerPath(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return CheckFolderOf(path);
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<SqliteDatabase> database,
                             SqliteDatabase::Open(path, SqliteDatabase::Mode::kReadOnly));
  SPLITVEIL_RETURN_IF_ERROR(Within(path, CheckMayBecomeLedger(*database)));
  return CheckFolderOf(path);  // SQLite keeps its journal beside it.
}

std::vector<std::string> RemovalOfSteps() {
  std::vector<std::string> statements;
  for (const char* const summary : kSummaries) {
    statements.push_back(absl::StrReplaceAll(summary, {{"$NEW", kNewSteps}}));
  }
  for (const char* const table : {"step", "step_time", "protection", "leak", "privacy_loss"}) {
    statements.push_back(absl::StrCat("DELETE FROM ", table, " WHERE run_id = ?1 AND step < ?2"));
  }
  return statements;
}

absl::Status AsDamage(const absl::Status& status) {
  // SQLite's text for a missing table or column; it has no code of its own for that.
  return absl::IsInternal(status) && absl::StrContains(status.message(), "no such ")
             ? absl::DataLossError(status.message())
             : status;
}

}  // namespace splitveil
