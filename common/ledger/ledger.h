// The record of a run: SQLite in WAL mode, one file per party. Tables: common/ledger/README.md.
#ifndef SPLITVEIL_COMMON_LEDGER_LEDGER_H_
#define SPLITVEIL_COMMON_LEDGER_LEDGER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/ledger/ledger_rows.h"

#include "splitveil/v1/checkpoint.pb.h"

namespace splitveil {

class LedgerDatabase;

// A row as it was recorded, borrowed for the call. Rows of other tables are not reported.
using RecordedRow = std::variant<const StepRow*, const StepTimeRow*, const ProtectionRow*, const LeakRow*,
                                 const EpochLeakRow*, const EvaluationRow*, const EventRow*>;
// Called by the thread that records, once the row has been taken. Must be thread-safe, and must not call the ledger.
using LedgerObserver = std::function<void(const RecordedRow&)>;

// Thread-safe. Rows are buffered in memory and committed when the oldest is a second old, by Commit and at the end, so
// a crash loses at most the last second; other processes may read and write meanwhile, and see what is committed. NaN
// and infinite numbers are stored as NULL. Errors of Record*: AlreadyExists for a row whose key was recorded before (it
// is not changed, and recording continues, unless that row has been committed: then as after a failed commit);
// FailedPrecondition after Finish; what SQLite says after a failed commit (disk full: Internal), then at every later
// call, since rows are lost. Messages of Create name the path: for this party alone.
class Ledger {
 public:
  // Opens or creates `path` and begins the run. Errors: InvalidArgument if the file is no ledger of this version,
  // cannot be opened or written, or lies on a file system that cannot do WAL, and if the run exists or has no name;
  // NotFound if its folder does not exist; Internal while another process holds it locked.
  // `retained_steps` above 0: of the rows of single steps those of the latest steps stay, at least as many.
  static absl::StatusOr<std::unique_ptr<Ledger>> Create(const std::string& path, const RunRow& run,
                                                        int64_t retained_steps = 0);
  // Continues an interrupted run from the rows that it had at `position`: those beyond are removed, for
  // they are recorded again; events about interruptions, refusals, disclosed labels and what the operator did
  // stay. Errors: the same, but for a run that exists; InvalidArgument if it does not know the run, or ends before
  // `position`: it was removed, or another one or an older copy was put in its place.
  static absl::StatusOr<std::unique_ptr<Ledger>> Continue(const std::string& path, const RunRow& run,
                                                          const v1::LedgerPosition& position,
                                                          int64_t retained_steps = 0);
  // Commits. A run that was not finished stays "running".
  ~Ledger();

  // A row of any table but `run` and `event`.
  template <typename Row>
  absl::Status Record(const Row& row);
  // From now on `observer` gets what is recorded, and first the run's events so far. Before other threads
  // record. Errors: what SQLite says.
  absl::Status Observe(LedgerObserver observer);
  // `detail` holds counts and names, never a label, an id or a key.
  absl::Status RecordEvent(absl::string_view kind, absl::string_view detail);
  // Events of the run so far, the parts before it was interrupted included; and how many of this kind, `detail`: with
  // this detail, if there is one.
  absl::StatusOr<std::vector<EventRow>> Events();
  absl::StatusOr<int64_t> CountEventsOfRun(absl::string_view kind, absl::string_view detail = "");
  // Makes every row recorded so far visible to readers and safe from a crash.
  absl::Status Commit();
  // LedgerPosition.last_event, of what is recorded so far.
  absl::StatusOr<int64_t> LastEvent();
  // Ends the run with a status (completed, stopped, failed, halted) and commits. Errors: InvalidArgument for another
  // status; FailedPrecondition the second time.
  absl::Status Finish(absl::string_view status);

  const std::string& path() const;
  const std::string& run_id() const;

 private:
  // `position`: to continue from; null: the run begins.
  static absl::StatusOr<std::unique_ptr<Ledger>> Open(const std::string& path, const RunRow& run,
                                                      const v1::LedgerPosition* position, int64_t retained_steps);
  Ledger(std::unique_ptr<LedgerDatabase> database, int64_t retained_steps);

  std::unique_ptr<LedgerDatabase> database_;
  const int64_t retained_steps_;
  LedgerObserver observer_;  // Null: nobody.
};

// Records in the ledger at `path`, made if it is not there, that an alignment for `run_id` begins, on the disk before
// this returns: one that is interrupted counts. `limit`: of all alignments of the file (PartyCommon.max_alignments; 0:
// any number), whatever processes share it. Errors: ResourceExhausted at the limit; as Ledger::Create.
absl::Status RecordAlignment(const std::string& path, const std::string& run_id, AlignmentRow row, int64_t limit);

// Adds `answers` to those that `caller` gets from the model of `run_id` today (UTC), in the ledger at `path`, on the
// disk before this returns: no bound covers them, so that none may be sent before it is counted. Errors:
// ResourceExhausted, and nothing is added, if `caller` had more than `daily` today from all models; FailedPrecondition
// if the ledger does not know the run; as LedgerReader::Open.
absl::Status RecordUnprovedAnswers(const std::string& path, const std::string& run_id, const std::string& caller,
                                   int64_t answers, int64_t daily);

// How many the ledger at `path` counts; 0 where there is none, and none is made. Errors: as LedgerReader::Open.
absl::StatusOr<int64_t> CountAlignments(const std::string& path);

// ResourceExhausted if a ledger that counts `begun` alignments is at its `limit`.
absl::Status CheckAlignmentLimit(int64_t begun, int64_t limit);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEDGER_LEDGER_H_
