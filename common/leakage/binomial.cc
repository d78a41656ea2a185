#include "common/leakage/binomial.h"

#include <cstdint>

namespace splitveil {
namespace {

constexpr double kNegligible = 1e-17;

// P(X = k+1) + P(X = k+2) + ... in units of P(X = k).
double MassAbove(int64_t n, double odds, int64_t k) {
  double sum = 0;
  double term = 1;
  for (int64_t i = k; i < n; ++i) {
    const double ratio = static_cast<double>(n - i) / static_cast<double>(i + 1) * odds;
    term *= ratio;
    sum += term;
    if (ratio < 1 && term < kNegligible * sum) {
      break;
    }
  }
  return sum;
}

}  // namespace

double BinomialCdf(int64_t n, double p, int64_t k) {
  if (k < 0) {
    return 0;
  }
  if (k >= n || p <= 0) {
    return 1;
  }
  if (p >= 1) {
    return 0;
  }
  // Both tails in units of the mass at k, so that no factorial is needed. Far from the mean the tail that holds it may
  // be infinite, the other one never is.
  const double above = MassAbove(n, p / (1 - p), k);
  const double up_to = 1 + MassAbove(n, (1 - p) / p, n - k);
  return 1 / (1 + above / up_to);
}

double LowerBinomialLimit(int64_t successes, int64_t n, double risk) {
  return 1 - UpperBinomialLimit(n - successes, n, risk);
}

double UpperBinomialLimit(int64_t successes, int64_t n, double risk) {
  // The largest p that still gives so few successes with probability `risk`; 1 where all trials succeeded.
  double below = static_cast<double>(successes) / static_cast<double>(n);
  double above = 1;
  for (int step = 0; step < 60 && below < above; ++step) {
    const double middle = (below + above) / 2;
    (BinomialCdf(n, middle, successes) > risk ? below : above) = middle;
  }
  return above;
}

}  // namespace splitveil
