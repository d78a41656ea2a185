// The protected gradients of one batch as they leave this party.
#ifndef SPLITVEIL_LABEL_PARTY_SESSION_GRADIENTS_MESSAGE_H_
#define SPLITVEIL_LABEL_PARTY_SESSION_GRADIENTS_MESSAGE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/matrix/matrix.h"

#include "splitveil/v1/split_training.pb.h"

namespace splitveil {

// An answer to a batch, slice by slice, shared by the session, which may have to repeat it, and the audit; nobody
// copies it.
using SharedGradients = std::shared_ptr<const std::vector<v1::CutGradients>>;

// `gradients`: [batch, cut_width]. Errors: as EncodeMatrix.
absl::StatusOr<std::vector<v1::CutGradients>> GradientsMessages(uint32_t epoch, uint32_t batch,
                                                                ConstMatrixView gradients, v1::DataType wire_dtype);
// What the peer reads of them: overwrites `gradients` [batch, cut_width]. Errors: as DecodeInto.
absl::Status ReadGradients(const std::vector<v1::CutGradients>& messages, v1::DataType wire_dtype, Matrix& gradients);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SESSION_GRADIENTS_MESSAGE_H_
