#include "common/crypto/discrete_gaussian.h"

#include "common/crypto/invariant.h"

// From here on GCC refuses to compile a floating-point operation. Clang knows no such pragma.
// Floating-point noise has gaps in its low bits that reveal what it was added to (Mironov, CCS 2012).
#if defined(__GNUC__) && !defined(__clang__) && (defined(__x86_64__) || defined(__aarch64__))
#pragma GCC target("general-regs-only")
#endif

namespace splitveil {
namespace {

constexpr uint32_t kEndOfScales = uint32_t{1} << 31;
// P(V >= 2^20) = e^(-2^20): keeps every product below 2^127.
constexpr uint64_t kMaxGeometric = uint64_t{1} << 20;

// True with probability e^-(numerator/denominator), numerator <= denominator: draws of Bernoulli(gamma / k), k = 1, 2,
// ..., of which the first failure has an odd k with probability 1 - gamma + gamma^2/2! - ...
bool SampleBernoulliExpOfFraction(uint64_t numerator, uint64_t denominator, RandomWords words) {
  // All randomness comes from uniform integers below a bound, so the probabilities are exact rationals.
  uint64_t k = 1;
  // Bernoulli(gamma / k) as Bernoulli(gamma) and Bernoulli(1 / k), so that no product of denominators is needed.
  while (SampleUniformBelow(denominator, words) < numerator && SampleUniformBelow(k, words) == 0) {
    ++k;
  }
  return k % 2 == 1;
}

// The number of successes of Bernoulli(1/e) before the first failure, at most `limit`.
uint64_t CountSuccesses(uint64_t limit, RandomWords words) {
  uint64_t successes = 0;
  while (successes < limit && SampleBernoulliExpOfFraction(1, 1, words)) {
    ++successes;
  }
  return successes;
}

}  // namespace

uint64_t SampleUniformBelow(uint64_t bound, RandomWords words) {
  CheckInvariant(bound >= 1, "SampleUniformBelow: bound >= 1");
  // No word is spent on a certain answer.
  if (bound == 1) {
    return 0;
  }
  unsigned __int128 product = static_cast<unsigned __int128>(words()) * bound;
  // Lemire's rejection: without it small values would be likelier, and the noise not exact.
  if (static_cast<uint64_t>(product) < bound) {
    const uint64_t threshold = (0 - bound) % bound;
    while (static_cast<uint64_t>(product) < threshold) {
      product = static_cast<unsigned __int128>(words()) * bound;
    }
  }
  return static_cast<uint64_t>(product >> 64);
}

bool SampleBernoulliExp(unsigned __int128 numerator, uint64_t denominator, RandomWords words) {
  CheckInvariant(denominator >= 1, "SampleBernoulliExp: denominator >= 1");
  const auto whole = static_cast<uint64_t>(numerator / denominator);
  return CountSuccesses(whole, words) == whole &&
         SampleBernoulliExpOfFraction(static_cast<uint64_t>(numerator % denominator), denominator, words);
}

int64_t SampleDiscreteLaplace(uint32_t scale, RandomWords words) {
  CheckInvariant(scale >= 1 && scale < kEndOfScales, "SampleDiscreteLaplace: 1 <= scale < 2^31");
  while (true) {
    const uint64_t remainder = SampleUniformBelow(scale, words);
    if (!SampleBernoulliExpOfFraction(remainder, scale, words)) {
      continue;
    }
    const uint64_t quotient = CountSuccesses(kMaxGeometric, words);
    CheckInvariant(quotient < kMaxGeometric, "SampleDiscreteLaplace: a geometric variable below 2^20");
    const auto magnitude = static_cast<int64_t>(remainder + scale * quotient);
    const bool negative = SampleUniformBelow(2, words) == 1;
    if (negative && magnitude == 0) {
      continue;  // Or zero would come out twice as often.
    }
    return negative ? -magnitude : magnitude;
  }
}

int64_t SampleDiscreteGaussian(uint32_t sigma, RandomWords words) {
  CheckInvariant(sigma >= 1 && sigma < kEndOfScales, "SampleDiscreteGaussian: 1 <= sigma < 2^31");
  const uint64_t denominator = 2 * uint64_t{sigma} * sigma;  // < 2^63
  while (true) {
    const int64_t sample = SampleDiscreteLaplace(sigma, words);
    const int64_t excess = (sample < 0 ? -sample : sample) - int64_t{sigma};
    // e^(-|y|/sigma) e^(-(|y| - sigma)^2 / (2 sigma^2)) = e^(-y^2 / (2 sigma^2)) e^(-1/2).
    const auto numerator = static_cast<unsigned __int128>(static_cast<__int128>(excess) * excess);  // < 2^102
    // Canonne, Kamath and Steinke (NeurIPS 2020), algorithm 3: accepted with probability e^-(numerator / denominator),
    // in integers.
    if (SampleBernoulliExp(numerator, denominator, words)) {
      return sample;
    }
  }
}

}  // namespace splitveil
