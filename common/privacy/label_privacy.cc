#include "common/privacy/label_privacy.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/crypto/label_noise.h"
#include "common/privacy/gaussian_privacy.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUnlikely = 1e-300;  // More than 2^20 releases times 2 components times 2 e^-800 (about 1e-347).
constexpr double kRoundedUp = 1 + 1e-13;
constexpr double kRoundedDown = 1 - 1e-13;

// Components of a label that differ between two labels.
int ChangedComponents(LabelKind kind) { return kind == LabelKind::kOneHot ? 2 : 1; }

}  // namespace

// A one-hot label changes in two components at once, so its Euclidean sensitivity is sqrt 2.
double LabelSensitivity(LabelKind kind) { return std::sqrt(ChangedComponents(kind)); }

double RoundingSlack(uint32_t sigma_units) {
  if (sigma_units == 0) {
    return kInfinity;
  }
  const double sigma = sigma_units;
  // T of the header: 40 standard deviations, and the distance by which a label moves the noise.
  // Beyond 40 standard deviations both laws together have a probability that kUnlikely covers.
  const double reach = 40 + kLabelGridUnit / sigma;
  return (reach * reach / 24 + 1.0 / 23) / (sigma * sigma);
}

absl::StatusOr<LabelPrivacy> LabelPrivacy::OfReleases(LabelKind kind, absl::Span<const uint32_t> sigma_units) {
  std::vector<GaussianPrivacy> releases;
  releases.reserve(sigma_units.size());
  double slack = 0;
  for (size_t release = 0; release < sigma_units.size(); ++release) {
    if (sigma_units[release] == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("label privacy: release ", release, ": expected a sigma above 0, found 0"));
    }
    SPLITVEIL_ASSIGN_OR_RETURN(
        const GaussianPrivacy one,
        GaussianPrivacy::FromSigma(sigma_units[release], kLabelGridUnit * LabelSensitivity(kind)));
    // In grid units on both sides: the sampler draws integers, and a label moves by kLabelGridUnit of them.
    releases.push_back(one);
    // Activations get Gaussian noise, which is not discrete: no slack.
    slack += kind == LabelKind::kActivations ? 0 : ChangedComponents(kind) * RoundingSlack(sigma_units[release]);
  }
  return LabelPrivacy(GaussianPrivacy::Compose(releases), slack);
}

LabelPrivacy LabelPrivacy::Compose(absl::Span<const LabelPrivacy> runs) {
  LabelPrivacy all;
  for (const LabelPrivacy& run : runs) {
    all.gaussian_ = GaussianPrivacy::Compose({all.gaussian_, run.gaussian_});
    // Distances of laws in logarithms add under composition, as pure epsilons do.
    all.slack_ += run.slack_;
  }
  return all;
}

// The exact law is `slack` away from a Gaussian's, which moves any AUC by at most e^slack - 1.
double LabelPrivacy::AucBound() const {
  return slack_ == 0 ? gaussian_.AucBound() : std::min(1.0, gaussian_.AucBound() + std::expm1(slack_) + kUnlikely);
}

double LabelPrivacy::TprBound(double fpr) const {
  if (slack_ == 0 || !(fpr >= 0 && fpr <= 1)) {
    return gaussian_.TprBound(fpr);
  }
  // The attacker's rates on the discrete law exceed those on the Gaussian by this factor at most, on either side.
  const double factor = std::exp(slack_);
  return std::min(1.0, factor * gaussian_.TprBound(std::min(1.0, factor * fpr + kUnlikely)) + kUnlikely);
}

double LabelPrivacy::DeltaAt(double epsilon) const {
  if (slack_ == 0 || !(epsilon >= 0)) {
    return gaussian_.DeltaAt(epsilon);
  }
  // e^slack delta(epsilon - slack); below epsilon 0 the bound is delta(0) - epsilon (see the header).
  const double left = epsilon - slack_;
  const double delta = left >= 0 ? gaussian_.DeltaAt(left) : gaussian_.DeltaAt(0) - left;
  return std::min(1.0, std::exp(slack_) * delta + kUnlikely);
}

double LabelPrivacy::EpsilonAt(double delta) const {
  if (slack_ == 0 || !(delta >= 0 && delta <= 1)) {
    return gaussian_.EpsilonAt(delta);
  }
  if (DeltaAt(0) <= delta) {
    return 0;
  }
  // Solved for the Gaussian part: what the slack takes of delta is not available to the noise.
  const double left = (delta - kUnlikely) / std::exp(slack_) * kRoundedDown;
  return left > 0 ? (slack_ + gaussian_.EpsilonAt(left)) * kRoundedUp : kInfinity;
}

absl::StatusOr<GaussianPrivacy> LabelPrivacy::MuForEpsilonDelta(double epsilon, double delta, double slack) {
  if (slack == 0 || !(epsilon >= 0 && delta > 0 && delta < 1)) {
    return GaussianPrivacy::FromEpsilonDelta(epsilon, delta);
  }
  const double left = (delta - kUnlikely) / std::exp(slack) * kRoundedDown - std::max(0.0, slack - epsilon);
  if (!(left > 0)) {
    return absl::InvalidArgumentError(absl::StrCat("label privacy: delta: expected above ", delta - left,
                                                   ", by which discrete noise differs from Gaussian at epsilon ",
                                                   epsilon, ", found ", delta));
  }
  return GaussianPrivacy::FromEpsilonDelta(std::max(0.0, epsilon * kRoundedDown - slack), left);
}

namespace {

constexpr size_t kMostValues = size_t{1} << 16;
constexpr double kTie = 1e-9;  // Two sums of the same epsilons may round differently: closer than this is a tie.

using Law = std::vector<std::pair<double, double>>;  // Values and their probabilities.

// 2 epsilon (B - count), B ~ Bin(2 count, 1 - rho): D of the header for `count` flips of the same epsilon. By
// logarithms, since the binomials overflow.
Law LawOfFlips(double epsilon, size_t count) {
  const auto n = static_cast<double>(2 * count);
  const double log_rho = -std::log1p(std::exp(epsilon)), log_kept = log_rho + epsilon;
  Law law;
  for (size_t b = 0; b <= 2 * count; ++b) {
    const auto kept = static_cast<double>(b);
    const double log_probability =
        std::lgamma(n + 1) - std::lgamma(kept + 1) - std::lgamma(n - kept + 1) + kept * log_kept + (n - kept) * log_rho;
    law.emplace_back(2 * epsilon * (kept - n / 2), std::exp(log_probability));
  }
  return law;
}

Law Sum(const Law& a, const Law& b) {
  Law sum;
  sum.reserve(a.size() * b.size());
  for (const auto& [x, p] : a) {
    for (const auto& [y, q] : b) {
      sum.emplace_back(x + y, p * q);
    }
  }
  return sum;
}

}  // namespace

double ComposedAucBound(double mu_squared, std::vector<double> epsilons) {
  const auto is_none = [](double value) { return !(value >= 0); };
  // A release with an unknown strength makes the sum unknown: no bound.
  if (is_none(mu_squared) || std::any_of(epsilons.begin(), epsilons.end(), is_none)) {
    return 1;
  }
  // The largest first: if the values become too many, the weakest flips are the ones that are bounded more loosely.
  std::sort(epsilons.begin(), epsilons.end(), std::greater<>());
  Law law = {{0, 1}};
  for (size_t i = 0; i < epsilons.size();) {
    const size_t count =
        static_cast<size_t>(std::count(epsilons.begin() + static_cast<std::ptrdiff_t>(i), epsilons.end(), epsilons[i]));
    // One label in the clear is all an adversary needs, whatever noise there is on the rest.
    if (std::isinf(epsilons[i])) {  // A label that is never flipped.
      return 1;
    }
    if (law.size() * (2 * count + 1) <= kMostValues) {
      // Exact as long as the law stays small: a Gaussian in its place would be looser, by much for few flips.
      law = Sum(law, LawOfFlips(epsilons[i], count));
    } else {
      // The Gaussian mechanism whose trade-off curve passes through the corner of the flip: it discloses at least as
      // much (see the header).
      const double mu = 2 * NormalQuantile(1 / (1 + std::exp(-epsilons[i])));
      mu_squared += static_cast<double>(count) * mu * mu;
    }
    i += count;
  }
  const double mu = std::sqrt(mu_squared);
  double auc = 0;
  for (const auto& [d, probability] : law) {
    // P(a positive's log ratio exceeds a negative's) given the flips' share of it; without Gaussian noise ties count
    // half.
    const double wins = mu > 0                ? NormalCdf((mu_squared + d) / (std::sqrt(2.0) * mu))
                        : std::abs(d) <= kTie ? 0.5
                                              : (d > 0 ? 1.0 : 0.0);
    auc += probability * wins;
  }
  // Rounding may have moved the sum of products out of [0.5, 1].
  return std::isfinite(mu) ? std::clamp(auc, 0.5, 1.0) : 1;
}

namespace {

constexpr uint32_t kMaxReleases = uint32_t{1} << 20;

template <typename... Parts>
absl::Status Refused(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("label noise plan: ", parts...));
}

// The limit keeps the slack's formula valid, whose probability of failure is stated for at most 2^20 releases.
absl::Status CheckOptions(const LabelNoisePlanOptions& options) {
  if (options.releases < 1 || options.releases > kMaxReleases) {
    return Refused("releases: expected 1 to ", kMaxReleases, ", found ", options.releases);
  }
  const double growth = options.noise_growth_per_release;
  if (options.schedule == NoiseSchedule::kGrowing && !(growth > 0 && std::isfinite(growth))) {
    return Refused("noise_growth_per_release: expected a positive, finite number, found ", growth);
  }
  if (options.schedule == NoiseSchedule::kFirstThenFrozen &&
      (options.noisy_releases < 1 || options.noisy_releases > options.releases)) {
    return Refused("noisy_releases: expected 1 to the releases, ", options.releases, ", found ",
                   options.noisy_releases);
  }
  return absl::OkStatus();
}

// sigma_i / sigma_0 of the releases that draw noise.
std::vector<double> RelativeSigmas(const LabelNoisePlanOptions& options) {
  // Only ratios here: the strength of the whole run then decides the size of the first.
  const bool frozen = options.schedule == NoiseSchedule::kFirstThenFrozen;
  // Frozen releases repeat the last noised label: they draw nothing and cost nothing.
  std::vector<double> relative(frozen ? options.noisy_releases : options.releases, 1.0);
  if (options.schedule == NoiseSchedule::kGrowing) {
    for (size_t i = 1; i < relative.size(); ++i) {
      // Half the exponent: the growth is of sigma^2.
      relative[i] = std::pow(options.noise_growth_per_release, static_cast<double>(i) / 2);
    }
  }
  return relative;
}

// The largest mu that a strength of the whole run allows to a mechanism `slack` away from mu-GDP.
class AllowedMu {
 public:
  explicit AllowedMu(double slack) : slack_(slack) {}

  absl::StatusOr<double> operator()(const RunMu& strength) const {
    if (!(strength.mu > 0 && std::isfinite(strength.mu))) {
      return Refused("mu: expected a positive, finite number, found ", strength.mu);
    }
    return strength.mu;
  }
  absl::StatusOr<double> operator()(const RunEpsilonDelta& strength) const {
    SPLITVEIL_ASSIGN_OR_RETURN(const GaussianPrivacy allowed,
                               LabelPrivacy::MuForEpsilonDelta(strength.epsilon, strength.delta, slack_));
    return allowed.mu();
  }
  absl::StatusOr<double> operator()(const RunAucBound& strength) const {
    // The slack is subtracted first, so that the bound holds for the discrete law that is really drawn.
    const double auc = strength.auc_bound - std::expm1(slack_);
    if (!(auc > 0.5 && strength.auc_bound < 1)) {
      return Refused("auc_bound: expected above ", 0.5 + std::expm1(slack_), " and below 1, found ",
                     strength.auc_bound);
    }
    SPLITVEIL_ASSIGN_OR_RETURN(const GaussianPrivacy allowed, GaussianPrivacy::FromAucBound(auc));
    return allowed.mu();
  }
  absl::StatusOr<double> operator()(const FirstReleaseSigma& /*strength*/) const {
    return absl::InternalError("label noise plan: sigma is no strength of the whole run");
  }

 private:
  const double slack_;
};

absl::StatusOr<std::vector<uint32_t>> RoundUp(double first_sigma, const std::vector<double>& relative) {
  std::vector<uint32_t> sigma_units;
  sigma_units.reserve(relative.size());
  for (size_t release = 0; release < relative.size(); ++release) {
    // Rounded up to the grid of the exact sampler: more noise than asked for, never less.
    const absl::StatusOr<uint32_t> units = SigmaUnits(first_sigma * relative[release]);
    if (!units.ok()) {
      return Refused("release ", release, ": ", units.status().message());
    }
    sigma_units.push_back(*units);
  }
  return sigma_units;
}

// Whether `run` keeps a strength of the whole run, as computed.
class Keeps {
 public:
  explicit Keeps(const LabelPrivacy& run) : run_(run) {}

  bool operator()(const RunMu& strength) const { return run_.mu() <= strength.mu; }
  bool operator()(const RunEpsilonDelta& strength) const { return run_.DeltaAt(strength.epsilon) <= strength.delta; }
  bool operator()(const RunAucBound& strength) const { return run_.AucBound() <= strength.auc_bound; }
  bool operator()(const FirstReleaseSigma& /*strength*/) const { return false; }

 private:
  const LabelPrivacy& run_;
};

// The plan with one grid unit less of every sigma, if the strength is kept even so: the inverse of a bound's formula
// may miss a sigma on the grid by a rounding error. So a strength means the same noise however it is stated.
absl::StatusOr<LabelNoisePlan> WithoutRoundingError(const LabelNoisePlanOptions& options, LabelNoisePlan plan) {
  LabelNoisePlan less = plan;
  for (uint32_t& units : less.sigma_units) {
    if (units == kMinSigmaUnits) {
      return plan;
    }
    // A unit less for every release keeps the schedule's ratios nearly as they were.
    --units;
  }
  SPLITVEIL_ASSIGN_OR_RETURN(less.run, LabelPrivacy::OfReleases(options.label_kind, less.sigma_units));
  return std::visit(Keeps(less.run), options.strength) ? less : plan;
}

// The plan whose mu before rounding is the one that `allowed` gives.
absl::StatusOr<LabelNoisePlan> PlanForRun(const LabelNoisePlanOptions& options, const std::vector<double>& relative,
                                          const AllowedMu& allowed) {
  SPLITVEIL_ASSIGN_OR_RETURN(const double mu, std::visit(allowed, options.strength));
  double precision = 0;
  for (const double sigma : relative) {
    // Independent Gaussian releases of one label compose as their precisions add (Dong, Roth and Su, JRSS B 2022).
    // So the first sigma follows from mu in closed form, and the schedule keeps its shape.
    precision += 1 / (sigma * sigma);
  }
  LabelNoisePlan plan;
  SPLITVEIL_ASSIGN_OR_RETURN(plan.sigma_units,
                             RoundUp(LabelSensitivity(options.label_kind) * std::sqrt(precision) / mu, relative));
  SPLITVEIL_ASSIGN_OR_RETURN(plan.run, LabelPrivacy::OfReleases(options.label_kind, plan.sigma_units));
  return plan;
}

}  // namespace

absl::StatusOr<LabelNoisePlan> PlanLabelNoise(const LabelNoisePlanOptions& options) {
  SPLITVEIL_RETURN_IF_ERROR(CheckOptions(options));
  const std::vector<double> relative = RelativeSigmas(options);
  // Here sigma is the promise and the strength of the run its result: nothing has to be solved.
  if (const auto* strength = std::get_if<FirstReleaseSigma>(&options.strength)) {
    LabelNoisePlan plan;
    SPLITVEIL_ASSIGN_OR_RETURN(plan.sigma_units, RoundUp(strength->sigma, relative));
    SPLITVEIL_ASSIGN_OR_RETURN(plan.run, LabelPrivacy::OfReleases(options.label_kind, plan.sigma_units));
    return plan;
  }
  // Twice: the first plan ignores the slack and shows how large it is at most, since the second one has more noise and
  // so less slack.
  SPLITVEIL_ASSIGN_OR_RETURN(const LabelNoisePlan ideal, PlanForRun(options, relative, AllowedMu(0)));
  SPLITVEIL_ASSIGN_OR_RETURN(LabelNoisePlan plan, PlanForRun(options, relative, AllowedMu(ideal.run.slack())));
  return WithoutRoundingError(options, std::move(plan));
}

absl::StatusOr<LabelPrivacy> PrivacyOfSigmas(LabelKind label_kind, absl::Span<const double> sigmas) {
  SPLITVEIL_ASSIGN_OR_RETURN(const std::vector<uint32_t> sigma_units,
                             RoundUp(1, std::vector<double>(sigmas.begin(), sigmas.end())));
  return LabelPrivacy::OfReleases(label_kind, sigma_units);
}

}  // namespace splitveil
