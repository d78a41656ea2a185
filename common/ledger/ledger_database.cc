#include "common/ledger/ledger_database.h"

#include <system_error>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "common/ledger/schema.h"
#include "common/status/status_context.h"

namespace splitveil {
namespace {

// What a crash loses at most; a commit waits for the disk, so not one per row.
constexpr absl::Duration kCommitInterval = absl::Seconds(1);

// What a run has once, from its start on: a run that goes on writes it again in the place of what it had.
constexpr absl::string_view kReplaced[] = {"all_runs", "activation_bound", "label_release"};

}  // namespace

std::string LedgerDatabase::UtcNow() {
  return absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone());
}

absl::Status LedgerDatabase::At(const absl::Status& status) const { return Within(path_, status); }

LedgerDatabase::~LedgerDatabase() {
  {
    const absl::MutexLock lock(&mutex_);
    closing_ = true;
  }
  sleep_.Wake();
  if (committer_.joinable()) {
    committer_.join();
  }
  Commit().IgnoreError();  // A destructor cannot report; Finish and Commit do.
}

absl::Status LedgerDatabase::Start(const RunRow& run, const v1::LedgerPosition* position) {
  const absl::MutexLock file_lock(&file_mutex_);
  SPLITVEIL_RETURN_IF_ERROR(At(CreateSchema(*connection_)));
  // Foreign keys are off in SQLite unless asked for, per connection; without FULL a power failure may lose a committed
  // row.
  SPLITVEIL_RETURN_IF_ERROR(At(connection_->Execute("PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL")));
  SPLITVEIL_RETURN_IF_ERROR(At(position == nullptr ? InsertRun(run) : GoBackTo(*position, run)));
  const absl::MutexLock lock(&mutex_);
  // Two buffers that take turns: rows are recorded into one while the other is written to the file.
  for (Waiting* waiting : {&recorded_, &committed_}) {
    SPLITVEIL_ASSIGN_OR_RETURN(waiting->rows, SqliteDatabase::Open(":memory:", SqliteDatabase::Mode::kCreate));
    SPLITVEIL_RETURN_IF_ERROR(CreateTables(*waiting->rows));
  }
  // Last: the thread takes the locks and uses what was set up above.
  try {
    committer_ = std::thread(&LedgerDatabase::CommitWhenDue, this);
  } catch (const std::system_error& error) {
    return At(absl::InternalError(absl::StrCat("no thread is to be had: ", error.what())));
  }
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

// This read must end before the write below begins: SQLite refuses to turn a read of an old state into a write. So the
// statement is read to its end.
absl::StatusOr<std::optional<int64_t>> LedgerDatabase::RecordedSteps(const std::string& run_id) {
  SPLITVEIL_ASSIGN_OR_RETURN(
      SqliteStatement find,
      connection_->Prepare("SELECT coalesce(max(step) + 1, 0) FROM run LEFT JOIN step USING (run_id) "
                           "WHERE run_id = ?1 GROUP BY run_id"));
  SPLITVEIL_RETURN_IF_ERROR(find.Bind(run_id));
  SPLITVEIL_ASSIGN_OR_RETURN(const bool known, find.Next());
  return known ? std::optional<int64_t>(find.Int64(0)) : std::nullopt;
}

absl::Status LedgerDatabase::GoBackTo(const v1::LedgerPosition& position, const RunRow& run) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::optional<int64_t> known, RecordedSteps(run.run_id));
  // A checkpoint is written after its ledger: one that lacks the run, or steps of it, is a different one, or an older
  // copy. Its readers would take it for a complete run, or for one that had sent nothing before.
  if (!known.has_value() || *known < position.steps()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "expected the ledger of run \"", run.run_id, "\" up to step ", position.steps(),
        ", where its checkpoint resumes, found ",
        known.has_value() ? absl::StrCat("it up to step ", *known) : "none of it",
        ": restore the ledger_path that the run has written, or set the label party's restart to begin a new run"));
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
       "'checkpoint', 'continued', 'export_failed', 'disclosed', 'unproved_answers', 'operator_halt', "
       "'operator_raise_noise', 'operator_lower_disclosure', 'releases_follow', 'first_slice_sent', 'new_account', "
       "'lost_by_account')",
       position.last_event()}};
  for (const auto& [sql, beyond] : removals) {
    SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement remove, connection_->Prepare(sql));
    SPLITVEIL_RETURN_IF_ERROR(remove.Run(run.run_id, beyond));
  }
  // What a run has once, at its end: the resumed run writes it again. What it has from its start on (kReplaced) stays
  // until then: the run may end before, and what it released remains.
  for (const char* const sql : {"DELETE FROM claim_check WHERE run_id = ?1",
                                "UPDATE run SET status = 'running', finished_at = NULL WHERE run_id = ?1"}) {
    SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement change, connection_->Prepare(sql));
    SPLITVEIL_RETURN_IF_ERROR(change.Run(run.run_id));
  }
  // From now on it has promised this, too.
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement limit,
                             connection_->Prepare("UPDATE run SET max_lifetime_auc_bound = "
                                                  "min(max_lifetime_auc_bound, ?2) WHERE run_id = ?1"));
  SPLITVEIL_RETURN_IF_ERROR(limit.Run(run.run_id, run.max_lifetime_auc_bound));
  return connection_->Execute("COMMIT");
}

absl::Status LedgerDatabase::CheckOpen() const {
  SPLITVEIL_RETURN_IF_ERROR(commit_status_);
  return finished_ ? absl::FailedPreconditionError("ledger: the run is finished") : absl::OkStatus();
}

void LedgerDatabase::NoteRecorded() {
  // The first row after a commit starts the clock of the next one.
  if (!std::exchange(recorded_.any, true)) {
    recorded_.since = SteadyNow();
    sleep_.Wake();
  }
}

absl::Status LedgerDatabase::Write(Waiting& waiting) {
  SPLITVEIL_RETURN_IF_ERROR(connection_->Execute("BEGIN IMMEDIATE"));
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement tables,
                             waiting.rows->Prepare("SELECT name FROM sqlite_schema WHERE type = 'table'"));
  while (true) {
    SPLITVEIL_ASSIGN_OR_RETURN(const bool more, tables.Next());
    if (!more) {
      break;
    }
    SPLITVEIL_RETURN_IF_ERROR(Move(tables.Text(0), *waiting.rows));
  }
  // After the new rows: steps that are recorded and removed at once must be in the summaries, too.
  for (const std::string& sql : waiting.first_step > 0 ? RemovalOfSteps() : std::vector<std::string>()) {
    SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement removal, connection_->Prepare(sql.c_str()));
    SPLITVEIL_RETURN_IF_ERROR(removal.Run(run_id_, waiting.first_step));
  }
  if (!waiting.final_status.empty()) {
    SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement finish,
                               connection_->Prepare("UPDATE run SET finished_at = ?2, status = ?3 WHERE run_id = ?1"));
    SPLITVEIL_RETURN_IF_ERROR(finish.Run(run_id_, UtcNow(), waiting.final_status));
  }
  return connection_->Execute("COMMIT");
}

absl::Status LedgerDatabase::Move(const std::string& table, SqliteDatabase& rows) {
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement row, rows.Prepare(absl::StrCat("SELECT * FROM ", table).c_str()));
  SPLITVEIL_ASSIGN_OR_RETURN(bool more, row.Next());
  if (!more) {
    return absl::OkStatus();
  }
  // Column by column: the tables in memory were made by the same statements as those in the file.
  const std::string values = absl::StrJoin(std::vector<std::string>(row.columns(), "?"), ", ");
  const char* const verb = absl::c_linear_search(kReplaced, table) ? "INSERT OR REPLACE" : "INSERT";
  absl::StatusOr<SqliteStatement> insertion =
      connection_->Prepare(absl::StrCat(verb, " INTO ", table, " VALUES (", values, ")").c_str());
  SPLITVEIL_RETURN_IF_ERROR(insertion.status());
  while (more) {
    SPLITVEIL_RETURN_IF_ERROR(insertion->RunWith(row));
    SPLITVEIL_ASSIGN_OR_RETURN(more, row.Next());
  }
  return rows.Execute(absl::StrCat("DELETE FROM ", table).c_str());
}

absl::Status LedgerDatabase::Commit() {
  const absl::MutexLock file_lock(&file_mutex_);
  {
    const absl::MutexLock lock(&mutex_);
    if (!commit_status_.ok() || !recorded_.any) {
      return commit_status_;
    }
    std::swap(recorded_, committed_);
  }
  // Without the lock that Insert takes: another run may hold the file, or the disk be slow.
  const absl::Status written = At(Write(committed_));
  // After a failed write the file must not stay locked for other runs.
  if (connection_->in_transaction()) {
    connection_->Execute("ROLLBACK").IgnoreError();
  }
  committed_.any = false;
  committed_.first_step = 0;
  const absl::MutexLock lock(&mutex_);
  // Kept for good: rows of a failed commit are lost, and a run must not continue as if they were recorded. A row that
  // the file has is this party's mistake, not the caller's.
  commit_status_.Update(absl::IsAlreadyExists(written) ? absl::InternalError(written.message()) : written);
  return commit_status_;
}

void LedgerDatabase::CommitWhenDue() {
  while (const std::optional<SteadyTime> again = CommitIfDue()) {
    sleep_.Until(*again);
  }
}

std::optional<SteadyTime> LedgerDatabase::CommitIfDue() {
  {
    const absl::MutexLock lock(&mutex_);
    // By age, not by count: what was recorded before a long wait for the peer must be visible meanwhile.
    const SteadyTime due = SteadyAfter(kCommitInterval, recorded_.since);
    if (closing_) {
      return std::nullopt;
    }
    if (!recorded_.any || !commit_status_.ok() || SteadyNow() < due) {
      return recorded_.any && commit_status_.ok() ? due : SteadyAfter(absl::InfiniteDuration());
    }
  }
  Commit().IgnoreError();  // Kept in commit_status_.
  return SteadyNow();
}

absl::Status LedgerDatabase::Finish(absl::string_view status) {
  {
    const absl::MutexLock lock(&mutex_);
    SPLITVEIL_RETURN_IF_ERROR(CheckOpen());
    // In the same transaction as the last rows: a run that reads as finished has all of them.
    recorded_.final_status = std::string(status);
    finished_ = true;
    NoteRecorded();
  }
  return Commit();
}

absl::StatusOr<std::vector<EventRow>> LedgerDatabase::Events() {
  // Rows that still wait in memory count, too.
  SPLITVEIL_RETURN_IF_ERROR(Commit());
  const absl::MutexLock lock(&file_mutex_);
  absl::StatusOr<std::vector<EventRow>> events = ReadRows<EventRow>(*connection_, run_id_, "rowid");
  return events.ok() ? std::move(events) : At(events.status());
}

template <typename... Values>
absl::StatusOr<int64_t> LedgerDatabase::Count(const char* sql, const Values&... values) {
  SPLITVEIL_RETURN_IF_ERROR(Commit());
  const absl::MutexLock lock(&file_mutex_);
  absl::StatusOr<SqliteStatement> count = connection_->Prepare(sql);
  absl::Status status = count.ok() ? count->Bind(values...) : count.status();
  absl::StatusOr<bool> found = status.ok() ? count->Next() : absl::StatusOr<bool>(status);
  return found.ok() ? absl::StatusOr<int64_t>(count->Int64(0)) : At(found.status());
}

absl::StatusOr<int64_t> LedgerDatabase::LastEvent() { return Count("SELECT coalesce(max(rowid), 0) FROM event"); }

absl::StatusOr<int64_t> LedgerDatabase::CountEventsOfRun(absl::string_view kind, absl::string_view detail) {
  return Count("SELECT count(*) FROM event WHERE run_id = ?1 AND kind = ?2 AND (?3 = '' OR detail = ?3)", run_id_, kind,
               detail);
}

absl::Status LedgerDatabase::Trim(int64_t step) {
  const absl::MutexLock lock(&mutex_);
  SPLITVEIL_RETURN_IF_ERROR(CheckOpen());
  // With the next commit, in its transaction.
  recorded_.first_step = step;
  NoteRecorded();
  return absl::OkStatus();
}

}  // namespace splitveil
