#include "label_party/session/gradients_message.h"

#include <utility>

#include "common/status/status_macros.h"
#include "common/transport/tensor_codec.h"

namespace splitveil {

absl::StatusOr<v1::CutGradients> GradientsMessage(uint32_t epoch, uint32_t batch, ConstMatrixView gradients,
                                                  const RowRange& rows, v1::DataType wire_dtype) {
  v1::CutGradients message;
  message.set_epoch(epoch);
  message.set_batch(batch);
  message.set_first_row(static_cast<uint32_t>(rows.first));
  absl::Status status = EncodeMatrix(gradients.block(rows.first, rows.rows), wire_dtype, *message.mutable_gradients());
  return status.ok() ? absl::StatusOr<v1::CutGradients>(std::move(message)) : status;
}

absl::Status ReadGradients(const SharedGradients& messages, v1::DataType wire_dtype, Matrix& gradients) {
  for (const auto& message : messages) {
    const int64_t rows = message->gradients().shape(0);
    SPLITVEIL_RETURN_IF_ERROR(DecodeInto(gradients.block_values(message->first_row(), rows), message->gradients(),
                                         {"gradients", wire_dtype, rows, gradients.cols()}));
  }
  return absl::OkStatus();
}

}  // namespace splitveil
