#include "common/ledger/ledger_database.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "common/ledger/schema.h"

namespace splitveil {
namespace {

constexpr absl::Duration kCommitInterval = absl::Seconds(1);

}  // namespace

std::string LedgerDatabase::UtcNow() {
  return absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone());
}

absl::Status LedgerDatabase::At(const absl::Status& status) const {
  return status.ok() ? status : absl::Status(status.code(), absl::StrCat(path_, ": ", status.message()));
}

LedgerDatabase::~LedgerDatabase() {
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

absl::Status LedgerDatabase::Start(const RunRow& run, const v1::LedgerPosition* position) {
  const absl::MutexLock lock(&mutex_);
  SPLITVEIL_RETURN_IF_ERROR(At(CreateSchema(*connection_)));
  // Foreign keys are off in SQLite unless asked for, per connection; without FULL a power failure may lose a committed
  // row.
  SPLITVEIL_RETURN_IF_ERROR(At(connection_->Execute("PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL")));
  SPLITVEIL_RETURN_IF_ERROR(At(position == nullptr ? InsertRun(run) : GoBackTo(*position, run)));
  // Last: the thread takes the lock and uses what was set up above.
  committer_ = std::thread(&LedgerDatabase::CommitWhenDue, this);
  return absl::OkStatus();
}

absl::Status LedgerDatabase::InsertRun(const RunRow& run) {
  SPLITVEIL_ASSIGN_OR_RETURN(
      SqliteStatement insert,
      connection_->Prepare("INSERT INTO run VALUES (?1, ?2, ?3, ?4, ?5, NULL, 'running', ?6, ?7, ?8, ?9, ?10, ?11)"));
  absl::Status inserted =
      insert.Run(run.run_id, run.role, run.agreement_sha256, run.protection, UtcNow(), run.config_json,
                 run.resumed_from, run.data_sha256, run.label_set, run.account, run.max_lifetime_auc_bound);
  // Run ids are random: the same one again is the same run, which must not be recorded twice.
  if (absl::IsAlreadyExists(inserted)) {
    return absl::InvalidArgumentError(absl::StrCat("run \"", run.run_id, "\" is already in this ledger"));
  }
  return inserted;
}

absl::Status LedgerDatabase::GoBackTo(const v1::LedgerPosition& position, const RunRow& run) {
  SPLITVEIL_ASSIGN_OR_RETURN(
      SqliteStatement find,
      connection_->Prepare("SELECT coalesce(max(step) + 1, 0) FROM run LEFT JOIN step USING (run_id) "
                           "WHERE run_id = ?1 GROUP BY run_id"));
  SPLITVEIL_RETURN_IF_ERROR(find.Bind(run.run_id));
  SPLITVEIL_ASSIGN_OR_RETURN(const bool known, find.Next());
  // A checkpoint is written after its ledger: one that lacks steps is a different one, or an older copy, and its
  // readers would take it for a complete run.
  if (const int64_t recorded = known ? find.Int64(0) : 0; recorded < position.steps()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected the ledger of run \"", run.run_id, "\" up to step ", position.steps(),
        ", where its checkpoint resumes, found it up to step ", recorded,
        ": restore the file that the run has written, or set the label party's restart to begin a new run"));
  }
  if (!known) {
    return InsertRun(run);
  }
  SPLITVEIL_RETURN_IF_ERROR(connection_->Execute("BEGIN IMMEDIATE"));
  // What was recorded beyond the checkpoint is computed and recorded again; rows of both would not add up.
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
       "'checkpoint', 'continued', 'export_failed', 'aligning', 'disclosed', 'operator_halt', 'operator_raise_noise', "
       "'operator_lower_disclosure')",
       position.last_event()}};
  for (const auto& [sql, beyond] : removals) {
    SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement remove, connection_->Prepare(sql));
    SPLITVEIL_RETURN_IF_ERROR(remove.Run(run.run_id, beyond));
  }
  // Rows that a run has once, at its end or start: the resumed run writes them again.
  for (const char* const sql :
       {"DELETE FROM claim_check WHERE run_id = ?1", "DELETE FROM all_runs WHERE run_id = ?1",
        "DELETE FROM activation_bound WHERE run_id = ?1", "DELETE FROM label_release WHERE run_id = ?1",
        "UPDATE run SET status = 'running', finished_at = NULL WHERE run_id = ?1"}) {
    SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement change, connection_->Prepare(sql));
    SPLITVEIL_RETURN_IF_ERROR(change.Run(run.run_id));
  }
  return connection_->Execute("COMMIT");
}

absl::Status LedgerDatabase::Begin() {
  SPLITVEIL_RETURN_IF_ERROR(commit_status_);
  if (finished_) {
    return absl::FailedPreconditionError("ledger: the run is finished");
  }
  if (open_transaction_) {
    return absl::OkStatus();
  }
  SPLITVEIL_RETURN_IF_ERROR(At(connection_->Execute("BEGIN IMMEDIATE")));
  open_transaction_ = true;
  opened_at_ = SteadyNow();
  sleep_.Wake();
  return absl::OkStatus();
}

absl::Status LedgerDatabase::CommitPending() {
  if (!open_transaction_) {
    return commit_status_;
  }
  // Kept for good: rows of a failed commit are lost, and a run must not go on as if they were recorded.
  commit_status_.Update(At(connection_->Execute("COMMIT")));
  open_transaction_ = connection_->in_transaction();
  return commit_status_;
}

void LedgerDatabase::CommitWhenDue() {
  while (const std::optional<SteadyTime> again = CommitIfDue()) {
    sleep_.Until(*again);
  }
}

std::optional<SteadyTime> LedgerDatabase::CommitIfDue() {
  const absl::MutexLock lock(&mutex_);
  if (closing_) {
    return std::nullopt;
  }
  // By age, not by count: what was recorded before a long wait for the peer must be visible meanwhile.
  const SteadyTime due = SteadyAfter(kCommitInterval, opened_at_);
  if (open_transaction_ && SteadyNow() >= due) {
    CommitPending().IgnoreError();  // Kept in commit_status_.
  }
  return open_transaction_ && commit_status_.ok() ? due : SteadyAfter(absl::InfiniteDuration());
}

absl::Status LedgerDatabase::Commit() {
  const absl::MutexLock lock(&mutex_);
  return CommitPending();
}

absl::Status LedgerDatabase::Finish(absl::string_view status) {
  const absl::MutexLock lock(&mutex_);
  // In the same transaction as the last rows: a run that reads as finished has all of them.
  SPLITVEIL_RETURN_IF_ERROR(Begin());
  absl::StatusOr<SqliteStatement> finish =
      connection_->Prepare("UPDATE run SET finished_at = ?2, status = ?3 WHERE run_id = ?1");
  SPLITVEIL_RETURN_IF_ERROR(At(finish.ok() ? finish->Run(run_id_, UtcNow(), status) : finish.status()));
  finished_ = true;
  return CommitPending();
}

absl::StatusOr<std::vector<EventRow>> LedgerDatabase::Events() {
  const absl::MutexLock lock(&mutex_);
  absl::StatusOr<std::vector<EventRow>> events = ReadRows<EventRow>(*connection_, run_id_, "rowid");
  return events.ok() ? std::move(events) : At(events.status());
}

template <typename... Values>
absl::StatusOr<int64_t> LedgerDatabase::Count(const char* sql, const Values&... values) {
  const absl::MutexLock lock(&mutex_);
  absl::StatusOr<SqliteStatement> count = connection_->Prepare(sql);
  absl::Status status = count.ok() ? count->Bind(values...) : count.status();
  absl::StatusOr<bool> found = status.ok() ? count->Next() : absl::StatusOr<bool>(status);
  return found.ok() ? absl::StatusOr<int64_t>(count->Int64(0)) : At(found.status());
}

absl::StatusOr<int64_t> LedgerDatabase::LastEvent() { return Count("SELECT coalesce(max(rowid), 0) FROM event"); }

absl::StatusOr<int64_t> LedgerDatabase::CountEvents(absl::string_view kind) {
  return Count("SELECT count(*) FROM event WHERE kind = ?1", kind);
}

absl::StatusOr<int64_t> LedgerDatabase::CountEventsOfRun(absl::string_view kind, absl::string_view detail) {
  return Count("SELECT count(*) FROM event WHERE run_id = ?1 AND kind = ?2 AND (?3 = '' OR detail = ?3)", run_id_, kind,
               detail);
}

absl::Status LedgerDatabase::Trim(int64_t step) {
  const absl::MutexLock lock(&mutex_);
  SPLITVEIL_RETURN_IF_ERROR(Begin());
  for (const std::string& sql : RemovalOfSteps()) {
    absl::StatusOr<SqliteStatement> change = connection_->Prepare(sql.c_str());
    SPLITVEIL_RETURN_IF_ERROR(At(change.ok() ? change->Run(run_id_, step) : change.status()));
  }
  return absl::OkStatus();
}

}  // namespace splitveil
