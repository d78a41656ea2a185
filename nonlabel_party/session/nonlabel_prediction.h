// A run with mode PREDICT at the non-label party, and what every run notes of its activations' protection.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_NONLABEL_PREDICTION_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_NONLABEL_PREDICTION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/ledger/ledger.h"
#include "nonlabel_party/bottom/bottom_model.h"
#include "nonlabel_party/protection/activation_protection.h"
#include "nonlabel_party/protection/protected_bottom_model.h"
#include "nonlabel_party/session/answer_protocol.h"
#include "nonlabel_party/session/nonlabel_run_lifecycle.h"
#include "nonlabel_party/session/nonlabel_session_options.h"
#include "nonlabel_party/session/reconnector.h"
#include "nonlabel_party/session/stop_request.h"

namespace splitveil {

// Not thread-safe.
class NonLabelPrediction {
 public:
  // What it works with; none is owned, each must outlive this.
  struct Parts {
    const NonLabelSessionOptions* options = nullptr;
    NonLabelRunLifecycle* lifecycle = nullptr;  // Aligned.
    AnswerProtocol* protocol = nullptr;
    Reconnector* reconnector = nullptr;
    StopRequest* stop = nullptr;
  };

  explicit NonLabelPrediction(const Parts& parts) : parts_(parts) {}

  // Starts, sends the activations of every shared example in the aligned order, batch_size rows a message, and closes
  // the run. The activations pass the same clipping, noise and gate as in training, and count as one release of each
  // example. Nothing comes back but how many examples the label party has. Errors: StoppedOnRequest; InvalidArgument if
  // the checkpoint does not fit the model; the label party's. Once.
  absl::Status Run(const BottomModelOptions& bottom, std::vector<ProtectedAttribute> attributes);

 private:
  absl::Status LoadModel(const BottomModelOptions& bottom, std::vector<ProtectedAttribute> attributes);

  const Parts parts_;
  std::unique_ptr<BottomModel> model_;
  std::unique_ptr<ProtectedBottomModel> protected_model_;  // What is sent of it.
};

// Records what `protection` promises of a run that sends each example's activations `releases` times: nothing without a
// protection. `steps`: of ProtectedBottomModel::Pretrain. Errors: the ledger's.
absl::Status RecordActivationProtection(const v1::ActivationProtection& protection, const ProtectedBottomModel& model,
                                        int64_t steps, int64_t releases, Ledger& ledger);

// Records the largest privacy losses of what was predicted since the last call, if the protection has a threshold.
// `examples`, `when`: in words. Errors: the ledger's.
absl::Status RecordPrivacyLosses(ProtectedBottomModel& model, const char* examples, const std::string& when,
                                 Ledger& ledger);

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_NONLABEL_PREDICTION_H_
