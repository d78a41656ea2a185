#include "nonlabel_party/protection/privacy_objective.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "common/model/optimizer_options.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

using v1::ActivationProtection;

constexpr int64_t kHiddenUnits[] = {64, 32};

// Softmax of a row of logits.
std::vector<double> Probabilities(absl::Span<const float> logits) {
  // Relative to the largest, or exp would overflow.
  const double largest = *std::max_element(logits.begin(), logits.end());
  std::vector<double> result;
  double sum = 0;
  for (const float logit : logits) {
    sum += result.emplace_back(std::exp(logit - largest));
  }
  for (double& probability : result) {
    probability /= sum;
  }
  return result;
}

// The least likely value: for two values, the other one.
size_t Flipped(const std::vector<double>& probabilities) {
  return static_cast<size_t>(std::min_element(probabilities.begin(), probabilities.end()) - probabilities.begin());
}

// Mean cross-entropy of `logits` [batch, values] over the known examples, and its derivative.
ActivationLoss SoftmaxLoss(ConstMatrixView logits, const BatchAttribute& attribute, SimulatedAdversary::Target target) {
  ActivationLoss loss{0, Matrix(logits.rows(), logits.cols())};
  const auto is_known = [&](uint8_t number) { return number < attribute.values; };
  // The mean is over known examples alone: those of unknown value must not dilute the loss.
  const auto known = static_cast<double>(std::count_if(attribute.numbers.begin(), attribute.numbers.end(), is_known));
  for (int64_t i = 0; i < logits.rows(); ++i) {
    const uint8_t own = attribute.numbers[static_cast<size_t>(i)];
    if (!is_known(own)) {
      continue;
    }
    const std::vector<double> probabilities = Probabilities(logits.row(i));
    // The flipped target asks the model to mislead the adversary rather than to make it uncertain.
    const size_t wanted = target == SimulatedAdversary::Target::kTrue ? own : Flipped(probabilities);
    // Bounded, since a probability may underflow to 0.
    loss.value -= std::log(std::max(probabilities[wanted], 1e-300)) / known;
    for (size_t v = 0; v < probabilities.size(); ++v) {
      loss.gradient.row(i)[v] = static_cast<float>((probabilities[v] - (v == wanted ? 1 : 0)) / known);
    }
  }
  return loss;
}

// From the derivative of the mean to per-example gradients, which LayerStack::Update averages.
void TimesRows(Matrix& gradient) {
  std::transform(gradient.data(), gradient.data() + gradient.size(), gradient.data(),
                 [&](float value) { return value * static_cast<float>(gradient.rows()); });
}

class DivergenceObjective final : public PrivacyObjective {
 public:
  using Loss = std::function<ActivationLoss(ConstMatrixView, const BatchAttribute&)>;
  explicit DivergenceObjective(Loss loss) : loss_(std::move(loss)) {}

  absl::StatusOr<ActivationLoss> Of(ConstMatrixView activations, ConstMatrixView /*sent*/,
                                    const BatchAttribute& attribute) override {
    return loss_(activations, attribute);
  }

 private:
  const Loss loss_;
};

// Lowers the adversary's success: by raising its cross-entropy with the true value, or by lowering it with a wrong one.
class AdversaryObjective final : public PrivacyObjective {
 public:
  AdversaryObjective(std::unique_ptr<SimulatedAdversary> adversary, SimulatedAdversary::Target target)
      : adversary_(std::move(adversary)), target_(target) {}

  absl::StatusOr<ActivationLoss> Of(ConstMatrixView /*activations*/, ConstMatrixView sent,
                                    const BatchAttribute& attribute) override {
    // First it learns from this batch, so that the model meets an adversary that keeps up with it.
    SPLITVEIL_RETURN_IF_ERROR(adversary_->Learn(sent, attribute));
    SPLITVEIL_ASSIGN_OR_RETURN(ActivationLoss loss, adversary_->CrossEntropy(sent, attribute, target_));
    if (target_ == SimulatedAdversary::Target::kTrue) {
      loss.value = -loss.value;
      std::transform(loss.gradient.data(), loss.gradient.data() + loss.gradient.size(), loss.gradient.data(),
                     std::negate<>());
    }
    return loss;
  }

  // Part of the checkpoint: an adversary that starts again would be weak when the run resumes.
  NamedParameters TrainingState() const override { return adversary_->TrainingState(); }
  absl::Status SetTrainingState(const NamedParameters& state) override { return adversary_->SetTrainingState(state); }

 private:
  const std::unique_ptr<SimulatedAdversary> adversary_;
  const SimulatedAdversary::Target target_;
};

DivergenceObjective::Loss DivergenceOf(const ActivationProtection& protection, int64_t cut_width) {
  const double sigma = protection.noise_sigma();
  const int64_t width = protection.pca_width();
  if (protection.has_infocensor()) {
    return [=](ConstMatrixView activations, const BatchAttribute& attribute) {
      return MarginalPrivacyLoss(activations, attribute, sigma);
    };
  }
  // Full covariances of a wide cut layer cost d^3 a step.
  if (width > 0 && width < cut_width) {
    return [=](ConstMatrixView activations, const BatchAttribute& attribute) {
      return KernelPrivacyLoss(activations, attribute, sigma, width);
    };
  }
  return [=](ConstMatrixView activations, const BatchAttribute& attribute) {
    return GaussianPrivacyLoss(activations, attribute, sigma);
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<SimulatedAdversary>> SimulatedAdversary::Create(int64_t cut_width, int64_t values,
                                                                               uint64_t seed) {
  LayerStack::Options options;
  options.chain.field = "simulated adversary";
  options.chain.input_width = cut_width;
  for (const int64_t units : kHiddenUnits) {
    v1::Layer& hidden = options.chain.layers.emplace_back();
    hidden.set_name(absl::StrCat("hidden", options.chain.layers.size()));
    hidden.set_units(static_cast<int32_t>(units));
    hidden.set_activation(v1::RELU);
  }
  v1::Layer& logits = options.chain.layers.emplace_back();
  logits.set_name("logits");
  logits.set_units(static_cast<int32_t>(values));
  logits.set_activation(v1::LINEAR);
  // Fixed and not the model's own: the strength of this adversary is part of the method.
  options.optimizer = OptimizerOptions();  // Adam at 0.001.
  options.seed = seed;
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<LayerStack> layers, LayerStack::Create(options));
  return std::unique_ptr<SimulatedAdversary>(new SimulatedAdversary(std::move(layers)));
}

absl::StatusOr<ActivationLoss> SimulatedAdversary::CrossEntropy(ConstMatrixView sent, const BatchAttribute& attribute,
                                                                Target target) const {
  SPLITVEIL_ASSIGN_OR_RETURN(const LayerPass pass, layers_->Forward(sent));
  const ActivationLoss at_logits = SoftmaxLoss(pass.output(), attribute, target);
  // Through the adversary as it is: the model must not learn by changing it.
  SPLITVEIL_ASSIGN_OR_RETURN(Matrix gradient, layers_->InputGradient(pass, at_logits.gradient));
  return ActivationLoss{at_logits.value, std::move(gradient)};
}

absl::Status SimulatedAdversary::Learn(ConstMatrixView sent, const BatchAttribute& attribute) {
  SPLITVEIL_ASSIGN_OR_RETURN(LayerPass pass, layers_->Forward(sent));
  ActivationLoss loss = SoftmaxLoss(pass.output(), attribute, Target::kTrue);
  if (loss.value == 0) {  // No known example: Adam's moments would move the weights all the same.
    return absl::OkStatus();
  }
  TimesRows(loss.gradient);
  SPLITVEIL_RETURN_IF_ERROR(layers_->Backward(pass, loss.gradient, {}).status());
  pass = LayerPass();  // It holds the parameters: the update would have to copy them.
  return LayerStack::Update({layers_.get()});
}

NamedParameters SimulatedAdversary::TrainingState() const {
  return CopyTrainingState(Joined({layers_->parameters(""), layers_->optimizer_state("")}), layers_->steps());
}

absl::Status SimulatedAdversary::SetTrainingState(const NamedParameters& state) {
  SPLITVEIL_ASSIGN_OR_RETURN(
      const int64_t steps, AssignTrainingState(state, Joined({layers_->parameters(""), layers_->optimizer_state("")})));
  layers_->set_steps(steps);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PrivacyObjective>> CreateObjective(const ActivationProtection& protection,
                                                                  int64_t cut_width, int64_t values, uint64_t seed) {
  switch (protection.method_case()) {
    case ActivationProtection::kLinear:
    case ActivationProtection::kInfocensor:
    case ActivationProtection::kPareto:
      return std::make_unique<DivergenceObjective>(DivergenceOf(protection, cut_width));
    case ActivationProtection::kAdversarial:
    case ActivationProtection::kAdversarialLabelFlip: {
      SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<SimulatedAdversary> adversary,
                                 SimulatedAdversary::Create(cut_width, values, seed));
      return std::make_unique<AdversaryObjective>(std::move(adversary), protection.has_adversarial()
                                                                            ? SimulatedAdversary::Target::kTrue
                                                                            : SimulatedAdversary::Target::kFlipped);
    }
    case ActivationProtection::kNone:
    case ActivationProtection::kGaussian:
    case ActivationProtection::METHOD_NOT_SET:
      break;
  }
  return nullptr;
}

namespace {

using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// How far outside its bounds rounding may leave a point that lies on them.
constexpr double kFeasible = 1e-9;
// Smallest eigenvalue of C, relative to the largest, for which C beta = l is solved: below, C is singular to rounding.
constexpr double kLeastEigenvalue = 1e-10;

Eigen::MatrixXd ToMatrix(const std::vector<double>& products, size_t m) {
  return Eigen::Map<const RowMajor>(products.data(), static_cast<Eigen::Index>(m), static_cast<Eigen::Index>(m));
}

Eigen::VectorXd ToVector(const std::vector<double>& values) {
  return Eigen::Map<const Eigen::VectorXd>(values.data(), static_cast<Eigen::Index>(values.size()));
}

// min ||C beta - target||^2 over [-1, 1]^m and (C beta)_i >= 0 for `floors`. The optimum is a stationary point of one
// of the faces: some beta at a bound, some floors met exactly.
class BoxedLeastSquares {
 public:
  BoxedLeastSquares(const Eigen::MatrixXd& products, const Eigen::VectorXd& target, std::vector<Eigen::Index> floors)
      : products_(products), target_(target), floors_(std::move(floors)) {
    best_ = Eigen::VectorXd::Zero(target.size());  // Always feasible.
    best_value_ = target.squaredNorm();
  }

  Eigen::VectorXd Solve() {
    // Exhaustive, since there are few attributes: exact for every batch, and it cannot fail to converge.
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
    const Eigen::MatrixXd kernel = rows.fullPivLu().kernel();  // One column of 0 if there is none.
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
  // Its norm is 0 where some mean of the objectives has no gradient left: Pareto stationarity (Désidéri 2012).
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
  // Singular products count as the front, too: equation 11 would divide by what is only rounding.
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
