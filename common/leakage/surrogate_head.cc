#include "common/leakage/surrogate_head.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <random>
#include <utility>

#include "common/leakage/linear_algebra.h"

namespace splitveil {
namespace {

// Weight of the latest batch in the fading centre and scale.
constexpr double kNewest = 0.1;
// The constant feature, beside activations of length about 1 together: a head's label direction has a mean.
constexpr float kConstant = 1.2F;
// Relative to the mean second moment of a feature; the least one keeps the system solvable if all activations are
// equal.
constexpr double kRidge = 1e-2;
constexpr double kLeastRidge = 1e-6;

// The same lines in every process, so that both parties' audits give the same figures.
// Random signs keep inner products up to small errors (Johnson-Lindenstrauss), and the system below stays 129 wide.
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

// The least correlation of the main view with the labels that is assumed: two Gaussian classes half a standard
// deviation apart have it, about as much as remains under Marvell with s = 4.
constexpr double kLeastReliability = 0.25;
// At a correlation of 1 the weight would be infinite, and no other view could outvote this one.
constexpr double kLargestReliability = 0.98;
constexpr double kLargestMainWeight = 6;
constexpr double kLargestCosineWeight = 12;

// Log ratio per unit of a score of variance `variance` whose correlation with a label of -1 or 1 is `reliability`.
// Two Gaussian classes at a distance d and with variance s^2 have the log ratio d x / s^2; the correlation gives both.
double WeightOf(double reliability, double variance) {
  return variance > 0 ? 2 * reliability / (std::sqrt(variance) * (1 - reliability * reliability)) : 0;
}

double MeanProduct(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t j = 0; j < a.size(); ++j) {
    sum += static_cast<double>(a[j]) * b[j];
  }
  return sum / static_cast<double>(a.size());
}

// Expected label, -1 or 1, of each log ratio.
// tanh(x / 2) is P(positive) - P(negative) if x is the log odds.
std::vector<float> Beliefs(const std::vector<float>& log_ratios) {
  std::vector<float> beliefs(log_ratios.size());
  std::transform(log_ratios.begin(), log_ratios.end(), beliefs.begin(), [](float x) { return std::tanh(x / 2); });
  return beliefs;
}

}  // namespace

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
    // Else the field would point where its old coordinates were.
    moments_ = Product(moments_, transposed);
  }
}

FieldCosines LabelDirectionField::Cosines(const ActivationFeatures& regression, const Matrix& features,
                                          const Matrix& across) const {
  const auto rows = static_cast<size_t>(across.rows());
  FieldCosines cosines = {std::vector<float>(rows), std::vector<float>(rows)};
  // Before the first Learn, or after the layer changed: no opinion on any row.
  if (moments_.rows() != features.cols() || moments_.cols() != across.cols()) {
    return cosines;
  }
  const Matrix directions = Product(features, regression.Regress(moments_));
  for (int64_t j = 0; j < across.rows(); ++j) {
    const double length = std::sqrt(SquaredNorm(directions.row(j)));
    for (int64_t k = 0; k < across.cols() && length > 0; ++k) {
      const double product = directions.row(j)[k] * across.row(j)[k] / length;
      // Halves that share no direction, so that their errors are their own.
      (k % 2 == 0 ? cosines.even : cosines.odd)[j] += static_cast<float>(product);
    }
  }
  return cosines;
}

void LabelDirectionField::Learn(const Matrix& features, const Matrix& across, absl::Span<const float> beliefs) {
  // Gradients of negatives point the other way than those of positives: turned round by the belief, both teach one
  // field.
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

void ActivationFeatures::Start(int64_t cut_width) {
  // Wider cut layers would cost the cube of their width in each batch.
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
  // One infinite activation would stay in every fading mean.
  if (!std::isfinite(spread)) {
    return Matrix();
  }
  // The bottom model learns: its activations drift, and old centres fade.
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
  // The ridge is relative to the features' own size, so it shrinks alike whatever the scale of the activations.
  for (int64_t k = 1; k < width(); ++k) {
    trace += second_moments_.row(k)[k];
  }
  std::vector<double> matrix(second_moments_.data(), second_moments_.data() + second_moments_.size());
  for (int64_t k = 0; k < width(); ++k) {
    // Feature 0, the constant, is hardly shrunk.
    matrix[k * width() + k] += kLeastRidge + (k > 0 ? kRidge * trace / static_cast<double>(width()) : 0);
  }
  // Factored once a batch; each of the fields solves with it.
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

std::vector<float> SurrogateHead::Weigh(const FieldCosines& cosines, const std::vector<float>& main, Teacher& teacher) {
  const std::vector<float> whole = cosines.Whole();
  Fade(MeanProduct(main, cosines.even), teacher.main_a);
  Fade(MeanProduct(main, cosines.odd), teacher.main_b);
  Fade(MeanProduct(cosines.even, cosines.odd), teacher.a_b);
  Fade(MeanProduct(whole, whole), teacher.squared);
  // Correlations m a = rho_m rho_a and so on, so that m a * m b / a b = rho_m^2.
  // If a pair disagrees, at least one view has nothing but noise, and the formula would take the root of a negative
  // number.
  const bool agree = teacher.main_a > 0 && teacher.main_b > 0 && teacher.a_b > 0;
  const double main_reliability = std::clamp(agree ? std::sqrt(teacher.main_a * teacher.main_b / teacher.a_b) : 0,
                                             kLeastReliability, kLargestReliability);
  // The field is trusted as far as it agrees with the main view, corrected for how unreliable that view itself is.
  const double agreement = teacher.squared > 0 ? (teacher.main_a + teacher.main_b) / std::sqrt(teacher.squared) : 0;
  const double reliability = std::clamp(agreement / main_reliability, 0.0, kLargestReliability);
  // The caps keep an early lucky agreement from deciding: a few rows suffice to correlate by chance.
  const double main_weight = std::min(WeightOf(main_reliability, 1), kLargestMainWeight);
  const double cosine_weight = std::min(WeightOf(reliability, teacher.squared), kLargestCosineWeight);
  std::vector<float> log_ratios;
  log_ratios.reserve(main.size());
  for (size_t j = 0; j < main.size(); ++j) {
    log_ratios.push_back(static_cast<float>(main_weight * main[j] + cosine_weight * whole[j]));
  }
  return log_ratios;
}

SurrogateScores SurrogateHead::Take(const GradientViews& views, ConstMatrixView activations) {
  SurrogateScores scores;
  scores.log_ratios.resize(static_cast<size_t>(views.rows), 0);
  scores.matching = scores.log_ratios;
  if (views.empty()) {
    return scores;
  }
  // The start, before any field has learnt: only the main view, at the least reliability that is assumed.
  std::vector<float> evidence;
  evidence.reserve(views.main.size());
  for (float place : views.main) {
    evidence.push_back(static_cast<float>(WeightOf(kLeastReliability, 1) * place));
  }
  const Matrix features = features_.Take(activations);
  std::vector<float> across(views.main.size(), 0);
  for (Teacher& teacher : teachers_) {
    // The first teacher learns from the main view, the second from what the first makes of it (surrogate_head.h).
    teacher.field.Turn(views.turn);
    if (features.size() > 0) {
      const FieldCosines cosines = teacher.field.Cosines(features_, features, views.across);
      // After Cosines: a field must be judged on batches that it has not learnt from.
      teacher.field.Learn(features, views.across, Beliefs(evidence));
      evidence = Weigh(cosines, views.main, teacher);
      across = cosines.Whole();
    }
  }
  for (size_t j = 0; j < evidence.size(); ++j) {
    scores.log_ratios[j] = evidence[j];
    // ||(main, across) + (1, field)||^2 - ||(main, across) - (1, field)||^2, the field of length 1.
    scores.matching[j] = 4 * (static_cast<double>(views.main[j]) + across[j]);
  }
  return scores;
}

}  // namespace splitveil
