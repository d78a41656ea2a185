#include "common/leakage/activation_features.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>

#include "common/leakage/fading_mean.h"
#include "common/leakage/inner_product.h"
#include "common/leakage/row_products.h"

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

namespace {

// Weight of the latest batch in the centre and the scale.
constexpr double kNewest = 0.1;
// Of the constant; above 1, for a head's label direction has a mean.
constexpr float kConstant = 1.2F;
// Relative to the mean second moment of a feature.
constexpr double kRidge = 1e-2;
constexpr double kLeastRidge = 1e-6;

// The same lines in every process.
Matrix FixedLines(int64_t from, int64_t to) {
  std::mt19937_64 random(1);  // NOLINT(cert-msc51-cpp): no secret depends on it.
  Matrix lines(from, to);
  for (int64_t i = 0; i < lines.size(); ++i) {
    lines.data()[i] = (random() & 1) == 0 ? 1.0F : -1.0F;
  }
  return lines;
}

double MeanSquaredDistance(ConstMatrixView rows, const std::vector<double>& point) {
  double sum = 0;
  for (int64_t j = 0; j < rows.rows(); ++j) {
    for (int64_t k = 0; k < rows.cols(); ++k) {
      sum += (rows.row(j)[k] - point[k]) * (rows.row(j)[k] - point[k]);
    }
  }
  return sum / static_cast<double>(rows.rows());
}

}  // namespace

void ActivationFeatures::Start(int64_t cut_width) {
  lines_ = cut_width > kLargestWidth ? FixedLines(cut_width, kLargestWidth) : Matrix();
  centre_.clear();
  scale_ = 0;
  cut_width_ = cut_width;
  const int64_t width = 1 + std::min(cut_width, kLargestWidth);
  second_moments_ = Matrix(width, width);
}

Matrix ActivationFeatures::Take(ConstMatrixView activations) {
  if (activations.cols() != cut_width_) {
    Start(activations.cols());
  }
  const Matrix projected = lines_.size() > 0 ? Product(activations, lines_) : Matrix();
  const ConstMatrixView rows = lines_.size() > 0 ? ConstMatrixView(projected) : activations;
  const std::vector<double> mean = MeanRow(rows);
  const double spread = std::sqrt(MeanSquaredDistance(rows, mean));
  if (!std::isfinite(spread)) {
    return Matrix();
  }
  const double newest = centre_.empty() ? 1 : kNewest;
  centre_.resize(mean.size());
  for (size_t k = 0; k < mean.size(); ++k) {
    centre_[k] += newest * (mean[k] - centre_[k]);
  }
  scale_ += newest * (spread - scale_);
  Matrix features = Matrix::ToOverwrite(rows.rows(), width());
  for (int64_t j = 0; j < rows.rows(); ++j) {
    features.row(j)[0] = kConstant;
    for (int64_t k = 0; k < rows.cols(); ++k) {
      features.row(j)[k + 1] = scale_ > 0 ? static_cast<float>((rows.row(j)[k] - centre_[k]) / scale_) : 0;
    }
  }
  Fade(TransposedProduct(features, features), 1 / static_cast<double>(rows.rows()), second_moments_);
  double trace = 0;
  for (int64_t k = 1; k < width(); ++k) {
    trace += second_moments_.row(k)[k];
  }
  std::vector<double> matrix(second_moments_.data(), second_moments_.data() + second_moments_.size());
  for (int64_t k = 0; k < width(); ++k) {
    matrix[k * width() + k] += kLeastRidge + (k > 0 ? kRidge * trace / static_cast<double>(width()) : 0);
  }
  system_ = PositiveSystem(std::move(matrix), width(), kLeastRidge);
  return features;
}

Matrix ActivationFeatures::Regress(const Matrix& moments) const {
  std::vector<double> solution(moments.data(), moments.data() + moments.size());
  system_.Solve(solution, moments.cols());
  Matrix coefficients = Matrix::ToOverwrite(moments.rows(), moments.cols());
  std::transform(solution.begin(), solution.end(), coefficients.data(), [](double x) { return static_cast<float>(x); });
  return coefficients;
}

}  // namespace splitveil
