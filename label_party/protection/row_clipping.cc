#include "label_party/protection/row_clipping.h"

#include <cmath>
#include <cstdint>

#include "absl/types/span.h"

namespace splitveil {

void ClipRows(double max_norm, Matrix& gradients) {
  for (int64_t j = 0; j < gradients.rows(); ++j) {
    const absl::Span<float> row = gradients.row(j);
    double squares = 0;
    for (const float value : row) {
      squares += static_cast<double>(value) * value;
    }
    const double norm = std::sqrt(squares);
    if (!(norm > max_norm)) {
      continue;
    }
    const auto scale = static_cast<float>(max_norm / norm);
    for (float& value : row) {
      value *= scale;
    }
  }
}

}  // namespace splitveil
