#include "common/privacy/label_noise_plan.h"

#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/crypto/label_noise.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr uint32_t kMaxReleases = uint32_t{1} << 20;

template <typename... Parts>
absl::Status Refused(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("label noise plan: ", parts...));
}

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
  const bool frozen = options.schedule == NoiseSchedule::kFirstThenFrozen;
  // Frozen releases repeat the last noised label: they draw nothing and cost nothing.
  std::vector<double> relative(frozen ? options.noisy_releases : options.releases, 1.0);
  if (options.schedule == NoiseSchedule::kGrowing) {
    for (size_t i = 1; i < relative.size(); ++i) {
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
    // What the slack may add is taken off before, so that the bound holds for the law that is drawn.
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

// The plan with one grid unit less of every sigma, where that keeps the strength: a sigma on the grid that the inverse
// of the bound's formula missed by a rounding error. So a strength is the same noise in whichever way it is said.
absl::StatusOr<LabelNoisePlan> WithoutRoundingError(const LabelNoisePlanOptions& options, LabelNoisePlan plan) {
  LabelNoisePlan less = plan;
  for (uint32_t& units : less.sigma_units) {
    if (units == kMinSigmaUnits) {
      return plan;
    }
    --units;
  }
  SPLITVEIL_ASSIGN_OR_RETURN(less.run, LabelPrivacy::OfReleases(options.label_kind, less.sigma_units));
  return std::visit(Keeps(less.run), options.strength) ? less : plan;
}

// The plan whose mu before rounding is what `allowed` says.
absl::StatusOr<LabelNoisePlan> PlanForRun(const LabelNoisePlanOptions& options, const std::vector<double>& relative,
                                          const AllowedMu& allowed) {
  SPLITVEIL_ASSIGN_OR_RETURN(const double mu, std::visit(allowed, options.strength));
  double precision = 0;
  for (const double sigma : relative) {
    // Independent Gaussian releases of one label compose as their precisions add (Dong, Roth and Su, JRSS B 2022).
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
  if (const auto* strength = std::get_if<FirstReleaseSigma>(&options.strength)) {
    LabelNoisePlan plan;
    SPLITVEIL_ASSIGN_OR_RETURN(plan.sigma_units, RoundUp(strength->sigma, relative));
    SPLITVEIL_ASSIGN_OR_RETURN(plan.run, LabelPrivacy::OfReleases(options.label_kind, plan.sigma_units));
    return plan;
  }
  // The slack of the plan that ignores it; what takes it into account has more noise, and so less of it.
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
