#include "common/privacy/label_privacy.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/crypto/label_noise.h"
#include "common/status/status_macros.h"

namespace splitveil {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUnlikely = 1e-300;  // Above 2^20 releases times 2 components times 2 e^-800.
constexpr double kRoundedUp = 1 + 1e-13;
constexpr double kRoundedDown = 1 - 1e-13;

// Components of a label that differ between two labels.
int ChangedComponents(LabelKind kind) { return kind == LabelKind::kOneHot ? 2 : 1; }

}  // namespace

double LabelSensitivity(LabelKind kind) { return std::sqrt(ChangedComponents(kind)); }

double RoundingSlack(uint32_t sigma_units) {
  if (sigma_units == 0) {
    return kInfinity;
  }
  const double sigma = sigma_units;
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
    releases.push_back(one);
    slack += kind == LabelKind::kActivations ? 0 : ChangedComponents(kind) * RoundingSlack(sigma_units[release]);
  }
  return LabelPrivacy(GaussianPrivacy::Compose(releases), slack);
}

LabelPrivacy LabelPrivacy::Compose(absl::Span<const LabelPrivacy> runs) {
  LabelPrivacy all;
  for (const LabelPrivacy& run : runs) {
    all.gaussian_ = GaussianPrivacy::Compose({all.gaussian_, run.gaussian_});
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
  const double factor = std::exp(slack_);
  return std::min(1.0, factor * gaussian_.TprBound(std::min(1.0, factor * fpr + kUnlikely)) + kUnlikely);
}

double LabelPrivacy::DeltaAt(double epsilon) const {
  if (slack_ == 0 || !(epsilon >= 0)) {
    return gaussian_.DeltaAt(epsilon);
  }
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

}  // namespace splitveil
