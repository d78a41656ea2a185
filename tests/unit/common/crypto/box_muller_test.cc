#include "common/crypto/box_muller.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace splitveil {
namespace {

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
