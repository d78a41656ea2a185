// From a batch's gradients to judged scores: runs the attack module, submits, records what the grant lets it read.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_LEAK_REPORTER_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_LEAK_REPORTER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/ledger/ledger.h"
#include "nonlabel_party/bottom/bottom_model.h"
#include "nonlabel_party/session/label_party_peer.h"

#include "splitveil/v1/agreement.pb.h"

namespace splitveil {

// Not thread-safe.
class LeakReporter {
 public:
  // `agreement`: canonical. `peer`, `model`, `ledger`: not owned; must outlive this. Errors: InvalidArgument for an
  // agreed layer that the model does not have.
  static absl::StatusOr<LeakReporter> Create(const v1::RunAgreement& agreement, const std::string& run_id,
                                             LabelPartyPeer* peer, BottomModel* model, Ledger* ledger);

  // Layers whose gradients Report wants from Backward for the batch of step `step`; empty where it is not audited.
  absl::Span<const std::string> Layers(int64_t step) const;

  // Attacks the batch Backward has just taken; call before Update. `gradients`: of Layers(step). `message`: what they
  // came from, with the hint under grant ORACLE. A refusal where the hint is malformed.
  absl::Status Report(int64_t step, const std::vector<LayerGradient>& gradients, const v1::CutGradients& message);

  // For the progress line: "norm 0.54 cosine 0.68 at cut"; empty where the grant tells nothing.
  const std::string& latest() const { return latest_; }

 private:
  LeakReporter() = default;

  absl::StatusOr<std::vector<std::vector<float>>> BackpropagateHint(const v1::Hint& hint, int64_t rows);
  absl::Status Record(int64_t step, int64_t examples, const v1::ScoreBatchResponse& response);

  v1::AuditAgreement agreement_;
  v1::DataType wire_dtype_ = v1::FLOAT32;
  int64_t cut_width_ = 0;
  std::string run_id_;
  std::vector<std::string> layers_;
  std::vector<v1::Attack> attacks_;
  LabelPartyPeer* peer_ = nullptr;
  BottomModel* model_ = nullptr;
  Ledger* ledger_ = nullptr;
  std::string latest_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_LEAK_REPORTER_H_
