// The inputs of an inference request, as its contents or its raw contents have them.
#ifndef SPLITVEIL_LABEL_PARTY_SERVING_REQUEST_TENSORS_H_
#define SPLITVEIL_LABEL_PARTY_SERVING_REQUEST_TENSORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "inference/grpc_service.pb.h"

namespace splitveil {

struct RequestColumn {
  std::string name;
  bool is_number = false;
  std::vector<double> numbers;            // FP32 and FP64; NaN where one is missing.
  std::vector<absl::string_view> values;  // BYTES, a view of the request.
};

// One id and one value of each column for each row.
struct RequestTensors {
  std::vector<absl::string_view> ids;  // A view of the request.
  std::vector<RequestColumn> columns;
};

// Input "id" BYTES [n] or [n, 1], and any other of type BYTES, FP32 or FP64 and the same shape. `most`: ids beyond
// which the rest need not be read; more than so many are returned then. Errors: InvalidArgument, which repeats nothing
// of the request: without "id"; a name twice; another type or shape; contents that do not fit; a number that is
// infinite.
absl::StatusOr<RequestTensors> ReadTensors(const inference::ModelInferRequest& request, int64_t most);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SERVING_REQUEST_TENSORS_H_
