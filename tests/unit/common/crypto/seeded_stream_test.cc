#include "common/crypto/seeded_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>
#include <type_traits>
#include <vector>

#include "common/crypto/secure_gaussian.h"
#include "common/crypto/secure_random.h"

namespace splitveil {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Lt;

// 0, 1, ..., 31.
Digest CountingSeed() {
  Digest seed;
  std::iota(seed.begin(), seed.end(), uint8_t{0});
  return seed;
}

std::vector<uint32_t> Draws(SeededStream stream, uint32_t bound, int count) {
  std::vector<uint32_t> draws(count);
  for (uint32_t& draw : draws) {
    draw = stream.UniformBelow(bound);
  }
  return draws;
}

// Expected values: computed in Python from the definition in the header with the `cryptography` package.
TEST(SeededStreamTest, MatchesAnIndependentImplementation) {
  SeededStream stream(CountingSeed());
  EXPECT_EQ(stream.NextUint64(), 0xd09f492ab60090f2);
  EXPECT_EQ(stream.NextUint64(), 0x80772edd6a9af3a9);
  EXPECT_THAT((std::vector<uint32_t>{stream.UniformBelow(1000), stream.UniformBelow(1000)}), ElementsAre(681, 896));
}

TEST(SeededStreamTest, RejectsBiasedDrawsAsTheIndependentImplementationDoes) {
  // A quarter of all words are drawn again at this bound.
  EXPECT_THAT(Draws(SeededStream(CountingSeed()), 3U << 30, 6),
              ElementsAre(2290117813U, 2625074911U, 1341404862U, 1616470821U, 2889337591U, 624228604U));
}

TEST(SeededStreamTest, StaysBelowTheBound) {
  for (uint32_t bound : {1U, 2U, 3U, 7U, 1000U, 0xffffffffU}) {
    EXPECT_THAT(Draws(SeededStream(CountingSeed()), bound, 1000), Each(Lt(bound)));
  }
}

TEST(SeededStreamTest, DiffersBetweenSeeds) {
  Digest other = CountingSeed();
  other[31] ^= 1;
  EXPECT_NE(SeededStream(CountingSeed()).NextUint64(), SeededStream(other).NextUint64());
}

TEST(SeededStreamTest, CannotStandInForTheSecureGenerator) {
  EXPECT_FALSE((std::is_constructible_v<SeededStream, SecretKey>));
  EXPECT_FALSE((std::is_convertible_v<Digest, SecretKey>));
  EXPECT_FALSE((std::is_convertible_v<SeededStream*, SecureGaussian*>));
}

TEST(SeededStreamDeathTest, AbortsForAnEmptyRange) {
  EXPECT_DEATH(SeededStream(CountingSeed()).UniformBelow(0), "bound >= 1");
}

}  // namespace
}  // namespace splitveil
