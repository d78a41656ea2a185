#include "label_party/session/run_records.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/operations/run_facts.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "common/telemetry/one_line.h"

namespace splitveil {
namespace {

constexpr size_t kMaxNameText = 160;  // Of what the peer calls its checkpoint, in an error.

}  // namespace

RunRecords::RunRecords(const RunContext* run, CheckpointPlan checkpoints, std::string ledger_path)
    : run_(run), checkpoints_(std::move(checkpoints)), ledger_path_(std::move(ledger_path)) {}

absl::Status RunRecords::ChooseCheckpoint(const v1::OpenRequest& request) {
  for (const std::shared_ptr<const Checkpoint>& unfinished : checkpoints_.unfinished) {
    if (absl::c_linear_search(request.unfinished(), unfinished->name())) {
      checkpoint_ = unfinished;
      continues_ = true;
      return absl::OkStatus();
    }
  }
  const std::string& theirs = request.resumed_from();
  if (checkpoints_.broken_off != nullptr) {
    SPLITVEIL_RETURN_IF_ERROR(CheckMayBeginAnew(theirs));
    LogWarning("a run was broken off, ", checkpoints_.broken_off->name(),
               ", which cannot be continued by what both parties have: a new run begins");
  }
  if (checkpoints_.resumes() == theirs.empty()) {
    return absl::FailedPreconditionError(
        theirs.empty() ? "resumed_from: expected a checkpoint at both parties, found one at the label party alone"
                       : "resumed_from: expected a checkpoint at both parties, found one at the non-label party alone");
  }
  checkpoint_ = FindCheckpoint(checkpoints_.initial, theirs);
  if (checkpoint_ == nullptr && !theirs.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("resumed_from: expected the checkpoint of the same run and epoch at both parties, found ",
                     absl::StrJoin(checkpoints_.initial, " and ",
                                   [](std::string* out, const auto& checkpoint) { out->append(checkpoint->name()); }),
                     " at the label party, ", OneLine(theirs.substr(0, kMaxNameText)), " at the non-label party"));
  }
  return absl::OkStatus();
}

absl::Status RunRecords::CheckMayBeginAnew(const std::string& resumed_from) const {
  const Checkpoint& latest = *checkpoints_.broken_off;
  const std::string& run_id = latest.header().run_id();
  const bool nothing_to_protect = run_->config.protection().has_none();
  const bool counted = run_->config.has_privacy_account();  // The same noise once more, or a debit.
  // What that run has released is then counted by this one (CountedSumKl).
  const std::shared_ptr<const Checkpoint> goes_on_from = FindCheckpoint(checkpoints_.initial, resumed_from);
  const bool adds_up = goes_on_from != nullptr && goes_on_from->header().run_id() == run_id;
  if (nothing_to_protect || counted || adds_up) {
    return absl::OkStatus();
  }
  const absl::StatusOr<bool> nothing_left = AnswerJournal::IsEmpty(AnswerJournal::PathOf(checkpoints_.path, run_id));
  return nothing_left.value_or(false)
             ? absl::OkStatus()
             : absl::FailedPreconditionError(absl::StrCat(
                   "unfinished: expected a checkpoint of ", latest.name(),
                   ", which was broken off after gradients had ",
                   "left, found none that both have and that is of this agreement: a new run would release its "
                   "examples "
                   "again with other noise. The non-label party's checkpoints and the agreement are to be restored, or "
                   "the label party is to allow it (starts_anew)"));
}

absl::Status RunRecords::Begin(RunRow row) {
  run_id_ = row.run_id;
  SPLITVEIL_RETURN_IF_ERROR(BeginLedger(std::move(row)));
  return writes_checkpoints() ? BeginJournal() : absl::OkStatus();
}

absl::Status RunRecords::BeginLedger(RunRow row) {
  const int64_t retained_steps = run_->config.party().ledger_retained_steps();
  if (continues_) {
    SPLITVEIL_ASSIGN_OR_RETURN(
        ledger_, Ledger::Continue(ledger_path_, row, checkpoint_->header().continuation().ledger(), retained_steps));
    return CountTakeUp(*ledger_, checkpoint_->name());
  }
  if (checkpoint_ != nullptr) {
    row.resumed_from = checkpoint_->header().run_id();
  }
  SPLITVEIL_ASSIGN_OR_RETURN(
      ledger_, splitveil::BeginLedger(ledger_path_, row, run_->agreement.audit().disclosure(), retained_steps));
  return checkpoint_ == nullptr ? absl::OkStatus() : ledger_->RecordEvent("resumed_from", checkpoint_->name());
}

absl::Status RunRecords::BeginJournal() {
  const std::string& beside = checkpoints_.path;
  if (continues_) {
    SPLITVEIL_ASSIGN_OR_RETURN(
        journal_, AnswerJournal::Continue(AnswerJournal::PathOf(beside, run_id_), checkpoint_->header().epochs(),
                                          checkpoint_->header().batches()));
    return absl::OkStatus();
  }
  if (const absl::StatusOr<std::vector<std::string>> runs = RunsAt(beside); runs.ok()) {
    AnswerJournal::RemoveOthers(beside, *runs);
  }
  SPLITVEIL_ASSIGN_OR_RETURN(journal_, AnswerJournal::Begin(AnswerJournal::PathOf(beside, run_id_)));
  return absl::OkStatus();
}

absl::StatusOr<Continuation> RunRecords::TakeContinuation() const {
  SPLITVEIL_ASSIGN_OR_RETURN(std::optional<Continuation> continuation,
                             ContinuationOf(*checkpoint_, run_->agreement, *run_->data));
  return continuation.has_value() ? *std::move(continuation)
                                  : absl::StatusOr<Continuation>(absl::InternalError("the run has nothing left"));
}

void RunRecords::KeepContinuation(const Continuation& continuation) {
  if (writes_checkpoints()) {
    *checkpoints_.facts.mutable_continuation() = ToProto(continuation, run_->agreement);
  }
}

absl::StatusOr<double> RunRecords::CountedSumKl() const {
  double counted = 0;
  if (continues_) {
    return counted;  // The run's own account has counted what it started from.
  }
  for (const std::shared_ptr<const Checkpoint>& checkpoint : checkpoints_.initial) {
    const v1::CheckpointHeader& header = checkpoint->header();
    counted = std::max(counted, header.label_party().cumulative_sum_kl());
    if (!header.label_party().privacy_account().empty()) {
      continue;  // All of the run was counted there before anything left.
    }
    const absl::StatusOr<double> after =
        AnswerJournal::LargestSumKl(AnswerJournal::PathOf(PathOfLatest(checkpoint->path()), header.run_id()));
    if (after.ok()) {
      counted = std::max(counted, *after);
    } else if (!absl::IsNotFound(after.status())) {
      return after.status();
    } else if (!IsComplete(header.run_id(), checkpoints_.initial)) {
      LogWarning(checkpoint->path(),
                 ": its run was broken off, and nothing says what it released afterwards: ", after.status().message(),
                 "; no bound holds for all runs together");
      counted = std::numeric_limits<double>::infinity();
    }
  }
  return counted;
}

void RunRecords::MarkComplete() const {
  if (const absl::Status marked = checkpoints_.MarkComplete(run_id_); !marked.ok()) {
    LogWarning("the checkpoint of a complete run cannot be marked as such: ", marked.message());
  }
}

std::shared_ptr<const Checkpoint> RunRecords::TakeCheckpoint() {
  checkpoints_.initial.clear();
  checkpoints_.unfinished.clear();
  return std::move(checkpoint_);
}

absl::Status RunRecords::WriteCheckpoint(const Place& place, const ModelState& model, SteadyTime since) {
  // First what journal and ledger hold, then what says that they do.
  if (journal_ != nullptr) {
    SPLITVEIL_RETURN_IF_ERROR(journal_->Sync());
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const int64_t last_event, ledger_->CommitAndLastEvent());
  v1::LedgerPosition& position = *checkpoints_.facts.mutable_continuation()->mutable_ledger();
  position.set_steps(place.steps);
  position.set_own_epochs(place.epochs);
  position.set_peer_epochs(place.peer_epochs);
  position.set_last_event(last_event);
  v1::CheckpointHeader header;
  header.set_run_id(place.run_id);
  header.set_epochs(place.epochs);
  header.set_batches(place.batches);
  *header.mutable_label_party() = ToProto(place.state);
  SPLITVEIL_RETURN_IF_ERROR(checkpoints_.Write(header, model.TrainingState(), place.progress));
  return ledger_->RecordEvent("checkpoint", CheckpointDetail(place.epochs, place.batches, SecondsSince(since)));
}

}  // namespace splitveil
