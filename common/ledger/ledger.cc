#include "common/ledger/ledger.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "common/ledger/gate_action.h"
#include "common/ledger/schema.h"
#include "common/ledger/sqlite_database.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr std::chrono::seconds kCommitInterval(1);

std::string UtcNow() { return absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone()); }

absl::Status At(const std::string& path, const absl::Status& status) {
  return status.ok() ? status : absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

}  // namespace

// Rows wait in one open transaction. A thread of its own commits it when it is a second old: a party that waits for
// its peer records nothing, and what it recorded before must not wait with it.
struct Ledger::Database {
  std::unique_ptr<SqliteDatabase> connection;  // Before the statements, which must be finalised first.
  SqliteStatement insert_step, insert_step_time, insert_protection, insert_leak, insert_epoch_leak, insert_distribution,
      insert_evaluation, insert_event, finish_run;
  std::string run_id;

  std::mutex mutex;                 // Guards everything but run_id.
  std::condition_variable changed;  // Of the three below.
  bool closing = false;
  bool open_transaction = false;
  std::chrono::steady_clock::time_point opened_at;
  bool finished = false;
  absl::Status commit_status;  // First failed commit: rows were lost, so every later call reports it.
  std::thread committer;

  ~Database();
  absl::Status Prepare();
  absl::Status InsertRun(const RunRow& run);
  template <typename... Values>
  absl::Status Insert(SqliteStatement& statement, const Values&... values);
  absl::Status Begin();          // Requires mutex.
  absl::Status CommitPending();  // Requires mutex.
  void CommitWhenDue();
};

Ledger::Database::~Database() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    closing = true;
  }
  changed.notify_all();
  if (committer.joinable()) {
    committer.join();
  }
  if (connection != nullptr) {
    CommitPending().IgnoreError();  // Nobody is left to tell; Finish and Commit report.
  }
}

absl::Status Ledger::Database::Prepare() {
  const std::pair<SqliteStatement*, const char*> statements[] = {
      {&insert_step, "INSERT INTO step VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"},
      {&insert_step_time, "INSERT INTO step_time VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"},
      {&insert_protection,
       "INSERT INTO protection VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)"},
      {&insert_leak, "INSERT INTO leak VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"},
      {&insert_epoch_leak,
       "INSERT INTO epoch_leak VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, "
       "?18)"},
      {&insert_distribution, "INSERT INTO distribution VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"},
      {&insert_evaluation, "INSERT INTO evaluation VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)"},
      {&insert_event, "INSERT INTO event VALUES (?1, ?2, ?3, ?4)"},
      {&finish_run, "UPDATE run SET finished_at = ?2, status = ?3 WHERE run_id = ?1"},
  };
  for (const auto& [statement, sql] : statements) {
    SPLITVEIL_ASSIGN_OR_RETURN(*statement, connection->Prepare(sql));
  }
  return absl::OkStatus();
}

absl::Status Ledger::Database::InsertRun(const RunRow& run) {
  SPLITVEIL_ASSIGN_OR_RETURN(
      SqliteStatement insert,
      connection->Prepare("INSERT INTO run VALUES (?1, ?2, ?3, ?4, ?5, NULL, 'running', ?6, ?7)"));
  absl::Status inserted = insert.Run(run.run_id, run.role, run.agreement_sha256, run.protection, UtcNow(),
                                     run.config_json, run.resumed_from);
  if (absl::IsAlreadyExists(inserted)) {
    return absl::InvalidArgumentError(absl::StrCat("run \"", run.run_id, "\" is already in this ledger"));
  }
  return inserted;
}

template <typename... Values>
absl::Status Ledger::Database::Insert(SqliteStatement& statement, const Values&... values) {
  std::lock_guard<std::mutex> lock(mutex);
  absl::Status begun = Begin();
  return begun.ok() ? statement.Run(run_id, values...) : begun;
}

absl::Status Ledger::Database::Begin() {
  if (!commit_status.ok()) {
    return commit_status;
  }
  if (finished) {
    return absl::FailedPreconditionError("ledger: the run is finished");
  }
  if (open_transaction) {
    return absl::OkStatus();
  }
  absl::Status begun = connection->Execute("BEGIN IMMEDIATE");
  if (begun.ok()) {
    open_transaction = true;
    opened_at = std::chrono::steady_clock::now();
    changed.notify_all();
  }
  return begun;
}

absl::Status Ledger::Database::CommitPending() {
  if (!open_transaction) {
    return commit_status;
  }
  commit_status.Update(connection->Execute("COMMIT"));
  open_transaction = connection->in_transaction();
  return commit_status;
}

void Ledger::Database::CommitWhenDue() {
  std::unique_lock<std::mutex> lock(mutex);
  while (!closing) {
    if (!open_transaction || !commit_status.ok()) {
      changed.wait(lock);
    } else if (std::chrono::steady_clock::now() >= opened_at + kCommitInterval) {
      CommitPending().IgnoreError();  // Kept in commit_status.
    } else {
      changed.wait_until(lock, opened_at + kCommitInterval);
    }
  }
}

Ledger::Ledger(std::unique_ptr<Database> database) : database_(std::move(database)) {}
Ledger::~Ledger() = default;

absl::StatusOr<std::unique_ptr<Ledger>> Ledger::Create(const std::string& path, const RunRow& run) {
  if (run.run_id.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": run_id: expected a name, found none"));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<SqliteDatabase> connection,
                             SqliteDatabase::Open(path, SqliteDatabase::Mode::kCreate));
  auto database = std::make_unique<Database>();
  database->connection = std::move(connection);
  database->run_id = run.run_id;
  absl::Status status = CreateSchema(*database->connection);
  if (status.ok()) {
    status = database->connection->Execute("PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL");
  }
  if (status.ok()) {
    status = database->InsertRun(run);
  }
  if (status.ok()) {
    status = database->Prepare();
  }
  if (!status.ok()) {
    return At(path, status);
  }
  database->committer = std::thread(&Database::CommitWhenDue, database.get());
  return std::unique_ptr<Ledger>(new Ledger(std::move(database)));
}

absl::Status Ledger::Record(const StepRow& row) {
  return database_->Insert(database_->insert_step, row.step, row.epoch, row.batch, row.examples, row.loss, row.seconds,
                           row.bytes_sent, row.bytes_received);
}

absl::Status Ledger::Record(const StepTimeRow& row) {
  return database_->Insert(database_->insert_step_time, row.step, row.data, row.forward, row.serialise, row.wire,
                           row.wait, row.backward, row.protection, row.update, row.audit);
}

absl::Status Ledger::Record(const ProtectionRow& row) {
  return database_->Insert(database_->insert_protection, row.step, row.method, row.u, row.v, row.g, row.p, row.power,
                           row.lambda1_neg, row.lambda2_neg, row.lambda1_pos, row.lambda2_pos, row.sum_kl,
                           row.auc_bound, GateActionName(row.gate));
}

absl::Status Ledger::Record(const LeakRow& row) {
  return database_->Insert(database_->insert_leak, row.step, row.observer, row.layer, row.attack, row.auc,
                           row.examples);
}

absl::Status Ledger::Record(const EpochLeakRow& row) {
  return database_->Insert(database_->insert_epoch_leak, row.epoch, row.observer, row.layer, row.attack, row.examples,
                           row.positives, row.auc, row.auc_low, row.auc_high, row.tpr_1pct, row.tpr_1pct_low,
                           row.tpr_1pct_high, row.tpr_01pct, row.tpr_01pct_low, row.tpr_01pct_high,
                           row.gaussian_auc_bound, row.auc_bound);
}

absl::Status Ledger::Record(const DistributionRow& row) {
  return database_->Insert(database_->insert_distribution, row.epoch, row.quantity, row.label, row.bin, row.low,
                           row.high, row.examples);
}

absl::Status Ledger::Record(const EvaluationRow& row) {
  return database_->Insert(database_->insert_evaluation, row.step, row.split, row.log_loss, row.auc, row.accuracy,
                           row.calibration_error);
}

absl::Status Ledger::RecordEvent(absl::string_view kind, absl::string_view detail) {
  return database_->Insert(database_->insert_event, UtcNow(), kind, detail);
}

absl::Status Ledger::Commit() {
  std::lock_guard<std::mutex> lock(database_->mutex);
  return database_->CommitPending();
}

absl::Status Ledger::Finish(absl::string_view status) {
  if (status != "completed" && status != "stopped" && status != "failed" && status != "halted") {
    return absl::InvalidArgumentError(
        absl::StrCat("run status: expected completed, stopped, failed or halted, found \"", status, "\""));
  }
  std::lock_guard<std::mutex> lock(database_->mutex);
  absl::Status updated = database_->Begin();
  if (updated.ok()) {
    updated = database_->finish_run.Run(database_->run_id, UtcNow(), status);
  }
  if (!updated.ok()) {
    return updated;
  }
  database_->finished = true;
  return database_->CommitPending();
}

}  // namespace splitveil
