#include "label_party/audit/leak_auditor.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/config/agreement.h"
#include "common/crypto/seeded_stream.h"
#include "common/leakage/attack_traits.h"
#include "common/status/status_macros.h"
#include "common/transport/tensor_codec.h"
#include "label_party/policy/release_gate.h"

namespace splitveil {
namespace {

AttackVariant VariantOf(const v1::ScoreBatchRequest::Scores& scores) {
  return {scores.attack(), static_cast<int>(scores.hint_count())};
}

// [scores][batch]
absl::StatusOr<std::vector<Matrix>> Decode(const v1::ScoreBatchRequest& request, size_t rows) {
  std::vector<Matrix> decoded;
  for (const v1::ScoreBatchRequest::Scores& scores : request.scores()) {
    SPLITVEIL_ASSIGN_OR_RETURN(Matrix values,
                               DecodeMatrix(scores.scores(), {"scores", v1::FLOAT32, 1, static_cast<int64_t>(rows)}));
    decoded.push_back(std::move(values));
  }
  return decoded;
}

}  // namespace

LeakAuditor::LeakAuditor(const v1::RunAgreement& agreement, const v1::LabelSideAudit& config,
                         const ExampleSample& sample, Ledger* ledger)
    : agreement_(agreement.audit()),
      // Scores may trail the gradients by the window and one batch under way.
      awaited_batches_(static_cast<size_t>(MostInFlight(agreement)) + 1),
      label_side_audit_(config, sample),
      ledger_(ledger),
      recorder_(ledger, sample),
      claim_checker_(sample) {}

void LeakAuditor::Remember(ReleasedBatch batch) {
  const absl::MutexLock lock(&mutex_);
  // The peer's scores come after its gradients: labels and positions are kept until then, and no gradient.
  released_epoch_ = batch.epoch;
  released_.push_back({std::move(batch)});
  // Bounded: a peer that never sends scores must not fill the memory.
  while (released_.size() > awaited_batches_) {
    released_.pop_front();
  }
}

absl::Status LeakAuditor::AuditRelease(const ReleaseEvidence& evidence) {
  const ReleasedBatch* batch = nullptr;
  {
    const absl::MutexLock lock(&mutex_);
    batch = released_.empty() ? nullptr : &released_.back().batch;
  }
  // Used without the lock, so that the judgement of scores does not wait: only Remember removes a batch, and it is
  // called from this thread.
  if (batch == nullptr || evidence.clean.rows() != static_cast<int64_t>(batch->labels.size())) {
    return absl::InternalError("the audited gradients are not those of the latest released batch");
  }
  const absl::StatusOr<std::vector<BatchScores>> all = label_side_audit_.Score(*batch, evidence);
  if (!all.ok()) {
    return absl::InternalError(all.status().message());
  }
  const absl::MutexLock lock(&mutex_);
  if (batch->candidates.empty() || evidence.has_label_noise) {  // Else the bound is for two classes, not for pairs.
    bounds_[batch->epoch].Add(evidence.sum_kl, evidence.accumulated_sum_kl,
                              evidence.releases_repeat || evidence.has_label_noise);
  }
  const std::optional<ReleasingHead> head =
      label_side_audit_.Reads(batch->step) ? label_side_audit_.HeadOf(evidence) : std::nullopt;
  if (head.has_value()) {
    claim_checker_.Add(*batch, evidence, *head);
  }
  if (label_side_audit_.Attacks(batch->step)) {
    histograms_.Add(*batch, evidence, *all, recorder_.own_sample());
  }
  for (const BatchScores& own : *all) {
    const ObservedScores observed = {Observer::kLabelParty, "cut", own.attack, own.scores};
    SPLITVEIL_RETURN_IF_ERROR(recorder_.RecordBatch(observed, *batch).status());
    recorder_.Pool(observed, *batch);
  }
  return absl::OkStatus();
}

EpochBounds LeakAuditor::BoundsOf(uint32_t epoch) const {
  const auto bounds = bounds_.find(epoch);
  return bounds == bounds_.end() ? EpochBounds() : bounds->second;
}

absl::Status LeakAuditor::FinishEpoch(uint32_t epoch) {
  const absl::MutexLock lock(&mutex_);
  absl::Status status = recorder_.RecordEpoch(Observer::kLabelParty, epoch, BoundsOf(epoch));
  for (const DistributionRow& row : histograms_.Finish(epoch)) {
    status.Update(ledger_->Record(row));
  }
  // The scores that the peer may still submit belong to the epoch of its pool or a later one: older bounds are not
  // needed any more.
  bounds_.erase(bounds_.begin(), bounds_.lower_bound(std::min(judged_epoch_, epoch)));
  return status;
}

// The last epoch's pools have no successor that would close them.
absl::Status LeakAuditor::FinishRun() {
  const absl::MutexLock lock(&mutex_);
  absl::Status status = recorder_.RecordEpoch(Observer::kNonLabelParty, judged_epoch_, BoundsOf(judged_epoch_));
  if (recorder_.has_pooled(Observer::kLabelParty)) {  // The run ends within an epoch.
    status.Update(recorder_.RecordEpoch(Observer::kLabelParty, released_epoch_, BoundsOf(released_epoch_)));
  }
  status.Update(RecordClaimCheck());
  return status;
}

absl::Status LeakAuditor::RecordClaimCheck() {
  claim_check_ = claim_checker_.Finish();
  if (!claim_check_.has_value()) {
    return absl::OkStatus();
  }
  SPLITVEIL_RETURN_IF_ERROR(ledger_->Record(*claim_check_));
  return claim_check_->is_refuted()
             ? ledger_->RecordEvent(
                   "claim_refuted",
                   absl::StrFormat("claimed mu %.4f; the run's own scores refute any below %.4f "
                                   "(%.4g%%, test %s, %d examples)",
                                   claim_check_->claimed_mu, claim_check_->failing_mu_lower,
                                   100 * claim_check_->failing_confidence, claim_check_->test, claim_check_->examples))
             : absl::OkStatus();
}

absl::Status LeakAuditor::RecordRunScores(v1::Attack attack, uint32_t epoch, absl::Span<const float> scores,
                                          absl::Span<const uint8_t> labels) {
  const absl::MutexLock lock(&mutex_);
  return recorder_.RecordRun(attack, epoch, scores, labels);
}

absl::Status LeakAuditor::CheckScores(const v1::ScoreBatchRequest& request) const {
  // In the agreed order, so that a message says nothing by what it leaves out.
  const std::vector<AgreedScore> agreed = AgreedScores(agreement_);
  const int expected = static_cast<int>(agreed.size());
  // All agreed attacks or none: a peer must not submit only those that failed.
  if (request.scores_size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat(
        "scores: expected ", expected, " (agreed attacks at the agreed layers), found ", request.scores_size()));
  }
  for (int i = 0; i < expected; ++i) {
    const auto& [layer, attack] = agreed[i];
    if (request.scores(i).layer() != layer || !(VariantOf(request.scores(i)) == attack)) {
      return absl::InvalidArgumentError(absl::StrCat("scores[", i, "]: expected ", AttackName(attack), " at layer ",
                                                     layer, ", found a different layer or attack"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<LeakAuditor::Awaited*> LeakAuditor::Find(const v1::ScoreBatchRequest& request) {
  for (Awaited& awaited : released_) {
    if (awaited.batch.epoch == request.epoch() && awaited.batch.batch == request.batch()) {
      // Other scores of the same batch would be a second question about the same labels.
      return awaited.judged && awaited.request != request.SerializeAsString()
                 ? absl::StatusOr<Awaited*>(
                       absl::AlreadyExistsError("scores: this batch has been judged; one answer per batch"))
                 : &awaited;
    }
  }
  return absl::NotFoundError(
      absl::StrCat("scores: epoch ", request.epoch(), " batch ", request.batch(), " is not a recently released batch"));
}

absl::StatusOr<v1::ScoreBatchResponse> LeakAuditor::Judge(const v1::ScoreBatchRequest& request) {
  const absl::MutexLock lock(&mutex_);
  SPLITVEIL_RETURN_IF_ERROR(CheckScores(request));
  SPLITVEIL_ASSIGN_OR_RETURN(Awaited* const awaited, Find(request));
  if (awaited->judged) {
    return awaited->response;
  }
  const ReleasedBatch& batch = awaited->batch;
  // Everything is decoded before anything is recorded, so that a malformed request changes nothing.
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<Matrix> decoded, Decode(request, batch.labels.size()));
  // From here on an error ends the run: the batch must not be judged again.
  awaited->judged = true;
  // The first scores of a new epoch complete the epoch before: its figures are computed now.
  if (request.epoch() > judged_epoch_) {
    SPLITVEIL_RETURN_IF_ERROR(recorder_.RecordEpoch(Observer::kNonLabelParty, judged_epoch_, BoundsOf(judged_epoch_)));
    judged_epoch_ = request.epoch();
  }
  v1::ScoreBatchResponse response;
  for (int i = 0; i < request.scores_size(); ++i) {
    const v1::ScoreBatchRequest::Scores& scores = request.scores(i);
    const ObservedScores observed = {Observer::kNonLabelParty, scores.layer(), VariantOf(scores), decoded[i].row(0)};
    SPLITVEIL_ASSIGN_OR_RETURN(const std::optional<double> auc, recorder_.RecordBatch(observed, batch));
    if (request.epoch() == judged_epoch_) {  // Later than the first scores of the next epoch: too late to pool.
      recorder_.Pool(observed, batch);
    }
    std::optional<double> disclosed;
    if (!is_disclosure_lowered_) {
      disclosed = DisclosedAuc(agreement_.disclosure(), auc);
    }
    // One answer a batch, however many attacks: one answer is what the account has counted (rounded_answers.h).
    if (i == 0 && batch.is_answered && !is_disclosure_lowered_) {
      disclosed = RoundedAnswer(agreement_.rounded(), decoded[i].row(0), batch.labels);
    }
    if (disclosed.has_value()) {
      v1::ScoreBatchResponse::LeakAuc* leak = response.add_leaks();
      leak->set_layer(scores.layer());
      leak->set_attack(scores.attack());
      leak->set_hint_count(scores.hint_count());
      leak->set_auc(*disclosed);
    }
  }
  awaited->request = request.SerializeAsString();
  awaited->response = response;
  return response;
}

void LeakAuditor::LowerDisclosure() {
  const absl::MutexLock lock(&mutex_);
  is_disclosure_lowered_ = true;
}

uint32_t LeakAuditor::peer_epochs() const {
  const absl::MutexLock lock(&mutex_);
  return judged_epoch_;
}

BatchLeaks LeakAuditor::series() const {
  const absl::MutexLock lock(&mutex_);
  return recorder_.series();
}

EpochLeaks LeakAuditor::epoch_leaks() const {
  const absl::MutexLock lock(&mutex_);
  return recorder_.epoch_leaks();
}

int64_t LeakAuditor::bound_exceeded() const {
  const absl::MutexLock lock(&mutex_);
  return recorder_.bound_exceeded();
}

std::set<std::pair<std::string, std::string>> LeakAuditor::attacks_beyond() const {
  const absl::MutexLock lock(&mutex_);
  return recorder_.attacks_beyond();
}

std::optional<ClaimCheckRow> LeakAuditor::claim_check() const {
  const absl::MutexLock lock(&mutex_);
  return claim_check_;
}

std::string LeakAuditor::latest() const {
  const absl::MutexLock lock(&mutex_);
  return recorder_.latest();
}

namespace {

// Moves `count` ranks from `from` to `drawn`; every set of that size is equally likely.
void Draw(int64_t count, SeededStream& stream, std::vector<uint32_t>& from, std::vector<uint32_t>& drawn) {
  for (int64_t i = 0; i < count && !from.empty(); ++i) {
    std::swap(from[stream.UniformBelow(static_cast<uint32_t>(from.size()))], from.back());
    drawn.push_back(from.back());
    from.pop_back();
  }
}

}  // namespace

CompletionAudit::CompletionAudit(Options options, LeakAuditor* auditor)
    : options_(std::move(options)), auditor_(auditor) {
  // Half of them positive, as the attack needs both classes; if there are too few, negatives fill the rest.
  std::vector<uint32_t> ranks[2], drawn;
  for (uint32_t rank = 0; rank < options_.labels.size(); ++rank) {
    ranks[options_.labels[rank]].push_back(rank);
  }
  SeededStream stream(options_.key);
  Draw(options_.auxiliary_labels / 2, stream, ranks[1], drawn);
  Draw(options_.auxiliary_labels - static_cast<int64_t>(drawn.size()), stream, ranks[0], drawn);
  // Sorted by position: the order of the draw reveals nothing more, and Record can search.
  std::sort(drawn.begin(), drawn.end());
  for (uint32_t rank : drawn) {
    auxiliary_.add_positions(options_.positions[rank]);
    auxiliary_.mutable_labels()->push_back(static_cast<char>(options_.labels[rank]));
  }
}

absl::Status CompletionAudit::Score(const v1::ScoreExamplesRequest& request) {
  if (!TraitsOf(request.attack()).once_per_run()) {
    return absl::InvalidArgumentError("ScoreExamples: attack: it is scored batch by batch: use ScoreBatch");
  }
  // Chunks come in order, so their number so far says which one is due.
  // All examples in one message could exceed what gRPC accepts.
  const auto known = scores_.find(request.attack());
  const size_t done = known == scores_.end() ? 0 : known->second.size();
  const size_t left = options_.labels.size() - done;
  const auto largest = static_cast<size_t>(options_.max_chunk);
  if (request.first() < done && request.first() % largest == 0 && done - request.first() <= largest) {
    // The latest chunk may come again, as its answer may have been lost.
    return CheckRepeated(request, done - request.first());
  }
  if (request.first() != done || left == 0) {
    return absl::FailedPreconditionError(absl::StrCat("ScoreExamples: expected the chunk from example ", done, " of ",
                                                      options_.labels.size(), ", found from ", request.first()));
  }
  const int64_t chunk = std::min<int64_t>(options_.max_chunk, static_cast<int64_t>(left));
  SPLITVEIL_ASSIGN_OR_RETURN(const Matrix scores, DecodeMatrix(request.scores(), {"scores", v1::FLOAT32, 1, chunk}));
  std::vector<float>& all = scores_[request.attack()];
  all.insert(all.end(), scores.row(0).begin(), scores.row(0).end());
  return all.size() == options_.labels.size() ? Record(request.attack(), all) : absl::OkStatus();
}

absl::Status CompletionAudit::CheckRepeated(const v1::ScoreExamplesRequest& request, size_t chunk) const {
  SPLITVEIL_ASSIGN_OR_RETURN(const Matrix scores,
                             DecodeMatrix(request.scores(), {"scores", v1::FLOAT32, 1, static_cast<int64_t>(chunk)}));
  const std::vector<float>& all = scores_.at(request.attack());
  // Different scores for a chunk that was taken would let the peer choose among its attempts.
  return std::equal(scores.row(0).begin(), scores.row(0).end(), all.end() - static_cast<std::ptrdiff_t>(chunk))
             ? absl::OkStatus()
             : absl::FailedPreconditionError("ScoreExamples: is neither the next chunk nor the last one again");
}

absl::Status CompletionAudit::Record(v1::Attack attack, const std::vector<float>& scores) const {
  std::vector<float> unknown_scores;
  std::vector<uint8_t> unknown_labels;
  for (size_t rank = 0; rank < scores.size(); ++rank) {
    // Scored only on examples whose labels were not disclosed: on the others the attack only repeats them.
    if (!std::binary_search(auxiliary_.positions().begin(), auxiliary_.positions().end(), options_.positions[rank])) {
      unknown_scores.push_back(scores[rank]);
      unknown_labels.push_back(options_.labels[rank]);
    }
  }
  return auditor_->RecordRunScores(attack, options_.epoch, unknown_scores, unknown_labels);
}

}  // namespace splitveil
