#include "common/leakage/gradient_views.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/leakage/linear_algebra.h"

namespace splitveil {
namespace {

// Weight of a row's evidence against its own projection, both in standard deviations.
constexpr double kEvidence = 1;
// Power iterations: from a start in the dark, and from the direction of the batch before, which is nearly right.
constexpr int kFirstIterations = 50;
constexpr int kIterations = 5;

double Dot(const std::vector<double>& a, absl::Span<const float> b) {
  double sum = 0;
  for (size_t k = 0; k < a.size(); ++k) {
    sum += a[k] * b[k];
  }
  return sum;
}

// Unit vector along `sum`; empty if it has no direction.
// NaN and infinity fail the test too: a direction made of them would spoil every later batch that remembers it.
std::vector<float> Normalized(const std::vector<double>& sum) {
  double squared = 0;
  for (double component : sum) {
    squared += component * component;
  }
  std::vector<float> unit;
  if (squared > 0 && std::isfinite(squared)) {
    const double norm = std::sqrt(squared);
    for (double component : sum) {
      unit.push_back(static_cast<float>(component / norm));
    }
  }
  return unit;
}

// From the mean to the row farthest from it: a start that no principal direction of interest is orthogonal to.
std::vector<float> TowardsFarthest(ConstMatrixView rows, const std::vector<double>& mean) {
  const std::vector<float> centre(mean.begin(), mean.end());
  const double centre_squared = SquaredNorm(centre);
  int64_t farthest = 0;
  double largest = -1;
  for (int64_t j = 0; j < rows.rows(); ++j) {
    const double squared = SquaredNorm(rows.row(j)) - 2 * InnerProduct(rows.row(j), centre) + centre_squared;
    if (squared > largest) {
      largest = squared;
      farthest = j;
    }
  }
  std::vector<double> offset(mean.size());
  for (size_t k = 0; k < mean.size() && rows.rows() > 0; ++k) {
    offset[k] = rows.row(farthest)[k] - mean[k];
  }
  return Normalized(offset);
}

std::vector<double> Projections(ConstMatrixView rows, const std::vector<double>& mean,
                                absl::Span<const float> direction) {
  const double centre = Dot(mean, direction);
  std::vector<double> projections = InnerProducts(rows, direction);
  for (double& projection : projections) {
    projection -= centre;
  }
  return projections;
}

double SumOfSquares(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) {
    sum += value * value;
  }
  return sum;
}

// Third standardised moment of values of mean 0, times their number; 0 if they do not vary.
// Standardised, so that one batch of large gradients has no more votes than any other batch.
double SkewVote(const std::vector<double>& values) {
  double cubes = 0;
  for (double value : values) {
    cubes += value * value * value;
  }
  const double count = static_cast<double>(values.size());
  const double deviation = std::sqrt(SumOfSquares(values) / count);
  return deviation > 0 ? cubes / (deviation * deviation * deviation) : 0;
}

// What the batches so far count for, against 1 - kMemory of the latest.
constexpr double kMemory = 0.9;
// Rounds in which the directions turn towards the first batch, and towards each later one.
constexpr int kFirstRounds = 20;
constexpr int kRounds = 1;
// Keeps a direction without spread from being stretched without limit.
constexpr double kLeastSpread = 1e-6;

double RootMeanSquare(ConstMatrixView rows) {
  double sum = 0;
  for (double squared : SquaredNorms(rows)) {
    sum += squared;
  }
  return std::sqrt(sum / static_cast<double>(std::max<int64_t>(1, rows.rows())));
}

// Rows without their part along the unit vector, over `scale`; then each over its length, if it has one.
Matrix UnitRowsAcross(ConstMatrixView rows, absl::Span<const float> direction, double scale,
                      std::vector<float>& lengths) {
  Matrix across = Matrix::ToOverwrite(rows.rows(), rows.cols());
  const std::vector<double> along = InnerProducts(rows, direction);
  for (int64_t j = 0; j < rows.rows(); ++j) {
    for (int64_t k = 0; k < rows.cols(); ++k) {
      across.row(j)[k] = static_cast<float>((rows.row(j)[k] - along[j] * direction[k]) / scale);
    }
    const double length = std::sqrt(SquaredNorm(across.row(j)));
    lengths.push_back(static_cast<float>(length));
    for (float& component : across.row(j)) {
      component = length > 0 ? static_cast<float>(component / length) : 0;
    }
  }
  return across;
}

// Columns made orthonormal in turn (Gram-Schmidt); their lengths before. A column that the ones before it span becomes
// 0.
std::vector<double> Orthonormalize(Matrix& columns) {
  std::vector<double> lengths;
  for (int64_t c = 0; c < columns.cols(); ++c) {
    double before = 0;
    for (int64_t k = 0; k < columns.rows(); ++k) {
      before += static_cast<double>(columns.row(k)[c]) * columns.row(k)[c];
    }
    // Twice: if little remains of a column, one pass leaves errors of rounding that are as large.
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t other = 0; other < c; ++other) {
        double product = 0;
        for (int64_t k = 0; k < columns.rows(); ++k) {
          product += static_cast<double>(columns.row(k)[c]) * columns.row(k)[other];
        }
        for (int64_t k = 0; k < columns.rows(); ++k) {
          columns.row(k)[c] -= static_cast<float>(product * columns.row(k)[other]);
        }
      }
    }
    double squared = 0;
    for (int64_t k = 0; k < columns.rows(); ++k) {
      squared += static_cast<double>(columns.row(k)[c]) * columns.row(k)[c];
    }
    constexpr double kResolution = 1e-10;
    const bool spanned = !(squared > kResolution * before);
    for (int64_t k = 0; k < columns.rows(); ++k) {
      columns.row(k)[c] = spanned ? 0 : static_cast<float>(columns.row(k)[c] / std::sqrt(squared));
    }
    lengths.push_back(spanned ? 0 : std::sqrt(squared));
  }
  return lengths;
}

}  // namespace

std::vector<double> PrincipalDirection::Project(ConstMatrixView rows, absl::Span<const float> evidence) {
  const std::vector<double> mean = MeanRow(rows);
  // A change of width means a different layer: what is remembered does not apply, and the search starts from the rows.
  const bool first = static_cast<int64_t>(direction_.size()) != rows.cols();
  const std::vector<float> remembered = first ? std::vector<float>() : direction_;
  std::vector<float> direction = first ? TowardsFarthest(rows, mean) : remembered;
  if (direction.empty()) {
    return std::vector<double>(rows.rows());
  }
  std::vector<double> projections = Projections(rows, mean, direction);
  // What is remembered counts as `memory_` batches whose rows lie along it as far as this one's do.
  const double cumulative_weight = first ? 0 : memory_ * SumOfSquares(projections);
  for (int i = 0; i < (first ? kFirstIterations : kIterations); ++i) {
    // One power iteration: the rows' scatter times the direction. What is remembered adds a scatter of rank one.
    std::vector<double> weights = projections;
    const double deviation = std::sqrt(SumOfSquares(projections) / static_cast<double>(weights.size()));
    // Evidence pulls a row's weight to the side where earlier epochs had it, as a label would, so the line turns to the
    // classes.
    for (size_t j = 0; j < evidence.size(); ++j) {
      weights[j] += kEvidence * deviation * evidence[j];
    }
    // The rows need not be centred: the weights add up to 0, so a common offset of all rows cancels.
    std::vector<double> next = WeightedRowSum(rows, weights);
    // The remembered direction acts on the current estimate like rows that lie along it.
    double alignment = 0;
    for (size_t k = 0; k < remembered.size(); ++k) {
      alignment += static_cast<double>(remembered[k]) * direction[k];
    }
    for (size_t k = 0; k < remembered.size(); ++k) {
      next[k] += cumulative_weight * alignment * remembered[k];
    }
    std::vector<float> turned = Normalized(next);
    if (turned.empty()) {
      return std::vector<double>(rows.rows());
    }
    const double change = 1 - InnerProduct(turned, direction);
    direction = std::move(turned);
    projections = Projections(rows, mean, direction);
    constexpr double kSettled = 1e-7;
    if (change < kSettled) {
      break;
    }
  }
  // A line has no sign; power iteration keeps the sign of its start, which is the remembered direction.
  direction_ = std::move(direction);
  // Which side is positive is decided over all batches, since one batch under noise often has its longer tail by
  // chance.
  votes_ += SkewVote(projections);
  return projections;
}

void GradientSplitter::Start(int64_t units) {
  // The line of the noise differs from batch to batch, so earlier ones do not help.
  main_ = PrincipalDirection(PrincipalDirection::kNoMemory);
  directions_ = Matrix(units, std::min(kDirections, units));
  for (int64_t k = 0; k < units; ++k) {
    for (int64_t c = 0; c < directions_.cols(); ++c) {
      // Any start that no direction of interest is orthogonal to.
      directions_.row(k)[c] = static_cast<float>(std::cos(static_cast<double>((c + 1) * (2 * k + 1)) * 0.37));
    }
  }
  // A fixed start, the same in every process: both parties' audits must come to the same figures.
  Orthonormalize(directions_);
  spread_.assign(static_cast<size_t>(directions_.cols()), 0);
  tracked_ = false;
}

Matrix GradientSplitter::Track(ConstMatrixView across) {
  const Matrix before = directions_;
  const std::vector<double> spread_before = spread_;
  // The first batch has nothing to fade, so it counts in full and gets more rounds to find the directions at all.
  const double share = (tracked_ ? 1 - kMemory : 1) / static_cast<double>(across.rows());
  for (int round = 0; round < (tracked_ ? kRounds : kFirstRounds); ++round) {
    // Orthogonal iteration on the fading scatter, of which only the directions and their spreads are kept.
    Matrix turned = TransposedProduct(across, Product(across, directions_));
    for (int64_t k = 0; k < turned.rows(); ++k) {
      for (int64_t c = 0; c < turned.cols(); ++c) {
        turned.row(k)[c] = static_cast<float>(share * turned.row(k)[c] + kMemory * spread_before[c] * before.row(k)[c]);
      }
    }
    spread_ = Orthonormalize(turned);
    directions_ = std::move(turned);
  }
  // Later stages keep moments in the old coordinates; this matrix carries these into the new ones.
  return tracked_ ? TransposedProduct(directions_, before) : Matrix();
}

GradientViews GradientSplitter::Split(ConstMatrixView gradients) {
  GradientViews views;
  views.rows = gradients.rows();
  // Relative to the batch: gradients shrink by orders of magnitude in training, and only their shape is informative.
  const double scale = RootMeanSquare(gradients);
  if (!(scale > 0) || !std::isfinite(scale)) {
    return views;
  }
  if (directions_.rows() != gradients.cols()) {
    Start(gradients.cols());
  }
  // First view: the place on the batch's own main line, at variance 1.
  const std::vector<double> places = main_.Project(gradients);
  double squared = 0;
  for (double place : places) {
    squared += place * place;
  }
  const double deviation = std::sqrt(squared / static_cast<double>(places.size()));
  if (!(deviation > 0) || !std::isfinite(deviation)) {
    return views;
  }
  for (double place : places) {
    views.main.push_back(static_cast<float>(main_.orientation() * place / deviation));
  }
  // Second view: the rest, as unit rows, so that a few long rows do not set the directions.
  const Matrix across = UnitRowsAcross(gradients, main_.direction(), scale, views.lengths);
  views.turn = Track(across);
  tracked_ = true;
  views.across = Product(across, directions_);
  // The spread is a variance: the power -1/4 goes half of the way to equal deviations, so that weak directions count
  // and noise in them is not blown up.
  const double largest = *std::max_element(spread_.begin(), spread_.end());
  std::vector<float> stretches;
  for (double spread : spread_) {
    stretches.push_back(static_cast<float>(largest > 0 ? std::pow(spread / largest + kLeastSpread, -0.25) : 1));
  }
  for (int64_t j = 0; j < views.across.rows(); ++j) {
    const absl::Span<float> row = views.across.row(j);
    for (size_t c = 0; c < row.size(); ++c) {
      row[c] *= stretches[c];
    }
    const double length = std::sqrt(SquaredNorm(row));
    views.lengths[j] = static_cast<float>(views.lengths[j] * length);
    for (float& component : row) {
      component = length > 0 ? static_cast<float>(component / length) : 0;
    }
  }
  return views;
}

}  // namespace splitveil
