// The SQLite file behind a ledger: one run's rows, their transaction, and the thread that commits it.
#ifndef SPLITVEIL_COMMON_LEDGER_LEDGER_DATABASE_H_
#define SPLITVEIL_COMMON_LEDGER_LEDGER_DATABASE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

#include "common/ledger/ledger_rows.h"
#include "common/ledger/schema.h"
#include "common/process/steady_time.h"
#include "common/status/status_macros.h"
#include "common/storage/sqlite_database.h"

#include "splitveil/v1/checkpoint.pb.h"

namespace splitveil {

// Rows wait in memory. A thread of its own writes them when the oldest is a second old: a party that waits for its peer
// records nothing, and what it recorded before must not wait with it. It holds the file for the moment of writing, so
// that several runs share one, and holds up nobody who records meanwhile. Thread-safe after Start. Errors name the
// file.
class LedgerDatabase {
 public:
  // Of ledgers: 2026-01-31T09:30:00.123Z.
  static std::string UtcNow();

  // `path`: of the connection, for errors.
  LedgerDatabase(std::unique_ptr<SqliteDatabase> connection, std::string path, std::string run_id)
      : path_(std::move(path)), run_id_(std::move(run_id)), connection_(std::move(connection)) {}
  // Commits what is open.
  ~LedgerDatabase() ABSL_LOCKS_EXCLUDED(mutex_);

  // Begins the run, or continues it from `position`. Before any other call, once.
  absl::Status Start(const RunRow& run, const v1::LedgerPosition* position) ABSL_LOCKS_EXCLUDED(mutex_);
  // A row of this run. AlreadyExists if one of its key waits; if the file has one, Commit and all that follows
  // fail: Internal.
  template <typename Row>
  absl::Status Insert(const Row& row) ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    SPLITVEIL_RETURN_IF_ERROR(CheckOpen());
    const auto [insertion, is_new] = recorded_.insertions.try_emplace(Row::kTable);
    if (is_new) {
      SPLITVEIL_ASSIGN_OR_RETURN(insertion->second, recorded_.rows->Prepare(InsertionOf<Row>().c_str()));
    }
    SPLITVEIL_RETURN_IF_ERROR(At(WriteRow(run_id_, row, insertion->second)));
    NoteRecorded();
    return absl::OkStatus();
  }
  // Commit to CountEventsOfRun: see Ledger. Those that read commit first, so that rows which wait in memory count.
  absl::Status Commit() ABSL_LOCKS_EXCLUDED(file_mutex_, mutex_);
  absl::StatusOr<int64_t> LastEvent() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Finish(absl::string_view status) ABSL_LOCKS_EXCLUDED(mutex_);
  // Of the run, in the order they were recorded.
  absl::StatusOr<std::vector<EventRow>> Events() ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<int64_t> CountEventsOfRun(absl::string_view kind, absl::string_view detail)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Removes what was recorded of the run's single steps before `step`. The file does not shrink; it takes new rows
  // where the old ones were.
  absl::Status Trim(int64_t step) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string& path() const { return path_; }
  const std::string& run_id() const { return run_id_; }

 private:
  // Rows on their way into the file.
  struct Waiting {
    std::unique_ptr<SqliteDatabase> rows;  // In memory; before the statements, which must be finalised first.
    std::map<absl::string_view, SqliteStatement> insertions;  // By table, once used.
    bool any = false;                                         // Or anything else that is to be written.
    SteadyTime since;                                         // The first of them.
    int64_t first_step = 0;                                   // Rows of steps before it are removed.
    std::string final_status;                                 // Empty: the run has not ended.
  };

  // The error with the ledger's path before it.
  absl::Status At(const absl::Status& status) const;
  // The number that `sql` selects with `values` bound.
  template <typename... Values>
  absl::StatusOr<int64_t> Count(const char* sql, const Values&... values) ABSL_LOCKS_EXCLUDED(file_mutex_, mutex_);
  absl::Status InsertRun(const RunRow& run) ABSL_EXCLUSIVE_LOCKS_REQUIRED(file_mutex_);
  // Steps that the file has of a run; none: it does not know the run.
  absl::StatusOr<std::optional<int64_t>> RecordedSteps(const std::string& run_id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(file_mutex_);
  absl::Status GoBackTo(const v1::LedgerPosition& position, const RunRow& run)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(file_mutex_);
  absl::Status CheckOpen() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteRecorded() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // All of `waiting` in one transaction, which is open if that fails.
  absl::Status Write(Waiting& waiting) ABSL_EXCLUSIVE_LOCKS_REQUIRED(file_mutex_);
  // The rows of a table out of `rows` into the file.
  absl::Status Move(const std::string& table, SqliteDatabase& rows) ABSL_EXCLUSIVE_LOCKS_REQUIRED(file_mutex_);
  void CommitWhenDue();
  // Commits what has waited long enough. When to look again; nullopt: the ledger closes.
  std::optional<SteadyTime> CommitIfDue() ABSL_LOCKS_EXCLUDED(file_mutex_, mutex_);

  const std::string path_;  // For errors.
  const std::string run_id_;
  std::thread committer_;  // Of Start and the destructor alone.
  WakeableSleep sleep_;    // The committer's; ended by closing_ and the first row after a commit.

  absl::Mutex file_mutex_ ABSL_ACQUIRED_BEFORE(mutex_);
  std::unique_ptr<SqliteDatabase> connection_ ABSL_GUARDED_BY(file_mutex_);
  Waiting committed_ ABSL_GUARDED_BY(file_mutex_);  // Being written, or empty.

  absl::Mutex mutex_;
  Waiting recorded_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  // First failed commit: rows were lost, so every later call reports it.
  absl::Status commit_status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEDGER_LEDGER_DATABASE_H_
