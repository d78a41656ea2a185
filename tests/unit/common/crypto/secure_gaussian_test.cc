#include "common/crypto/secure_gaussian.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/crypto/sha256.h"

namespace splitveil {
namespace {

using ::testing::ElementsAreArray;
using ::testing::FloatNear;
using ::testing::Pointwise;

constexpr uint32_t kMax32 = std::numeric_limits<uint32_t>::max();
constexpr uint32_t kLastStream = 0xffff;
constexpr uint64_t kComponents = uint64_t{1} << 49;

// 0, 1, ..., 31, one byte changed by `tweak`.
std::unique_ptr<SecureGaussian> Generator(uint8_t tweak = 0) {
  std::array<uint8_t, 32> bytes;
  std::iota(bytes.begin(), bytes.end(), uint8_t{0});
  bytes[31] ^= tweak;
  return *SecureGaussian::Create(SecretKey(bytes));
}

std::vector<float> Draw(SecureGaussian& generator, const NoisePosition& position, uint64_t first, size_t count) {
  std::vector<float> normals(count, std::nanf(""));
  generator.Fill(position, first, absl::MakeSpan(normals));
  return normals;
}

// Expected values: computed in Python from the header's counter layout and BoxMuller, with AES of the `cryptography`
// package and the functions of mpmath.
TEST(SecureGaussianTest, MatchesAnIndependentImplementation) {
  const auto generator = Generator();
  EXPECT_THAT(Draw(*generator, {0, 0, 0}, 0, 4),
              Pointwise(FloatNear(1e-6), {0.502605253, -0.6555190075, 0.835488792, 0.2624789682}));
  EXPECT_THAT(Draw(*generator, {3, 141, 1}, uint64_t{2} * 59265, 2),
              Pointwise(FloatNear(1e-6), {2.12710247, -0.8292279525}));
}

TEST(SecureGaussianTest, ReachesTheLastComponentOfTheLastPosition) {
  const auto generator = Generator();
  EXPECT_THAT(Draw(*generator, {kMax32, kMax32, kLastStream}, kComponents - 2, 2),
              Pointwise(FloatNear(1e-6), {1.420445553, -1.509119748}));
}

TEST(SecureGaussianTest, RepeatsAPositionExactly) {
  const auto generator = Generator();
  const std::vector<float> first = Draw(*generator, {1, 2, 3}, 0, 5000);
  Draw(*generator, {7, 7, 7}, 100, 33);
  EXPECT_EQ(Draw(*generator, {1, 2, 3}, 0, 5000), first);
  EXPECT_EQ(Draw(*Generator(), {1, 2, 3}, 0, 5000), first);
}

// A key of many runs, bound to the digest of `context`.
std::vector<float> BoundDraw(absl::string_view context, const NoisePosition& position, uint8_t tweak = 0) {
  std::array<uint8_t, 32> bytes;
  bytes.fill(tweak);
  const auto generator = *SecureGaussian::Create(SecretKey(bytes), SecureGaussian::KeyLife::kManyRuns);
  EXPECT_TRUE(generator->needs_binding());
  generator->Bind(Sha256(context));
  return Draw(*generator, position, 0, 2000);
}

double Correlation(const std::vector<float>& a, const std::vector<float>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0) / static_cast<double>(a.size());
}

TEST(SecureGaussianTest, AKeyOfManyRunsRepeatsWhatIsBoundToTheSameContextAndNothingElse) {
  const std::vector<float> first = BoundDraw("gradients", {1, 2, 3});
  EXPECT_EQ(BoundDraw("gradients", {1, 2, 3}), first);
  EXPECT_NEAR(Correlation(first, first), 1, 0.2);
  // 2,000 independent products: 6 standard deviations.
  EXPECT_LT(std::abs(Correlation(BoundDraw("gradientt", {1, 2, 3}), first)), 0.14);
  EXPECT_LT(std::abs(Correlation(BoundDraw("gradients", {1, 3, 3}), first)), 0.14);
  EXPECT_LT(std::abs(Correlation(BoundDraw("gradients", {1, 2, 3}, /*tweak=*/1), first)), 0.14);
}

TEST(SecureGaussianDeathTest, AKeyOfManyRunsIsNotDrawnFromUnbound) {
  const auto generator = *SecureGaussian::Create(SecretKey::Generate(), SecureGaussian::KeyLife::kManyRuns);
  EXPECT_DEATH(Draw(*generator, {1, 2, 3}, 0, 4), "is bound before it is drawn from");
}

TEST(SecureGaussianTest, GivesAnySubrangeAsASliceOfTheWhole) {
  const auto generator = Generator();
  // Longer than two internal chunks, and odd.
  const std::vector<float> whole = Draw(*generator, {4, 5, 1}, 0, 10001);
  for (uint64_t first : {0, 2, 30, 4094, 4096, 9000}) {
    for (size_t count : {0, 1, 2, 3, 15, 31, 64, 999, 1001}) {
      EXPECT_THAT(Draw(*generator, {4, 5, 1}, first, count),
                  ElementsAreArray(whole.begin() + first, whole.begin() + first + count));
    }
  }
}

TEST(SecureGaussianTest, DoesNotWriteBeyondAnOddEnd) {
  std::vector<float> normals(8, 42.0F);
  Generator()->Fill({}, 0, absl::MakeSpan(normals).first(7));
  EXPECT_EQ(normals[7], 42.0F);
}

TEST(SecureGaussianTest, SharesNoPairBetweenPositionsOrKeys) {
  const std::vector<NoisePosition> positions = {{0, 0, 0},   {0, 0, 1},        {0, 1, 0},     {1, 0, 0},
                                                {0, 0, 256}, {0, 1U << 16, 0}, {kMax32, 0, 0}};
  const auto generator = Generator();
  std::vector<std::vector<float>> draws = {Draw(*Generator(1), {0, 0, 0}, 0, 64)};
  for (const NoisePosition& position : positions) {
    draws.push_back(Draw(*generator, position, 0, 64));
  }
  for (size_t a = 0; a < draws.size(); ++a) {
    for (size_t b = 0; b < a; ++b) {
      for (size_t i = 0; i < 64; i += 2) {
        // Both numbers of a pair agree by accident with probability below 2^-40.
        EXPECT_FALSE(draws[a][i] == draws[b][i] && draws[a][i + 1] == draws[b][i + 1]) << a << " " << b << " " << i;
      }
    }
  }
}

TEST(SecureGaussianTest, IsFiniteThroughout) {
  for (float x : Draw(*Generator(), {9, 9, 0}, 0, 1 << 20)) {
    ASSERT_LT(std::abs(x), 9.35F);
  }
}

TEST(SecureGaussianDeathTest, AbortsForAnOddFirstComponent) {
  EXPECT_DEATH(Draw(*Generator(), {}, 1, 2), "first component is even");
}

TEST(SecureGaussianDeathTest, AbortsForAStreamThatWouldRunIntoTheBatch) {
  EXPECT_DEATH(Draw(*Generator(), {0, 0, kLastStream + 1}, 0, 2), "stream < 2\\^16");
}

TEST(SecureGaussianDeathTest, AbortsForComponentsThatWouldRunIntoTheNextStream) {
  EXPECT_DEATH(Draw(*Generator(), {}, kComponents, 1), "components < 2\\^49");
  EXPECT_DEATH(Draw(*Generator(), {}, kComponents - 2, 3), "components < 2\\^49");
}

constexpr double kPi = 3.14159265358979323846;

struct ReferencePair {
  double radius;
  double cosine;
  double sine;
};

// The header's definition with libm in double. u is taken from whichever end is nearer, for its complement to be exact.
ReferencePair Reference(const uint32_t* words) {
  const double high = words[0] >> 1;
  const double low = words[1] >> 1;
  const double u = std::ldexp(high, -31) + std::ldexp(low + 0.5, -62);
  const double one_minus_u = std::ldexp(0x7fffffff - high, -31) + std::ldexp(0x7fffffff - low + 0.5, -62);
  const double angle = kPi / 4 * std::ldexp(static_cast<double>(static_cast<int32_t>(words[2])), -31);
  ReferencePair pair = {std::sqrt(-2 * (u < 0.5 ? std::log(u) : std::log1p(-one_minus_u))), std::cos(angle),
                        std::sin(angle)};
  if ((words[3] & 0x80000000U) != 0) {
    pair.cosine = -pair.cosine;
  }
  if ((words[3] & 1) != 0) {
    std::swap(pair.cosine, pair.sine);
  }
  return pair;
}

// Random words, and every combination of words at the edges of the ranges.
std::vector<uint32_t> TestWords() {
  std::mt19937 generator(20240611);  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::vector<uint32_t> words(kWordsPerNormalPair * 200001);
  std::generate(words.begin(), words.end(), generator);
  const std::vector<uint32_t> edges = {0,          1,          2,          3,          0x7fffffff,
                                       0x80000000, 0xb504f332, 0xb504f334, 0xfffffffe, 0xffffffff};
  const size_t n = edges.size();
  for (size_t i = 0; i < n * n * n * n; ++i) {
    words.insert(words.end(), {edges[i % n], edges[i / n % n], edges[i / (n * n) % n], edges[i / (n * n * n)]});
  }
  return words;
}

std::vector<float> Transform(const std::vector<uint32_t>& words, InstructionSet instruction_set) {
  std::vector<float> normals(words.size() / 2);
  BoxMuller(words, absl::MakeSpan(normals), instruction_set);
  return normals;
}

TEST(BoxMullerTest, AgreesWithLibmInDoublePrecision) {
  const std::vector<uint32_t> words = TestWords();
  const std::vector<float> normals = Transform(words, WidestInstructionSet());
  double largest_error = 0;
  double largest_radius_error = 0;
  for (size_t pair = 0; pair < normals.size() / 2; ++pair) {
    const ReferencePair expected = Reference(&words[kWordsPerNormalPair * pair]);
    const double x = normals[2 * pair] / expected.radius;
    const double y = normals[2 * pair + 1] / expected.radius;
    largest_error = std::max({largest_error, std::abs(x - expected.cosine), std::abs(y - expected.sine)});
    largest_radius_error = std::max(largest_radius_error, std::abs(std::hypot(x, y) - 1));
  }
  // Measured: 2.05e-7 both.
  EXPECT_LT(largest_error, 3e-7);
  EXPECT_LT(largest_radius_error, 3e-7);
}

TEST(BoxMullerTest, KeepsTheTailAndTheCentre) {
  const std::vector<float> largest = Transform({0, 0, 0, 0}, InstructionSet::kBaseline);
  EXPECT_NEAR(largest[0], 9.3454, 1e-4);
  EXPECT_EQ(largest[1], 0);
  const std::vector<float> smallest = Transform({0xffffffff, 0xffffffff, 0, 0}, InstructionSet::kBaseline);
  EXPECT_NEAR(smallest[0], 4.6566e-10, 1e-13);
}

TEST(BoxMullerTest, GivesTheSameBitsOnEveryInstructionSet) {
  const std::vector<uint32_t> words = TestWords();
  const std::vector<float> baseline = Transform(words, InstructionSet::kBaseline);
  for (InstructionSet set : {InstructionSet::kAvx2, InstructionSet::kAvx512}) {
    if (set <= WidestInstructionSet()) {
      const std::vector<float> normals = Transform(words, set);
      EXPECT_EQ(std::memcmp(normals.data(), baseline.data(), sizeof(float) * normals.size()), 0);
    }
  }
}

TEST(BoxMullerTest, GivesAPairTheSameBitsWhereverItStands) {
  const std::vector<uint32_t> words = TestWords();
  const std::vector<float> whole = Transform(words, WidestInstructionSet());
  for (size_t pairs = 1; pairs < 70; ++pairs) {
    const auto tail_words = static_cast<std::ptrdiff_t>(kWordsPerNormalPair * pairs);
    const std::vector<uint32_t> tail(words.end() - tail_words, words.end());
    const std::vector<float> normals = Transform(tail, WidestInstructionSet());
    EXPECT_EQ(std::memcmp(normals.data(), whole.data() + whole.size() - 2 * pairs, 2 * sizeof(float) * pairs), 0);
  }
}

TEST(BoxMullerDeathTest, AbortsForSizesThatDoNotMatch) {
  const std::vector<uint32_t> words(8);
  std::vector<float> normals(3);
  EXPECT_DEATH(BoxMuller(words, absl::MakeSpan(normals)), "two words a normal");
  normals.resize(6);
  EXPECT_DEATH(BoxMuller(words, absl::MakeSpan(normals)), "two words a normal");
}

}  // namespace
}  // namespace splitveil
