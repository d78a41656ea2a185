// The audit: what the released gradients leak, measured where the labels are.
// Beside it what attacks with auxiliary labels get and submit.
#ifndef SPLITVEIL_LABEL_PARTY_AUDIT_LEAK_AUDITOR_H_
#define SPLITVEIL_LABEL_PARTY_AUDIT_LEAK_AUDITOR_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"

#include "common/crypto/digest.h"
#include "common/ledger/ledger.h"
#include "common/matrix/matrix.h"
#include "label_party/audit/claim_checker.h"
#include "label_party/audit/label_side_audit.h"
#include "label_party/audit/leak_recorder.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/leak_audit.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

// Attacks what was released (LabelSideAudit), and judges the scores that the attack module submits: each released batch
// once, with exactly the agreed layers and attacks. Records what both showed (LeakRecorder) and histograms in the
// ledger. Batches with one class have no AUC and leave no row. Thread-safe: scores arrive on another thread than
// releases.
class LeakAuditor {
 public:
  // `agreement`: canonical. `sample`: the aligned examples, and which of them own attacks remember and are measured
  // over. `ledger`: not owned; must outlive this.
  LeakAuditor(const v1::RunAgreement& agreement, const v1::LabelSideAudit& config, const ExampleSample& sample,
              Ledger* ledger);

  // Remembers a batch so that its scores can be judged. Call before its gradients are sent.
  void Remember(ReleasedBatch batch) ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether AuditRelease reads what was released in `step`.
  bool Reads(int64_t step) const { return label_side_audit_.Reads(step); }
  // Attacks the latest remembered batch as it was sent. From the thread that calls Remember; scores are judged
  // meanwhile.
  absl::Status AuditRelease(const ReleaseEvidence& evidence) ABSL_LOCKS_EXCLUDED(mutex_);
  // After the last batch of an epoch: figures over all examples whose gradients were sent in it.
  absl::Status FinishEpoch(uint32_t epoch) ABSL_LOCKS_EXCLUDED(mutex_);
  // At the end of the run: the figures of the epochs that are not recorded yet, and what the releases refute of the mu
  // that the run claims; if that is the claim itself, a "claim_refuted" event says so. Once.
  absl::Status FinishRun() ABSL_LOCKS_EXCLUDED(mutex_);

  // The same request again gets the same answer. Errors: NotFound for a batch that has not been released or was too
  // long ago; AlreadyExists for other scores of a batch that has been judged; InvalidArgument for other layers, attacks
  // or shapes than agreed. A request that is refused changes nothing.
  absl::StatusOr<v1::ScoreBatchResponse> Judge(const v1::ScoreBatchRequest& request) ABSL_LOCKS_EXCLUDED(mutex_);
  // From now on, for good, the attack module gets no AUC, whatever was agreed. An answer that was given before is given
  // again on request.
  void LowerDisclosure() ABSL_LOCKS_EXCLUDED(mutex_);
  // Records the figures of an attack that ran once, after `epoch`, over the examples whose labels it did not get.
  absl::Status RecordRunScores(v1::Attack attack, uint32_t epoch, absl::Span<const float> scores,
                               absl::Span<const uint8_t> labels) ABSL_LOCKS_EXCLUDED(mutex_);

  // Epochs whose submitted scores are recorded: the scores of the next one may still come.
  uint32_t peer_epochs() const ABSL_LOCKS_EXCLUDED(mutex_);

  // See LeakRecorder.
  BatchLeaks series() const ABSL_LOCKS_EXCLUDED(mutex_);
  EpochLeaks epoch_leaks() const ABSL_LOCKS_EXCLUDED(mutex_);
  int64_t bound_exceeded() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Layers and names of the attacks that did.
  std::set<std::pair<std::string, std::string>> attacks_beyond() const ABSL_LOCKS_EXCLUDED(mutex_);
  // What FinishRun recorded; nullopt before it, and if the run claims no mu.
  std::optional<ClaimCheckRow> claim_check() const ABSL_LOCKS_EXCLUDED(mutex_);
  // For the progress line.
  std::string latest() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  friend class cereal::access;
  // Between batches, all scores judged.
  template <typename Archive>
  void serialize(Archive& archive) ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::MutexLock lock(&mutex_);
    archive(label_side_audit_, histograms_, bounds_, released_epoch_, judged_epoch_, recorder_, claim_checker_);
  }

  // A batch whose scores may still come.
  struct Awaited {
    ReleasedBatch batch;
    bool judged = false;
    std::string request = {};  // What was judged, and the answer.
    v1::ScoreBatchResponse response = {};
  };

  absl::Status CheckScores(const v1::ScoreBatchRequest& request) const;
  // The batch that `request` scores. Errors: see Judge.
  absl::StatusOr<Awaited*> Find(const v1::ScoreBatchRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  EpochBounds BoundsOf(uint32_t epoch) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status RecordClaimCheck() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const v1::AuditAgreement agreement_;
  const size_t awaited_batches_;
  LabelSideAudit label_side_audit_;  // Of AuditRelease alone.
  Ledger* const ledger_;

  mutable absl::Mutex mutex_;
  std::deque<Awaited> released_ ABSL_GUARDED_BY(mutex_);  // Latest last. Changed by Remember alone, but for `judged`.
  bool is_disclosure_lowered_ ABSL_GUARDED_BY(mutex_) = false;
  ClassHistograms histograms_ ABSL_GUARDED_BY(mutex_);
  std::map<uint32_t, EpochBounds> bounds_ ABSL_GUARDED_BY(mutex_);  // By epoch, from that of the peer's pool on.
  uint32_t released_epoch_ ABSL_GUARDED_BY(mutex_) = 0;             // Of the latest batch.
  uint32_t judged_epoch_ ABSL_GUARDED_BY(mutex_) = 0;               // Whose scores the peer's pool holds.
  LeakRecorder recorder_ ABSL_GUARDED_BY(mutex_);
  ClaimChecker claim_checker_ ABSL_GUARDED_BY(mutex_);
  std::optional<ClaimCheckRow> claim_check_ ABSL_GUARDED_BY(mutex_);
};

// Discloses the labels of as many training examples as agreed, half of them positive if there are so many, and takes
// the scores of all training examples in ascending position. Not thread-safe.
class CompletionAudit {
 public:
  struct Options {
    int32_t auxiliary_labels = 0;     // As agreed, > 0.
    int64_t max_chunk = 0;            // Scores a request, at most.
    uint32_t epoch = 0;               // The last one, for the record.
    Digest key{};                     // Secret, of the run: which examples are disclosed.
    std::vector<uint32_t> positions;  // Of the training examples, ascending.
    std::vector<uint8_t> labels;      // Theirs.
  };
  // `auditor`: not owned; must outlive this.
  CompletionAudit(Options options, LeakAuditor* auditor);

  // The disclosed examples, uniform under the key: the same at every call, and of every object made from the same
  // options, so that a run that is interrupted and resumed discloses no others.
  const v1::AuxiliaryLabelsResponse& auxiliary() const { return auxiliary_; }

  // Takes the next chunk, or the latest once more, which changes nothing; with the last one the figures over the
  // examples that were not disclosed are recorded. Errors: FailedPrecondition for a chunk out of order or an attack
  // scored before; InvalidArgument for an attack that does not run once per run, or a malformed chunk. A chunk that is
  // refused changes nothing.
  absl::Status Score(const v1::ScoreExamplesRequest& request);

 private:
  // Whether `request` repeats the latest chunk, of `chunk` scores.
  absl::Status CheckRepeated(const v1::ScoreExamplesRequest& request, size_t chunk) const;
  absl::Status Record(v1::Attack attack, const std::vector<float>& scores) const;

  const Options options_;
  LeakAuditor* const auditor_;
  v1::AuxiliaryLabelsResponse auxiliary_;
  std::map<v1::Attack, std::vector<float>> scores_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_AUDIT_LEAK_AUDITOR_H_
