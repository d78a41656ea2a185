// The grid on which numbers with Gaussian noise are sent.
#ifndef SPLITVEIL_COMMON_CRYPTO_NOISE_GRID_H_
#define SPLITVEIL_COMMON_CRYPTO_NOISE_GRID_H_

#include <cmath>
#include <limits>

namespace splitveil {

// A number plus noise of SecureGaussian, as a float, reveals the number: from each clean value only some floats can be
// reached, so someone who guesses the value sees whether the guess is right (Mironov, "On Significance of the Least
// Significant Bits for Differential Privacy", CCS 2012). Rounded to a grid far wider than the errors of the noise,
// every value reaches every multiple, each with nearly the probability that real numbers give it. Real noise that is
// rounded afterwards reveals no more than real noise, so the bounds of the protections hold.
//
// How nearly: a draw is within 3e-7 r of the exact one, r^2 the sum of its square and that of the draw beside it. With
// a spacing of s standard deviations the likelihood ratio of two values at one multiple is therefore off by a factor of
// at most 1 + 1.2e-6 r / s. At s = 1/32 that adds less than 2e-9 to the divergence of a number, so the AUC of an
// adversary that sees n of them is at most 3.2e-5 sqrt(n) larger than in real arithmetic (Pinsker): 0.0003 for 64.
//
// A grid does not depend on what is protected, only on the law of its noise. Thread-safe.
class NoiseGrid {
 public:
  // Standard deviations between two multiples at most, for noise that each number has by itself. The rounding error is
  // then independent of the number (it is dithered) and adds under 0.04% to the variance of the noise.
  static constexpr double kSpacing = 1.0 / 16;
  // For noise that all numbers of a row share, and of which one of them may have little or none. The figure above does
  // not hold there: the ratio is off by up to 1% r.
  static constexpr double kFineSpacing = 1.0 / 4096;

  // Changes nothing: for numbers that get no noise.
  NoiseGrid() = default;
  // The multiples of the largest power of two that is at most `spacing`, so that each is exact as a float. Changes
  // nothing if `spacing` is not above 0, or not finite.
  explicit NoiseGrid(double spacing)
      : spacing_(spacing > 0 && std::isfinite(spacing) ? std::ldexp(1.0, std::ilogb(spacing)) : 0),
        per_unit_(spacing_ > 0 ? 1 / spacing_ : std::numeric_limits<double>::infinity()) {}

  double spacing() const { return spacing_; }  // 0: changes nothing.

  // The multiple nearest to `value`. A value of 2^51 spacings or more, or of no grid, stays: no double has digits
  // below such a spacing.
  double Nearest(double value) const {
    constexpr double kRoundsToInteger = 0x1.8p52, kMost = 0x1p51;
    const double multiple = value * per_unit_;
    const double nearest = (multiple + kRoundsToInteger) - kRoundsToInteger;
    // False for NaN, too. Without a branch, so that loops over rows stay vectors.
    return std::abs(multiple) < kMost ? nearest * spacing_ : value;
  }

 private:
  double spacing_ = 0, per_unit_ = std::numeric_limits<double>::infinity();
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CRYPTO_NOISE_GRID_H_
