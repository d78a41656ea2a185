#include "common/ledger/ledger.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "common/ledger/ledger_database.h"
#include "common/ledger/ledger_rows.h"
#include "common/ledger/schema.h"
#include "common/status/status_context.h"
#include "common/status/status_macros.h"
#include "common/storage/sqlite_database.h"
#include "common/telemetry/log.h"

namespace splitveil {
namespace {

// A removal reads all tables of steps, so many steps are removed at once.
constexpr int64_t kStepsBetweenTrims = 100;

}  // namespace

Ledger::Ledger(std::unique_ptr<LedgerDatabase> database, int64_t retained_steps)
    : database_(std::move(database)), retained_steps_(retained_steps) {}
Ledger::~Ledger() = default;

absl::Status Ledger::Observe(LedgerObserver observer) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<EventRow> events, database_->Events());
  observer_ = std::move(observer);
  // A continued run has events already, and an observer must not miss a disclosure.
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
  auto database = std::make_unique<LedgerDatabase>(std::move(connection), path, run.run_id);
  SPLITVEIL_RETURN_IF_ERROR(database->Start(run, position));
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

template <typename Row>
absl::Status Ledger::Record(const Row& row) {
  if constexpr (std::is_same_v<Row, StepRow>) {
    // Rarely, and many rows at once: a removal goes through all tables of steps.
    if (const int64_t first = row.step - retained_steps_;
        retained_steps_ > 0 && first > 0 && row.step % kStepsBetweenTrims == 0) {
      SPLITVEIL_RETURN_IF_ERROR(database_->Trim(first));
    }
  }
  SPLITVEIL_RETURN_IF_ERROR(database_->Insert(row));
  // Only after the row was taken: a figure that the ledger refused must not show on a page.
  if constexpr (std::is_constructible_v<RecordedRow, const Row*>) {
    if (observer_ != nullptr) {
      observer_(&row);
    }
  }
  return absl::OkStatus();
}

// All tables that a run fills; events come by RecordEvent, which sets their time.
template absl::Status Ledger::Record(const StepRow& row);
template absl::Status Ledger::Record(const StepTimeRow& row);
template absl::Status Ledger::Record(const ProtectionRow& row);
template absl::Status Ledger::Record(const LeakRow& row);
template absl::Status Ledger::Record(const EpochLeakRow& row);
template absl::Status Ledger::Record(const DistributionRow& row);
template absl::Status Ledger::Record(const EvaluationRow& row);
template absl::Status Ledger::Record(const AttributeLeakRow& row);
template absl::Status Ledger::Record(const ClaimCheckRow& row);
template absl::Status Ledger::Record(const AllRunsRow& row);
template absl::Status Ledger::Record(const LabelReleaseRow& row);
template absl::Status Ledger::Record(const PrivacyLossRow& row);
template absl::Status Ledger::Record(const ActivationBoundRow& row);

absl::Status Ledger::RecordEvent(absl::string_view kind, absl::string_view detail) {
  return Record(EventRow{LedgerDatabase::UtcNow(), std::string(kind), OneLine(detail)});
}

absl::StatusOr<std::vector<EventRow>> Ledger::Events() { return database_->Events(); }

absl::StatusOr<int64_t> Ledger::CountEventsOfRun(absl::string_view kind, absl::string_view detail) {
  return database_->CountEventsOfRun(kind, OneLine(detail));
}

absl::Status Ledger::Commit() { return database_->Commit(); }

absl::StatusOr<int64_t> Ledger::LastEvent() { return database_->LastEvent(); }

absl::Status Ledger::Finish(absl::string_view status) {
  // Audits decide by this word, so a misspelt one must not be stored.
  if (status != "completed" && status != "stopped" && status != "failed" && status != "halted") {
    return absl::InvalidArgumentError(
        absl::StrCat("run status: expected completed, stopped, failed or halted, found \"", status, "\""));
  }
  return database_->Finish(status);
}

const std::string& Ledger::path() const { return database_->path(); }
const std::string& Ledger::run_id() const { return database_->run_id(); }

absl::StatusOr<int64_t> CountAlignments(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    return 0;
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<SqliteDatabase> database,
                             SqliteDatabase::Open(path, SqliteDatabase::Mode::kReadOnly));
  absl::Status readable = CheckMayBecomeLedger(*database);
  // A process that was killed while it made the ledger left a file without tables.
  absl::StatusOr<int64_t> begun =
      readable.ok() ? database->QueryInt64("SELECT count(*) FROM sqlite_schema WHERE name = 'alignment'") : readable;
  if (begun.ok() && *begun > 0) {
    begun = database->QueryInt64("SELECT count(*) FROM alignment");
  }
  return begun.ok() ? begun : Within(path, begun.status());
}

absl::Status CheckAlignmentLimit(int64_t begun, int64_t limit) {
  return limit == 0 || begun < limit
             ? absl::OkStatus()
             : absl::ResourceExhaustedError(
                   absl::StrCat("alignment: this party's ledger already counts ", begun, " of at most ", limit,
                                " (party.max_alignments): each lets the peer try a different list of ids"));
}

absl::Status RecordAlignment(const std::string& path, const std::string& run_id, AlignmentRow row, int64_t limit) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<SqliteDatabase> database,
                             SqliteDatabase::Open(path, SqliteDatabase::Mode::kCreate));
  row.at = LedgerDatabase::UtcNow();
  const auto record = [&]() -> absl::Status {
    SPLITVEIL_RETURN_IF_ERROR(CreateSchema(*database));
    // Counted under the lock: two programs that start at once must not both find the last one free.
    SPLITVEIL_RETURN_IF_ERROR(database->Execute("PRAGMA synchronous = FULL; BEGIN IMMEDIATE"));
    SPLITVEIL_ASSIGN_OR_RETURN(const int64_t begun, database->QueryInt64("SELECT count(*) FROM alignment"));
    SPLITVEIL_RETURN_IF_ERROR(CheckAlignmentLimit(begun, limit));
    SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement insertion, database->Prepare(InsertionOf<AlignmentRow>().c_str()));
    SPLITVEIL_RETURN_IF_ERROR(WriteRow(run_id, row, insertion));
    return database->Execute("COMMIT");
  };
  const absl::Status status = record();  // Where it failed, closing the connection undoes what was begun.
  return absl::IsResourceExhausted(status) ? status : Within(path, status);
}

namespace {

constexpr size_t kDayBytes = 10;  // Of UtcNow: 2026-01-31.

// Of the caller's row of the day: the run's (?4), or of all runs (?4 is empty).
constexpr char kOfCaller[] =
    "kind = ?1 AND substr(at, 1, length(?2)) = ?2 AND substr(detail, instr(detail, ' to ') + 4) = ?3 AND "
    "(?4 = '' OR run_id = ?4)";

// A text that begins with a number is that number in SQLite.
absl::StatusOr<int64_t> AnswersOfDay(SqliteDatabase& database, absl::string_view day, const std::string& caller,
                                     const std::string& run_id) {
  SPLITVEIL_ASSIGN_OR_RETURN(
      SqliteStatement sum,
      database.Prepare(
          absl::StrCat("SELECT coalesce(sum(CAST(detail AS INTEGER)), 0) FROM event WHERE ", kOfCaller).c_str()));
  SPLITVEIL_RETURN_IF_ERROR(sum.Bind(kUnprovedAnswers, day, caller, run_id));
  SPLITVEIL_RETURN_IF_ERROR(sum.Next().status());
  return sum.Int64(0);
}

absl::Status AddUnprovedAnswers(SqliteDatabase& database, const std::string& run_id, const std::string& caller,
                                int64_t answers, int64_t daily) {
  const std::string now = LedgerDatabase::UtcNow(), day = now.substr(0, kDayBytes);
  SPLITVEIL_RETURN_IF_ERROR(CheckSchema(database));
  // Counted under the lock: two requests at once must not both take what is left. Foreign keys are checked only if a
  // connection asks for it.
  SPLITVEIL_RETURN_IF_ERROR(database.Execute("PRAGMA foreign_keys = ON; PRAGMA synchronous = FULL; BEGIN IMMEDIATE"));
  SPLITVEIL_ASSIGN_OR_RETURN(const int64_t today, AnswersOfDay(database, day, caller, ""));
  if (answers > daily - today) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "unproved_answers.daily: this request has ", answers, " ids, but only ", std::max<int64_t>(daily - today, 0),
        " of ", daily, " are left today: ask for fewer, or wait until the next day (UTC)"));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const int64_t of_run, AnswersOfDay(database, day, caller, run_id));
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement removal,
                             database.Prepare(absl::StrCat("DELETE FROM event WHERE ", kOfCaller).c_str()));
  SPLITVEIL_RETURN_IF_ERROR(removal.Run(kUnprovedAnswers, day, caller, run_id));
  SPLITVEIL_ASSIGN_OR_RETURN(SqliteStatement insertion, database.Prepare(InsertionOf<EventRow>().c_str()));
  const absl::Status inserted =
      WriteRow(run_id, EventRow{now, kUnprovedAnswers, absl::StrCat(of_run + answers, " to ", caller)}, insertion);
  if (absl::IsInvalidArgument(inserted)) {  // A row without a run breaks the foreign key.
    return absl::FailedPreconditionError(absl::StrCat("run \"", run_id, "\" is not in this ledger"));
  }
  SPLITVEIL_RETURN_IF_ERROR(inserted);
  return database.Execute("COMMIT");
}

}  // namespace

absl::Status RecordUnprovedAnswers(const std::string& path, const std::string& run_id, const std::string& caller,
                                   int64_t answers, int64_t daily) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {  // A new ledger would know nothing of the answers before.
    return absl::NotFoundError(absl::StrCat(path, ": expected the ledger of the run, found no file"));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<SqliteDatabase> database,
                             SqliteDatabase::Open(path, SqliteDatabase::Mode::kCreate));
  const absl::Status status = AddUnprovedAnswers(*database, run_id, OneLine(caller), answers, daily);
  return absl::IsResourceExhausted(status) ? status : Within(path, status);
}

}  // namespace splitveil
