// The JSON of the Open Inference Protocol, to and from its messages.
#ifndef SPLITVEIL_LABEL_PARTY_SERVING_JSON_INFERENCE_H_
#define SPLITVEIL_LABEL_PARTY_SERVING_JSON_INFERENCE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "inference/grpc_service.pb.h"

namespace splitveil {

// The body of an inference request. Tensors of type BYTES, whose elements are strings, or FP64 and FP32, where null
// is NaN; nested lists are read in their order. Parameters are passed over. `max_values`: those of the body, lists
// included, which take twenty times their bytes of memory. Errors: InvalidArgument with the field.
absl::StatusOr<inference::ModelInferRequest> InferRequestOfJson(absl::string_view body, int64_t max_values);

// Of a response without raw contents. A number that is not finite is null: JSON has none.
std::string JsonOf(const inference::ModelInferResponse& response);
std::string JsonOf(const inference::ModelMetadataResponse& response);
std::string JsonOf(const inference::ServerMetadataResponse& response);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SERVING_JSON_INFERENCE_H_
