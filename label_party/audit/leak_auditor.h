// The label party's side of the audit: what leaks is measured where the labels are.
#ifndef SPLITVEIL_LABEL_PARTY_AUDIT_LEAK_AUDITOR_H_
#define SPLITVEIL_LABEL_PARTY_AUDIT_LEAK_AUDITOR_H_

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/leakage/summary.h"
#include "common/ledger/ledger.h"
#include "common/matrix/matrix.h"
#include "label_party/audit/class_histograms.h"
#include "label_party/audit/epoch_bounds.h"
#include "label_party/audit/epoch_pool.h"
#include "label_party/audit/label_side_audit.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/leak_audit.pb.h"
#include "splitveil/v1/party.pb.h"

namespace splitveil {

// Largest 0.5 + |AUC - 0.5| of the norm and the cosine attack on `gradients` [batch, cut_width], protected but not yet
// released; 0.5 where the batch has no AUC. For the release gate.
double MeasuredLeak(ConstMatrixView gradients, const ReleasedBatch& batch);

// (layer, attack) -> leak AUC over the steps, by one observer.
using BatchLeaks = std::map<std::pair<std::string, std::string>, std::vector<double>>;
// (layer, attack) -> figures over one epoch.
using EpochLeaks = std::map<std::pair<std::string, std::string>, EpochLeakRow>;

// Measures leakage on the bytes that left, and judges the scores the attack module submits: each released batch once,
// with exactly the agreed layers and attacks. Records in the ledger every batch's leak AUC, figures over the examples
// of each epoch, histograms, and a "bound_exceeded" event the first time that an own attack on the cut gradients reads
// more over an epoch than the noise allows two Gaussian classes: then the bounds do not hold for these gradients.
// Batches with one class have no AUC and leave no row. Thread-safe: scores arrive on another thread than releases.
class LeakAuditor {
 public:
  // `agreement`: canonical. `examples`: aligned ones. `ledger`: not owned; must outlive this.
  LeakAuditor(const v1::RunAgreement& agreement, const v1::LabelAudit& audit, int64_t examples, Ledger* ledger);

  // Remembers a batch so that its scores can be judged. Call before its gradients leave.
  void Remember(ReleasedBatch batch);

  // Whether AuditRelease reads what was released in `step`.
  bool Reads(int64_t step) const { return label_side_audit_.Reads(step); }
  // Attacks the latest remembered batch as it left. From the thread that calls Remember; scores are judged meanwhile.
  absl::Status AuditRelease(const ReleaseEvidence& evidence);
  // After the last batch of an epoch: figures over all examples that left in it.
  absl::Status FinishEpoch(uint32_t epoch);
  // At the end of the run: the figures of the epochs that are not recorded yet. Once.
  absl::Status FinishRun();

  // Errors: NotFound for a batch that has not been released or was too long ago; AlreadyExists for a second answer;
  // InvalidArgument for other layers, attacks or shapes than agreed.
  absl::StatusOr<v1::ScoreBatchResponse> Judge(const v1::ScoreBatchRequest& request);
  // Records the figures of an attack that ran once, after `epoch`, over the examples it was not told of.
  absl::Status RecordRunScores(v1::Attack attack, uint32_t epoch, absl::Span<const float> scores,
                               absl::Span<const uint8_t> labels);

  // What the non-label party's scores showed; where it submitted none, what the own audit of the released bytes showed.
  BatchLeaks series() const;
  // The latest epoch's row of each layer and attack, by the same rule.
  EpochLeaks epoch_leaks() const;
  // How often an attack read more over an epoch than the noise allows.
  int64_t bound_exceeded() const;
  // For the progress line: "norm 0.54 cosine 0.68 at cut"; empty before the first.
  std::string latest() const;

 private:
  // One observer's figures.
  struct Observer {
    EpochPool pool;
    BatchLeaks series;
    EpochLeaks epoch_leaks;
  };

  absl::Status CheckScores(const v1::ScoreBatchRequest& request) const;
  // These need mutex_. RecordLeak: one batch's AUC; false where the batch has one class.
  absl::StatusOr<bool> RecordLeak(const ReleasedBatch& batch, const std::string& observer, const std::string& layer,
                                  v1::Attack attack, absl::Span<const float> scores, double& auc);
  absl::Status RecordEpoch(uint32_t epoch, const std::string& observer);
  absl::Status Record(const EpochLeakRow& row);
  template <typename Figures>
  std::map<std::pair<std::string, std::string>, Figures> Merged(
      std::map<std::pair<std::string, std::string>, Figures> Observer::*figures) const;

  const v1::AuditAgreement agreement_;
  const size_t cumulative_batches_;
  Ledger* const ledger_;

  LabelSideAudit label_side_audit_;  // Of AuditRelease alone.

  mutable std::mutex mutex_;            // Guards everything below.
  std::deque<ReleasedBatch> released_;  // Latest last. Changed by Remember alone.
  std::deque<bool> judged_;             // Parallel to released_.
  ClassHistograms histograms_;
  std::map<uint32_t, EpochBounds> bounds_;     // By epoch, from that of the peer's pool on.
  std::map<std::string, Observer> observers_;  // By name.
  uint32_t judged_epoch_ = 0;                  // Whose scores the peer's pool holds.
  int64_t bound_exceeded_ = 0;
  std::set<std::pair<std::string, std::string>> attacks_beyond_;  // Layers and attacks that did.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_AUDIT_LEAK_AUDITOR_H_
