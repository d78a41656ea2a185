// Cut activations as they are sent: the message of one batch, and uploads of many examples that nobody learns from.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_ACTIVATIONS_UPLOAD_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_ACTIVATIONS_UPLOAD_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/dataset/feature_table.h"
#include "common/matrix/matrix.h"
#include "nonlabel_party/protection/protected_bottom_model.h"
#include "nonlabel_party/session/activation_account.h"
#include "nonlabel_party/session/label_party_peer.h"
#include "nonlabel_party/session/stop_request.h"

#include "splitveil/v1/split_training.pb.h"

namespace splitveil {

// `activations`: [batch, cut_width]. Errors: Internal for values that `wire_dtype` cannot hold: this party computed
// them, unlike the numbers of a file or of the peer.
absl::StatusOr<v1::CutActivations> ActivationsMessage(const std::string& run_id, uint32_t epoch, uint32_t batch,
                                                      ConstMatrixView activations, v1::DataType wire_dtype);

// Where the activations of an upload come from. Pointers: not owned; must outlive each upload.
struct ActivationsSource {
  std::string run_id;
  int64_t batch_size = 0;  // Rows per message, > 0.
  v1::DataType wire_dtype = v1::FLOAT32;
  ProtectedBottomModel* model = nullptr;
  const FeatureTable* features = nullptr;
  StopRequest* stop = nullptr;           // Asked between messages.
  ActivationAccount* account = nullptr;  // Null: nothing counts.
};

// Each sends the cut activations of the examples at `positions`, aligned ones, in that order, after the training of
// `epoch`. The whole may be repeated until it succeeds. Errors: StoppedOnRequest; the label party's; a refusal if it
// has counted a different number of examples; Internal for activations that overflow.
//
// For evaluation, and in a run that predicts. Nothing is sent without positions, and the answer is then an empty one.
absl::StatusOr<v1::EvaluateResponse> EvaluateExamples(TrainingPeer& peer, const ActivationsSource& source,
                                                      absl::Span<const uint32_t> positions, uint32_t epoch);
// For the label party's attacks on attributes.
absl::Status EmbedExamples(AttributeAuditPeer& peer, const ActivationsSource& source,
                           absl::Span<const uint32_t> positions, uint32_t epoch);

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_ACTIVATIONS_UPLOAD_H_
