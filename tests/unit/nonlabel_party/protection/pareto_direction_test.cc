#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <gtest/gtest.h>
#include <random>
#include <vector>

#include "nonlabel_party/protection/privacy_objective.h"

namespace splitveil {
namespace {

constexpr double kTolerance = 1e-6;

struct Instance {
  Objectives objectives;
  Eigen::MatrixXd products;
  Eigen::VectorXd losses;
};

// Gradients of a model of a few parameters. `fewer`: linearly dependent, as at the front.
Instance RandomInstance(size_t m, bool fewer, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform;
  Instance instance;
  Eigen::MatrixXd gradients(6, static_cast<Eigen::Index>(m));
  for (Eigen::Index i = 0; i < gradients.size(); ++i) {
    gradients(i) = normal(random);
  }
  if (fewer) {  // A convex combination is 0.
    gradients.col(0) = -uniform(random) * gradients.rightCols(static_cast<Eigen::Index>(m) - 1).rowwise().sum();
  }
  instance.products = gradients.transpose() * gradients;
  instance.losses = Eigen::VectorXd::Zero(static_cast<Eigen::Index>(m));
  for (size_t i = 0; i < m; ++i) {
    instance.losses(static_cast<Eigen::Index>(i)) = uniform(random) * (i == 0 ? 1 : 0.1);
    instance.objectives.at_threshold.push_back(i > 0 && random() % 2 == 0);
  }
  instance.objectives.losses.assign(instance.losses.begin(), instance.losses.end());
  instance.objectives.products.assign(instance.products.data(), instance.products.data() + m * m);
  return instance;
}

// Whether multipliers >= 0 of the floors in `met` satisfy the conditions of Karush, Kuhn and Tucker for min 1/2 ||C
// beta
// - a||^2 over the box: the gradient less theirs is 0 in a free component, and points out of the box in one at a bound.
bool HasMultipliers(const Instance& instance, const Eigen::VectorXd& beta, const Eigen::VectorXd& anchor,
                    const std::vector<Eigen::Index>& met) {
  const Eigen::VectorXd gradient = instance.products * (instance.products * beta - anchor);
  std::vector<Eigen::Index> free;
  for (Eigen::Index j = 0; j < beta.size(); ++j) {
    if (std::abs(beta(j)) < 1 - 1e-8) {
      free.push_back(j);
    }
  }
  for (size_t subset = 0; subset < size_t{1} << met.size(); ++subset) {
    std::vector<Eigen::Index> active;
    for (size_t k = 0; k < met.size(); ++k) {
      if ((subset >> k & 1) != 0) {
        active.push_back(met[k]);
      }
    }
    Eigen::VectorXd multipliers = Eigen::VectorXd::Zero(static_cast<Eigen::Index>(active.size()));
    Eigen::VectorXd left = gradient;
    if (!active.empty()) {
      const Eigen::MatrixXd of_free = instance.products(free, active);
      if (free.empty()) {
        continue;
      }
      multipliers = of_free.completeOrthogonalDecomposition().solve(Eigen::VectorXd(gradient(free)));
      left -= instance.products(Eigen::all, active) * multipliers;
    }
    bool holds = multipliers.size() == 0 || multipliers.minCoeff() >= -kTolerance;
    for (Eigen::Index j = 0; j < beta.size(); ++j) {
      const bool at_top = beta(j) >= 1 - 1e-8, at_bottom = beta(j) <= -1 + 1e-8;
      holds = holds && (at_top      ? left(j) <= kTolerance
                        : at_bottom ? left(j) >= -kTolerance
                                    : std::abs(left(j)) <= kTolerance);
    }
    if (holds) {
      return true;
    }
  }
  return false;
}

// Where every component is at a bound no multiplier can be solved for: that no step into the feasible set is better.
bool NoStepIsBetter(const Instance& instance, const Eigen::VectorXd& beta, const Eigen::VectorXd& anchor,
                    const std::vector<Eigen::Index>& floors, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  const double value = (instance.products * beta - anchor).squaredNorm();
  for (int trial = 0; trial < 2000; ++trial) {
    Eigen::VectorXd step(beta.size());
    for (Eigen::Index j = 0; j < step.size(); ++j) {
      step(j) = normal(random);
    }
    const Eigen::VectorXd other = (beta + 1e-3 * step).cwiseMax(-1).cwiseMin(1);
    const Eigen::VectorXd change = instance.products * other;
    if (std::all_of(floors.begin(), floors.end(), [&](Eigen::Index floor) { return change(floor) >= 0; }) &&
        (change - anchor).squaredNorm() < value - kTolerance) {
      return false;
    }
  }
  return true;
}

TEST(ParetoDirectionTest, MeetsTheConditionsOfEquationTwelveOnTenThousandInstances) {
  std::mt19937_64 random(1);
  int fronts = 0, floored = 0;
  for (int trial = 0; trial < 10000; ++trial) {
    const size_t m = 2 + trial % 3;
    const Instance instance = RandomInstance(m, trial % 2 == 0, random);
    const ParetoDirection found = FindParetoDirection(instance.objectives, trial % 2 == 0 ? 1e-6 : 0);
    const Eigen::VectorXd beta = Eigen::Map<const Eigen::VectorXd>(found.weights.data(), found.weights.size());
    ASSERT_LE(beta.cwiseAbs().maxCoeff(), 1 + 1e-12);
    const Eigen::VectorXd change = instance.products * beta;
    if (!found.at_front) {
      // The same direction as the losses, and as far as the box allows.
      ASSERT_NEAR((change.normalized() - instance.losses.normalized()).norm(), 0, kTolerance) << trial;
      const double reached = change.norm() / instance.losses.norm();
      ASSERT_TRUE(reached >= 1 - kTolerance || beta.cwiseAbs().maxCoeff() >= 1 - kTolerance) << trial;
      continue;
    }
    ++fronts;
    const std::vector<double> a = AnchorDirection(instance.objectives.losses);
    const Eigen::VectorXd anchor = Eigen::Map<const Eigen::VectorXd>(a.data(), a.size());
    std::vector<Eigen::Index> floors, met;
    for (size_t i = 0; i < m; ++i) {
      if (!instance.objectives.at_threshold[i]) {
        continue;
      }
      floors.push_back(static_cast<Eigen::Index>(i));
      ASSERT_GE(change(floors.back()), -kTolerance) << trial;
      if (change(floors.back()) <= kTolerance) {
        met.push_back(floors.back());
      }
    }
    floored += met.empty() ? 0 : 1;
    ASSERT_TRUE(HasMultipliers(instance, beta, anchor, met) || NoStepIsBetter(instance, beta, anchor, floors, random))
        << trial << ", m " << m;
  }
  EXPECT_GT(fronts, 4000);
  EXPECT_GT(floored, 1000);
}

TEST(ParetoDirectionTest, AnchorIsOrthogonalToTheLosses) {
  const std::vector<double> losses = {0.4, 0.01, 0.03};
  const std::vector<double> anchor = AnchorDirection(losses);
  EXPECT_NEAR(losses[0] * anchor[0] + losses[1] * anchor[1] + losses[2] * anchor[2], 0, 1e-15);
  EXPECT_GT(anchor[0], 0);  // Less utility loss,
  EXPECT_LT(anchor[1], 0);  // more privacy loss.
  EXPECT_LT(anchor[2], 0);
}

// Two objectives in closed form: with C beta = (c_u, c_p) free and a floor at c_p, the projection of a onto c_p >= 0.
TEST(ParetoDirectionTest, AtTheThresholdUtilityGoesAcrossThePrivacyGradient) {
  Objectives objectives;
  objectives.losses = {0.5, 0.02};
  objectives.products = {4, 1, 1, 9};
  objectives.at_threshold = {false, true};
  const ParetoDirection found = FindParetoDirection(objectives, 1);  // Whatever the gradients, at the front.
  ASSERT_TRUE(found.at_front);
  const double anchor = AnchorDirection(objectives.losses)[0];
  EXPECT_NEAR(4 * found.weights[0] + found.weights[1], anchor, 1e-12);
  EXPECT_NEAR(found.weights[0] + 9 * found.weights[1], 0, 1e-12);
}

TEST(ParetoDirectionTest, LeastCombinationOfTwoGradients) {
  EXPECT_NEAR(LeastCombinationNorm({1, 0, 0, 1}, 2), std::sqrt(0.5), 1e-12);  // Half of each.
  EXPECT_NEAR(LeastCombinationNorm({1, -2, -2, 4}, 2), 0, 1e-12);             // They point apart.
  EXPECT_NEAR(LeastCombinationNorm({1, 2, 2, 16}, 2), 1, 1e-12);              // The shorter one alone.
}

TEST(ParetoDirectionTest, StopsWhereEveryWayRaisesALossAtItsThreshold) {
  Objectives objectives;
  objectives.losses = {0.5, 0.02};
  objectives.products = {1, -1, -1, 1};  // Less of one is more of the other.
  objectives.at_threshold = {false, true};
  const ParetoDirection found = FindParetoDirection(objectives, 0.1);
  ASSERT_TRUE(found.at_front);
  EXPECT_NEAR(found.weights[0] * 1 + found.weights[1] * -1, 0, 1e-12);
}

}  // namespace
}  // namespace splitveil
