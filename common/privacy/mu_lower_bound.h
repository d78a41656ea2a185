// What an attack on a run proves: the least mu that is consistent with what was seen.
#ifndef SPLITVEIL_COMMON_PRIVACY_MU_LOWER_BOUND_H_
#define SPLITVEIL_COMMON_PRIVACY_MU_LOWER_BOUND_H_

#include <cstdint>
#include <map>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace splitveil {

struct MuLowerBoundOptions {
  // The lower bounds hold with this probability. In [0.5, 1).
  double confidence = 0.95;
  // Of epsilon_lower. In [0, 1).
  double delta = 1e-5;
  // Splits the examples. Choose it before the scores are known: trying several and keeping the best proves nothing.
  uint64_t seed = 0;
};

// A score that is only known to lie from `low` to `high`.
struct ScoreRange {
  float low = 0, high = 0;
};

struct MuLowerBound {
  // A mechanism of a smaller mu would have given counts like these with probability 1 - confidence at most. 0: nothing
  // is refuted.
  double mu_lower = 0;
  // The same for epsilon at options.delta, from the same counts and with no assumption of Gaussian noise.
  double epsilon_lower = 0;
  // The test that was held: positive if the score is at least, or else at most, the threshold.
  float threshold = 0;
  bool positive_above = true;
  // Its rates on the test half, at their one-sided limits.
  double true_positive_rate_low = 0;
  double false_positive_rate_high = 1;
};

// A mu-GDP mechanism (gaussian_privacy.h) lets no test reach Phi^-1(TPR) - Phi^-1(FPR) > mu. Each class is split at
// random into halves. One half chooses the threshold and direction whose rates, at the limits the other half could
// confirm, imply the largest mu. The other half, which the choice has not seen, gives the rates' limits (Clopper and
// Pearson, Biometrika 1934), each with half of the error probability:
//   mu_lower = max(0, Phi^-1(TPR_low) - Phi^-1(FPR_high)), as audits of differential privacy do (Nasr et al., "Tight
// Auditing of Differentially Private Machine Learning", USENIX Security 2023, section 4).
//
// Valid if, of a run that keeps its promise,
//   - the noises of different examples are independent, so that their scores are, given labels and all else. One score
//     an example: pool its releases first. The rates need not be the same for all examples of a class; sums of unequal
//     trials scatter less than binomials (Hoeffding, Ann. Math. Stat. 1956), and the limits are conservative then.
//   - what the scores use besides the releases says nothing about the labels: labels drawn at random for the audit, or
//     scores that take the prediction out of what was released. An attack that ranks by features that predict the label
//     "refutes" any mu, and has learned nothing from the releases.
// Of ranges, the rates hold wherever in them the scores lie: a positive counts as flagged if all of its range is, a
// negative if any of it is.
// Finds less than there is: the attack may be weak, half of the examples only choose, and one threshold sees one point
// of the curve. With 10,000 examples, a quarter of them positive, the best attack on mu gives mu_lower of about
// mu - 0.2, and a claim of mu >= 0.3 with half of the noise is refuted nearly always.
//
// `labels`: 0 or 1, as many as scores, at most 2^32 - 1; at least two examples of each class. Ties are never split.
// Errors: InvalidArgument for different lengths, a NaN score (infinite ones may be), another label, options out of
// range; FailedPrecondition for fewer than two examples of a class. Thread-safe; O(n log n).
absl::StatusOr<MuLowerBound> LowerBoundMu(absl::Span<const ScoreRange> scores, absl::Span<const uint8_t> labels,
                                          const MuLowerBoundOptions& options = {});
absl::StatusOr<MuLowerBound> LowerBoundMu(absl::Span<const float> scores, absl::Span<const uint8_t> labels,
                                          const MuLowerBoundOptions& options = {});

// The same if the noise itself is known, in units of what `mu` claims of it: of `draws` independent ones of N(0, s^2)
// so many are known to lie `within` [-kNoiseWithin, kNoiseWithin]. Clopper and Pearson's lower limit of that share at
// `risk` is 2 Phi(kNoiseWithin / s) - 1 for the largest s that is left, with probability 1 - risk. mu over that s; 0 of
// no draws, finite. Unlike LowerBoundMu it is about Gaussian noise only. A count, not a sum of squares: what rounding
// hides is not counted, which keeps the bound, and no tail that was cut off makes it look like less noise. Thread-safe.
inline constexpr double kNoiseWithin = 1;
double MuLowerOfNoise(double mu, int64_t within, int64_t draws, double risk);

// How many examples of a class have scores that are open by how much, in standard deviations (ScoreRange; 0: exact).
using OpenScores = std::map<double, int64_t>;

// About the mu_lower of these examples (halved as above), if the best attack on a mechanism of `mu` >= 0 scores them,
// each in the middle of its range: what LowerBoundMu would find of a fault of that size, were there one. 0 for fewer
// than two examples of a class. Thread-safe; O(different widths).
double ExpectedMuLower(double mu, const OpenScores& positives, const OpenScores& negatives, double confidence);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_PRIVACY_MU_LOWER_BOUND_H_
