#include "common/leakage/label_direction_field.h"

#include <cmath>
#include <cstdint>

#include "common/leakage/dense_products.h"
#include "common/leakage/fading_mean.h"
#include "common/leakage/inner_product.h"

namespace splitveil {

std::vector<float> FieldCosines::Whole() const {
  std::vector<float> whole = even;
  for (size_t j = 0; j < whole.size(); ++j) {
    whole[j] += odd[j];
  }
  return whole;
}

void LabelDirectionField::Turn(const Matrix& turn) {
  if (moments_.size() > 0 && turn.size() > 0) {
    // Row by row turn x, hence times turn'.
    Matrix transposed(turn.cols(), turn.rows());
    for (int64_t i = 0; i < turn.rows(); ++i) {
      for (int64_t k = 0; k < turn.cols(); ++k) {
        transposed.row(k)[i] = turn.row(i)[k];
      }
    }
    moments_ = Product(moments_, transposed);
  }
}

FieldCosines LabelDirectionField::Cosines(const ActivationFeatures& regression, const Matrix& features,
                                          const Matrix& across) const {
  const auto rows = static_cast<size_t>(across.rows());
  FieldCosines cosines = {std::vector<float>(rows), std::vector<float>(rows)};
  if (moments_.rows() != features.cols() || moments_.cols() != across.cols()) {
    return cosines;
  }
  const Matrix directions = Product(features, regression.Regress(moments_));
  for (int64_t j = 0; j < across.rows(); ++j) {
    const double length = std::sqrt(SquaredNorm(directions.row(j)));
    for (int64_t k = 0; k < across.cols() && length > 0; ++k) {
      const double product = directions.row(j)[k] * across.row(j)[k] / length;
      (k % 2 == 0 ? cosines.even : cosines.odd)[j] += static_cast<float>(product);
    }
  }
  return cosines;
}

void LabelDirectionField::Learn(const Matrix& features, const Matrix& across, absl::Span<const float> beliefs) {
  Matrix believed = across;
  for (int64_t j = 0; j < believed.rows(); ++j) {
    for (float& component : believed.row(j)) {
      component *= beliefs[j];
    }
  }
  if (moments_.rows() != features.cols() || moments_.cols() != across.cols()) {
    moments_ = Matrix(features.cols(), across.cols());
  }
  Fade(TransposedProduct(features, believed), 1 / static_cast<double>(across.rows()), moments_);
}

}  // namespace splitveil
