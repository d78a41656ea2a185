#include "nonlabel_party/protection/pareto_direction.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <limits>

namespace splitveil {
namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// How far outside its bounds rounding may leave a point that lies on them.
constexpr double kFeasible = 1e-9;
// Smallest eigenvalue of C, relative to the largest, with which l is reached by solving for it.
constexpr double kLeastEigenvalue = 1e-10;

Eigen::MatrixXd ToMatrix(const std::vector<double>& products, size_t m) {
  return Eigen::Map<const RowMajor>(products.data(), static_cast<Eigen::Index>(m), static_cast<Eigen::Index>(m));
}

Eigen::VectorXd ToVector(const std::vector<double>& values) {
  return Eigen::Map<const Eigen::VectorXd>(values.data(), static_cast<Eigen::Index>(values.size()));
}

// min ||C beta - target||^2 over [-1, 1]^m and (C beta)_i >= 0 for `floors`, whose optimum is a stationary point of one
// of the faces: some beta at a bound, some floors met exactly.
class BoxedLeastSquares {
 public:
  BoxedLeastSquares(const Eigen::MatrixXd& products, const Eigen::VectorXd& target, std::vector<Eigen::Index> floors)
      : products_(products), target_(target), floors_(std::move(floors)) {
    best_ = Eigen::VectorXd::Zero(target.size());  // Always feasible.
    best_value_ = target.squaredNorm();
  }

  Eigen::VectorXd Solve() {
    std::vector<int> sides(static_cast<size_t>(target_.size()), -1);
    do {
      for (size_t active = 0; active < size_t{1} << floors_.size(); ++active) {
        Try(sides, active);
      }
    } while (Advance(sides));
    return best_;
  }

 private:
  // Each beta in turn at -1, free (0), at 1.
  static bool Advance(std::vector<int>& sides) {
    for (int& side : sides) {
      if (++side <= 1) {
        return true;
      }
      side = -1;
    }
    return false;
  }

  void Try(const std::vector<int>& sides, size_t active) {
    std::vector<Eigen::Index> free;
    Eigen::VectorXd beta = Eigen::VectorXd::Zero(target_.size());
    for (size_t i = 0; i < sides.size(); ++i) {
      beta(static_cast<Eigen::Index>(i)) = sides[i];
      if (sides[i] == 0) {
        free.push_back(static_cast<Eigen::Index>(i));
      }
    }
    std::vector<Eigen::Index> met;
    for (size_t k = 0; k < floors_.size(); ++k) {
      if ((active >> k & 1) != 0) {
        met.push_back(floors_[k]);
      }
    }
    if (met.size() > free.size()) {  // More equations than unknowns.
      return;
    }
    const Eigen::VectorXd left = target_ - products_ * beta;
    if (!free.empty()) {
      beta(free) = Stationary(free, met, left, beta);
    }
    Take(beta);
  }

  // Of the face's least squares with C beta exactly 0 at `met`: in the null space of those rows.
  Eigen::VectorXd Stationary(const std::vector<Eigen::Index>& free, const std::vector<Eigen::Index>& met,
                             const Eigen::VectorXd& left, const Eigen::VectorXd& fixed) const {
    const Eigen::MatrixXd columns = products_(Eigen::all, free);
    if (met.empty()) {
      return columns.completeOrthogonalDecomposition().solve(left);
    }
    const Eigen::MatrixXd rows = products_(met, free);
    const Eigen::CompleteOrthogonalDecomposition<Eigen::MatrixXd> of_rows(rows);
    const Eigen::VectorXd point = of_rows.solve(-(products_(met, Eigen::all) * fixed));
    const Eigen::MatrixXd kernel = rows.fullPivLu().kernel();  // One column of 0 where there is none.
    const Eigen::MatrixXd along = columns * kernel;
    return point + kernel * along.completeOrthogonalDecomposition().solve(left - columns * point);
  }

  void Take(const Eigen::VectorXd& beta) {
    if (beta.cwiseAbs().maxCoeff() > 1 + kFeasible) {
      return;
    }
    const Eigen::VectorXd clipped = beta.cwiseMax(-1).cwiseMin(1);
    const Eigen::VectorXd change = products_ * clipped;
    // Rounding grows with C, and so must what it may cost.
    const double least = -kFeasible * products_.cwiseAbs().maxCoeff();
    const bool feasible =
        std::all_of(floors_.begin(), floors_.end(), [&](Eigen::Index floor) { return change(floor) >= least; });
    const double value = (change - target_).squaredNorm();
    if (feasible && value < best_value_) {
      best_value_ = value;
      best_ = clipped;
    }
  }

  const Eigen::MatrixXd& products_;
  const Eigen::VectorXd& target_;
  const std::vector<Eigen::Index> floors_;
  Eigen::VectorXd best_;
  double best_value_;
};

}  // namespace

double LeastCombinationNorm(const std::vector<double>& products, size_t m) {
  const Eigen::MatrixXd all = ToMatrix(products, m);
  double least = std::numeric_limits<double>::infinity();
  // The minimum lies inside one face of the simplex: try each, and keep those whose shares are not negative.
  for (size_t members = 1; members < size_t{1} << m; ++members) {
    std::vector<Eigen::Index> used;
    for (size_t i = 0; i < m; ++i) {
      if ((members >> i & 1) != 0) {
        used.push_back(static_cast<Eigen::Index>(i));
      }
    }
    // The least-norm point of their affine hull: equal inner products with all of them, shares that sum to 1.
    const auto n = static_cast<Eigen::Index>(used.size());
    Eigen::MatrixXd bordered = Eigen::MatrixXd::Ones(n + 1, n + 1);
    bordered.topLeftCorner(n, n) = all(used, used);
    bordered(n, n) = 0;
    const Eigen::VectorXd solved = bordered.completeOrthogonalDecomposition().solve(Eigen::VectorXd::Unit(n + 1, n));
    const Eigen::VectorXd shares = solved.head(n);
    if (shares.minCoeff() >= -kFeasible) {
      least = std::min(least, shares.dot(all(used, used) * shares) / (shares.sum() * shares.sum()));
    }
  }
  return std::sqrt(std::max(least, 0.0));
}

std::vector<double> AnchorDirection(const std::vector<double>& losses) {
  const Eigen::VectorXd l = ToVector(losses);
  // Equation 7: the part of the ray for r = (1, 0, ..., 0) that is orthogonal to l.
  Eigen::VectorXd anchor = Eigen::VectorXd::Zero(l.size());
  if (const double norm = l.norm(); norm > 0) {
    Eigen::VectorXd ray = Eigen::VectorXd::Constant(l.size(), 1 / std::sqrt(static_cast<double>(l.size() - 1)));
    ray(0) = 0;
    anchor = l.dot(ray) / norm * l - norm * ray;
  }
  return {anchor.begin(), anchor.end()};
}

ParetoDirection FindParetoDirection(const Objectives& objectives, double stationarity) {
  const size_t m = objectives.losses.size();
  const Eigen::MatrixXd products = ToMatrix(objectives.products, m);
  const Eigen::VectorXd losses = ToVector(objectives.losses);
  ParetoDirection result;
  // Relative to the longest gradient, since all of them shrink as training converges.
  const double longest = std::sqrt(std::max(products.diagonal().maxCoeff(), 0.0));
  const Eigen::VectorXd eigenvalues = Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd>(products).eigenvalues();
  result.at_front = LeastCombinationNorm(objectives.products, m) <= stationarity * longest ||
                    eigenvalues(0) <= kLeastEigenvalue * eigenvalues(eigenvalues.size() - 1);
  Eigen::VectorXd weights;
  if (!result.at_front) {
    // Equation 11: every loss falls in proportion to itself. Scaled into the box, not clipped, which would turn it.
    weights = products.ldlt().solve(losses);
    weights /= std::max(1.0, weights.cwiseAbs().maxCoeff());
  } else {
    // Equation 12: along the front toward less L_u, but no loss at its threshold may rise.
    std::vector<Eigen::Index> floors;
    for (size_t i = 0; i < m; ++i) {
      if (objectives.at_threshold[i]) {
        floors.push_back(static_cast<Eigen::Index>(i));
      }
    }
    const Eigen::VectorXd anchor = ToVector(AnchorDirection(objectives.losses));
    weights = BoxedLeastSquares(products, anchor, std::move(floors)).Solve();
  }
  result.weights.assign(weights.begin(), weights.end());
  return result;
}

}  // namespace splitveil
