// Matrices to wire tensors and back.
#ifndef SPLITVEIL_COMMON_TRANSPORT_TENSOR_CODEC_H_
#define SPLITVEIL_COMMON_TRANSPORT_TENSOR_CODEC_H_

#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/matrix/matrix.h"

#include "splitveil/v1/tensor.pb.h"

namespace splitveil {

// Bytes of one element; 0 for an unknown type.
int64_t ElementBytes(v1::DataType dtype);

// Writes `matrix` into `tensor` as [rows, cols] of `dtype`. Errors: InvalidArgument for an unknown type; OutOfRange for
// a value that float16 cannot hold.
absl::Status EncodeMatrix(ConstMatrixView matrix, v1::DataType dtype, v1::Tensor& tensor);

// What every activation and gradient that crosses the cut lies below in magnitude; honest ones are around 1. A larger
// one would make the receiver's own arithmetic overflow, which then looked like its fault: a parameter's gradient adds
// up a batch, and an optimiser squares the sum in float32, (1e9 * 2^20 rows)^2 = 1e30 where 3e38 is the most. It is
// also the largest norm that `clip_cut_gradients` may be set to.
inline constexpr float kCutMagnitudeLimit = 1e9f;

struct TensorExpectation {
  absl::string_view field;  // Named in errors.
  v1::DataType dtype = v1::FLOAT32;
  int64_t rows = 0;
  int64_t cols = 0;
  float magnitude_limit = std::numeric_limits<float>::infinity();  // Every magnitude lies below it.
};

// Checks type, shape and byte length before it allocates, then that every value is finite and in its limit. Errors:
// InvalidArgument with field, expected and found; never a value.
absl::StatusOr<Matrix> DecodeMatrix(const v1::Tensor& tensor, const TensorExpectation& expected);
// The same into `values`, [rows * cols]; unspecified after an error.
absl::Status DecodeInto(absl::Span<float> values, const v1::Tensor& tensor, const TensorExpectation& expected);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TRANSPORT_TENSOR_CODEC_H_
