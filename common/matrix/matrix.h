// Row-major float32 matrices: the currency between models, protections, attacks and the wire, free of LibTorch.
#ifndef SPLITVEIL_COMMON_MATRIX_MATRIX_H_
#define SPLITVEIL_COMMON_MATRIX_MATRIX_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/types/span.h"

namespace splitveil {

// Borrowed rows of someone else's memory, [rows, cols], contiguous. The owner must outlive the view.
class ConstMatrixView {
 public:
  ConstMatrixView() = default;
  ConstMatrixView(const float* data, int64_t rows, int64_t cols) : data_(data), rows_(rows), cols_(cols) {}

  const float* data() const { return data_; }
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  int64_t size() const { return rows_ * cols_; }
  absl::Span<const float> row(int64_t i) const { return {data_ + i * cols_, static_cast<size_t>(cols_)}; }
  absl::Span<const float> values() const { return {data_, static_cast<size_t>(size())}; }
  // Rows [first, first + rows).
  ConstMatrixView block(int64_t first, int64_t rows) const { return {data_ + first * cols_, rows, cols_}; }

 private:
  const float* data_ = nullptr;
  int64_t rows_ = 0;
  int64_t cols_ = 0;
};

// Owned memory, [rows, cols], contiguous.
class Matrix {
 public:
  Matrix() = default;
  // Of zeros.
  Matrix(int64_t rows, int64_t cols)
      : rows_(rows), cols_(cols), values_(std::make_unique<float[]>(static_cast<size_t>(rows * cols))) {}
  // Of whatever the memory holds: for those who write every number before any is read.
  static Matrix ToOverwrite(int64_t rows, int64_t cols) {
    Matrix matrix;
    matrix.rows_ = rows;
    matrix.cols_ = cols;
    matrix.values_.reset(new float[static_cast<size_t>(rows * cols)]);
    return matrix;
  }
  // A copy.
  explicit Matrix(ConstMatrixView view) : Matrix(ToOverwrite(view.rows(), view.cols())) { SetBlock(0, view); }
  Matrix(const Matrix& other) : Matrix(ConstMatrixView(other)) {}
  Matrix(Matrix&& other) noexcept = default;
  Matrix& operator=(Matrix other) noexcept {
    rows_ = other.rows_;
    cols_ = other.cols_;
    values_ = std::move(other.values_);
    return *this;
  }
  ~Matrix() = default;

  float* data() { return values_.get(); }
  const float* data() const { return values_.get(); }
  int64_t rows() const { return rows_; }
  int64_t cols() const { return cols_; }
  int64_t size() const { return rows_ * cols_; }
  absl::Span<float> row(int64_t i) { return {data() + i * cols_, static_cast<size_t>(cols_)}; }
  absl::Span<const float> row(int64_t i) const { return {data() + i * cols_, static_cast<size_t>(cols_)}; }
  // Rows [first, first + rows).
  absl::Span<float> block_values(int64_t first, int64_t rows) {
    return {data() + first * cols_, static_cast<size_t>(rows * cols_)};
  }
  ConstMatrixView block(int64_t first, int64_t rows) const { return ConstMatrixView(*this).block(first, rows); }
  // Overwrites rows [first, first + rows.rows()); `rows` has as many columns.
  void SetBlock(int64_t first, ConstMatrixView rows) {
    std::copy_n(rows.data(), rows.size(), block_values(first, rows.rows()).data());
  }
  operator ConstMatrixView() const { return {data(), rows_, cols_}; }  // NOLINT(google-explicit-constructor)

 private:
  int64_t rows_ = 0;
  int64_t cols_ = 0;
  std::unique_ptr<float[]> values_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MATRIX_MATRIX_H_
