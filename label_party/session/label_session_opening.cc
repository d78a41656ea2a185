// How a run begins: agreement, checkpoint, alignment, joint seed.
#include <memory>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"

#include "common/config/agreement.h"
#include "common/config/canonical_message.h"
#include "common/operations/alignment_progress.h"
#include "common/operations/run_facts.h"
#include "common/process/exit_code.h"
#include "common/process/version.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "common/telemetry/one_line.h"
#include "label_party/session/label_session.h"
#include "label_party/session/trainer_factory.h"

namespace splitveil {
namespace {

constexpr size_t kMaxNameText = 160;  // Of what the peer calls its checkpoint, in an error.

}  // namespace

absl::Status LabelSession::BeginLedger(const v1::OpenRequest& request) {
  RunRow run = DescribeRun(run_id_, "label_party", options_.protection->name(), options_.agreement, request.version());
  if (continued_ != nullptr) {
    run.resumed_from = continued_->header().run_id();
  }
  SPLITVEIL_ASSIGN_OR_RETURN(
      ledger_, splitveil::BeginLedger(options_.ledger_path, run, options_.agreement.audit().disclosure()));
  return continued_ == nullptr ? absl::OkStatus() : ledger_->RecordEvent("resumed_from", continued_->name());
}

absl::Status LabelSession::ChooseCheckpoint(const std::string& theirs) {
  if (options_.checkpoints.resumes() == !theirs.empty()) {
    continued_ = options_.checkpoints.Find(theirs);
  } else {
    return absl::FailedPreconditionError(
        theirs.empty() ? "resumed_from: expected a checkpoint at both parties, found one at the label party alone"
                       : "resumed_from: expected a checkpoint at both parties, found one at the non-label party alone");
  }
  if (continued_ == nullptr && !theirs.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("resumed_from: expected the checkpoint of the same run and epoch at both parties, found ",
                     absl::StrJoin(options_.checkpoints.initial, " and ",
                                   [](std::string* out, const auto& checkpoint) { out->append(checkpoint->name()); }),
                     " at the label party, ", OneLine(theirs.substr(0, kMaxNameText)), " at the non-label party"));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::OpenResponse> LabelSession::Open(const v1::OpenRequest& request) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (state_ != State::kWaiting) {
    return absl::FailedPreconditionError("Open: expected no run, found one under way or ended");
  }
  v1::RunAgreement theirs = request.agreement();
  Canonicalize(theirs);
  const std::string difference = FirstDifference(options_.agreement, theirs);
  if (!difference.empty() || request.agreement_sha256() != AsBytes(AgreementSha256(options_.agreement))) {
    return Fail(AsRefusal(absl::FailedPreconditionError(
        absl::StrCat("agreement: the parties differ: ", difference.empty() ? "digest" : difference))));
  }
  if (request.seed_commitment().size() != sizeof(Digest)) {
    return absl::InvalidArgumentError(
        absl::StrCat("seed_commitment: expected ", sizeof(Digest), " bytes, found ", request.seed_commitment().size()));
  }
  if (absl::Status status = ChooseCheckpoint(request.resumed_from()); !status.ok()) {
    return Fail(AsRefusal(status));
  }
  run_id_ = NewRunId(options_.agreement.run_name());
  if (absl::Status status = BeginLedger(request); !status.ok()) {
    return FailInside(status);
  }
  peer_commitment_ = request.seed_commitment();
  options_.status->Update([&](v1::GetStatusResponse& status) { status.set_run_id(run_id_); });
  state_ = State::kOpened;
  last_heard_ = absl::Now();
  LogInfo("run ", run_id_, " opened; ", options_.protection->name(), "; agreement ",
          absl::BytesToHexString(AsBytes(AgreementSha256(options_.agreement))).substr(0, 16));
  v1::OpenResponse response;
  response.set_run_id(run_id_);
  response.set_seed_commitment(seed_.commitment());
  response.set_version(Version());
  return response;
}

absl::Status LabelSession::Align(AlignmentChannel& channel) {
  AlignmentOptions options;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    SPLITVEIL_RETURN_IF_ERROR(CheckRun(run_id_, State::kOpened, "Align"));
    state_ = State::kAligning;
    options.run_id = run_id_;
  }
  options.max_ids = static_cast<uint64_t>(options_.agreement.alignment().max_ids());
  options.chunk_ids = options_.agreement.alignment().chunk_ids();
  AlignmentProgress progress(options_.status);
  options.progress = [&](uint64_t masked, uint64_t total) {
    progress.Report(masked, total);
    std::lock_guard<std::mutex> lock(mutex_);
    last_heard_ = absl::Now();
  };
  absl::StatusOr<AlignedIds> aligned = AlignIds(options_.data->ids(), options, channel);
  progress.Finish();
  std::lock_guard<std::mutex> lock(mutex_);
  if (state_ != State::kAligning) {
    return absl::CancelledError("the label party has ended the run");
  }
  if (!aligned.ok()) {
    // One attempt a run: each would let the peer try another list of ids on this party's set.
    absl::Status status = ledger_->RecordEvent("alignment_failed", absl::StatusCodeToString(aligned.status().code()));
    const bool malformed = aligned.status().code() == absl::StatusCode::kInvalidArgument ||
                           aligned.status().code() == absl::StatusCode::kFailedPrecondition;
    return Fail(status.ok() ? malformed ? AsRefusal(aligned.status()) : aligned.status() : status);
  }
  aligned_ = *std::move(aligned);
  state_ = State::kAligned;
  last_heard_ = absl::Now();
  LogInfo("aligned ", aligned_.rows.size(), " examples; own ids ", options_.data->rows(), ", the peer's ",
          aligned_.peer_ids);
  options_.status->Update([&](v1::GetStatusResponse& status) { status.set_aligned_examples(aligned_.rows.size()); });
  return ledger_->RecordEvent("aligned", absl::StrCat(aligned_.rows.size(), " common ids of ", options_.data->rows(),
                                                      " own and ", aligned_.peer_ids, " of the peer"));
}

absl::StatusOr<v1::StartResponse> LabelSession::Start(const v1::StartRequest& request) {
  std::lock_guard<std::mutex> lock(mutex_);
  SPLITVEIL_RETURN_IF_ERROR(CheckRun(request.run_id(), State::kAligned, "Start"));
  if (request.aligned_examples() != aligned_.rows.size() || request.order_sha256() != AsBytes(aligned_.order_sha256)) {
    return Fail(AsRefusal(absl::FailedPreconditionError("aligned order: the parties hold different alignments")));
  }
  const absl::StatusOr<JointSeed> joint = seed_.Combine(peer_commitment_, request.seed_reveal());
  if (!joint.ok()) {
    return Fail(AsRefusal(joint.status()));
  }
  auditor_ = std::make_unique<LeakAuditor>(options_.agreement, options_.config.label_side_audit(),
                                           static_cast<int64_t>(aligned_.rows.size()), ledger_.get());
  absl::StatusOr<std::unique_ptr<Trainer>> trainer =
      MakeTrainer({options_.agreement, options_.config, options_.data, aligned_.rows, *joint, run_id_,
                   std::move(options_.protection), continued_, auditor_.get(), ledger_.get()});
  if (!trainer.ok()) {
    return FailInside(trainer.status());
  }
  trainer_ = *std::move(trainer);
  continued_ = nullptr;  // The trainer holds all that is needed.
  options_.checkpoints.initial.clear();
  if (options_.config.has_early_stopping()) {
    early_stopper_ = std::make_unique<EarlyStopper>(options_.config.early_stopping());
  }
  epochs_to_train_ = options_.agreement.epochs();
  state_ = State::kTraining;
  progress_ =
      std::make_unique<TrainingProgress>(options_.status, options_.agreement.epochs(), trainer_->batches_per_epoch());
  last_heard_ = absl::Now();
  v1::StartResponse response;
  response.set_seed_reveal(seed_.reveal());
  return response;
}

}  // namespace splitveil
