#include "common/ledger/ledger.h"

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "common/ledger/gate_action.h"
#include "common/ledger/schema.h"
#include "common/process/steady_time.h"
#include "common/status/status_macros.h"
#include "common/storage/sqlite_database.h"
#include "common/telemetry/one_line.h"

namespace splitveil {
namespace {

constexpr absl::Duration kCommitInterval = absl::Seconds(1);
constexpr int64_t kStepsBetweenTrims = 100;

std::string UtcNow() { return absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone()); }

absl::Status At(const std::string& path, const absl::Status& status) {
  return status.ok() ? status : absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

}  // namespace

// Rows wait in one open transaction. A thread of its own commits it when it is a second old: a party that waits for
// its peer records nothing, and what it recorded before must not wait with it.
class Ledger::Database {
 public:
  enum Table {
    kStep,
    kStepTime,
    kProtection,
    kLeak,
    kEpochLeak,
    kDistribution,
    kEvaluation,
    kClaimCheck,
    kAllRuns,
    kPrivacyLoss,
    kActivationBound,
    kAttributeLeak,
    kEvent,
    kTables
  };

  Database(std::unique_ptr<SqliteDatabase> connection, std::string path, std::string run_id)
      : path_(std::move(path)), run_id_(std::move(run_id)), connection_(std::move(connection)) {}
  ~Database() ABSL_LOCKS_EXCLUDED(mutex_);

  // Begins the run, or goes on with it from `position`. Before any other call, once.
  absl::Status Start(const RunRow& run, const v1::LedgerPosition* position) ABSL_LOCKS_EXCLUDED(mutex_);
  // Inserts a row of this run.
  template <typename... Values>
  absl::Status Insert(Table table, const Values&... values) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Commit() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<int64_t> LastEvent() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Finish(absl::string_view status) ABSL_LOCKS_EXCLUDED(mutex_);
  // Of the run, in the order they were recorded.
  absl::StatusOr<std::vector<EventRow>> Events() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<int64_t> CountEvents(absl::string_view kind) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<int64_t> CountEventsOfRun(absl::string_view kind, absl::string_view detail)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes what was recorded of the run's single steps before `step`. The file does not shrink; it takes new rows
  // where the old ones were.
  absl::Status Trim(int64_t step) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  absl::Status Prepare() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status InsertRun(const RunRow& run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status GoBackTo(const v1::LedgerPosition& position, const RunRow& run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Begin() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CommitPending() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CommitWhenDue();
  // Commits the open transaction where it is old enough. When to look again; nullopt: the ledger closes.
  std::optional<SteadyTime> CommitIfDue() ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string path_;  // For errors.
  const std::string run_id_;
  std::thread committer_;  // Of Start and the destructor alone.
  WakeableSleep sleep_;    // The committer's; ended by closing_ and the opening of a transaction.

  absl::Mutex mutex_;
  // Before the statements, which must be finalised first.
  std::unique_ptr<SqliteDatabase> connection_ ABSL_GUARDED_BY(mutex_);
  std::array<SqliteStatement, kTables> inserts_ ABSL_GUARDED_BY(mutex_);
  SqliteStatement finish_run_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool open_transaction_ ABSL_GUARDED_BY(mutex_) = false;
  SteadyTime opened_at_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  // First failed commit: rows were lost, so every later call reports it.
  absl::Status commit_status_ ABSL_GUARDED_BY(mutex_);
};

Ledger::Database::~Database() {
  {
    const absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  sleep_.Wake();
  if (committer_.joinable()) {
    committer_.join();
  }
  const absl::MutexLock lock(&mutex_);
  CommitPending().IgnoreError();  // Nobody is left to tell; Finish and Commit report.
}

absl::Status Ledger::Database::Start(const RunRow& run, const v1::LedgerPosition* position) {
  const absl::MutexLock lock(&mutex_);
  SPLITVEIL_RETURN_IF_ERROR(CreateSchema(*connection_));
  SPLITVEIL_RETURN_IF_ERROR(connection_->Execute("PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL"));
  SPLITVEIL_RETURN_IF_ERROR(position == nullptr ? InsertRun(run) : GoBackTo(*position, run));
  SPLITVEIL_RETURN_IF_ERROR(Prepare());
  committer_ = std::thread(&Database::CommitWhenDue, this);
  return absl::OkStatus();
}

absl::Status Ledger::Database::Prepare() {
  constexpr const char* kInserts[kTables] = {
      "INSERT INTO step VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
      "INSERT INTO step_time VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
      "INSERT INTO protection VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
      "INSERT INTO leak VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
      ("INSERT INTO epoch_leak VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, "
       "?18)"),
      "INSERT INTO distribution VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
      "INSERT INTO evaluation VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
      "INSERT INTO claim_check VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
      "INSERT INTO all_runs VALUES (?1, ?2, ?3, ?4)",
      "INSERT INTO privacy_loss VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
      "INSERT INTO activation_bound VALUES (?1, ?2, ?3, ?4)",
      "INSERT INTO attribute_leak VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
      "INSERT INTO event VALUES (?1, ?2, ?3, ?4)"};
  for (int table = 0; table < kTables; ++table) {
    SPLITVEIL_ASSIGN_OR_RETURN(inserts_[table], connection_->Prepare(kInserts[table]));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(finish_run_,
                             connection_->Prepare("UPDATE run SET finished_at = ?2, status = ?3 WHERE run_id = ?1"));
  return absl::OkStatus();
}

absl::Status Ledger::Database::InsertRun(const RunRow& run) {
  SPLITVEIL_ASSIGN_OR_RETURN(
      SqliteStatement insert,
      connection_->Prepare("INSERT INTO run VALUES (?1, ?2, ?3, ?4, ?5, NULL, 'running', ?6, ?7)"));
  absl::Status inserted = insert.Run(run.run_id, run.role, run.agreement_sha256, run.protection, UtcNow(),
                                     run.config_json, run.resumed_from);
  if (absl::IsAlreadyExists(inserted)) {
    return absl::InvalidArgumentError(absl::StrCat("run \"", run.run_id, "\" is already in this ledger"));
  }
  return inserted;
}

absl::Status Ledger::Database::GoBackTo(const v1::LedgerPosition& position, const RunRow& run) {
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement find, connection_->Prepare("SELECT 1 FROM run WHERE run_id = ?1"));
  SPLITVEIL_RETURN_IF_ERROR(find.Bind(run.run_id));
  SPLITVEIL_ASSIGN_OR_RETURN(const bool known, find.Next());
  if (!known) {
    return InsertRun(run);
  }
  SPLITVEIL_RETURN_IF_ERROR(connection_->Execute("BEGIN IMMEDIATE"));
  const std::pair<const char*, int64_t> removals[] = {
      {"DELETE FROM step WHERE run_id = ?1 AND step >= ?2", position.steps()},
      {"DELETE FROM step_time WHERE run_id = ?1 AND step >= ?2", position.steps()},
      {"DELETE FROM protection WHERE run_id = ?1 AND step >= ?2", position.steps()},
      {"DELETE FROM leak WHERE run_id = ?1 AND step >= ?2", position.steps()},
      {"DELETE FROM privacy_loss WHERE run_id = ?1 AND step >= ?2", position.steps()},
      {"DELETE FROM evaluation WHERE run_id = ?1 AND step > ?2", position.steps()},
      {"DELETE FROM distribution WHERE run_id = ?1 AND epoch >= ?2", position.own_epochs()},
      {"DELETE FROM attribute_leak WHERE run_id = ?1 AND epoch >= ?2", position.own_epochs()},
      {"DELETE FROM epoch_leak WHERE run_id = ?1 AND observer = 'label_party' AND epoch >= ?2", position.own_epochs()},
      {"DELETE FROM epoch_leak WHERE run_id = ?1 AND observer <> 'label_party' AND epoch >= ?2",
       position.peer_epochs()},
      {"DELETE FROM event WHERE run_id = ?1 AND rowid > ?2 AND kind NOT IN ('interrupted', 'refused', 'ended', "
       "'checkpoint', 'continued', 'export_failed', 'aligning', 'operator_lower_disclosure')",
       position.last_event()}};
  for (const auto& [sql, beyond] : removals) {
    SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement remove, connection_->Prepare(sql));
    SPLITVEIL_RETURN_IF_ERROR(remove.Run(run.run_id, beyond));
  }
  for (const char* const sql : {"DELETE FROM claim_check WHERE run_id = ?1", "DELETE FROM all_runs WHERE run_id = ?1",
                                "DELETE FROM activation_bound WHERE run_id = ?1",
                                "UPDATE run SET status = 'running', finished_at = NULL WHERE run_id = ?1"}) {
    SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement change, connection_->Prepare(sql));
    SPLITVEIL_RETURN_IF_ERROR(change.Run(run.run_id));
  }
  return connection_->Execute("COMMIT");
}

template <typename... Values>
absl::Status Ledger::Database::Insert(Table table, const Values&... values) {
  const absl::MutexLock lock(&mutex_);
  SPLITVEIL_RETURN_IF_ERROR(Begin());
  return At(path_, inserts_[table].Run(run_id_, values...));
}

absl::Status Ledger::Database::Begin() {
  SPLITVEIL_RETURN_IF_ERROR(commit_status_);
  if (finished_) {
    return absl::FailedPreconditionError("ledger: the run is finished");
  }
  if (open_transaction_) {
    return absl::OkStatus();
  }
  SPLITVEIL_RETURN_IF_ERROR(At(path_, connection_->Execute("BEGIN IMMEDIATE")));
  open_transaction_ = true;
  opened_at_ = SteadyNow();
  sleep_.Wake();
  return absl::OkStatus();
}

absl::Status Ledger::Database::CommitPending() {
  if (!open_transaction_) {
    return commit_status_;
  }
  commit_status_.Update(At(path_, connection_->Execute("COMMIT")));
  open_transaction_ = connection_->in_transaction();
  return commit_status_;
}

void Ledger::Database::CommitWhenDue() {
  while (const std::optional<SteadyTime> again = CommitIfDue()) {
    sleep_.Until(*again);
  }
}

std::optional<SteadyTime> Ledger::Database::CommitIfDue() {
  const absl::MutexLock lock(&mutex_);
  if (closing_) {
    return std::nullopt;
  }
  const SteadyTime due = SteadyAfter(kCommitInterval, opened_at_);
  if (open_transaction_ && SteadyNow() >= due) {
    CommitPending().IgnoreError();  // Kept in commit_status_.
  }
  return open_transaction_ && commit_status_.ok() ? due : SteadyAfter(absl::InfiniteDuration());
}

absl::Status Ledger::Database::Commit() {
  const absl::MutexLock lock(&mutex_);
  return CommitPending();
}

absl::StatusOr<int64_t> Ledger::Database::LastEvent() {
  const absl::MutexLock lock(&mutex_);
  SPLITVEIL_RETURN_IF_ERROR(CommitPending());
  const absl::StatusOr<int64_t> last = connection_->QueryInt64("SELECT coalesce(max(rowid), 0) FROM event");
  return last.ok() ? last : At(path_, last.status());
}

absl::Status Ledger::Database::Finish(absl::string_view status) {
  const absl::MutexLock lock(&mutex_);
  SPLITVEIL_RETURN_IF_ERROR(Begin());
  SPLITVEIL_RETURN_IF_ERROR(At(path_, finish_run_.Run(run_id_, UtcNow(), status)));
  finished_ = true;
  return CommitPending();
}

absl::StatusOr<std::vector<EventRow>> Ledger::Database::Events() {
  const absl::MutexLock lock(&mutex_);
  absl::StatusOr<SqliteStatement> select =
      connection_->Prepare("SELECT at, kind, detail FROM event WHERE run_id = ?1 ORDER BY rowid");
  absl::Status status = select.ok() ? select->Bind(run_id_) : select.status();
  std::vector<EventRow> events;
  while (status.ok()) {
    const absl::StatusOr<bool> more = select->Next();
    if (more.ok() && !*more) {
      return events;
    }
    status = more.status();
    if (status.ok()) {
      events.push_back({select->Text(0), select->Text(1), select->Text(2)});
    }
  }
  return At(path_, status);
}

absl::StatusOr<int64_t> Ledger::Database::CountEvents(absl::string_view kind) {
  const absl::MutexLock lock(&mutex_);
  absl::StatusOr<SqliteStatement> count = connection_->Prepare("SELECT count(*) FROM event WHERE kind = ?1");
  absl::Status status = count.ok() ? count->Bind(kind) : count.status();
  absl::StatusOr<bool> found = status.ok() ? count->Next() : absl::StatusOr<bool>(status);
  return found.ok() ? absl::StatusOr<int64_t>(count->Int64(0)) : At(path_, found.status());
}

absl::StatusOr<int64_t> Ledger::Database::CountEventsOfRun(absl::string_view kind, absl::string_view detail) {
  const absl::MutexLock lock(&mutex_);
  absl::StatusOr<SqliteStatement> count =
      connection_->Prepare("SELECT count(*) FROM event WHERE run_id = ?1 AND kind = ?2 AND (?3 = '' OR detail = ?3)");
  absl::Status status = count.ok() ? count->Bind(run_id_, kind, detail) : count.status();
  absl::StatusOr<bool> found = status.ok() ? count->Next() : absl::StatusOr<bool>(status);
  return found.ok() ? absl::StatusOr<int64_t>(count->Int64(0)) : At(path_, found.status());
}

absl::Status Ledger::Database::Trim(int64_t step) {
  const absl::MutexLock lock(&mutex_);
  SPLITVEIL_RETURN_IF_ERROR(Begin());
  for (const char* sql :
       {"DELETE FROM step WHERE run_id = ?1 AND step < ?2", "DELETE FROM step_time WHERE run_id = ?1 AND step < ?2",
        "DELETE FROM protection WHERE run_id = ?1 AND step < ?2", "DELETE FROM leak WHERE run_id = ?1 AND step < ?2",
        "DELETE FROM privacy_loss WHERE run_id = ?1 AND step < ?2"}) {
    absl::StatusOr<SqliteStatement> remove = connection_->Prepare(sql);
    SPLITVEIL_RETURN_IF_ERROR(At(path_, remove.ok() ? remove->Run(run_id_, step) : remove.status()));
  }
  return absl::OkStatus();
}

Ledger::Ledger(std::unique_ptr<Database> database, int64_t retained_steps)
    : database_(std::move(database)), retained_steps_(retained_steps) {}
Ledger::~Ledger() = default;

template <typename Row>
absl::Status Ledger::Told(absl::Status status, const Row& row) const {
  if (status.ok() && observer_ != nullptr) {
    observer_(&row);
  }
  return status;
}

absl::Status Ledger::Observe(LedgerObserver observer) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<EventRow> events, database_->Events());
  observer_ = std::move(observer);
  for (const EventRow& event : events) {
    observer_(&event);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Ledger>> Ledger::Open(const std::string& path, const RunRow& run,
                                                     const v1::LedgerPosition* position, int64_t retained_steps) {
  if (run.run_id.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": run_id: expected a name, found none"));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> connection,
                             SqliteDatabase::Open(path, SqliteDatabase::Mode::kCreate));
  auto database = std::make_unique<Database>(std::move(connection), path, run.run_id);
  SPLITVEIL_RETURN_IF_ERROR(At(path, database->Start(run, position)));
  return std::unique_ptr<Ledger>(new Ledger(std::move(database), retained_steps));
}

absl::StatusOr<std::unique_ptr<Ledger>> Ledger::Create(const std::string& path, const RunRow& run,
                                                       int64_t retained_steps) {
  return Open(path, run, nullptr, retained_steps);
}

absl::StatusOr<std::unique_ptr<Ledger>> Ledger::Continue(const std::string& path, const RunRow& run,
                                                         const v1::LedgerPosition& position, int64_t retained_steps) {
  return Open(path, run, &position, retained_steps);
}

absl::Status Ledger::Record(const StepRow& row) {
  if (const int64_t first = row.step - retained_steps_;
      retained_steps_ > 0 && first > 0 && row.step % kStepsBetweenTrims == 0) {
    SPLITVEIL_RETURN_IF_ERROR(database_->Trim(first));
  }
  return Told(database_->Insert(Database::kStep, row.step, row.epoch, row.batch, row.examples, row.loss, row.seconds,
                                row.bytes_sent, row.bytes_received),
              row);
}

absl::Status Ledger::Record(const StepTimeRow& row) {
  return Told(database_->Insert(Database::kStepTime, row.step, row.data, row.forward, row.serialise, row.wire, row.wait,
                                row.backward, row.protection, row.update, row.attacks),
              row);
}

absl::Status Ledger::Record(const ProtectionRow& row) {
  return Told(database_->Insert(Database::kProtection, row.step, row.method, row.u, row.v, row.g, row.p, row.power,
                                row.lambda1_neg, row.lambda2_neg, row.lambda1_pos, row.lambda2_pos, row.sum_kl,
                                row.auc_bound, GateActionName(row.gate)),
              row);
}

absl::Status Ledger::Record(const LeakRow& row) {
  return Told(database_->Insert(Database::kLeak, row.step, row.observer, row.layer, row.attack, row.auc, row.examples),
              row);
}

absl::Status Ledger::Record(const EpochLeakRow& row) {
  return Told(database_->Insert(Database::kEpochLeak, row.epoch, row.observer, row.layer, row.attack, row.examples,
                                row.positives, row.auc, row.auc_low, row.auc_high, row.tpr_1pct, row.tpr_1pct_low,
                                row.tpr_1pct_high, row.tpr_01pct, row.tpr_01pct_low, row.tpr_01pct_high,
                                row.gaussian_auc_bound, row.auc_bound),
              row);
}

absl::Status Ledger::Record(const DistributionRow& row) {
  return database_->Insert(Database::kDistribution, row.epoch, row.quantity, row.label, row.bin, row.low, row.high,
                           row.examples);
}

absl::Status Ledger::Record(const EvaluationRow& row) {
  return Told(database_->Insert(Database::kEvaluation, row.step, row.split, row.log_loss, row.auc, row.accuracy,
                                row.calibration_error, row.rmse, row.r_squared),
              row);
}

absl::Status Ledger::Record(const ClaimCheckRow& row) {
  return database_->Insert(Database::kClaimCheck, row.claimed_mu, row.claimed_epsilon, row.mu_lower, row.epsilon_lower,
                           row.delta, row.confidence, row.test, row.examples, row.positives, row.true_positive_rate_low,
                           row.false_positive_rate_high, row.failing_mu_lower, row.failing_confidence,
                           row.half_noise_mu_lower);
}

absl::Status Ledger::Record(const AllRunsRow& row) {
  return database_->Insert(Database::kAllRuns, row.account, row.examples, row.auc_bound);
}

absl::Status Ledger::Record(const PrivacyLossRow& row) {
  return database_->Insert(Database::kPrivacyLoss, row.step, row.attribute, row.privacy_loss, row.threshold, row.weight,
                           row.utility_weight, row.correction_steps, int64_t{row.at_front});
}

absl::Status Ledger::Record(const ActivationBoundRow& row) {
  return database_->Insert(Database::kActivationBound, row.releases, row.mu, row.auc_bound);
}

absl::Status Ledger::Record(const AttributeLeakRow& row) {
  return database_->Insert(Database::kAttributeLeak, row.epoch, row.attack, row.attribute, row.examples, row.rows,
                           row.accuracy, row.accuracy_low, row.accuracy_high, row.floor, row.auc);
}

absl::Status Ledger::RecordEvent(absl::string_view kind, absl::string_view detail) {
  const EventRow row = {UtcNow(), std::string(kind), OneLine(detail)};
  return Told(database_->Insert(Database::kEvent, row.at, row.kind, row.detail), row);
}

absl::StatusOr<int64_t> Ledger::CountEvents(absl::string_view kind) { return database_->CountEvents(kind); }

absl::StatusOr<int64_t> Ledger::CountEventsOfRun(absl::string_view kind, absl::string_view detail) {
  return database_->CountEventsOfRun(kind, OneLine(detail));
}

absl::Status Ledger::Commit() { return database_->Commit(); }

absl::StatusOr<int64_t> Ledger::CommitAndLastEvent() { return database_->LastEvent(); }

absl::Status Ledger::Finish(absl::string_view status) {
  if (status != "completed" && status != "stopped" && status != "failed" && status != "halted") {
    return absl::InvalidArgumentError(
        absl::StrCat("run status: expected completed, stopped, failed or halted, found \"", status, "\""));
  }
  return database_->Finish(status);
}

}  // namespace splitveil
