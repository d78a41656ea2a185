// Between matrices and LibTorch's tensors, and the boundary that no exception of LibTorch crosses. Shows LibTorch: for
// the sources of common/model only.
#ifndef SPLITVEIL_COMMON_MODEL_TENSORS_H_
#define SPLITVEIL_COMMON_MODEL_TENSORS_H_

#include <ATen/ATen.h>
#include <exception>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/matrix/matrix.h"

namespace splitveil {

// What `body` returns; InternalError where it throws. `operation` begins the message.
template <typename Result, typename Body>
Result CatchTorchErrors(const char* operation, Body body) {
  try {
    return body();
  } catch (const c10::Error& error) {
    return absl::InternalError(absl::StrCat(operation, ": LibTorch: ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(operation, ": ", error.what()));
  }
}

// Wraps the caller's memory. LibTorch has no read-only tensors; whoever wraps must not write.
inline at::Tensor Wrap(const float* data, at::IntArrayRef shape) {
  return at::from_blob(const_cast<float*>(data), shape, at::kFloat);
}

inline at::Tensor Wrap(ConstMatrixView matrix) { return Wrap(matrix.data(), {matrix.rows(), matrix.cols()}); }

// Of [rows, ...], flattened behind the first dimension.
inline Matrix CopyToMatrix(const at::Tensor& tensor) {
  const int64_t rows = tensor.size(0);
  Matrix matrix(rows, tensor.numel() / rows);
  Wrap(matrix).copy_(tensor.reshape({rows, -1}));
  return matrix;
}

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_TENSORS_H_
