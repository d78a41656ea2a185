#include "common/leakage/label_factor.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "common/leakage/linear_algebra.h"

namespace splitveil {
namespace {

// A share of the diagonal, added to it: a coordinate whose variance is below that decides nothing by itself.
constexpr double kRidge = 1e-3;
// At the start of a fit: log ratio per standard deviation of one coordinate.
constexpr double kFirstWeight = 1;
// Fourth standardised moment of a Gaussian.
constexpr double kNoClasses = 3;
// Two Gaussian classes of like size are flatter than one, of unlike size skewed. What counts is more than so many
// standard errors; of n rows of one Gaussian the third and fourth moments have the variances below over n.
constexpr double kErrors = 4;
constexpr double kThirdMomentVariance = 6;
constexpr double kFourthMomentVariance = 24;
// Positives are the smaller class, so half at most.
constexpr double kLeastShare = 0.01;
constexpr double kLargestShare = 0.5;

// Longer rows are shortened to so many times the root mean square: a few long ones would make a class of their own.
constexpr double kLongest = 2;

// The main view, then the part across it at its own length. [rows, 1 + directions]
Matrix Coordinates(const GradientViews& views) {
  Matrix rows = Matrix::ToOverwrite(views.across.rows(), 1 + views.across.cols());
  double squared = 0;
  for (float length : views.lengths) {
    squared += static_cast<double>(length) * length;
  }
  const auto longest = static_cast<float>(kLongest * std::sqrt(squared / static_cast<double>(rows.rows())));
  for (int64_t j = 0; j < rows.rows(); ++j) {
    rows.row(j)[0] = views.main[j];
    for (int64_t k = 0; k < views.across.cols(); ++k) {
      rows.row(j)[k + 1] = std::min(views.lengths[j], longest) * views.across.row(j)[k];
    }
  }
  return rows;
}

}  // namespace

// Fading means start at 0 and not at the first value: dividing by this weight removes the bias of that start.
double LabelFactor::Weight() const { return kFadingMemory * weight_ + 1 - kFadingMemory; }

// With one covariance for both classes the log ratio is linear (Fisher): a product and a threshold.
double LabelFactor::LogRatio(const Matrix& rows, int64_t row) const {
  double product = 0;
  for (size_t k = 0; k < test_.size(); ++k) {
    product += test_[k] * rows.row(row)[k];
  }
  return product - middle_;
}

void LabelFactor::Turn(const Matrix& turn) {
  // Directions are found again in every batch: what was learnt is carried over into the new coordinates.
  const size_t n = moments_.mean.size();
  if (turn.size() == 0 || weight_ == 0) {
    return;
  }
  // Coordinate 0, the main one, has no part in the turn.
  const auto turned = [&turn](const double* from, int64_t stride, double* to) {
    std::vector<double> result(static_cast<size_t>(turn.rows()));
    for (int64_t i = 0; i < turn.rows(); ++i) {
      for (int64_t k = 0; k < turn.cols(); ++k) {
        result[i] += turn.row(i)[k] * from[(k + 1) * stride];
      }
    }
    for (int64_t i = 0; i < turn.rows(); ++i) {
      to[(i + 1) * stride] = result[i];
    }
  };
  for (std::vector<double>* vector : {&moments_.of_positives, &moments_.mean}) {
    turned(vector->data(), 1, vector->data());
  }
  for (size_t i = 0; i < n; ++i) {
    // Second moments turn from both sides.
    turned(&moments_.products[i * n], 1, &moments_.products[i * n]);
  }
  for (size_t i = 0; i < n; ++i) {
    turned(&moments_.products[i], static_cast<int64_t>(n), &moments_.products[i]);
  }
}

LabelFactor::Moments LabelFactor::Absorb(const Matrix& rows) const {
  const auto n = static_cast<size_t>(rows.cols());
  Moments batch = {0, std::vector<double>(n), std::vector<double>(n), std::vector<double>(n * n)};
  for (int64_t j = 0; j < rows.rows(); ++j) {
    // The step of expectation: each row counts for both classes, by the chance that it belongs to each.
    const double chance = 1 / (1 + std::exp(-std::clamp(LogRatio(rows, j) + prior_log_odds_, -50.0, 50.0)));
    batch.positives += chance;
    for (size_t i = 0; i < n; ++i) {
      const double x = rows.row(j)[i];
      batch.of_positives[i] += chance * x;
      batch.mean[i] += x;
      // Products are symmetric: the lower half is enough.
      for (size_t k = 0; k <= i; ++k) {
        batch.products[i * n + k] += x * rows.row(j)[k];
      }
    }
  }
  const double share = 1 / static_cast<double>(rows.rows());
  Moments all = moments_;
  Fade(share * batch.positives, all.positives);
  for (size_t i = 0; i < n; ++i) {
    Fade(share * batch.of_positives[i], all.of_positives[i]);
    Fade(share * batch.mean[i], all.mean[i]);
    for (size_t k = 0; k < n; ++k) {
      Fade(share * batch.products[std::max(i, k) * n + std::min(i, k)], all.products[i * n + k]);
    }
  }
  return all;
}

void LabelFactor::Fit(const Moments& moments) {
  const size_t n = moments.mean.size();
  const double weight = Weight();
  // Clamped, or after an early batch that looks one-sided one class would stay empty for good.
  const double share = std::clamp(moments.positives / weight, kLeastShare, kLargestShare);
  std::vector<double> difference(n);
  std::vector<double> middle(n);
  for (size_t i = 0; i < n; ++i) {
    const double mean = moments.mean[i] / weight;
    // With hardly any positives yet their mean would be a division by nearly 0.
    const double positive = moments.of_positives[i] / std::max(moments.positives, kLeastShare * weight);
    // mean = share * positive + (1 - share) * negative.
    const double negative = (mean - share * positive) / (1 - share);
    difference[i] = positive - negative;
    middle[i] = (positive + negative) / 2;
  }
  std::vector<double> covariance(n * n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = 0; k < n; ++k) {
      // Within the classes: the whole covariance less what the distance of the two means adds to it.
      covariance[i * n + k] = moments.products[i * n + k] / weight -
                              moments.mean[i] * moments.mean[k] / (weight * weight) -
                              share * (1 - share) * difference[i] * difference[k];
    }
    // A ridge keeps directions without variance from deciding everything.
    const double own = moments.products[i * n + i] / weight;
    covariance[i * n + i] = std::max(covariance[i * n + i], 0.0) + kRidge * own + kRidge * kRidge;
  }
  // Which end is positive is known from the test that the fit began with.
  double kept = 0;
  for (size_t i = 0; i < n; ++i) {
    kept += test_[i] * difference[i];
  }
  const double orientation = kept < 0 ? -1 : 1;
  test_ = std::move(difference);
  // Fisher's direction: noise that is strong in some directions is discounted there, however it is oriented.
  PositiveSystem(std::move(covariance), static_cast<int64_t>(n), kRidge * kRidge).Solve(test_, 1);
  middle_ = 0;
  for (size_t i = 0; i < n; ++i) {
    test_[i] *= orientation;
    middle_ += test_[i] * middle[i];
  }
  prior_log_odds_ = std::log(share / (1 - share));
}

void LabelFactor::Begin(const Matrix& rows) {
  const auto n = static_cast<size_t>(rows.cols());
  const double share = 1 / static_cast<double>(rows.rows());
  std::vector<double> variances(n);
  for (size_t k = 0; k < n; ++k) {
    double mean = 0;
    for (int64_t j = 0; j < rows.rows(); ++j) {
      mean += share * rows.row(j)[k];
    }
    double third = 0;
    double fourth = 0;
    for (int64_t j = 0; j < rows.rows(); ++j) {
      const double x = rows.row(j)[k] - mean;
      variances[k] += share * x * x;
      third += share * x * x * x;
      fourth += share * x * x * x * x;
    }
    const bool spread = variances[k] > 0;
    Fade(spread ? third / std::pow(variances[k], 1.5) : 0, skewness_[k]);
    Fade(spread ? fourth / (variances[k] * variances[k]) : kNoClasses, kurtosis_[k]);
  }
  // Rows that the fading means stand for: those of one batch at first, 1 / (1 - kFadingMemory) times as many in the
  // end. Fading sums are Weight() times a mean, and so are the margins.
  const double rows_remembered = static_cast<double>(rows.rows()) * Weight() / (1 - kFadingMemory);
  const double third_margin = kErrors * std::sqrt(kThirdMomentVariance / rows_remembered) * Weight();
  const double fourth_margin = kErrors * std::sqrt(kFourthMomentVariance / rows_remembered) * Weight();
  // If the main view looks like one Gaussian, the label may be elsewhere.
  const bool noise =
      std::abs(skewness_[0]) < third_margin && std::abs(kurtosis_[0] - kNoClasses * Weight()) < fourth_margin;
  // Only a coordinate that is flatter than the main one by more than chance takes its place.
  size_t flattest = 0;
  for (size_t k = 1; k < n && noise; ++k) {
    if (kurtosis_[k] < kurtosis_[flattest] - (flattest == 0 ? fourth_margin : 0)) {
      flattest = k;
    }
  }
  // Positives are fewer, so their side has the longer tail. The main view is oriented already, by the skewness of all
  // batches.
  const double side = flattest > 0 && skewness_[flattest] < 0 ? -1 : 1;
  // The fit starts from one coordinate alone; the step of expectation and maximisation brings in the others.
  test_.assign(n, 0);
  test_[flattest] = side * kFirstWeight / std::sqrt(std::max(variances[flattest], kRidge * kRidge));
  middle_ = 0;
}

std::vector<double> LabelFactor::Take(const GradientViews& views) {
  if (views.empty()) {
    return std::vector<double>(static_cast<size_t>(views.rows));
  }
  const Matrix rows = Coordinates(views);
  const auto n = static_cast<size_t>(rows.cols());
  if (moments_.mean.size() != n) {
    // A different number of coordinates: a layer of another width, of which nothing is known yet.
    moments_ = {0, std::vector<double>(n), std::vector<double>(n), std::vector<double>(n * n)};
    skewness_.assign(n, 0);
    kurtosis_.assign(n, 0);
    weight_ = 0;
  }
  Turn(views.turn);
  // A new start in every batch: if the test of the batch before had taken something else for the label, each fit would
  // confirm it.
  Begin(rows);
  moments_ = Absorb(rows);
  Fit(moments_);
  Fade(1, weight_);
  std::vector<double> log_ratios;
  log_ratios.reserve(static_cast<size_t>(rows.rows()));
  for (int64_t j = 0; j < rows.rows(); ++j) {
    log_ratios.push_back(LogRatio(rows, j));
  }
  return log_ratios;
}

}  // namespace splitveil
