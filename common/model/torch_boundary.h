// The boundary to LibTorch: what crosses it are matrices and statuses. For .cc files only: it includes LibTorch.
#ifndef SPLITVEIL_COMMON_MODEL_TORCH_BOUNDARY_H_
#define SPLITVEIL_COMMON_MODEL_TORCH_BOUNDARY_H_

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <exception>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/matrix/matrix.h"

namespace splitveil {

// Runs `body`, whose result is a status or a StatusOr; an exception of LibTorch's becomes Internal.
template <typename Result, typename Body>
Result CatchTorchErrors(const char* operation, Body body) {
  try {
    // A thread takes over the threads that SetComputeThreads allows when it first asks; convolutions do not ask.
    (void)at::get_num_threads();
    return body();
  } catch (const c10::Error& error) {
    return absl::InternalError(absl::StrCat(operation, ": LibTorch: ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(operation, ": ", error.what()));
  }
}

// Wraps the caller's memory, [rows, cols] float32, which must outlive the tensor. LibTorch has no read-only tensors:
// nothing may write to it.
inline at::Tensor WrapMatrix(ConstMatrixView matrix) {
  return at::from_blob(const_cast<float*>(matrix.data()), {matrix.rows(), matrix.cols()}, at::kFloat);
}

// `tensor` [rows, ...], contiguous, as a matrix with all other dimensions in one; valid as long as the tensor's memory.
inline ConstMatrixView ViewOf(const at::Tensor& tensor) {
  const int64_t rows = tensor.size(0);
  return {tensor.data_ptr<float>(), rows, tensor.numel() / rows};
}

// A copy of `tensor` [rows, ...], rows >= 1, with all other dimensions in one. Throws what LibTorch throws.
inline Matrix CopyToMatrix(const at::Tensor& tensor) {
  const int64_t rows = tensor.size(0);
  Matrix matrix = Matrix::ToOverwrite(rows, tensor.numel() / rows);
  WrapMatrix(matrix).copy_(tensor.reshape({rows, -1}));
  return matrix;
}

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_TORCH_BOUNDARY_H_
