#include "label_party/top/output_directions.h"

#include <algorithm>

#include "common/status/status_macros.h"

namespace splitveil {

absl::StatusOr<Matrix> DirectionsOfOutputs(int64_t rows, int64_t outputs,
                                           absl::FunctionRef<absl::StatusOr<Matrix>(ConstMatrixView)> input_gradient) {
  Matrix directions;
  for (int64_t k = 0; k < outputs; ++k) {
    Matrix only_this(rows, outputs);
    for (int64_t j = 0; j < rows; ++j) {
      only_this.row(j)[static_cast<size_t>(k)] = 1;
    }
    SPLITVEIL_ASSIGN_OR_RETURN(const Matrix of_this, input_gradient(only_this));
    const int64_t width = of_this.cols();
    if (k == 0) {
      directions = Matrix::ToOverwrite(rows, outputs * width);
    }
    for (int64_t j = 0; j < rows; ++j) {
      std::copy_n(of_this.row(j).data(), width, directions.row(j).data() + k * width);
    }
  }
  return directions;
}

}  // namespace splitveil
