#include "common/leakage/scores.h"

#include <cmath>
#include <cstdint>
#include <vector>

#include "common/leakage/inner_product.h"
#include "common/leakage/row_products.h"
#include "common/leakage/saturated.h"

namespace splitveil {

namespace {

std::vector<float> Roots(absl::Span<const double> squares) {
  std::vector<float> roots;
  roots.reserve(squares.size());
  for (double square : squares) {
    roots.push_back(Saturated(std::sqrt(square)));
  }
  return roots;
}

std::vector<float> Cosines(ConstMatrixView gradients, absl::Span<const float> g_plus,
                           absl::Span<const double> squared_norms) {
  std::vector<float> scores(gradients.rows());
  const double norm_plus = std::sqrt(SquaredNorm(g_plus));
  const std::vector<double> products = InnerProducts(gradients, g_plus);
  for (int64_t i = 0; i < gradients.rows(); ++i) {
    const double norms = norm_plus * std::sqrt(squared_norms[i]);
    // A NaN norm is not zero: it must reach the AUC, which refuses it.
    scores[i] = norms == 0 ? 0.0f : static_cast<float>(products[i] / norms);
  }
  return scores;
}

}  // namespace

std::vector<float> NormScores(ConstMatrixView gradients) { return Roots(SquaredNorms(gradients)); }

std::vector<float> CosineScores(ConstMatrixView gradients, absl::Span<const float> g_plus) {
  return Cosines(gradients, g_plus, SquaredNorms(gradients));
}

NormAndCosineScores ScoreNormsAndCosines(ConstMatrixView gradients, absl::Span<const float> g_plus) {
  const std::vector<double> squared_norms = SquaredNorms(gradients);
  return {Roots(squared_norms), g_plus.empty() ? std::vector<float>() : Cosines(gradients, g_plus, squared_norms)};
}

std::vector<float> InnerProductScores(ConstMatrixView gradients, absl::Span<const float> g_plus) {
  std::vector<float> scores;
  scores.reserve(gradients.rows());
  for (double product : InnerProducts(gradients, g_plus)) {
    scores.push_back(Saturated(product));
  }
  return scores;
}

std::vector<float> ResidualNormScores(ConstMatrixView gradients, absl::Span<const float> direction) {
  std::vector<float> scores(gradients.rows());
  for (int64_t i = 0; i < gradients.rows(); ++i) {
    const absl::Span<const float> row = gradients.row(i);
    const double along = direction.empty() ? 0 : InnerProduct(row, direction);
    // Subtracted by component: the residual may be far smaller than the part along the direction.
    double squared = 0;
    for (size_t k = 0; k < row.size(); ++k) {
      const double residual = direction.empty() ? row[k] : row[k] - along * direction[k];
      squared += residual * residual;
    }
    scores[i] = Saturated(std::sqrt(squared));
  }
  return scores;
}

}  // namespace splitveil
