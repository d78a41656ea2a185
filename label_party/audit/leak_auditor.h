// The label party's side of the audit: what leaks is measured where the labels are.
#ifndef SPLITVEIL_LABEL_PARTY_AUDIT_LEAK_AUDITOR_H_
#define SPLITVEIL_LABEL_PARTY_AUDIT_LEAK_AUDITOR_H_

#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/leakage/summary.h"
#include "common/ledger/ledger.h"
#include "common/matrix/matrix.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/leak_audit.pb.h"

namespace splitveil {

// A batch whose gradients leave: what is needed to judge scores of it.
struct ReleasedBatch {
  int64_t step = 0;
  uint32_t epoch = 0;
  uint32_t batch = 0;
  std::vector<uint8_t> labels;
  // Aligned positions of the rows.
  std::vector<uint32_t> positions;
  // Up to kMaxHints rows of positives, drawn secretly; empty in a batch without positives.
  std::vector<uint32_t> hint_rows;
  // The first of them's clean gradient, g+ of the cosine attack, [cut_width]; empty without a hint row.
  std::vector<float> clean_positive;
};

// What left with a batch, and from what it was made. All [batch, cut_width]; borrowed for the call.
struct ReleaseEvidence {
  ConstMatrixView released;       // Decoded from the bytes that left.
  ConstMatrixView clean;          // Before the protection.
  ConstMatrixView activations;    // As received.
  double sum_kl = 0;              // Of this release; NaN where the method has none.
  double accumulated_sum_kl = 0;  // Largest sum over the releases of one example, this one included.
};

// Largest 0.5 + |AUC - 0.5| of the norm and the cosine attack on `gradients` [batch, cut_width], protected but not yet
// released; 0.5 where the batch has no AUC. For the release gate.
double MeasuredLeak(ConstMatrixView gradients, const ReleasedBatch& batch);

// (layer, attack) -> leak AUC over the steps, by one observer.
using LeakSeries = std::map<std::pair<std::string, std::string>, std::vector<double>>;

// Measures leakage on the bytes that left, and judges the scores the attack module submits: each released batch once,
// with exactly the agreed layers and attacks. Records every leak AUC in the ledger. Batches with one class have no AUC
// and leave no row. Thread-safe: scores arrive on another thread than releases.
class LeakAuditor {
 public:
  // `ledger`: not owned; must outlive this. `agreement`: canonical.
  LeakAuditor(const v1::RunAgreement& agreement, Ledger* ledger);

  // Remembers a batch so that its scores can be judged. Call before its gradients leave.
  void Remember(ReleasedBatch batch);

  // Measures the latest remembered batch as it left.
  absl::Status AuditRelease(const ReleaseEvidence& evidence);
  // After the last batch of an epoch: figures over all its examples.
  absl::Status FinishEpoch(uint32_t epoch);

  // Errors: NotFound for a batch that has not been released or was too long ago; AlreadyExists for a second answer;
  // InvalidArgument for other layers, attacks or shapes than agreed.
  absl::StatusOr<v1::ScoreBatchResponse> Judge(const v1::ScoreBatchRequest& request);

  // What the non-label party's scores showed; where it submitted none, what the own audit of the released bytes showed.
  LeakSeries series() const;
  // For the progress line: "norm 0.54 cosine 0.68 at cut"; empty before the first.
  std::string latest() const;

 private:
  absl::Status CheckScores(const v1::ScoreBatchRequest& request) const;
  // Records one AUC; false where the batch has one class. Needs mutex_.
  absl::StatusOr<bool> RecordLeak(const ReleasedBatch& batch, const std::string& observer, const std::string& layer,
                                  v1::Attack attack, absl::Span<const float> scores, double& auc);

  const v1::AuditAgreement agreement_;
  const size_t remembered_batches_;
  Ledger* const ledger_;

  mutable std::mutex mutex_;
  std::deque<ReleasedBatch> released_;                    // Guarded by mutex_. Latest last.
  std::deque<bool> judged_;                               // Guarded by mutex_. Parallel to released_.
  std::map<std::string, LeakSeries> series_by_observer_;  // Guarded by mutex_.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_AUDIT_LEAK_AUDITOR_H_
