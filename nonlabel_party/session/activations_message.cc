#include "nonlabel_party/session/activations_message.h"

#include "absl/strings/str_cat.h"

#include "common/transport/tensor_codec.h"

namespace splitveil {

absl::StatusOr<v1::CutActivations> ActivationsMessage(const std::string& run_id, uint32_t epoch, uint32_t batch,
                                                      ConstMatrixView activations, v1::DataType wire_dtype) {
  v1::CutActivations message;
  message.set_run_id(run_id);
  message.set_epoch(epoch);
  message.set_batch(batch);
  if (absl::Status status = EncodeMatrix(activations, wire_dtype, *message.mutable_activations()); !status.ok()) {
    return absl::InternalError(absl::StrCat("activations: ", status.message()));
  }
  return message;
}

}  // namespace splitveil
