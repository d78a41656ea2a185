#include "nonlabel_party/session/nonlabel_run_lifecycle.h"

#include <algorithm>
#include <openssl/crypto.h>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "common/checkpoint/alignment_cache.h"
#include "common/config/agreement.h"
#include "common/model/export.h"
#include "common/operations/run_facts.h"
#include "common/operations/run_status.h"
#include "common/operations/run_summary.h"
#include "common/process/exit_code.h"
#include "common/process/runtime.h"
#include "common/process/steady_time.h"
#include "common/schedule/schedule.h"
#include "common/schedule/train_test_split.h"
#include "common/status/status_macros.h"
#include "common/telemetry/log.h"
#include "nonlabel_party/protection/activation_protection.h"

namespace splitveil {

namespace {

using Answer = AnswerProtocol::Answer;

// Opens one Align stream and runs the intersection of `ids` over it. Errors: StoppedOnRequest if `stop` ended it; the
// label party's verdict on the stream before what AlignIds says, which is only the consequence.
absl::StatusOr<AlignedIds> AlignUnlessStopped(RunPeer& peer, const IdList& ids, const AlignmentOptions& options,
                                              StopRequest& stop) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<AlignmentStream> stream, peer.Align());
  // AlignIds blocks for minutes on large tables; only a cancelled stream ends it early.
  AlignmentStream* const cancelled_on_stop = stream.get();
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<StopWatcher> watcher,
                             StopWatcher::Create(&stop, [cancelled_on_stop] { cancelled_on_stop->Cancel(); }));
  absl::StatusOr<AlignedIds> aligned = AlignIds(ids, options, *stream);
  const absl::Status finished = stream->Finish();
  if (watcher->Finish() && !(finished.ok() && aligned.ok())) {
    return StoppedOnRequest();  // Both failures are our own doing.
  }
  // If the last message of a whole alignment was lost, this party cannot know whether the label party has all of it.
  return finished.ok() ? aligned : finished;
}

// A larger batch is measured by a part of it, so that a slow link is not blocked for long.
constexpr int64_t kMostBytes = int64_t{128} << 10;
constexpr int kLeastTurns = 3, kMostTurns = 8, kAtOnce = 8;
constexpr absl::Duration kLongEnough = absl::Seconds(2);

// What a turn takes: so many calls at once, each with `sent` bytes there and `returned` back.
absl::StatusOr<absl::Duration> Turn(RunPeer& peer, const std::string& run_id, int calls, int64_t sent,
                                    int64_t returned) {
  v1::MeasureLinkRequest request;
  request.set_run_id(run_id);
  request.set_padding(std::string(static_cast<size_t>(sent), '\0'));
  request.set_answer_bytes(static_cast<uint32_t>(returned));
  const SteadyTime begin = SteadyNow();
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<v1::MeasureLinkResponse> responses, peer.MeasureLink(request, calls));
  const absl::Duration took = absl::FromChrono(SteadyNow() - begin);
  for (const v1::MeasureLinkResponse& response : responses) {
    if (static_cast<int64_t>(response.padding().size()) != returned) {
      return AsRefusal(absl::InvalidArgumentError(
          absl::StrCat("MeasureLink: expected ", returned, " bytes, found ", response.padding().size())));
    }
  }
  return took;
}

// The shortest of several turns: a connection gathers speed at first, and in one of them it may have been lost.
template <typename Turn>
absl::StatusOr<absl::Duration> Shortest(const Turn& turn) {
  absl::Duration shortest = absl::InfiniteDuration(), sum;
  for (int i = 0; i < kLeastTurns || (i < kMostTurns && sum < kLongEnough); ++i) {
    SPLITVEIL_ASSIGN_OR_RETURN(const absl::Duration took, turn());
    shortest = std::min(shortest, took);
    sum += took;
  }
  return shortest;
}

// What a round trip takes: the least of some calls of next to nothing. What a batch takes besides it: measured before
// the first one, so that a resumed run, which repeats its steps, has as many in flight as before. Eight calls at once
// keep the connection busy for some round trips: a connection that idles never shows how fast it is, above all if
// packets are lost.
absl::StatusOr<LinkFigures> MeasureLink(RunPeer& peer, const std::string& run_id, int64_t batch_bytes) {
  // One direction at a time: on a full-duplex link the slower one decides.
  const int64_t bytes = std::min(batch_bytes, kMostBytes);
  // An empty message gives the round trip, which is then taken off the times of the full ones.
  LinkFigures link;
  SPLITVEIL_ASSIGN_OR_RETURN(link.round_trip, Shortest([&] { return Turn(peer, run_id, 1, 0, 0); }));
  SPLITVEIL_ASSIGN_OR_RETURN(const absl::Duration there,
                             Shortest([&] { return Turn(peer, run_id, kAtOnce, bytes, 0); }));
  SPLITVEIL_ASSIGN_OR_RETURN(const absl::Duration back,
                             Shortest([&] { return Turn(peer, run_id, kAtOnce, 0, bytes); }));
  const double batches = static_cast<double>(kAtOnce * bytes) / static_cast<double>(batch_bytes);
  link.batch = std::max(absl::ZeroDuration(), std::max(there, back) - link.round_trip) / batches;
  return link;
}

// What does not depend on earlier runs.
v1::OpenRequest OpeningOf(const NonLabelSessionOptions& options, const std::string& seed_commitment) {
  v1::OpenRequest request;
  // The whole agreement beside its digest, so that a mismatch can be explained field by field.
  *request.mutable_agreement() = options.agreement;
  request.set_agreement_sha256(std::string(AsBytes(AgreementSha256(options.agreement))));
  request.set_seed_commitment(seed_commitment);
  // A nonce for each process: the label party can tell a repeated Open from one of a process that was started again.
  request.set_nonce(OpenNonce());
  request.set_version(Version());
  for (std::string& values :
       AttributeValueDigests(options.data->preprocessing(), options.agreement.attribute_audit().attributes())) {
    request.add_attribute_values_sha256(std::move(values));
  }
  return request;
}

}  // namespace

absl::Status NonLabelRunLifecycle::Prepare() const {
  // Now, not after hours of training.
  const std::string& folder = options_.config.party().export_dir();
  return folder.empty() ? absl::OkStatus() : PrepareExport({folder, "nonlabel_party"});
}

absl::Status NonLabelRunLifecycle::Open() {
  SPLITVEIL_ASSIGN_OR_RETURN(
      SeedExchange seed,
      SeedExchange::Create(SeedRole::kNonLabelParty,
                           SeedContribution(SeedRole::kNonLabelParty, options_.config.party().reproducible_seed())));
  v1::OpenRequest request = OpeningOf(options_, seed.commitment());
  CheckpointPlan& checkpoints = options_.checkpoints;
  request.set_resumed_from(checkpoints.resumes() ? checkpoints.resumed_from()->name() : "");
  for (const std::shared_ptr<const Checkpoint>& unfinished : checkpoints.unfinished) {
    request.add_unfinished(unfinished->name());
  }
  // A cached alignment saves the private set intersection, if the label party has the same one.
  kept_ = options_.alignments.Find(*options_.data, options_.agreement);
  request.set_alignment_cache(kept_.has_value() ? kept_->name : "");
  SPLITVEIL_ASSIGN_OR_RETURN(const v1::OpenResponse response, options_.peer->Open(request));
  // The id becomes part of file names and of the ledger: nothing of the peer's goes there unchecked.
  if (!IsRunIdOf(options_.agreement.run_name(), response.run_id()) ||
      response.seed_commitment().size() != sizeof(Digest)) {
    return AsRefusal(absl::InvalidArgumentError(
        "Open: the label party's answer must have the run name with 8 hexadecimal digits, and a seed commitment"));
  }
  continued_ = FindCheckpoint(checkpoints.unfinished, response.continued());
  checkpoints.unfinished.clear();
  if (!response.continued().empty() && (continued_ == nullptr || continued_->header().run_id() != response.run_id())) {
    return AsRefusal(
        absl::InvalidArgumentError("Open: the label party resumes a run that is not among our unfinished ones"));
  }
  if (!response.alignment_cache().empty() &&
      (continued_ != nullptr || response.alignment_cache() != request.alignment_cache())) {
    return AsRefusal(
        absl::InvalidArgumentError("Open: the label party uses a different alignment than the one in our cache"));
  }
  if (response.alignment_cache().empty()) {
    kept_.reset();
  }
  SPLITVEIL_RETURN_IF_ERROR(protocol_.Take(Answer::kOpened));
  run_id_ = response.run_id();
  peer_commitment_ = response.seed_commitment();
  seed_.emplace(std::move(seed));
  if (continued_ != nullptr) {
    SPLITVEIL_ASSIGN_OR_RETURN(continuation_, ContinuationOf(*continued_, options_.agreement, *options_.data));
    SPLITVEIL_RETURN_IF_ERROR(checkpoints.GoBackTo(*continued_));
  }
  // Only now is there a run to record: interruptions from before wait for this ledger.
  SPLITVEIL_RETURN_IF_ERROR(BeginLedger(response.version()));
  if (!checkpoints.path.empty()) {
    checkpoint_writer_ = std::make_unique<CheckpointWriter>(&checkpoints, ledger_.get(), nullptr);
  }
  for (const auto& [kind, detail] : std::exchange(interruptions_, {})) {
    SPLITVEIL_RETURN_IF_ERROR(RecordInterruption(kind, detail));
  }
  SPLITVEIL_RETURN_IF_ERROR(options_.status->Watch(*ledger_));
  options_.status->Update([&](v1::GetStatusResponse& status) { status.set_run_id(run_id_); });
  return absl::OkStatus();
}

absl::Status NonLabelRunLifecycle::BeginLedger(const std::string& peer_version) {
  RunRow run = DescribeRun(run_id_, "nonlabel_party", "", options_.agreement, peer_version);
  LogInfo("run ", run_id_, " opened; agreement ", run.agreement_sha256.substr(0, 16));
  // In every checkpoint from now on, so that a run that goes on can compare.
  const v1::ActivationProtection& protection = options_.config.protection();
  *options_.checkpoints.facts.mutable_activation_protection() = protection;
  if (continued_ != nullptr) {
    const v1::CheckpointHeader& header = continued_->header();
    SPLITVEIL_RETURN_IF_ERROR(CheckSameProtection(
        header.has_activation_protection() ? &header.activation_protection() : nullptr, protection));
    SPLITVEIL_ASSIGN_OR_RETURN(ledger_,
                               Ledger::Continue(options_.ledger_path, run, continued_->header().continuation().ledger(),
                                                options_.config.party().ledger_retained_steps()));
    // The peer can interrupt as often as it likes: the attempts from one checkpoint are limited (architecture rule 2).
    absl::Status counted = CountTakeUp(*ledger_, continued_->name());
    return absl::IsResourceExhausted(counted) ? AsRefusal(counted) : counted;
  }
  const Checkpoint* const resumed_from = options_.checkpoints.resumed_from();
  if (resumed_from != nullptr) {
    run.resumed_from = resumed_from->header().run_id();
  }
  SPLITVEIL_ASSIGN_OR_RETURN(ledger_,
                             splitveil::BeginLedger(options_.ledger_path, run, options_.agreement.audit().disclosure(),
                                                    options_.config.party().ledger_retained_steps()));
  return resumed_from == nullptr ? absl::OkStatus() : ledger_->RecordEvent("resumed_from", resumed_from->name());
}

absl::Status NonLabelRunLifecycle::RecordInterruption(const char* kind, const std::string& detail) {
  if (ledger_ == nullptr) {
    interruptions_.emplace_back(kind, detail);
    return absl::OkStatus();
  }
  return ledger_->RecordEvent(kind, detail);
}

absl::StatusOr<AlignedIds> NonLabelRunLifecycle::AlignPersistently() {
  while (true) {
    // Each alignment lets the peer probe this party's ids once more, so the number is limited.
    if (absl::Status counted = CountAlignment(*ledger_, options_.data->rows(), options_.config.party().max_alignments(),
                                              options_.alignments_left);
        !counted.ok()) {
      return absl::IsResourceExhausted(counted) ? AsRefusal(counted) : counted;
    }
    // New keys for each try that does not resume: with the same ones, two transcripts could be compared.
    AlignmentOptions options = AgreedAlignment(options_.agreement.alignment(), options_.config.party(),
                                               options_.alignments.identities(), run_id_);
    AlignmentProgress progress(options_.status);
    absl::Status reached;
    options.progress = [&](uint64_t masked, uint64_t total, int64_t bytes) {
      progress.Report(masked, total, bytes);
      reached.Update(reconnector_.Reached());  // Progress means that the peer has answered.
    };
    absl::StatusOr<AlignedIds> aligned = AlignUnlessStopped(*options_.peer, options_.data->ids(), options, stop_);
    progress.Finish();
    SPLITVEIL_RETURN_IF_ERROR(reached);
    if (!Reconnector::IsLost(aligned.status())) {
      return aligned;
    }
    SPLITVEIL_RETURN_IF_ERROR(reconnector_.AwaitReturn(aligned.status()));
  }
}

absl::Status NonLabelRunLifecycle::Align() {
  if (continuation_.has_value()) {
    SPLITVEIL_RETURN_IF_ERROR(protocol_.Take(Answer::kAligned));
    aligned_ = std::move(continuation_->aligned);
    options_.status->Update([&](v1::GetStatusResponse& status) { status.set_aligned_examples(aligned_.rows.size()); });
    LogInfo("continues ", continued_->name(), ", with its aligned examples and its schedule");
    return absl::OkStatus();
  }
  if (kept_.has_value()) {
    SPLITVEIL_RETURN_IF_ERROR(protocol_.Take(Answer::kAligned));
    aligned_ = std::move(kept_->aligned);
    return Aligned(absl::StrCat(", of an alignment kept ",
                                absl::FormatDuration(absl::Ceil(kept_->age, absl::Seconds(1))), " ago"));
  }
  SPLITVEIL_ASSIGN_OR_RETURN(aligned_, AlignPersistently());
  SPLITVEIL_RETURN_IF_ERROR(reconnector_.Reached());
  SPLITVEIL_RETURN_IF_ERROR(protocol_.Take(Answer::kAligned));
  // A full disk costs the next run time, but does not stop this one.
  if (const absl::Status kept = options_.alignments.Keep(aligned_, *options_.data, options_.agreement); !kept.ok()) {
    LogWarning("the next run aligns again: ", kept.message());
  }
  return Aligned("");
}

absl::Status NonLabelRunLifecycle::Aligned(const std::string& detail) {
  LogInfo("aligned ", aligned_.rows.size(), " examples; own ids ", options_.data->rows(), ", the peer's ",
          aligned_.peer_ids, detail);
  options_.status->Update([&](v1::GetStatusResponse& status) { status.set_aligned_examples(aligned_.rows.size()); });
  SPLITVEIL_RETURN_IF_ERROR(
      ledger_->RecordEvent("aligned", absl::StrCat(aligned_.rows.size(), " common ids of ", options_.data->rows(),
                                                   " own and ", aligned_.peer_ids, " of the peer", detail)));
  const SharedExamples examples = {static_cast<int64_t>(aligned_.rows.size()), options_.data->rows(),
                                   static_cast<int64_t>(aligned_.peer_ids)};
  if (const std::string low = DescribeLowShare(examples, options_.agreement.alignment().low_shared_share());
      !low.empty()) {
    LogWarning(low);
  }
  return CheckSharedExamples(examples, options_.agreement.minimum_batch_size());
}

absl::StatusOr<int64_t> NonLabelRunLifecycle::InFlightBatches(int64_t batches_per_epoch) const {
  // As before: batches in flight are computed with older parameters, so their number changes the results.
  if (is_continued()) {
    return continuation_->in_flight_batches;
  }
  const v1::RunAgreement& agreement = options_.agreement;
  if (agreement.in_flight_batches() > 0) {
    return agreement.in_flight_batches();
  }
  const int64_t most = std::min<int64_t>(FreshBatches(batches_per_epoch), agreement.max_in_flight_batches());
  // Nothing to choose, so the link is not measured.
  if (most == 1) {
    const char* const detail = "1 batch; more are not agreed, or more than a sixteenth of an epoch";
    SPLITVEIL_RETURN_IF_ERROR(ledger_->RecordEvent("in_flight_batches", detail));
    return most;
  }
  SPLITVEIL_ASSIGN_OR_RETURN(
      const LinkFigures link,
      MeasureLink(*options_.peer, run_id_,
                  BatchBytes(agreement.batch_size(), agreement.cut_width(), agreement.wire_dtype())));
  const int64_t chosen = BatchesInFlight(link, most);
  const std::string detail = absl::StrCat(chosen, chosen == 1 ? " batch" : " batches", "; a round trip takes ",
                                          absl::FormatDuration(link.round_trip), ", a batch besides it ",
                                          absl::FormatDuration(link.batch), " one way");
  LogInfo("in flight: ", detail);
  SPLITVEIL_RETURN_IF_ERROR(ledger_->RecordEvent("in_flight_batches", detail));
  return chosen;
}

absl::StatusOr<JointSeed> NonLabelRunLifecycle::Start(const std::string& split_sha256, int64_t batches_per_epoch) {
  SPLITVEIL_ASSIGN_OR_RETURN(in_flight_batches_, InFlightBatches(batches_per_epoch));
  options_.status->Update([this](v1::GetStatusResponse& status) {
    status.set_in_flight_batches(static_cast<uint32_t>(in_flight_batches_));
  });
  v1::StartRequest request;
  request.set_in_flight_batches(static_cast<uint32_t>(in_flight_batches_));
  request.set_run_id(run_id_);
  request.set_aligned_examples(aligned_.rows.size());
  request.set_order_sha256(std::string(AsBytes(aligned_.order_sha256)));
  request.set_seed_reveal(seed_->reveal());
  request.set_split_sha256(split_sha256);
  SPLITVEIL_ASSIGN_OR_RETURN(const v1::StartResponse response, options_.peer->Start(request));
  absl::StatusOr<JointSeed> joint = seed_->Combine(peer_commitment_, response.seed_reveal());
  // A later reader of this memory must not find what fixes the whole schedule.
  seed_.reset();
  OPENSSL_cleanse(request.mutable_seed_reveal()->data(), request.seed_reveal().size());
  SPLITVEIL_RETURN_IF_ERROR(AsRefusal(joint.status()));
  SPLITVEIL_RETURN_IF_ERROR(protocol_.Take(is_continued() ? Answer::kContinued : Answer::kStarted));
  // A resumed run keeps the schedule of its first start; the seeds exchanged just now are not used.
  const JointSeed used = is_continued() ? continuation_->seed : *joint;
  SPLITVEIL_RETURN_IF_ERROR(
      options_.checkpoints.KeepContinuation(run_id_, used, aligned_, in_flight_batches_, options_.agreement));
  return used;
}

absl::StatusOr<std::shared_ptr<const Checkpoint>> NonLabelRunLifecycle::Resume(ModelState& model) {
  const Checkpoint* const from = is_continued() ? continued_.get() : options_.checkpoints.resumed_from();
  if (from != nullptr) {
    SPLITVEIL_ASSIGN_OR_RETURN(const NamedParameters state, from->State());
    SPLITVEIL_RETURN_IF_ERROR(model.SetTrainingState(state));
  }
  // The weights are in the model: the file's memory is given back for the training.
  options_.checkpoints.initial.clear();
  return std::move(continued_);
}

absl::StatusOr<std::unique_ptr<VersionWriter>> NonLabelRunLifecycle::BeginVersion() const {
  const Checkpoint* const trained = options_.checkpoints.resumed_from();
  if (options_.config.versions_path().empty() || trained == nullptr) {
    return nullptr;
  }
  v1::VersionHeader header;
  header.set_role("nonlabel_party");
  header.set_run_id(run_id_);
  header.set_checkpoint(trained->name());
  header.set_alignment(AlignmentName(aligned_));
  *header.mutable_activation_protection() = options_.config.protection();
  return VersionWriter::Create(options_.config.versions_path(), std::move(header), trained->path(), *options_.data,
                               aligned_.rows);
}

absl::Status NonLabelRunLifecycle::RecordEarlyStop(uint32_t epochs) {
  LogInfo("the label party stops the training early, after epoch ", epochs);
  return ledger_->RecordEvent("early_stopping", absl::StrCat("after epoch ", epochs));
}

absl::Status NonLabelRunLifecycle::Close(const ModelState& model) {
  // First what may fail here, on a full disk for instance: the label party is then told that the run is incomplete.
  SPLITVEIL_RETURN_IF_ERROR(Export(model));
  SPLITVEIL_RETURN_IF_ERROR(ledger_->Commit());
  v1::CloseRequest request;
  request.set_run_id(run_id_);
  // The label party may end the run as complete only once this party has all it needs of it.
  request.set_completed(true);
  SPLITVEIL_RETURN_IF_ERROR(options_.peer->Close(request));
  SPLITVEIL_RETURN_IF_ERROR(protocol_.Take(Answer::kClosed));
  options_.checkpoints.facts.clear_continuation();  // A complete run cannot be resumed.
  return absl::OkStatus();
}

absl::Status NonLabelRunLifecycle::Export(const ModelState& model) const {
  const std::string& folder = options_.config.party().export_dir();
  absl::Status exported = folder.empty() ? absl::OkStatus() : model.ExportTo(folder);
  // In the ledger, since the trained model exists nowhere else once the process ends.
  if (!exported.ok()) {
    exported.Update(ledger_->RecordEvent("export_failed", exported.message()));
  }
  return exported;
}

absl::Status NonLabelRunLifecycle::End(absl::Status outcome) {
  // A stop between the last step and the end still means that the operator wanted the run to end.
  if (outcome.ok() && stop_.seen()) {
    outcome = StoppedOnRequest();
  }
  if (!run_id_.empty() && !outcome.ok()) {
    v1::CloseRequest request;
    request.set_run_id(run_id_);
    (void)options_.peer->Close(request);  // It may be gone already.
  }
  ended_ = FinalStatus(outcome);
  options_.status->Update([](v1::GetStatusResponse& status) { status.set_phase("closed"); });
  if (ledger_ == nullptr) {
    return outcome;
  }
  // The writer records an event when it is done: before the ledger is closed.
  absl::Status status = checkpoint_writer_ == nullptr ? absl::OkStatus() : checkpoint_writer_->Wait();
  status.Update(outcome.ok() ? absl::OkStatus() : ledger_->RecordEvent("ended", outcome.message()));
  status.Update(ledger_->Finish(ended_));
  outcome.Update(status);
  options_.status->Update([this](v1::GetStatusResponse& message) { message.set_ended(ended_); });
  // The label party keeps its port open until it knows that its answer to Close has arrived.
  if (outcome.ok()) {
    if (const absl::Status kept = KeepUntoldEnd(options_.ledger_path, options_.agreement, {run_id_, ""}); !kept.ok()) {
      LogWarning("this party cannot record that the run is complete; if it is killed now, it will not know: ",
                 kept.message());
    }
    v1::CloseRequest goodbye;
    goodbye.set_run_id(run_id_);
    goodbye.set_completed(true);
    goodbye.set_answered(true);
    (void)options_.peer->Close(goodbye);  // If this is lost, it waits longer.
  }
  return outcome;
}

const char* NonLabelRunLifecycle::FinalStatus(const absl::Status& outcome) const {
  if (stop_.seen()) {
    return "stopped";
  }
  if (outcome.ok()) {
    return "completed";
  }
  return IsHalt(outcome) ? "halted" : "failed";
}

}  // namespace splitveil
