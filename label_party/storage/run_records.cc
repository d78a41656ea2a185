#include "label_party/storage/run_records.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "common/crypto/label_noise.h"
#include "common/operations/run_facts.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "label_party/label_privacy/noised_labels.h"
#include "label_party/policy/release_gate.h"
#include "label_party/protection/protection_factory.h"
#include "label_party/storage/label_history.h"

namespace splitveil {
namespace {

constexpr size_t kMaxNameText = 160;  // Of what the peer calls its checkpoint, in an error.

// To the last bit of the grid, so that two that differ read differently.
std::string SigmaText(uint32_t units) {
  return absl::StrFormat("%.10g", std::ldexp(static_cast<double>(units), -kLabelGridBits));
}

std::string NoiseText(const v1::LabelReleases& releases) {
  if (releases.noise().empty()) {
    return "none";
  }
  uint32_t draws = 0;
  for (const v1::LabelReleases::Noise& noise : releases.noise()) {
    draws += noise.draws();
  }
  const std::string first = SigmaText(releases.noise(0).sigma_units());
  const std::string last = SigmaText(releases.noise(releases.noise_size() - 1).sigma_units());
  return absl::StrCat("sigma ", first, first == last ? "" : absl::StrCat(" to ", last), " in ", draws,
                      draws == 1 ? " draw" : " draws");
}

std::string LabelSetText(const v1::LabelReleases& releases) {
  return releases.label_set().empty() ? "none" : absl::StrCat("\"", releases.label_set(), "\"");
}

std::string FlagText(bool flag) { return flag ? "true" : "false"; }

}  // namespace

RunRecords::RunRecords(const RunContext* run, CheckpointPlan checkpoints, std::string ledger_path)
    : run_(run), checkpoints_(std::move(checkpoints)), ledger_path_(std::move(ledger_path)) {}

absl::Status RunRecords::ChooseCheckpoint(const v1::OpenRequest& request) {
  for (const std::shared_ptr<const Checkpoint>& unfinished : checkpoints_.unfinished) {
    // Latest first; both parties must have it, or one would be ahead of the other.
    // A settled journal means that the operator or a later run has closed this one: resuming it would release again.
    if (absl::c_linear_search(request.unfinished(), unfinished->name()) && !IsSettled(*unfinished)) {
      checkpoint_ = unfinished;
      continues_ = true;
      return absl::OkStatus();
    }
  }
  const std::string& theirs = request.resumed_from();
  SPLITVEIL_RETURN_IF_ERROR(CheckMayStartNew(theirs));
  // A run whose halves come from different trainings learns nothing useful, and says nothing about its leak.
  if (checkpoints_.resumes() == theirs.empty()) {
    return absl::FailedPreconditionError(
        theirs.empty() ? "resumed_from: only the label party starts from a checkpoint: both must, or neither"
                       : "resumed_from: only the non-label party starts from a checkpoint: both must, or neither");
  }
  // The peer names the checkpoint by run and epoch: halves of different epochs do not fit each other either.
  checkpoint_ = FindCheckpoint(checkpoints_.initial, theirs);
  if (checkpoint_ == nullptr && !theirs.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("resumed_from: the parties start from checkpoints of different runs or epochs: ",
                     absl::StrJoin(checkpoints_.initial, " and ",
                                   [](std::string* out, const auto& checkpoint) { out->append(checkpoint->name()); }),
                     " at the label party, ", OneLine(theirs.substr(0, kMaxNameText)), " at the non-label party"));
  }
  return absl::OkStatus();
}

bool RunRecords::IsSettled(const Checkpoint& checkpoint) const {
  const absl::StatusOr<ReleaseJournal::Outline> journal =
      ReleaseJournal::Read(ReleaseJournal::PathOf(checkpoints_.path, checkpoint.header().run_id()));
  // A journal that cannot be read settles nothing.
  return journal.ok() && journal->settled;
}

absl::StatusOr<bool> RunRecords::AddsUp(const std::string& journal, const std::string& resumed_from) const {
  // A run that starts from the interrupted run's weights carries its sum on, so it may replace it within a limit.
  // Both conditions: the sum must be known to the new run, and something must stop it from growing without limit.
  const std::shared_ptr<const Checkpoint> goes_on_from = FindCheckpoint(checkpoints_.initial, resumed_from);
  if (goes_on_from == nullptr ||
      ReleaseJournal::PathOf(checkpoints_.path, goes_on_from->header().run_id()) != journal) {
    return false;
  }
  v1::GradientProtection protection = run_->config.protection();
  // The gate as this run will have it, only to ask whether it enforces a limit on the sum.
  FillPlannedEpochs(run_->agreement.epochs(), protection);
  SPLITVEIL_ASSIGN_OR_RETURN(const ReleaseGate gate, ReleaseGate::Create(run_->config.release(), protection));
  return gate.enforces_run_limit();
}

absl::Status RunRecords::CheckMayStartNew(const std::string& resumed_from) const {
  // `none` releases labels in the clear: a second run adds nothing to that.
  const bool nothing_to_protect = run_->config.protection().has_none();
  if (!writes_checkpoints() || run_->config.party().restart() || nothing_to_protect) {
    return absl::OkStatus();
  }
  SPLITVEIL_ASSIGN_OR_RETURN(std::vector<std::string> journals, ReleaseJournal::AllOf(checkpoints_.path));
  if (checkpoints_.interrupted != nullptr) {  // Even if its journal is missing.
    journals.push_back(ReleaseJournal::PathOf(checkpoints_.path, checkpoints_.interrupted->header().run_id()));
  }
  // Every journal must be harmless: empty, settled, or its releases are added to those of this run.
  for (const std::string& path : journals) {
    const absl::StatusOr<ReleaseJournal::Outline> journal = ReleaseJournal::Read(path);
    // A journal that cannot be read blocks like one that has released: fail closed.
    if (journal.ok() && (journal->empty || journal->settled)) {
      continue;
    }
    // The same noise once more, or a debit; or what was released counts as this run's.
    const bool is_counted = journal.ok() && journal->IsCountedBy(run_->account_id);
    SPLITVEIL_ASSIGN_OR_RETURN(const bool adds_up, AddsUp(path, resumed_from));
    if (!is_counted && !adds_up) {
      LogWarning(
          path,
          ": an interrupted run has released gradients, and nothing has settled that since");  // The error goes to the
                                                                                               // peer, too.
      return absl::FailedPreconditionError(
          "unfinished: a run was interrupted after gradients were sent, and the parties have no checkpoint of it and "
          "of this agreement in common: a new run would release its examples again with different noise. Restore the "
          "non-label party's checkpoints and the agreement, or set restart at the label party");
    }
    LogWarning("a run was interrupted after gradients were sent (", path,
               "), and what both parties have cannot continue it: a new run starts, and what was released is counted");
  }
  return absl::OkStatus();
}

absl::Status RunRecords::Begin(RunRow row) {
  run_id_ = row.run_id;
  // Checked before anything on the disk changes: a run that must not continue leaves its checkpoints as they were.
  SPLITVEIL_RETURN_IF_ERROR(KeepReleases(row.protection));
  // Later checkpoints of the interrupted run are removed first: it must not be resumed from a future that is not
  // repeated.
  SPLITVEIL_RETURN_IF_ERROR(continues_ ? checkpoints_.GoBackTo(*checkpoint_) : absl::OkStatus());
  SPLITVEIL_RETURN_IF_ERROR(BeginLedger(std::move(row)));
  if (!writes_checkpoints()) {
    return absl::OkStatus();
  }
  // The ledger comes first: if its checks refuse the run, the journals of earlier runs still block.
  SPLITVEIL_RETURN_IF_ERROR(BeginJournal());
  // The journal is synced with each checkpoint: after a power failure it is at least as far as the checkpoint.
  writer_ = std::make_unique<CheckpointWriter>(&checkpoints_, ledger_.get(), [this] { return journal_->Sync(); });
  return absl::OkStatus();
}

absl::Status RunRecords::KeepReleases(const std::string& protection) {
  if (!writes_checkpoints()) {
    return absl::OkStatus();
  }
  SPLITVEIL_ASSIGN_OR_RETURN(v1::LabelReleases releases, LabelReleasesOf(*run_));
  releases.set_protection(protection);
  if (continues_) {
    SPLITVEIL_RETURN_IF_ERROR(CheckSameReleases(checkpoint_->header().label_releases(), releases));
  }
  // In every checkpoint from now on, so that a resumed run can compare.
  *checkpoints_.facts.mutable_label_releases() = releases;
  return absl::OkStatus();
}

absl::Status RunRecords::BeginLedger(RunRow row) {
  const int64_t retained_steps = run_->config.party().ledger_retained_steps();
  DescribeLabels(run_->config, *run_->data, run_->account_id, row);
  if (!continues_ && checkpoint_ != nullptr) {
    row.resumed_from = checkpoint_->header().run_id();
  }
  SPLITVEIL_ASSIGN_OR_RETURN(planned_, PlannedRun(*run_, ledger_path_, row));
  const auto record_releases = [&]() -> absl::Status {
    for (const LabelReleaseRow& release : planned_.releases) {
      SPLITVEIL_RETURN_IF_ERROR(ledger_->Record(release));
    }
    return ledger_->Commit();  // Before anything is released: an audit must not find a release without its noise.
  };
  // Also of a run that goes on: it may have ended before it released anything, and others have promised a limit since.
  // A prediction releases no label.
  SPLITVEIL_RETURN_IF_ERROR(run_->agreement.mode() == v1::RunAgreement::PREDICT
                                ? absl::OkStatus()
                                : CheckEarlierRuns(ledger_path_, planned_));
  if (continues_) {
    SPLITVEIL_ASSIGN_OR_RETURN(
        ledger_, Ledger::Continue(ledger_path_, row, checkpoint_->header().continuation().ledger(), retained_steps));
    SPLITVEIL_RETURN_IF_ERROR(record_releases());
    // Each attempt counts: a peer that breaks the run off on purpose has a limited number of them.
    return CountTakeUp(*ledger_, checkpoint_->name());
  }
  // A new run only: this was checked when a continued run began, and its own rows would now count against it.
  SPLITVEIL_RETURN_IF_ERROR(CheckSameAccount(ledger_path_, row, run_->config.privacy_account().new_account()));
  SPLITVEIL_ASSIGN_OR_RETURN(const std::string other_account, OtherAccount(ledger_path_, row));
  SPLITVEIL_ASSIGN_OR_RETURN(
      ledger_, splitveil::BeginLedger(ledger_path_, row, run_->agreement.audit().disclosure(), retained_steps));
  SPLITVEIL_RETURN_IF_ERROR(record_releases());
  if (!other_account.empty()) {
    SPLITVEIL_RETURN_IF_ERROR(ledger_->RecordEvent(
        "new_account", absl::StrCat("account ", row.account, "; the same labels were counted by ", other_account)));
  }
  for (const std::string& lost : planned_.lost) {
    SPLITVEIL_RETURN_IF_ERROR(ledger_->RecordEvent(kLostByAccount, lost));
  }
  return checkpoint_ == nullptr ? absl::OkStatus() : ledger_->RecordEvent("resumed_from", checkpoint_->name());
}

absl::Status RunRecords::BeginJournal() {
  const std::string& beside = checkpoints_.path;
  const std::string path = ReleaseJournal::PathOf(beside, run_id_);
  if (continues_) {
    const v1::CheckpointHeader& place = checkpoint_->header();
    SPLITVEIL_ASSIGN_OR_RETURN(journal_,
                               ReleaseJournal::Continue(path, run_->account_id, place.epochs(), place.batches()));
    return absl::OkStatus();
  }
  // CheckMayStartNew has allowed it: what they released is counted, or the operator has decided.
  SPLITVEIL_ASSIGN_OR_RETURN(std::vector<std::string> replaced, ReleaseJournal::AllOf(beside));
  replaced.erase(std::remove_if(replaced.begin(), replaced.end(),
                                [](const std::string& journal) {
                                  const absl::StatusOr<ReleaseJournal::Outline> outline = ReleaseJournal::Read(journal);
                                  return outline.ok() && outline->settled;
                                }),
                 replaced.end());
  // The operator's word settles them, whatever becomes of this run; a sum only once this run carries it on.
  if (run_->config.party().restart() || run_->config.protection().has_none()) {
    for (const std::string& journal : std::exchange(replaced, {})) {
      SPLITVEIL_RETURN_IF_ERROR(ReleaseJournal::Settle(journal));
    }
  }
  // Settled journals of runs without a checkpoint serve nothing any more. If the folder cannot be listed, all stay.
  if (const absl::StatusOr<std::vector<std::string>> runs = RunsAt(beside); runs.ok() && replaced.empty()) {
    ReleaseJournal::RemoveOthers(beside, *runs);
  }
  SPLITVEIL_ASSIGN_OR_RETURN(journal_, ReleaseJournal::Begin(path, run_->account_id, std::move(replaced)));
  return absl::OkStatus();
}

absl::StatusOr<Continuation> RunRecords::TakeContinuation() const {
  SPLITVEIL_ASSIGN_OR_RETURN(std::optional<Continuation> continuation,
                             ContinuationOf(*checkpoint_, run_->agreement, *run_->data));
  return continuation.has_value() ? *std::move(continuation)
                                  : absl::StatusOr<Continuation>(absl::InternalError("the run has nothing left"));
}

absl::Status RunRecords::KeepContinuation(const Digest& seed, const AlignedIds& aligned, int64_t in_flight_batches) {
  return checkpoints_.KeepContinuation(run_id_, seed, aligned, in_flight_batches, run_->agreement);
}

absl::StatusOr<double> RunRecords::CountedSumKl() const {
  double counted = 0;
  if (continues_) {
    return counted;  // The run's own account has counted what it started from.
  }
  for (const std::shared_ptr<const Checkpoint>& checkpoint : checkpoints_.initial) {
    const v1::CheckpointHeader& header = checkpoint->header();
    // The largest of all: the peer chooses from which one the run starts, and must not lower the sum by it.
    counted = std::max(counted, header.label_party().cumulative_sum_kl());
    if (!header.label_party().privacy_account().empty()) {
      continue;  // All of the run was counted there before anything was released.
    }
    const absl::StatusOr<ReleaseJournal::Outline> after =
        ReleaseJournal::Read(ReleaseJournal::PathOf(PathOfLatest(checkpoint->path()), header.run_id()));
    // The checkpoint knows the sum up to its epoch. What the run released afterwards is only in its journal.
    if (after.ok()) {
      counted = std::max(counted, after->largest_sum_kl);
    } else if (!absl::IsNotFound(after.status())) {
      return after.status();
    } else if (!IsComplete(header.run_id(), checkpoints_.initial)) {
      LogWarning(checkpoint->path(),
                 ": its run was interrupted, and nothing says what it released afterwards: ", after.status().message(),
                 "; no bound holds for all runs together");
      counted = std::numeric_limits<double>::infinity();
    }
  }
  return counted;
}

void RunRecords::MarkComplete() {
  // First the journal, which blocks new runs, then the checkpoint.
  absl::Status marked = journal_ == nullptr ? absl::OkStatus() : journal_->Settle();
  marked.Update(checkpoints_.MarkComplete(run_id_));
  if (!marked.ok()) {
    LogWarning("the checkpoint of a complete run cannot be marked as such: ", marked.message());
  }
}

absl::Status RunRecords::FinishCheckpoint() { return writer_ == nullptr ? absl::OkStatus() : writer_->Wait(); }

std::shared_ptr<const Checkpoint> RunRecords::TakeCheckpoint() {
  // A checkpoint holds all parameters: the model has them now, so the memory is freed.
  checkpoints_.initial.clear();
  checkpoints_.unfinished.clear();
  return std::move(checkpoint_);
}

v1::LabelPartyState ToProto(const LabelState& state) {
  v1::LabelPartyState proto;
  proto.set_cumulative_sum_kl(state.cumulative_sum_kl);
  proto.set_privacy_account(state.privacy_account);
  return proto;
}

absl::StatusOr<LabelState> LabelStateFrom(const v1::LabelPartyState& proto) {
  LabelState state;
  state.cumulative_sum_kl = proto.cumulative_sum_kl();
  if (!(state.cumulative_sum_kl >= 0)) {  // NaN, too.
    return absl::InvalidArgumentError("checkpoint: cumulative_sum_kl: not a number of at least 0");
  }
  state.privacy_account = proto.privacy_account();
  return state;
}

absl::StatusOr<v1::LabelReleases> LabelReleasesOf(const RunContext& run) {
  v1::GradientProtection protection = run.config.protection();
  FillPlannedEpochs(run.agreement.epochs(), protection);
  v1::LabelReleases releases;
  if (protection.has_label_dp()) {
    releases.set_flip_epsilon(protection.label_dp().epsilon());
  }
  if (protection.has_label_dp() && run.account_id.empty()) {
    return releases;  // Each run has flips of its own.
  }
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<NoiseReleases> planned, PlannedReleases(protection, run.data->task()));
  for (const NoiseReleases& of : planned) {
    v1::LabelReleases::Noise& noise = *releases.add_noise();
    noise.set_sigma_units(of.sigma_units);
    noise.set_draws(of.draws);
  }
  // The label set names the noise: under a different one the same strengths would draw a second time.
  releases.set_label_set(run.config.privacy_account().label_set());
  releases.set_likelihood_correction(protection.gaussian_label_dp().likelihood_correction());
  releases.set_release_head_predicts(protection.gaussian_label_dp().release_head_predicts());
  return releases;
}

absl::StatusOr<LabelRun> PlannedRun(const RunContext& run, const std::string& ledger_path, RunRow row) {
  DescribeLabels(run.config, *run.data, run.account_id, row);
  // Of a prediction, which has no protection (CheckFitsMode), no rows.
  SPLITVEIL_ASSIGN_OR_RETURN(const v1::LabelReleases of_labels, LabelReleasesOf(run));
  LabelRun planned = {std::move(row), LabelReleaseRows(of_labels, run.data->task())};
  SPLITVEIL_ASSIGN_OR_RETURN(planned.lost, LostStartsNow(ledger_path, planned.run, run.config, run.data->task()));
  return planned;
}

absl::Status CheckSameReleases(const v1::LabelReleases& begun, const v1::LabelReleases& now) {
  struct Field {
    const char* name;
    std::string begun, now;
  };
  // Compared as text, so that the error shows exactly what differs.
  const std::array<Field, 6> fields = {{
      {"protection.gaussian_label_dp", NoiseText(begun), NoiseText(now)},
      {"privacy_account.label_set", LabelSetText(begun), LabelSetText(now)},
      {"protection.gaussian_label_dp.likelihood_correction", FlagText(begun.likelihood_correction()),
       FlagText(now.likelihood_correction())},
      {"protection.gaussian_label_dp.release_head_predicts", FlagText(begun.release_head_predicts()),
       FlagText(now.release_head_predicts())},
      {"protection.label_dp.epsilon", absl::StrCat(begun.flip_epsilon()), absl::StrCat(now.flip_epsilon())},
      {"protection", begun.protection(), now.protection()},
  }};
  for (const Field& field : fields) {
    if (field.begun != field.now) {
      return absl::InvalidArgumentError(absl::StrCat(
          field.name, ": the interrupted run began with ", field.begun, ", and now it is ", field.now,
          ": the bound on labels holds only if this stays the same for the whole run. Restore the earlier setting, or "
          "set party.restart for a new run"));
    }
  }
  return absl::OkStatus();
}

}  // namespace splitveil
