#include "common/leakage/scores.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "common/leakage/inner_product.h"
#include "common/leakage/row_products.h"
#include "common/matrix/matrix.h"

namespace splitveil {

HintScores::HintScores(ConstMatrixView gradients, absl::Span<const uint32_t> hint_rows)
    : hint_rows_(hint_rows.begin(), hint_rows.end()) {
  squared_norms_.reserve(gradients.rows());
  products_.reserve(gradients.rows() * hint_rows.size());
  for (int64_t j = 0; j < gradients.rows(); ++j) {
    squared_norms_.push_back(SquaredNorm(gradients.row(j)));
    for (uint32_t hint : hint_rows) {
      products_.push_back(splitveil::InnerProduct(gradients.row(j), gradients.row(hint)));
    }
  }
}

template <typename Closeness>
std::vector<float> HintScores::Nearest(int hints, const Closeness& closeness) const {
  const size_t taken = std::min(hint_rows_.size(), static_cast<size_t>(hints));
  std::vector<float> scores(squared_norms_.size());
  for (size_t j = 0; j < scores.size(); ++j) {
    double nearest = closeness(j, 0);
    for (size_t hint = 1; hint < taken; ++hint) {
      nearest = std::max(nearest, closeness(j, hint));
    }
    scores[j] = Saturated(nearest);
  }
  return scores;
}

std::vector<float> HintScores::Distance(int hints) const {
  return Nearest(hints, [this](size_t j, size_t hint) {
    const double squared =
        squared_norms_[j] + squared_norms_[hint_rows_[hint]] - 2 * products_[j * hint_rows_.size() + hint];
    return -std::sqrt(std::max(0.0, squared));
  });
}

std::vector<float> HintScores::InnerProduct(int hints) const {
  return Nearest(hints, [this](size_t j, size_t hint) { return products_[j * hint_rows_.size() + hint]; });
}

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
