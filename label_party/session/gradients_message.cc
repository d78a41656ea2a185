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

absl::StatusOr<Matrix> ReadGradients(const std::vector<v1::CutGradients>& messages, int64_t batch_rows,
                                     int64_t cut_width, v1::DataType wire_dtype) {
  Matrix gradients(batch_rows, cut_width);
  const std::vector<RowRange> slices = SlicesOf(batch_rows);
  for (size_t i = 0; i < messages.size(); ++i) {
    absl::Status status = DecodeInto(gradients.block_values(slices[i].first, slices[i].rows), messages[i].gradients(),
                                     {"gradients", wire_dtype, slices[i].rows, cut_width});
    if (!status.ok()) {
      return status;
    }
  }
  return gradients;
}

}  // namespace splitveil
