#include "label_party/training/gradients_message.h"

#include <algorithm>
#include <cmath>

#include "common/status/status_macros.h"
#include "common/transport/tensor_codec.h"

namespace splitveil {

absl::Status WriteGradients(ConstMatrixView gradients, const RowRange& rows, v1::DataType wire_dtype,
                            v1::CutGradients& message) {
  const ConstMatrixView sent = gradients.block(rows.first, rows.rows);
  // The last place that every gradient passes: a number that is not finite would destroy the peer's model.
  const absl::Span<const float> values = sent.values();
  if (!std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); })) {
    return absl::InternalError("a gradient is not finite");
  }
  message.set_first_row(static_cast<uint32_t>(rows.first));
  return EncodeMatrix(sent, wire_dtype, *message.mutable_gradients());
}

absl::Status WriteHint(const std::vector<uint32_t>& hint_rows, absl::Span<const float> clean_positive,
                       v1::DataType wire_dtype, v1::CutGradients& message) {
  if (hint_rows.empty()) {
    return absl::OkStatus();
  }
  // Under ORACLE only; what is written here was agreed and is in both ledgers.
  message.mutable_hint_rows()->Add(hint_rows.begin(), hint_rows.end());
  message.mutable_hint()->set_row(hint_rows.front());
  const ConstMatrixView clean(clean_positive.data(), 1, static_cast<int64_t>(clean_positive.size()));
  return EncodeMatrix(clean, wire_dtype, *message.mutable_hint()->mutable_gradient());
}

absl::Status ReadGradients(const SharedGradients& messages, v1::DataType wire_dtype, Matrix& gradients) {
  for (const auto& message : messages) {
    const int64_t rows = message->gradients().shape(0);
    // Decoded as the peer would: what is audited includes the rounding of the wire.
    SPLITVEIL_RETURN_IF_ERROR(DecodeInto(gradients.block_values(message->first_row(), rows), message->gradients(),
                                         {"gradients", wire_dtype, rows, gradients.cols()}));
  }
  return absl::OkStatus();
}

}  // namespace splitveil
