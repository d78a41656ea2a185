#include "common/leakage/gradient_views.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/leakage/inner_product.h"
#include "common/leakage/row_products.h"

namespace splitveil {
namespace {

// Weight of the batches before against the latest.
constexpr double kMemory = 0.9;
// Rounds in which the directions turn towards the first batch, and towards a later one.
constexpr int kFirstRounds = 20;
constexpr int kRounds = 1;
// Smallest spread, relative to the largest, that a direction is stretched for.
constexpr double kLeastSpread = 1e-6;

double RootMeanSquare(ConstMatrixView rows) {
  double sum = 0;
  for (double squared : SquaredNorms(rows)) {
    sum += squared;
  }
  return std::sqrt(sum / static_cast<double>(std::max<int64_t>(1, rows.rows())));
}

// Rows without their part along the unit vector, over `scale`; then each over its length, where it has one.
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
    // Twice: once leaves what rounding loses where little remains.
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

void GradientSplitter::Start(int64_t units) {
  // The line of the noise is that of the batch, not of the batches before.
  main_ = PrincipalDirection(PrincipalDirection::kNoMemory);
  directions_ = Matrix(units, std::min(kDirections, units));
  for (int64_t k = 0; k < units; ++k) {
    for (int64_t c = 0; c < directions_.cols(); ++c) {
      // Any start that no direction of interest is orthogonal to.
      directions_.row(k)[c] = static_cast<float>(std::cos(static_cast<double>((c + 1) * (2 * k + 1)) * 0.37));
    }
  }
  Orthonormalize(directions_);
  spread_.assign(static_cast<size_t>(directions_.cols()), 0);
  tracked_ = false;
}

Matrix GradientSplitter::Track(ConstMatrixView across) {
  const Matrix before = directions_;
  const std::vector<double> spread_before = spread_;
  const double share = (tracked_ ? 1 - kMemory : 1) / static_cast<double>(across.rows());
  for (int round = 0; round < (tracked_ ? kRounds : kFirstRounds); ++round) {
    Matrix turned = TransposedProduct(across, Product(across, directions_));
    for (int64_t k = 0; k < turned.rows(); ++k) {
      for (int64_t c = 0; c < turned.cols(); ++c) {
        turned.row(k)[c] = static_cast<float>(share * turned.row(k)[c] + kMemory * spread_before[c] * before.row(k)[c]);
      }
    }
    spread_ = Orthonormalize(turned);
    directions_ = std::move(turned);
  }
  return tracked_ ? TransposedProduct(directions_, before) : Matrix();
}

GradientViews GradientSplitter::Split(ConstMatrixView gradients) {
  GradientViews views;
  views.rows = gradients.rows();
  const double scale = RootMeanSquare(gradients);
  if (!(scale > 0) || !std::isfinite(scale)) {
    return views;
  }
  if (directions_.rows() != gradients.cols()) {
    Start(gradients.cols());
  }
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
  const Matrix across = UnitRowsAcross(gradients, main_.direction(), scale, views.lengths);
  views.turn = Track(across);
  tracked_ = true;
  views.across = Product(across, directions_);
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
