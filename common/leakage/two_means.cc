#include "common/leakage/two_means.h"

#include <cstdint>
#include <vector>

#include "common/leakage/row_products.h"
#include "common/leakage/row_sum.h"
#include "common/leakage/saturated.h"

namespace splitveil {
namespace {

// The plane between two centres: a row lies on the second's side where <row, normal> > offset, and
// 2 (<row, normal> - offset) is the squared distance to the first less that to the second.
struct Bisector {
  std::vector<float> normal;
  double offset = 0;
};

Bisector Between(const std::vector<double>& first, const std::vector<double>& second) {
  Bisector bisector;
  bisector.normal.reserve(first.size());
  for (size_t k = 0; k < first.size(); ++k) {
    bisector.normal.push_back(Saturated(second[k] - first[k]));
    bisector.offset += (second[k] - first[k]) * (second[k] + first[k]) / 2;
  }
  return bisector;
}

// Means of the two groups, from the weight 1 or 0 of each row in the second. Both groups hold rows.
Bisector BetweenMeans(ConstMatrixView rows, const std::vector<double>& in_second, const std::vector<double>& mean) {
  double size = 0;
  for (double weight : in_second) {
    size += weight;
  }
  const double others = static_cast<double>(rows.rows()) - size;
  std::vector<double> second = WeightedRowSum(rows, in_second);
  std::vector<double> first(second.size());
  for (size_t k = 0; k < second.size(); ++k) {
    first[k] = (mean[k] * static_cast<double>(rows.rows()) - second[k]) / others;
    second[k] /= size;
  }
  return Between(first, second);
}

}  // namespace

TwoMeans ClusterInTwo(ConstMatrixView rows, absl::Span<const float> direction) {
  TwoMeans clusters;
  clusters.scores.resize(rows.rows());
  if (direction.empty()) {
    return clusters;
  }
  const std::vector<double> mean = MeanRow(rows);
  Bisector bisector;
  bisector.normal.assign(direction.begin(), direction.end());
  for (size_t k = 0; k < mean.size(); ++k) {
    bisector.offset += mean[k] * direction[k];
  }
  std::vector<double> in_second(rows.rows());
  std::vector<double> margins;
  double second_size = 0;
  for (int iteration = 0; iteration <= kTwoMeansIterations; ++iteration) {
    bool changed = false;
    second_size = 0;
    margins = InnerProducts(rows, bisector.normal);
    for (int64_t j = 0; j < rows.rows(); ++j) {
      margins[j] -= bisector.offset;
      const double side = margins[j] > 0 ? 1 : 0;
      changed = changed || side != in_second[j];
      in_second[j] = side;
      second_size += side;
    }
    if (second_size == 0 || second_size == static_cast<double>(rows.rows())) {
      return clusters;
    }
    if (!changed) {
      break;
    }
    bisector = BetweenMeans(rows, in_second, mean);
  }
  clusters.share_along = second_size / static_cast<double>(rows.rows());
  for (int64_t j = 0; j < rows.rows(); ++j) {
    clusters.scores[j] = Saturated(2 * margins[j]);
  }
  return clusters;
}

}  // namespace splitveil
