#include "common/privacy/label_composition.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <utility>

#include "common/privacy/gaussian_privacy.h"

namespace splitveil {
namespace {

constexpr size_t kMostValues = size_t{1} << 16;
constexpr double kTie = 1e-9;  // Of two sums of epsilons, which round differently.

using Law = std::vector<std::pair<double, double>>;  // Values and their probabilities.

// 2 epsilon (B - count), B ~ Bin(2 count, 1 - rho): of `count` flips of the same epsilon.
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
  if (is_none(mu_squared) || std::any_of(epsilons.begin(), epsilons.end(), is_none)) {
    return 1;
  }
  std::sort(epsilons.begin(), epsilons.end(), std::greater<>());
  Law law = {{0, 1}};
  for (size_t i = 0; i < epsilons.size();) {
    const size_t count =
        static_cast<size_t>(std::count(epsilons.begin() + static_cast<std::ptrdiff_t>(i), epsilons.end(), epsilons[i]));
    if (std::isinf(epsilons[i])) {  // Not flipped at all.
      return 1;
    }
    if (law.size() * (2 * count + 1) <= kMostValues) {
      law = Sum(law, LawOfFlips(epsilons[i], count));
    } else {
      const double mu = 2 * NormalQuantile(1 / (1 + std::exp(-epsilons[i])));
      mu_squared += static_cast<double>(count) * mu * mu;
    }
    i += count;
  }
  const double mu = std::sqrt(mu_squared);
  double auc = 0;
  for (const auto& [d, probability] : law) {
    const double wins = mu > 0                ? NormalCdf((mu_squared + d) / (std::sqrt(2.0) * mu))
                        : std::abs(d) <= kTie ? 0.5
                                              : (d > 0 ? 1.0 : 0.0);
    auc += probability * wins;
  }
  return std::isfinite(mu) ? std::clamp(auc, 0.5, 1.0) : 1;
}

}  // namespace splitveil
