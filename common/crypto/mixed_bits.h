// Bits that are spread by a fixed rule: for shuffles and tables of hashes.
#ifndef SPLITVEIL_COMMON_CRYPTO_MIXED_BITS_H_
#define SPLITVEIL_COMMON_CRYPTO_MIXED_BITS_H_

#include <cstdint>

namespace splitveil {

// SplitMix64's output function: a bijection of 64-bit words that spreads every bit (Steele, Lea, Flood, "Fast
// splittable pseudorandom number generators", OOPSLA 2014, section 4). Not secret: never for privacy or keys.
inline uint64_t MixBits(uint64_t word) {
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
  word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
  return word ^ (word >> 31);
}

// What SplitMix64 adds from word to word: MixBits(n + kMixIncrement) of small numbers has no zeros in front.
inline constexpr uint64_t kMixIncrement = 0x9e3779b97f4a7c15;

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CRYPTO_MIXED_BITS_H_
