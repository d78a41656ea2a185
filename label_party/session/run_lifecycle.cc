#include "label_party/session/run_lifecycle.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"

#include "common/operations/run_facts.h"
#include "common/process/exit_code.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "common/telemetry/one_line.h"

namespace splitveil {
namespace {

constexpr int64_t kMaxInterruptionsNoted = 100;  // A peer that comes and goes must not fill the disk.
constexpr size_t kMaxNameText = 160;             // Of what the peer calls its checkpoint, in an error.

double SilenceLimitSeconds(const v1::Deadlines& deadlines, ProtocolState::State state) {
  switch (state) {
    case ProtocolState::State::kWaiting:
      return deadlines.connect_seconds();
    case ProtocolState::State::kAligning:
    case ProtocolState::State::kAligned:
      return deadlines.alignment_chunk_seconds();
    default:
      return deadlines.step_seconds();
  }
}

}  // namespace

RunLifecycle::RunLifecycle(const v1::RunAgreement* agreement, const v1::LabelPartyConfig* config,
                           CheckpointPlan checkpoints, std::string ledger_path, SteadyClock clock)
    : agreement_(agreement),
      config_(config),
      checkpoints_(std::move(checkpoints)),
      ledger_path_(std::move(ledger_path)),
      clock_(std::move(clock)),
      last_heard_(clock_()) {
  if (config_->has_early_stopping()) {
    early_stopper_ = std::make_unique<EarlyStopper>(config_->early_stopping());
  }
}

absl::Status RunLifecycle::ChooseCheckpoint(const v1::OpenRequest& request) {
  for (const std::shared_ptr<const Checkpoint>& unfinished : checkpoints_.unfinished) {
    if (absl::c_linear_search(request.unfinished(), unfinished->name())) {
      checkpoint_ = unfinished;
      continues_ = true;
      return absl::OkStatus();
    }
  }
  if (!checkpoints_.unfinished.empty()) {
    LogWarning("a run was broken off, ", checkpoints_.unfinished.front()->name(),
               ", of which the non-label party has no checkpoint that this party has, too: a new run begins");
  }
  const std::string& theirs = request.resumed_from();
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

absl::Status RunLifecycle::BeginLedger(RunRow run) {
  if (continues_) {
    SPLITVEIL_ASSIGN_OR_RETURN(
        ledger_, ContinueLedger(ledger_path_, run, {checkpoint_->header().continuation().ledger(), checkpoint_->name()},
                                config_->party().ledger_retained_steps()));
    return absl::OkStatus();
  }
  if (checkpoint_ != nullptr) {
    run.resumed_from = checkpoint_->header().run_id();
  }
  SPLITVEIL_ASSIGN_OR_RETURN(ledger_, splitveil::BeginLedger(ledger_path_, run, agreement_->audit().disclosure(),
                                                             config_->party().ledger_retained_steps()));
  return checkpoint_ == nullptr ? absl::OkStatus() : ledger_->RecordEvent("resumed_from", checkpoint_->name());
}

absl::Status RunLifecycle::RecordFailedAlignment(const absl::Status& status) {
  return ledger_->RecordEvent("alignment_failed", absl::StatusCodeToString(status.code()));
}

absl::StatusOr<Continuation> RunLifecycle::TakeContinuation(const Dataset& data) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::optional<Continuation> continuation, ContinuationOf(*checkpoint_, *agreement_, data));
  return continuation.has_value() ? *std::move(continuation)
                                  : absl::StatusOr<Continuation>(absl::InternalError("the run has nothing left"));
}

void RunLifecycle::KeepContinuation(const Continuation& continuation) {
  if (!checkpoints_.path.empty()) {
    *checkpoints_.facts.mutable_continuation() = ToProto(continuation, *agreement_);
  }
}

absl::StatusOr<std::unique_ptr<AnswerJournal>> RunLifecycle::OpenJournal() const {
  if (!writes_checkpoints()) {
    return nullptr;
  }
  const std::string path = AnswerJournal::PathOf(checkpoints_.path);
  return continues_ ? AnswerJournal::Continue(path, checkpoint_->header().epochs(), checkpoint_->header().batches())
                    : AnswerJournal::Begin(path);
}

double RunLifecycle::counted_sum_kl() const {
  double counted = 0;
  for (const std::shared_ptr<const Checkpoint>& checkpoint : checkpoints_.initial) {
    counted = std::max(counted, checkpoint->header().label_party().cumulative_sum_kl());
  }
  return counted;
}

std::shared_ptr<const Checkpoint> RunLifecycle::TakeCheckpoint() {
  checkpoints_.initial.clear();
  checkpoints_.unfinished.clear();
  return std::move(checkpoint_);
}

bool RunLifecycle::ShouldStopTraining(const TestMetrics& metrics) {
  return early_stopper_ != nullptr && early_stopper_->ShouldStop(metrics);
}

void RunLifecycle::RememberMetrics(const std::vector<TestMetrics>& metrics) {
  for (const TestMetrics& epoch : metrics) {
    (void)ShouldStopTraining(epoch);
  }
}

absl::Status RunLifecycle::RecordEarlyStop(uint32_t epochs) {
  LogInfo("stopped early after epoch ", epochs, ": ", early_stopper_->Reason());
  return ledger_->RecordEvent("early_stopping", absl::StrCat("after epoch ", epochs, ": ", early_stopper_->Reason()));
}

absl::Status RunLifecycle::WriteCheckpoint(const Place& place, const ModelState& model) {
  // First what the ledger holds, then what says that it does.
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
  return ledger_->RecordEvent("checkpoint", CheckpointDetail(place.epochs, place.batches));
}

void RunLifecycle::Heard() {
  const SteadyTime now = clock_();
  const bool noted = interruptions_ <= kMaxInterruptionsNoted;
  if (std::exchange(connection_lost_, false) && noted) {
    const std::string detail = absl::StrFormat("%.1f s without the non-label party",
                                               absl::ToDoubleSeconds(absl::FromChrono(now - last_heard_)));
    LogInfo("connected again after ", detail);
    ledger_->RecordEvent("interrupted", detail).IgnoreError();  // A ledger that fails ends the run at its next step.
  }
  last_heard_ = now;
}

void RunLifecycle::ConnectionLost() {
  if (ledger_ != nullptr && !ended_ && !connection_lost_) {
    connection_lost_ = true;
    if (++interruptions_ > kMaxInterruptionsNoted) {
      return;
    }
    LogWarning("the non-label party is gone within its work; it may come back for ",
               absl::FormatDuration(absl::Seconds(agreement_->deadlines().max_outage_seconds())));
  }
}

absl::Status RunLifecycle::CheckHeard(ProtocolState::State state) const {
  const bool may_be_lost = connection_lost_ || (state == ProtocolState::State::kTraining && streams_ == 0);
  const double patience = may_be_lost ? agreement_->deadlines().max_outage_seconds() : 0;
  const absl::Duration limit = absl::Seconds(std::max(patience, SilenceLimitSeconds(agreement_->deadlines(), state)));
  return absl::FromChrono(clock_() - last_heard_) <= limit
             ? absl::OkStatus()
             : absl::UnavailableError(
                   absl::StrCat("the non-label party: expected to hear from it within ", absl::FormatDuration(limit),
                                connection_lost_ ? ", found its connection lost and no other" : ", found silence"));
}

void RunLifecycle::EndRun(End end, absl::Status outcome) {
  if (!ended_) {
    ended_ = true;
    end_ = end;
    outcome_ = std::move(outcome);
  }
}

const char* RunLifecycle::end_name() const {
  switch (end_) {
    case End::kCompleted:
      return own_verdict_.ok() ? "completed" : "failed";
    case End::kStopped:
      return "stopped";
    case End::kFailed:
      break;
  }
  return IsHalt(outcome_) ? "halted" : "failed";
}

absl::Status RunLifecycle::Finish(LeakAuditor* auditor, const ModelState* model, const absl::Status& own_verdict) {
  own_verdict_ = own_verdict;
  if (ledger_ == nullptr) {
    return outcome_;
  }
  const char* const name = end_name();
  const absl::Status& why = outcome_.ok() ? own_verdict_ : outcome_;
  absl::Status status = why.ok() ? absl::OkStatus() : ledger_->RecordEvent("ended", why.message());
  if (interruptions_ > kMaxInterruptionsNoted) {
    status.Update(ledger_->RecordEvent("interrupted", absl::StrCat(interruptions_ - kMaxInterruptionsNoted, " more")));
  }
  if (auditor != nullptr) {
    status.Update(auditor->FinishRun());
  }
  // The training is complete and stays so where only the export fails.
  const absl::Status exported = Export(model);
  status.Update(exported.ok() ? exported : ledger_->RecordEvent("export_failed", exported.message()));
  status.Update(ledger_->Finish(name));
  if (outcome_.ok()) {
    outcome_ = status.ok() ? exported : status;
  }
  return outcome_;
}

absl::Status RunLifecycle::Export(const ModelState* model) const {
  const std::string& folder = config_->party().export_dir();
  if (folder.empty() || !completed() || !own_verdict_.ok() || model == nullptr) {
    return absl::OkStatus();
  }
  return model->ExportTo(folder);
}

}  // namespace splitveil
