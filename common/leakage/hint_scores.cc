#include "common/leakage/hint_scores.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "common/leakage/inner_product.h"
#include "common/leakage/saturated.h"

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

}  // namespace splitveil
