#include <Eigen/Dense>
#include <cstddef>
#include <limits>
#include <vector>

#include "nonlabel_party/protection/activation_rows.h"
#include "nonlabel_party/protection/privacy_loss.h"

namespace splitveil {
namespace {

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

}  // namespace splitveil
