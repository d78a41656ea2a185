// Between a batch's matrices and Eigen's, and its rows by value of an attribute. For .cc files of this folder.
#ifndef SPLITVEIL_NONLABEL_PARTY_PROTECTION_ACTIVATION_ROWS_H_
#define SPLITVEIL_NONLABEL_PARTY_PROTECTION_ACTIVATION_ROWS_H_

#include <Eigen/Dense>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/matrix/matrix.h"
#include "nonlabel_party/protection/privacy_loss.h"

namespace splitveil {

using RowMajorFloats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

inline Eigen::MatrixXd ToDouble(ConstMatrixView matrix) {
  return Eigen::Map<const RowMajorFloats>(matrix.data(), matrix.rows(), matrix.cols()).cast<double>();
}

inline Matrix ToFloat(const Eigen::MatrixXd& matrix) {
  Matrix result = Matrix::ToOverwrite(matrix.rows(), matrix.cols());
  Eigen::Map<RowMajorFloats>(result.data(), matrix.rows(), matrix.cols()) = matrix.cast<float>();
  return result;
}

// The rows of each value that any example has, by value.
inline std::vector<std::vector<int64_t>> RowsByValue(const BatchAttribute& attribute) {
  std::vector<std::vector<int64_t>> rows(static_cast<size_t>(attribute.values));
  for (size_t i = 0; i < attribute.numbers.size(); ++i) {
    if (attribute.numbers[i] < attribute.values) {
      rows[attribute.numbers[i]].push_back(static_cast<int64_t>(i));
    }
  }
  rows.erase(std::remove_if(rows.begin(), rows.end(), [](const std::vector<int64_t>& of) { return of.empty(); }),
             rows.end());
  return rows;
}

// Rows of which the attribute is known, ascending.
inline std::vector<int64_t> KnownRows(const BatchAttribute& attribute) {
  std::vector<int64_t> rows;
  for (size_t i = 0; i < attribute.numbers.size(); ++i) {
    if (attribute.numbers[i] < attribute.values) {
      rows.push_back(static_cast<int64_t>(i));
    }
  }
  return rows;
}

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_PROTECTION_ACTIVATION_ROWS_H_
