#include "nonlabel_party/protection/privacy_loss.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

namespace splitveil {
namespace {

// Between a batch's matrices and Eigen's, and its rows by value of an attribute.

using RowMajorFloats = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Covariances are inverted below: in float the small eigenvalues, which decide, would be rounding.
Eigen::MatrixXd ToDouble(ConstMatrixView matrix) {
  return Eigen::Map<const RowMajorFloats>(matrix.data(), matrix.rows(), matrix.cols()).cast<double>();
}

Matrix ToFloat(const Eigen::MatrixXd& matrix) {
  Matrix result = Matrix::ToOverwrite(matrix.rows(), matrix.cols());
  Eigen::Map<RowMajorFloats>(result.data(), matrix.rows(), matrix.cols()) = matrix.cast<float>();
  return result;
}

// The rows of each value that any example has, by value.
// A value without examples in the batch has no distribution to be told apart from.
std::vector<std::vector<int64_t>> RowsByValue(const BatchAttribute& attribute) {
  std::vector<std::vector<int64_t>> rows(static_cast<size_t>(attribute.values));
  for (size_t i = 0; i < attribute.numbers.size(); ++i) {
    if (attribute.numbers[i] < attribute.values) {
      rows[attribute.numbers[i]].push_back(static_cast<int64_t>(i));
    }
  }
  rows.erase(std::remove_if(rows.begin(), rows.end(), [](const std::vector<int64_t>& of) { return of.empty(); }),
             rows.end());
  return rows;
}

// Rows of which the attribute is known, ascending.
std::vector<int64_t> KnownRows(const BatchAttribute& attribute) {
  std::vector<int64_t> rows;
  for (size_t i = 0; i < attribute.numbers.size(); ++i) {
    if (attribute.numbers[i] < attribute.values) {
      rows.push_back(static_cast<int64_t>(i));
    }
  }
  return rows;
}

// The Gaussian of some rows' mean and covariance, noise included, and the derivative of a loss by both.
struct GaussianFit {
  std::vector<int64_t> rows;
  Eigen::VectorXd mean;
  Eigen::MatrixXd covariance;
  Eigen::MatrixXd precision;
  double log_determinant = 0;
  Eigen::VectorXd by_mean;
  Eigen::MatrixXd by_covariance;
};

GaussianFit Fit(const Eigen::MatrixXd& activations, std::vector<int64_t> rows, double noise_sigma) {
  const Eigen::Index d = activations.cols();
  GaussianFit fit;
  // Divided by N, not N - 1: equation 3 has the moments of the mixture itself, and one row must do.
  const Eigen::MatrixXd own = activations(rows, Eigen::all);
  const auto count = static_cast<double>(rows.size());
  fit.rows = std::move(rows);
  fit.mean = own.colwise().mean();
  const Eigen::MatrixXd centred = own.rowwise() - fit.mean.transpose();
  fit.covariance = centred.transpose() * centred / count;
  // The mixture of N_a Gaussians of variance sigma^2 has the covariance of their means plus sigma^2 I.
  fit.covariance.diagonal().array() += noise_sigma * noise_sigma;
  // By Cholesky: the logarithm of the determinant comes with it, and a matrix that is not positive fails instead of
  // giving a number.
  const Eigen::LLT<Eigen::MatrixXd> factor(fit.covariance);
  fit.precision = factor.solve(Eigen::MatrixXd::Identity(d, d));
  // Singular to the precision of doubles, or not finite: the loss is then NaN, and a batch with that is not sent.
  fit.log_determinant = factor.info() == Eigen::Success ? 2 * factor.matrixLLT().diagonal().array().log().sum()
                                                        : std::numeric_limits<double>::quiet_NaN();
  fit.by_mean = Eigen::VectorXd::Zero(d);
  fit.by_covariance = Eigen::MatrixXd::Zero(d, d);
  return fit;
}

// `weight` KL(p || q), and adds its derivatives.
double AddDivergence(double weight, GaussianFit& p, GaussianFit& q) {
  const Eigen::VectorXd difference = q.mean - p.mean;
  const Eigen::VectorXd pulled = q.precision * difference;
  const Eigen::MatrixXd spread = p.covariance + difference * difference.transpose();
  const auto d = static_cast<double>(difference.size());
  // Derivatives of KL(p || q) = (tr(Q^-1 (P + dd')) - d + log det Q - log det P) / 2, d = q.mean - p.mean.
  p.by_mean -= weight * pulled;
  q.by_mean += weight * pulled;
  p.by_covariance += weight / 2 * (q.precision - p.precision);
  q.by_covariance += weight / 2 * (q.precision - q.precision * spread * q.precision);
  return weight / 2 * (q.precision.cwiseProduct(spread).sum() - d + q.log_determinant - p.log_determinant);
}

// Adds what the fit's derivatives are by its rows.
void AddByRows(const Eigen::MatrixXd& activations, const GaussianFit& fit, Eigen::MatrixXd& gradient) {
  const auto count = static_cast<double>(fit.rows.size());
  const Eigen::MatrixXd centred = activations(fit.rows, Eigen::all).rowwise() - fit.mean.transpose();
  // d mean / d row = 1 / count; d covariance / d row is the centred row on either side, hence the 2.
  const Eigen::MatrixXd by_rows = ((2 * centred * fit.by_covariance).rowwise() + fit.by_mean.transpose()) / count;
  for (size_t i = 0; i < fit.rows.size(); ++i) {
    gradient.row(fit.rows[i]) += by_rows.row(static_cast<Eigen::Index>(i));
  }
}

std::vector<GaussianFit> FitValues(const Eigen::MatrixXd& activations, const BatchAttribute& attribute,
                                   double noise_sigma) {
  std::vector<GaussianFit> fits;
  for (std::vector<int64_t>& rows : RowsByValue(attribute)) {
    fits.push_back(Fit(activations, std::move(rows), noise_sigma));
  }
  return fits;
}

double Share(const GaussianFit& fit, double known) { return static_cast<double>(fit.rows.size()) / known; }

}  // namespace

// Yu et al., equation 3 for Gaussians: each pair of values, weighted by how often it occurs.
ActivationLoss GaussianPrivacyLoss(ConstMatrixView activations, const BatchAttribute& attribute, double noise_sigma) {
  const Eigen::MatrixXd rows = ToDouble(activations);
  std::vector<GaussianFit> fits = FitValues(rows, attribute, noise_sigma);
  const double known = static_cast<double>(KnownRows(attribute).size());
  double value = 0;
  for (GaussianFit& a : fits) {
    for (GaussianFit& b : fits) {
      // Both orders of every pair: KL is not symmetric.
      value += &a == &b ? 0 : AddDivergence(Share(a, known) * Share(b, known), a, b);
    }
  }
  Eigen::MatrixXd gradient = Eigen::MatrixXd::Zero(rows.rows(), rows.cols());
  for (const GaussianFit& fit : fits) {
    AddByRows(rows, fit, gradient);
  }
  return {value, ToFloat(gradient)};
}

// Each value against all together: InfoCensor's bound on what activations and attribute have in common, with Gaussians.
ActivationLoss MarginalPrivacyLoss(ConstMatrixView activations, const BatchAttribute& attribute, double noise_sigma) {
  const Eigen::MatrixXd rows = ToDouble(activations);
  Eigen::MatrixXd gradient = Eigen::MatrixXd::Zero(rows.rows(), rows.cols());
  double value = 0;
  if (std::vector<int64_t> all = KnownRows(attribute); !all.empty()) {
    const auto known = static_cast<double>(all.size());
    GaussianFit marginal = Fit(rows, std::move(all), noise_sigma);
    for (GaussianFit& a : FitValues(rows, attribute, noise_sigma)) {
      value += AddDivergence(Share(a, known), a, marginal);
      AddByRows(rows, a, gradient);
    }
    AddByRows(rows, marginal, gradient);
  }
  return {value, ToFloat(gradient)};
}

namespace {

// Eigenvalues closer than this, relative to the largest, count as this far apart: if two are equal, which direction
// is a principal one has no derivative.
constexpr double kLeastGap = 1e-9;

// A batch on its first principal components.
struct PrincipalComponents {
  Eigen::MatrixXd centred;      // [batch, d]
  Eigen::VectorXd eigenvalues;  // Of the covariance, ascending.
  Eigen::MatrixXd directions;   // [d, d], likewise; the last `width` are the components.
  Eigen::Index width;

  Eigen::MatrixXd components() const { return directions.rightCols(width); }
  Eigen::MatrixXd projected() const { return centred * components(); }
};

PrincipalComponents Analyse(const Eigen::MatrixXd& rows, int64_t width) {
  PrincipalComponents result;
  result.width = width;
  // The components of each batch afresh: they move with the model, and fixed ones would let it hide elsewhere.
  result.centred = rows.rowwise() - rows.colwise().mean();
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(result.centred.transpose() * result.centred /
                                                              static_cast<double>(rows.rows()));
  result.eigenvalues = solver.eigenvalues();
  result.directions = solver.eigenvectors();
  return result;
}

// The derivative by the rows of a loss that has the derivative `by_projected` by their projection. That the components
// turn among themselves changes nothing: the loss depends on distances only. So those with the rest of the space count.
Eigen::MatrixXd ByRows(const PrincipalComponents& components, const Eigen::MatrixXd& by_projected) {
  const Eigen::Index rest = components.directions.cols() - components.width;
  // First-order perturbation of eigenvectors: each turns towards another by their coupling over the gap of their
  // eigenvalues.
  const Eigen::MatrixXd turned = components.directions.leftCols(rest).transpose() *
                                 (components.centred.transpose() * by_projected);  // [rest, width]
  Eigen::MatrixXd scaled = turned;
  const double least = kLeastGap * std::max(components.eigenvalues.tail(1)(0), 1e-300);
  for (Eigen::Index j = 0; j < components.width; ++j) {
    for (Eigen::Index l = 0; l < rest; ++l) {
      scaled(l, j) /= std::max(components.eigenvalues(rest + j) - components.eigenvalues(l), least);
    }
  }
  const Eigen::MatrixXd by_covariance =
      components.directions.leftCols(rest) * scaled * components.components().transpose();
  // Through the projection, and through the directions, which turn with the covariance.
  const Eigen::MatrixXd by_centred =
      by_projected * components.components().transpose() +
      components.centred * (by_covariance + by_covariance.transpose()) / static_cast<double>(components.centred.rows());
  // The rows were centred: a common shift of all rows changes nothing.
  return by_centred.rowwise() - by_centred.colwise().mean();
}

// The kernel density estimate of a value's rows.
struct KernelDensity {
  std::vector<int64_t> rows;
  Eigen::VectorXd mean;
  double variance = 0;     // Of a kernel, along each component.
  double scott = 0;        // What of the class's mean spread is in it.
  double by_variance = 0;  // Derivative of the loss.
};

// A kernel at each row shows several clusters of one value, which a single Gaussian would not.
KernelDensity Estimate(const Eigen::MatrixXd& projected, std::vector<int64_t> rows, double noise_sigma) {
  KernelDensity density;
  const Eigen::MatrixXd own = projected(rows, Eigen::all);
  const auto count = static_cast<double>(rows.size());
  const auto width = static_cast<double>(projected.cols());
  density.rows = std::move(rows);
  density.mean = own.colwise().mean();
  // Scott's rule for the square of the bandwidth: N^(-2 / (width + 4)).
  density.scott = std::pow(count, -2 / (width + 4));
  density.variance = noise_sigma * noise_sigma +
                     density.scott * (own.rowwise() - density.mean.transpose()).squaredNorm() / (count * width);
  return density;
}

// Mean over `sample` of log density, times `weight`; adds its derivatives.
double AddLogDensity(const Eigen::MatrixXd& projected, const std::vector<int64_t>& sample, double weight,
                     KernelDensity& density, Eigen::MatrixXd& gradient) {
  const double width = static_cast<double>(projected.cols());
  const double variance = density.variance;
  const Eigen::MatrixXd centres = projected(density.rows, Eigen::all);
  Eigen::MatrixXd by_centres = Eigen::MatrixXd::Zero(centres.rows(), centres.cols());
  double sum = 0;
  for (const int64_t i : sample) {
    const Eigen::MatrixXd away = centres.rowwise() - projected.row(i);
    const Eigen::VectorXd squared = away.rowwise().squaredNorm();
    const Eigen::VectorXd exponents = -squared / (2 * variance);
    // Log-sum-exp relative to the largest term: far samples would underflow to log 0.
    const double largest = exponents.maxCoeff();
    Eigen::VectorXd share = (exponents.array() - largest).exp();
    const double total = share.sum();
    share /= total;
    sum += largest + std::log(total / static_cast<double>(density.rows.size())) -
           width / 2 * std::log(2 * M_PI * variance);
    const Eigen::MatrixXd pulled = share.asDiagonal() * away * (weight / variance);
    gradient.row(i) += pulled.colwise().sum();
    by_centres -= pulled;
    // d log N(x; c, v I) / dv = |x - c|^2 / (2 v^2) - width / (2 v), weighted by each kernel's share.
    density.by_variance += weight * (share.dot(squared) / (2 * variance * variance) - width / (2 * variance));
  }
  for (size_t j = 0; j < density.rows.size(); ++j) {
    gradient.row(density.rows[j]) += by_centres.row(static_cast<Eigen::Index>(j));
  }
  return weight * sum;
}

// Adds what the bandwidth's derivative is by the rows that it is taken from.
void AddByBandwidth(const Eigen::MatrixXd& projected, const KernelDensity& density, Eigen::MatrixXd& gradient) {
  // d variance / d row = 2 scott (row - mean) / (count width).
  const double scale = density.by_variance * density.scott * 2 /
                       (static_cast<double>(density.rows.size()) * static_cast<double>(projected.cols()));
  for (const int64_t row : density.rows) {
    gradient.row(row) += scale * (projected.row(row) - density.mean.transpose());
  }
}

}  // namespace

ActivationLoss KernelPrivacyLoss(ConstMatrixView activations, const BatchAttribute& attribute, double noise_sigma,
                                 int64_t width) {
  const Eigen::MatrixXd rows = ToDouble(activations);
  const PrincipalComponents components = Analyse(rows, width);
  const Eigen::MatrixXd projected = components.projected();
  std::vector<KernelDensity> densities;
  for (std::vector<int64_t>& of_value : RowsByValue(attribute)) {
    densities.push_back(Estimate(projected, std::move(of_value), noise_sigma));
  }
  const auto known = static_cast<double>(KnownRows(attribute).size());
  Eigen::MatrixXd gradient = Eigen::MatrixXd::Zero(projected.rows(), projected.cols());
  double value = 0;
  for (KernelDensity& a : densities) {
    // The sum over b of (N_a N_b / N^2) E_a[log p(z|a) - log p(z|b)]: the first term once with the weight of all
    // others.
    const double others = known - static_cast<double>(a.rows.size());
    value += AddLogDensity(projected, a.rows, others / (known * known), a, gradient);
    for (KernelDensity& b : densities) {
      const double weight = static_cast<double>(b.rows.size()) / (known * known);
      value += &a == &b ? 0 : AddLogDensity(projected, a.rows, -weight, b, gradient);
    }
  }
  for (const KernelDensity& density : densities) {
    AddByBandwidth(projected, density, gradient);
  }
  return {value, ToFloat(ByRows(components, gradient))};
}

}  // namespace splitveil
