// Reproducible draws for making data.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_SEEDED_DRAWS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_SEEDED_DRAWS_H_

#include <cstdint>

#include "common/crypto/mixed_bits.h"

namespace splitveil {

// SplitMix64 with distributions of its own, because those of the standard library differ between implementations: one
// seed gives one file everywhere. Predictable: for generating and shuffling data only, never for privacy or keys. Not
// thread-safe.
class SeededDraws {
 public:
  // Different streams of one seed are independent for practical purposes.
  SeededDraws(uint64_t seed, uint64_t stream) : state_(MixBits(seed ^ MixBits(stream + kMixIncrement))) {}

  uint64_t Word() { return MixBits(state_ += kMixIncrement); }
  // Uniform in [0, 1), a multiple of 2^-53.
  double Uniform() { return static_cast<double>(Word() >> 11) * 0x1p-53; }
  // Uniform in [0, bound), bound > 0. The bias is below bound / 2^64.
  uint64_t Below(uint64_t bound) {
    return static_cast<uint64_t>((static_cast<unsigned __int128>(Word()) * bound) >> 64);
  }

 private:
  uint64_t state_;
};

// An effect of a law that is the same for every seed: uniform in [-1, 1), a function of the arguments alone.
inline double FixedEffect(uint64_t table, uint64_t first, uint64_t second) {
  SeededDraws draws(MixBits(table) + first, second);
  return 2 * draws.Uniform() - 1;
}

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_SEEDED_DRAWS_H_
