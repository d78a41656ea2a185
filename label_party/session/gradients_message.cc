#include "label_party/session/gradients_message.h"

#include "common/schedule/batch_slices.h"
#include "common/transport/tensor_codec.h"

namespace splitveil {

absl::StatusOr<std::vector<v1::CutGradients>> GradientsMessages(uint32_t epoch, uint32_t batch,
                                                                ConstMatrixView gradients, v1::DataType wire_dtype) {
  std::vector<v1::CutGradients> messages;
  for (const RowRange& slice : SlicesOf(gradients.rows())) {
    v1::CutGradients& message = messages.emplace_back();
    message.set_epoch(epoch);
    message.set_batch(batch);
    message.set_first_row(static_cast<uint32_t>(slice.first));
    absl::Status status =
        EncodeMatrix(gradients.block(slice.first, slice.rows), wire_dtype, *message.mutable_gradients());
    if (!status.ok()) {
      return status;
    }
  }
  return messages;
}

absl::Status ReadGradients(const std::vector<v1::CutGradients>& messages, v1::DataType wire_dtype, Matrix& gradients) {
  const std::vector<RowRange> slices = SlicesOf(gradients.rows());
  for (size_t i = 0; i < messages.size(); ++i) {
    const auto [first, rows] = slices[i];
    absl::Status status = DecodeInto(gradients.block_values(first, rows), messages[i].gradients(),
                                     {"gradients", wire_dtype, rows, gradients.cols()});
    if (!status.ok()) {
      return status;
    }
  }
  return absl::OkStatus();
}

}  // namespace splitveil
