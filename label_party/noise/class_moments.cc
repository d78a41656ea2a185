#include "label_party/noise/class_moments.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/matrix/vector_variants.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

// Sums over the rows of one class, relative to its first row.
struct ClassSums {
  int64_t rows = 0;
  std::vector<double> shift;       // [d]
  std::vector<double> deviations;  // Sum of (row - shift), [d].
  double squared_deviations = 0;   // Sum of ||row - shift||^2.

  double Variance() const {
    if (rows == 0) {
      return 0;
    }
    const double n = static_cast<double>(rows);
    double squared_sum = 0;
    for (double deviation : deviations) {
      squared_sum += deviation * deviation;
    }
    return std::max(0.0, squared_deviations - squared_sum / n) / (n * static_cast<double>(deviations.size()));
  }
};

// Eight numbers at a time: GCC and Clang map these to whatever vectors the processor has.
constexpr size_t kLanes = 8;
using Floats = float __attribute__((vector_size(kLanes * sizeof(float))));
using Doubles = double __attribute__((vector_size(kLanes * sizeof(double))));

// Sums of one row, each lane over every eighth component.
struct RowSums {
  Doubles squared_norm = {};
  Doubles squared_deviation = {};
};

double Total(const Doubles& lanes) {
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

SPLITVEIL_VECTOR_VARIANTS void SumRow(const float* row, size_t d, const double* shift, double* deviations,
                                      RowSums& sums) {
  Doubles squared_norm = {};
  Doubles squared_deviation = {};
  size_t k = 0;
  // The order of additions is fixed by the lanes, whatever the processor: a repeated step must give the same bytes.
  for (; k + kLanes <= d; k += kLanes) {
    Floats values;
    std::memcpy(&values, row + k, sizeof values);
    const Doubles value = __builtin_convertvector(values, Doubles);
    Doubles center;
    std::memcpy(&center, shift + k, sizeof center);
    const Doubles deviation = value - center;
    Doubles sum;
    std::memcpy(&sum, deviations + k, sizeof sum);
    sum += deviation;
    std::memcpy(deviations + k, &sum, sizeof sum);
    squared_deviation += deviation * deviation;
    squared_norm += value * value;
  }
  for (size_t lane = 0; k < d; ++k, ++lane) {
    const double value = row[k];
    const double deviation = value - shift[k];
    deviations[k] += deviation;
    squared_deviation[lane] += deviation * deviation;
    squared_norm[lane] += value * value;
  }
  sums.squared_norm = squared_norm;
  sums.squared_deviation = squared_deviation;
}

// Adds one row and returns its squared norm.
double AddRow(absl::Span<const float> row, ClassSums& sums) {
  RowSums row_sums;
  SumRow(row.data(), row.size(), sums.shift.data(), sums.deviations.data(), row_sums);
  ++sums.rows;
  sums.squared_deviations += Total(row_sums.squared_deviation);
  return Total(row_sums.squared_norm);
}

double SquaredLength(const std::vector<double>& vector) {
  double sum = 0;
  for (double component : vector) {
    sum += component * component;
  }
  return sum;
}

absl::Status CheckShapes(ConstMatrixView gradients, absl::Span<const uint8_t> labels) {
  if (gradients.rows() < 1 || gradients.cols() < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("protection: empty batch, [", gradients.rows(), ", ", gradients.cols(), "]"));
  }
  if (labels.size() != static_cast<size_t>(gradients.rows())) {
    return absl::InvalidArgumentError(
        absl::StrCat("protection: expected ", gradients.rows(), " labels, found ", labels.size()));
  }
  if (std::any_of(labels.begin(), labels.end(), [](uint8_t label) { return label >= kClasses; })) {
    return absl::InvalidArgumentError("protection: a label is neither 0 nor 1");
  }
  return absl::OkStatus();
}

}  // namespace

bool ClassMoments::informative() const {
  constexpr double kFloatResolutionSquared = 0x1p-46;
  return negatives > 0 && positives > 0 && dg_squared > kFloatResolutionSquared * max_squared_norm;
}

absl::StatusOr<ClassMoments> ComputeClassMoments(ConstMatrixView gradients, absl::Span<const uint8_t> labels,
                                                 std::vector<double>* squared_norms) {
  SPLITVEIL_RETURN_IF_ERROR(CheckShapes(gradients, labels));
  if (squared_norms != nullptr) {
    squared_norms->clear();
    squared_norms->reserve(static_cast<size_t>(gradients.rows()));
  }
  ClassMoments moments;
  ClassSums sums[kClasses];
  for (int64_t j = 0; j < gradients.rows(); ++j) {
    ClassSums& own = sums[labels[j]];
    const absl::Span<const float> row = gradients.row(j);
    // Deviations from the class's first row: sums of squares about zero would cancel where means are far from it.
    if (own.rows == 0) {
      own.shift.assign(row.begin(), row.end());
      own.deviations.assign(row.size(), 0);
    }
    const double squared_norm = AddRow(row, own);
    // Squares of finite floats are far from a double's limit, so only a row that is not finite gets here.
    if (!std::isfinite(squared_norm)) {
      return absl::InternalError(absl::StrCat("protection: gradient row ", j, " is not finite"));
    }
    moments.max_squared_norm = std::max(moments.max_squared_norm, squared_norm);
    moments.mean_squared_norm += squared_norm;
    if (squared_norms != nullptr) {
      squared_norms->push_back(squared_norm);
    }
  }
  moments.mean_squared_norm /= static_cast<double>(gradients.rows());
  moments.negatives = sums[0].rows;
  moments.positives = sums[1].rows;
  moments.p = static_cast<double>(moments.positives) / static_cast<double>(gradients.rows());
  moments.u = sums[0].Variance();
  moments.v = sums[1].Variance();
  moments.mean_difference.assign(gradients.cols(), 0);
  if (moments.negatives > 0 && moments.positives > 0) {
    for (int64_t k = 0; k < gradients.cols(); ++k) {
      moments.mean_difference[k] =
          (sums[1].shift[k] - sums[0].shift[k]) + (sums[1].deviations[k] / static_cast<double>(moments.positives) -
                                                   sums[0].deviations[k] / static_cast<double>(moments.negatives));
    }
    moments.dg_squared = SquaredLength(moments.mean_difference);
  }
  return moments;
}

void RunningMoments::Update(const ClassMoments& batch) {
  // A batch of one class says nothing of the difference between two.
  if (!batch.informative()) {
    return;
  }
  if (!started_ || average_.mean_difference.size() != batch.mean_difference.size()) {
    average_ = batch;
    started_ = true;
    return;
  }
  constexpr double kWeight = 0.1;  // Of the newest batch: the averages remember about ten.
  const auto blend = [](double& average, double newest) { average += kWeight * (newest - average); };
  blend(average_.p, batch.p);
  blend(average_.u, batch.u);
  blend(average_.v, batch.v);
  blend(average_.dg_squared, batch.dg_squared);
  blend(average_.max_squared_norm, batch.max_squared_norm);
  blend(average_.mean_squared_norm, batch.mean_squared_norm);
  for (size_t k = 0; k < batch.mean_difference.size(); ++k) {
    blend(average_.mean_difference[k], batch.mean_difference[k]);
  }
}

void RunningMoments::PrimeMoments(const ClassMoments& moments) {
  if (!started_ && moments.informative()) {
    average_ = moments;
    primed_ = true;
  }
}

void RunningMoments::RestoreMoments(const ClassMoments& average) {
  if (average.informative()) {
    average_ = average;
    started_ = true;
  }
}

double RunningMoments::FallbackScale(const ClassMoments& batch) const {
  const double scale = std::max(batch.max_squared_norm, max_squared_norm());
  // With gradients of zero there is no scale; noise of any size hides that they are zero.
  return scale > 0 ? scale : 1;
}

bool RunningMoments::available() const { return (started_ || primed_) && SquaredLength(average_.mean_difference) > 0; }

ClassMoments RunningMoments::Estimate() const {
  ClassMoments estimate = average_;
  estimate.negatives = 0;
  estimate.positives = 0;
  // The mean of difference vectors that turn is shorter than they are: the direction is kept, the length restored.
  const double stretch = std::sqrt(estimate.dg_squared / SquaredLength(estimate.mean_difference));
  for (double& component : estimate.mean_difference) {
    component *= stretch;
  }
  return estimate;
}

}  // namespace splitveil
