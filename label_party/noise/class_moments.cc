#include "label_party/noise/class_moments.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/leakage/linear_algebra.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr double kLeastWeight = 1e-6;  // Weight of a row in either class: neither class may be empty.

// One class: what each row weighs in it, and its clean gradient, `coefficients` times v, if it were of the class.
struct ExpectedClass {
  std::vector<double> weights;       // [batch]
  std::vector<double> coefficients;  // [batch]
  double weight = 0;                 // Sum.
  std::vector<double> mean;          // [d]
  double variance = 0;               // Of one component.
};

// Each row counts for both classes, by the model's p: moments of the true labels would make the noise a function of
// them (rule 3).
ExpectedClass ClassOf(int label, const LabelFreeBatch& batch, const std::vector<double>& v_squared) {
  ExpectedClass expected;
  // By sums over rows of v alone: no clean gradient is formed, so none can leak into the plan.
  std::vector<double> shares;  // Of v in the mean.
  double squares = 0;
  for (size_t j = 0; j < v_squared.size(); ++j) {
    const double p = batch.probabilities[j];
    const double weight = std::clamp(label == 1 ? p : 1 - p, kLeastWeight, 1 - kLeastWeight);
    // The clean gradient is this times v, since it is (p - y) v, clipped as configured.
    const double coefficient = CleanCoefficient(p, label, std::sqrt(v_squared[j]), batch.clip_norm);
    expected.weights.push_back(weight);
    expected.coefficients.push_back(coefficient);
    expected.weight += weight;
    shares.push_back(weight * coefficient);
    squares += weight * coefficient * coefficient * v_squared[j];
  }
  expected.mean = WeightedRowSum(batch.label_directions, shares);
  double mean_squared = 0;
  for (double& component : expected.mean) {
    component /= expected.weight;
    mean_squared += component * component;
  }
  // Mean square minus squared mean; rounding may make it negative if all rows are alike.
  expected.variance =
      std::max(0.0, squares / expected.weight - mean_squared) / static_cast<double>(expected.mean.size());
  return expected;
}

// A NaN in one row would make every moment NaN, and with them the noise on all other rows.
absl::Status CheckBatch(const LabelFreeBatch& batch, const std::vector<double>& v_squared) {
  if (batch.label_directions.rows() < 1 || batch.label_directions.cols() < 1) {
    return absl::InvalidArgumentError(absl::StrCat("protection: empty batch, [", batch.label_directions.rows(), ", ",
                                                   batch.label_directions.cols(), "]"));
  }
  if (batch.probabilities.size() != v_squared.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("protection: expected ", v_squared.size(), " probabilities, found ", batch.probabilities.size()));
  }
  for (size_t j = 0; j < v_squared.size(); ++j) {
    // Squares of finite floats are far from a double's limit. Written so that NaN fails.
    if (!std::isfinite(v_squared[j]) || !(batch.probabilities[j] >= 0 && batch.probabilities[j] <= 1)) {
      return absl::InternalError(absl::StrCat("protection: the top model's output of row ", j, " is not finite"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

bool ClassMoments::informative() const {
  // Below the resolution of floats, 2^-23, the difference has no direction that noise could follow.
  constexpr double kFloatResolutionSquared = 0x1p-46;
  return dg_squared > kFloatResolutionSquared * max_squared_norm;
}

absl::StatusOr<ClassMoments> ExpectedMoments(const LabelFreeBatch& batch) {
  const std::vector<double> v_squared = SquaredNorms(batch.label_directions);
  SPLITVEIL_RETURN_IF_ERROR(CheckBatch(batch, v_squared));
  const ExpectedClass negative = ClassOf(0, batch, v_squared), positive = ClassOf(1, batch, v_squared);
  const auto rows = static_cast<double>(v_squared.size());
  ClassMoments moments;
  moments.p = positive.weight / rows;
  moments.u = negative.variance;
  moments.v = positive.variance;
  for (size_t j = 0; j < v_squared.size(); ++j) {
    const double if_negative = negative.coefficients[j] * negative.coefficients[j] * v_squared[j];
    const double if_positive = positive.coefficients[j] * positive.coefficients[j] * v_squared[j];
    // The longer of the two, whichever the label is: the length of the true gradient would reveal it.
    moments.max_squared_norm = std::max({moments.max_squared_norm, if_negative, if_positive});
    // Expected over the model's labels, not the true ones.
    moments.mean_squared_norm += (negative.weights[j] * if_negative + positive.weights[j] * if_positive) / rows;
  }
  for (size_t k = 0; k < negative.mean.size(); ++k) {
    moments.mean_difference.push_back(positive.mean[k] - negative.mean[k]);
    moments.dg_squared += moments.mean_difference[k] * moments.mean_difference[k];
  }
  return moments;
}

}  // namespace splitveil
