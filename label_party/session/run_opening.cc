#include "label_party/session/run_opening.h"

#include <cstdint>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "common/config/agreement.h"
#include "common/config/message_validator.h"
#include "common/crypto/digest.h"
#include "common/operations/run_facts.h"
#include "common/process/exit_code.h"
#include "common/process/runtime.h"
#include "common/schedule/train_test_split.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "label_party/session/run.h"

namespace splitveil {
namespace {

using Cause = RunEnd::Cause;

// Errors: FailedPrecondition with the field that differs.
absl::Status CheckAgreement(const v1::RunAgreement& ours, const v1::OpenRequest& request) {
  // Defaults are filled in on both sides first, or a field that is written out would differ from one that is left out.
  v1::RunAgreement theirs = request.agreement();
  Canonicalize(theirs);
  if (ours.mode() != theirs.mode()) {  // Named first: the fields of training differ then, too.
    return absl::FailedPreconditionError(absl::StrCat("agreement: the parties differ: mode: ours ",
                                                      v1::RunAgreement::Mode_Name(ours.mode()), ", theirs ",
                                                      v1::RunAgreement::Mode_Name(theirs.mode())));
  }
  // The digest is compared too: it covers fields that this build does not know and so cannot name.
  const std::string difference = FirstDifference(ours, theirs);
  if (!difference.empty() || request.agreement_sha256() != AsBytes(AgreementSha256(ours))) {
    return absl::FailedPreconditionError(
        absl::StrCat("agreement: the parties differ: ", difference.empty() ? "digest" : difference));
  }
  return absl::OkStatus();
}

// Guesses are sent as numbers of an attribute's values, so both parties must number them alike. Errors:
// FailedPrecondition.
absl::Status CheckAttributeValues(const RunContext& context, const v1::OpenRequest& request) {
  if (context.known_attributes == nullptr) {
    return absl::OkStatus();
  }
  const auto& attributes = context.agreement.attribute_audit().attributes();
  const std::vector<std::string> ours = AttributeValueDigests(context.known_attributes->preprocessing(), attributes);
  for (int i = 0; i < attributes.size(); ++i) {
    if (request.attribute_values_sha256_size() != attributes.size() ||
        request.attribute_values_sha256(i) != ours[static_cast<size_t>(i)]) {
      return absl::FailedPreconditionError(absl::StrCat(
          "attribute_audit.attributes: the parties differ: \"", attributes[i],
          "\" has different values, or a different order of them, in the two schemas; list the same `values` in the "
          "same order at both parties and prepare again"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

RunOpening::RunOpening(Options options, SeedExchange seed, Run* run)
    : run_(run),
      only_continues_(options.only_continues),
      alignments_left_(options.alignments_left),
      alignments_(std::move(options.alignments)),
      protection_(std::move(options.protection)),
      seed_(std::move(seed)) {}

bool RunOpening::IsTakenUpBy(const v1::OpenRequest& request) const {
  // Without a checkpoint to continue from, a new run would release the same examples again with new noise (rule 2):
  // only if nothing was released yet may it take this one's place.
  const bool releases = run_->protocol.state() >= ProtocolState::State::kTraining;
  return (run_->records.writes_checkpoints() || !releases) && CheckAgreement(run_->context.agreement, request).ok();
}

absl::StatusOr<v1::OpenResponse> RunOpening::Open(const v1::OpenRequest& request) {
  // Before anything is written: a peer with a different agreement must leave no trace in the ledger.
  absl::Status agreed = CheckAgreement(run_->context.agreement, request);
  agreed.Update(CheckAttributeValues(run_->context, request));
  if (!agreed.ok()) {
    return run_->end.End(Cause::kRefused, std::move(agreed));
  }
  for (const auto& [name, bytes] :
       {std::pair("seed_commitment", &request.seed_commitment()), std::pair("nonce", &request.nonce())}) {
    if (bytes->size() != sizeof(Digest)) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": expected ", sizeof(Digest), " bytes, found ", bytes->size()));
    }
  }
  if (absl::Status status = run_->records.ChooseCheckpoint(request); !status.ok()) {
    return run_->end.End(Cause::kRefused, std::move(status));
  }
  const Checkpoint* const continued = run_->records.continued();
  // A restarted peer may continue what was released, but must not get a second run with new noise.
  if (only_continues_ && continued == nullptr) {
    return run_->end.End(
        Cause::kRefused,
        absl::FailedPreconditionError(
            "unfinished: the peer interrupted its run, and both parties have no checkpoint of it in common"));
  }
  const v1::RunAgreement& agreement = run_->context.agreement;
  // A continued run keeps its id, by which both ledgers and the journal find their rows.
  const std::string run_id = continued == nullptr ? NewRunId(agreement.run_name()) : continued->header().run_id();
  const std::string protection = protection_.gradients->name();
  const absl::Status begun =
      run_->records.Begin(DescribeRun(run_id, "label_party", protection, agreement, request.version()));
  // Too many attempts from one checkpoint are the peer's doing; any other error is this party's own.
  if (absl::IsResourceExhausted(begun) && !IsHalt(begun)) {
    return run_->end.End(Cause::kRefused, begun);
  }
  SPLITVEIL_RETURN_IF_ERROR(run_->end.EndUnlessOk(begun));
  // Stored before this party reveals its seed: the peer cannot choose its own seed to fit (rule 1).
  peer_commitment_ = request.seed_commitment();
  SPLITVEIL_RETURN_IF_ERROR(run_->end.EndUnlessOk(run_->context.status->Watch(*run_->records.ledger())));
  run_->context.status->Update([&](v1::GetStatusResponse& status) {
    status.set_run_id(run_id);
    status.mutable_label_party()->set_protection(protection);
  });
  run_->protocol.Opened(run_id);
  v1::OpenResponse response;
  if (continued != nullptr) {
    SPLITVEIL_RETURN_IF_ERROR(run_->end.EndUnlessOk(Continue(*continued)));
    response.set_continued(continued->name());
  } else {
    const absl::StatusOr<std::string> kept = UseAlignmentCache(request);
    SPLITVEIL_RETURN_IF_ERROR(run_->end.EndUnlessOk(kept.status()));
    response.set_alignment_cache(*kept);
  }
  LogInfo("run ", run_id, " opened; ", protection, "; agreement ",
          absl::BytesToHexString(AsBytes(AgreementSha256(agreement))).substr(0, 16));
  response.set_run_id(run_id);
  response.set_seed_commitment(seed_.commitment());
  response.set_version(Version());
  return response;
}

absl::Status RunOpening::Continue(const Checkpoint& checkpoint) {
  SPLITVEIL_ASSIGN_OR_RETURN(Continuation continuation, run_->records.TakeContinuation());
  // From the checkpoint, not from the peer: a new alignment could shift positions against the released ones.
  aligned_ = std::move(continuation.aligned);
  continued_seed_ = continuation.seed;
  continued_in_flight_ = continuation.in_flight_batches;
  run_->protocol.Aligned();
  LogInfo("continues ", checkpoint.name(), ", with its aligned examples and its schedule");
  return absl::OkStatus();
}

absl::StatusOr<std::string> RunOpening::UseAlignmentCache(const v1::OpenRequest& request) {
  // Both must name the same alignment: one that only this party kept would give positions of different examples.
  std::optional<AlignmentStore::Found> kept = alignments_.Find(*run_->context.data, run_->context.agreement);
  if (!kept.has_value() || kept->name != request.alignment_cache()) {
    return std::string();
  }
  aligned_ = std::move(kept->aligned);
  run_->protocol.Aligned();
  SPLITVEIL_RETURN_IF_ERROR(Aligned(
      absl::StrCat(", of an alignment kept ", absl::FormatDuration(absl::Ceil(kept->age, absl::Seconds(1))), " ago")));
  return std::move(kept->name);
}

absl::Status RunOpening::BeginAlignment() {
  // Counted before it starts: a peer that cuts the connection late may have learnt as much as from a complete one.
  const absl::Status counted = CountAlignment(*run_->records.ledger(), run_->context.data->rows(),
                                              run_->context.config.party().max_alignments(), alignments_left_);
  if (absl::IsResourceExhausted(counted)) {
    return run_->end.End(Cause::kRefused, counted);
  }
  SPLITVEIL_RETURN_IF_ERROR(run_->end.EndUnlessOk(counted));
  run_->protocol.Aligning();
  return absl::OkStatus();
}

absl::Status RunOpening::FinishAlignment(absl::StatusOr<AlignedIds> aligned) {
  Ledger& ledger = *run_->records.ledger();
  if (const absl::Status& failed = aligned.status(); !failed.ok()) {
    absl::Status recorded = ledger.RecordEvent("alignment_failed", absl::StatusCodeToString(failed.code()));
    recorded.Update(ledger.Commit());
    SPLITVEIL_RETURN_IF_ERROR(run_->end.EndUnlessOk(recorded));
    // A lost connection is no fault of the messages: the peer may align again, at the cost of one more count.
    if (absl::IsUnavailable(failed) && run_->context.agreement.deadlines().max_outage_seconds() > 0) {
      run_->protocol.AlignmentLost();
      return failed;
    }
    return run_->end.End(IsRefusal(failed) ? Cause::kRefused : Cause::kPeer, failed);
  }
  aligned_ = *std::move(aligned);
  run_->protocol.Aligned();
  // The cache only saves time, so the run continues without it.
  if (const absl::Status kept = alignments_.Keep(aligned_, *run_->context.data, run_->context.agreement); !kept.ok()) {
    LogWarning("the next run aligns again: ", kept.message());
  }
  return Aligned("");
}

absl::Status RunOpening::Aligned(const std::string& detail) {
  Ledger& ledger = *run_->records.ledger();
  const auto examples = static_cast<int64_t>(aligned_.rows.size());
  const auto peer_ids = static_cast<int64_t>(aligned_.peer_ids);
  const int64_t own_ids = run_->context.data->rows();
  LogInfo("aligned ", examples, " examples; own ids ", own_ids, ", the peer's ", peer_ids, detail);
  run_->context.status->Update(
      [&](v1::GetStatusResponse& status) { status.set_aligned_examples(static_cast<uint64_t>(examples)); });
  absl::Status recorded = ledger.RecordEvent(
      "aligned", absl::StrCat(examples, " common ids of ", own_ids, " own and ", peer_ids, " of the peer", detail));
  recorded.Update(ledger.Commit());  // A ledger that cannot be written ends the run here, not after its first steps.
  SPLITVEIL_RETURN_IF_ERROR(run_->end.EndUnlessOk(recorded));
  // The peer computes the same number, so it need not be told.
  const v1::RunAgreement& agreement = run_->context.agreement;
  const SharedExamples shared = {examples, own_ids, peer_ids};
  if (const std::string low = DescribeLowShare(shared, agreement.alignment().low_shared_share()); !low.empty()) {
    LogWarning(low);
  }
  absl::Status enough = CheckSharedExamples(shared, agreement.minimum_batch_size());
  if (!enough.ok()) {
    run_->end.End(Cause::kPeer, std::move(enough)).IgnoreError();
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::MeasureLinkResponse> RunOpening::MeasureLink(const v1::MeasureLinkRequest& request) {
  const v1::RunAgreement& agreement = run_->context.agreement;
  if (agreement.in_flight_batches() != 0) {
    return absl::FailedPreconditionError(
        "MeasureLink: the agreement fixes in_flight_batches, so the link is not measured");
  }
  // Each answer is as long as the peer asks: without a limit it could keep this party sending.
  if (++measurements_ > kMostMeasurements) {
    return absl::ResourceExhaustedError(
        absl::StrCat("MeasureLink: at most ", kMostMeasurements, " measurements are allowed in a run"));
  }
  if (int64_t{request.answer_bytes()} > MaxMessageBytes(agreement)) {
    return absl::InvalidArgumentError(absl::StrCat("MeasureLink: answer_bytes: expected at most ",
                                                   MaxMessageBytes(agreement), ", found ", request.answer_bytes()));
  }
  v1::MeasureLinkResponse response;
  response.set_padding(std::string(request.answer_bytes(), '\0'));
  return response;
}

absl::StatusOr<int64_t> RunOpening::InFlightBatches(const v1::StartRequest& request) const {
  const v1::RunAgreement& agreement = run_->context.agreement;
  // The peer measures the link and chooses, within what was agreed.
  const int64_t found = request.in_flight_batches() == 0 && agreement.in_flight_batches() > 0
                            ? agreement.in_flight_batches()
                            : request.in_flight_batches();
  // A continued run keeps its number: it decides which updates the peer's model has had before each batch.
  const bool fits = continued_seed_.has_value()          ? found == continued_in_flight_
                    : agreement.in_flight_batches() == 0 ? found >= 1 && found <= agreement.max_in_flight_batches()
                                                         : found == agreement.in_flight_batches();
  return fits ? absl::StatusOr<int64_t>(found)
              : absl::FailedPreconditionError(absl::StrCat(
                    "in_flight_batches: expected the agreed number, or that of the resumed run, found ", found));
}

Digest RunOpening::OwnSplitDigest() const {
  return SplitDigest(SplitRule(run_->context.agreement).Split(*run_->context.data, aligned_.rows));
}

absl::StatusOr<TrainingInputs> RunOpening::Start(const v1::StartRequest& request) {
  const absl::StatusOr<int64_t> in_flight = InFlightBatches(request);
  if (!in_flight.ok()) {
    return run_->end.End(Cause::kRefused, in_flight.status());
  }
  // Parties with different orders would train on each other's wrong rows without any error.
  if (request.aligned_examples() != aligned_.rows.size() || request.order_sha256() != AsBytes(aligned_.order_sha256)) {
    return run_->end.End(Cause::kRefused,
                         absl::FailedPreconditionError("aligned order: the parties hold different alignments"));
  }
  if (IsSplitByTables(run_->context.agreement) && request.split_sha256() != AsBytes(OwnSplitDigest())) {
    return run_->end.End(Cause::kRefused,
                         absl::FailedPreconditionError(
                             "split: the parties divide the shared examples differently; "
                             "the tables' columns of kind GROUP or TIME must say the same of every shared id"));
  }
  // The schedule of a continued run is fixed already; the new seeds are still checked against their commitments.
  const absl::StatusOr<JointSeed> joint = seed_.Combine(peer_commitment_, request.seed_reveal());
  if (!joint.ok()) {
    return run_->end.End(Cause::kRefused, joint.status());
  }
  // Neither party could choose this value: both committed before either revealed (rule 1).
  const JointSeed seed = continued_seed_.value_or(*joint);
  // From here on every checkpoint holds what a continued run needs to skip alignment and seeds.
  SPLITVEIL_RETURN_IF_ERROR(run_->end.EndUnlessOk(run_->records.KeepContinuation(seed, aligned_, *in_flight)));
  run_->context.status->Update(
      [&](v1::GetStatusResponse& status) { status.set_in_flight_batches(static_cast<uint32_t>(*in_flight)); });
  // Before TakeCheckpoint, which frees the checkpoints that this reads.
  const absl::StatusOr<double> counted_sum_kl = run_->records.CountedSumKl();
  SPLITVEIL_RETURN_IF_ERROR(run_->end.EndUnlessOk(counted_sum_kl.status()));
  return TrainingInputs{run_->context.agreement,
                        run_->context.config,
                        run_->context.data,
                        run_->context.known_attributes,
                        aligned_.rows,
                        seed,
                        request.run_id(),
                        std::move(protection_),
                        run_->records.TakeCheckpoint(),
                        /*auditor=*/nullptr,
                        run_->records.ledger(),
                        run_->records.journal(),
                        /*is_continued=*/continued_seed_.has_value(),
                        *counted_sum_kl,
                        *in_flight,
                        run_->records.planned()};
}

}  // namespace splitveil
