// The cut activations of one batch as they leave this party, for training and for evaluation alike.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_ACTIVATIONS_MESSAGE_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_ACTIVATIONS_MESSAGE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

#include "common/matrix/matrix.h"

#include "splitveil/v1/split_training.pb.h"

namespace splitveil {

// `activations`: [batch, cut_width]. Errors: Internal for values that `wire_dtype` cannot hold, since they are of our
// own making, unlike the numbers that a file or the peer brings.
absl::StatusOr<v1::CutActivations> ActivationsMessage(const std::string& run_id, uint32_t epoch, uint32_t batch,
                                                      ConstMatrixView activations, v1::DataType wire_dtype);

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_ACTIVATIONS_MESSAGE_H_
