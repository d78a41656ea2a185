// The protected gradients of one batch as they leave this party.
#ifndef SPLITVEIL_LABEL_PARTY_TRAINING_GRADIENTS_MESSAGE_H_
#define SPLITVEIL_LABEL_PARTY_TRAINING_GRADIENTS_MESSAGE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "common/matrix/matrix.h"
#include "common/schedule/slice_assembler.h"

#include "splitveil/v1/split_training.pb.h"

namespace splitveil {

// Slices of the answer to a batch, in order. Shared by the session, which may have to repeat them, and the audit;
// nobody copies them.
using SharedGradients = std::vector<std::shared_ptr<const v1::CutGradients>>;

// Rows `rows` of `gradients` [batch, cut_width] into `message`. Errors: Internal for a value that is not finite; see
// also EncodeMatrix.
absl::Status WriteGradients(ConstMatrixView gradients, const RowRange& rows, v1::DataType wire_dtype,
                            v1::CutGradients& message);
// The hint of a batch that has one: `hint_rows` and the first one's clean gradient [cut_width]; both may be empty, then
// nothing is written. Errors: as EncodeMatrix.
absl::Status WriteHint(const std::vector<uint32_t>& hint_rows, absl::Span<const float> clean_positive,
                       v1::DataType wire_dtype, v1::CutGradients& message);
// What the peer reads of them: overwrites `gradients` [batch, cut_width]. Errors: as DecodeInto.
absl::Status ReadGradients(const SharedGradients& messages, v1::DataType wire_dtype, Matrix& gradients);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TRAINING_GRADIENTS_MESSAGE_H_
