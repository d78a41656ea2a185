#include "label_party/session/run_opening.h"

#include <cstdint>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "common/config/agreement.h"
#include "common/config/canonical_message.h"
#include "common/crypto/sha256.h"
#include "common/operations/run_facts.h"
#include "common/process/version.h"
#include "common/schedule/shared_examples.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "label_party/session/label_checks.h"
#include "label_party/session/refusal_log.h"

namespace splitveil {
namespace {

using Cause = RunEnd::Cause;

// Errors: FailedPrecondition with the field that differs.
absl::Status CheckAgreement(const v1::RunAgreement& ours, const v1::OpenRequest& request) {
  v1::RunAgreement theirs = request.agreement();
  Canonicalize(theirs);
  const std::string difference = FirstDifference(ours, theirs);
  if (!difference.empty() || request.agreement_sha256() != AsBytes(AgreementSha256(ours))) {
    return absl::FailedPreconditionError(
        absl::StrCat("agreement: the parties differ: ", difference.empty() ? "digest" : difference));
  }
  return absl::OkStatus();
}

}  // namespace

RunOpening::RunOpening(Options options, SeedExchange seed, const RunContext* run, ProtocolState* protocol,
                       RunRecords* records, RunEnd* end)
    : run_(run),
      protocol_(protocol),
      records_(records),
      end_(end),
      only_continues_(options.only_continues),
      protection_(std::move(options.protection)),
      seed_(std::move(seed)) {}

bool RunOpening::IsTakenUpBy(const v1::OpenRequest& request) const {
  return records_->writes_checkpoints() && CheckAgreement(run_->agreement, request).ok();
}

absl::StatusOr<v1::OpenResponse> RunOpening::Open(const v1::OpenRequest& request) {
  if (absl::Status status = CheckAgreement(run_->agreement, request); !status.ok()) {
    return end_->End(Cause::kRefused, std::move(status));
  }
  if (request.seed_commitment().size() != sizeof(Digest)) {
    return absl::InvalidArgumentError(
        absl::StrCat("seed_commitment: expected ", sizeof(Digest), " bytes, found ", request.seed_commitment().size()));
  }
  if (absl::Status status = records_->ChooseCheckpoint(request); !status.ok()) {
    return end_->End(Cause::kRefused, std::move(status));
  }
  const Checkpoint* const continued = records_->continued();
  if (only_continues_ && continued == nullptr) {
    return end_->End(
        Cause::kRefused,
        absl::FailedPreconditionError(
            "unfinished: expected a checkpoint of the run that the peer has broken off, found none that both have"));
  }
  const v1::RunAgreement& agreement = run_->agreement;
  const std::string run_id = continued == nullptr ? NewRunId(agreement.run_name()) : continued->header().run_id();
  const std::string protection = protection_.gradients->name();
  const absl::Status begun =
      records_->Begin(DescribeRun(run_id, "label_party", protection, agreement, request.version()));
  if (absl::IsResourceExhausted(begun)) {
    return end_->End(Cause::kRefused, begun);
  }
  SPLITVEIL_RETURN_IF_ERROR(end_->EndUnlessOk(begun));
  peer_commitment_ = request.seed_commitment();
  SPLITVEIL_RETURN_IF_ERROR(end_->EndUnlessOk(run_->status->Watch(*records_->ledger())));
  run_->status->Update([&](v1::GetStatusResponse& status) {
    status.set_run_id(run_id);
    status.mutable_label_party()->set_protection(protection);
  });
  protocol_->Opened(run_id);
  v1::OpenResponse response;
  if (continued != nullptr) {
    SPLITVEIL_RETURN_IF_ERROR(end_->EndUnlessOk(Continue(*continued)));
    response.set_continued(continued->name());
  }
  LogInfo("run ", run_id, " opened; ", protection, "; agreement ",
          absl::BytesToHexString(AsBytes(AgreementSha256(agreement))).substr(0, 16));
  response.set_run_id(run_id);
  response.set_seed_commitment(seed_.commitment());
  response.set_version(Version());
  return response;
}

absl::Status RunOpening::Continue(const Checkpoint& checkpoint) {
  SPLITVEIL_ASSIGN_OR_RETURN(Continuation continuation, records_->TakeContinuation());
  aligned_ = std::move(continuation.aligned);
  continued_seed_ = continuation.seed;
  protocol_->Aligned();
  LogInfo("continues ", checkpoint.name(), ", with its aligned examples and its schedule");
  return absl::OkStatus();
}

absl::Status RunOpening::BeginAlignment() {
  const absl::Status counted = CountAlignment(*records_->ledger(), run_->config.party().max_alignments());
  if (absl::IsResourceExhausted(counted)) {
    return end_->End(Cause::kRefused, counted);
  }
  SPLITVEIL_RETURN_IF_ERROR(end_->EndUnlessOk(counted));
  protocol_->Aligning();
  return absl::OkStatus();
}

absl::Status RunOpening::FinishAlignment(absl::StatusOr<AlignedIds> aligned) {
  Ledger& ledger = *records_->ledger();
  if (const absl::Status& failed = aligned.status(); !failed.ok()) {
    SPLITVEIL_RETURN_IF_ERROR(
        end_->EndUnlessOk(ledger.RecordEvent("alignment_failed", absl::StatusCodeToString(failed.code()))));
    return end_->End(IsRefusal(failed) ? Cause::kRefused : Cause::kPeer, failed);
  }
  aligned_ = *std::move(aligned);
  protocol_->Aligned();
  const auto examples = static_cast<int64_t>(aligned_.rows.size());
  const auto peer_ids = static_cast<int64_t>(aligned_.peer_ids);
  const int64_t own_ids = run_->data->rows();
  LogInfo("aligned ", examples, " examples; own ids ", own_ids, ", the peer's ", peer_ids);
  run_->status->Update(
      [&](v1::GetStatusResponse& status) { status.set_aligned_examples(static_cast<uint64_t>(examples)); });
  SPLITVEIL_RETURN_IF_ERROR(end_->EndUnlessOk(ledger.RecordEvent(
      "aligned", absl::StrCat(examples, " common ids of ", own_ids, " own and ", peer_ids, " of the peer"))));
  absl::Status enough = CheckSharedExamples({examples, own_ids, peer_ids}, run_->agreement.minimum_batch_size());
  if (!enough.ok()) {
    end_->End(Cause::kPeer, std::move(enough)).IgnoreError();
  }
  return absl::OkStatus();
}

absl::StatusOr<TrainingInputs> RunOpening::Start(const v1::StartRequest& request) {
  if (request.aligned_examples() != aligned_.rows.size() || request.order_sha256() != AsBytes(aligned_.order_sha256)) {
    return end_->End(Cause::kRefused,
                     absl::FailedPreconditionError("aligned order: the parties hold different alignments"));
  }
  const absl::StatusOr<JointSeed> joint = seed_.Combine(peer_commitment_, request.seed_reveal());
  if (!joint.ok()) {
    return end_->End(Cause::kRefused, joint.status());
  }
  // The peer chose which examples are shared: were it told, it could choose all but one of a known label, and read that
  // one. The run ends as any other, and is no success at this party alone.
  end_->SetOwnVerdict(CheckLabelsDiffer(run_->agreement, *run_->data, aligned_.rows));
  if (!end_->own_verdict().ok()) {
    LogWarning("this run will exit 2 (the peer is not told): ", end_->own_verdict().message());
  }
  const JointSeed seed = continued_seed_.value_or(*joint);
  records_->KeepContinuation({seed, aligned_});
  const absl::StatusOr<double> counted_sum_kl = records_->CountedSumKl();
  SPLITVEIL_RETURN_IF_ERROR(end_->EndUnlessOk(counted_sum_kl.status()));
  return TrainingInputs{run_->agreement,
                        run_->config,
                        run_->data,
                        aligned_.rows,
                        seed,
                        request.run_id(),
                        std::move(protection_),
                        records_->TakeCheckpoint(),
                        /*auditor=*/nullptr,
                        records_->ledger(),
                        records_->journal(),
                        /*is_continued=*/continued_seed_.has_value(),
                        *counted_sum_kl};
}

}  // namespace splitveil
