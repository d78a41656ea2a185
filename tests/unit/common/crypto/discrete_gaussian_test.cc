#include "common/crypto/discrete_gaussian.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

namespace splitveil {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kAllOnes = std::numeric_limits<uint64_t>::max();

// Words written down in a test. How many were read shows which branch was taken.
class Script {
 public:
  explicit Script(std::vector<uint64_t> words) : words_(std::move(words)) {}

  // Throws where the code reads more words than the test wrote down.
  uint64_t operator()() const { return words_.at(read_++); }
  size_t read() const { return read_; }

 private:
  const std::vector<uint64_t> words_;
  mutable size_t read_ = 0;
};

// The word from which SampleUniformBelow(bound) makes `value`: the middle of its interval.
uint64_t WordFor(uint64_t value, uint64_t bound) {
  return static_cast<uint64_t>(((static_cast<unsigned __int128>(value) << 64) + (kAllOnes >> 1)) / bound);
}

TEST(SampleUniformBelowTest, SplitsTheWordsIntoEqualIntervals) {
  for (uint64_t bound : {uint64_t{2}, uint64_t{3}, uint64_t{10}, uint64_t{1} << 62}) {
    for (uint64_t value : {uint64_t{0}, uint64_t{1}, bound / 2, bound - 1}) {
      Script words({WordFor(value, bound)});
      EXPECT_EQ(SampleUniformBelow(bound, words), value) << bound;
    }
  }
}

TEST(SampleUniformBelowTest, RejectsTheWordsThatAreLeftOver) {
  // 2^64 mod 3 = 1: word 0 alone is left over.
  Script words({0, 0, 1});
  EXPECT_EQ(SampleUniformBelow(3, words), 0);
  EXPECT_EQ(words.read(), 3);
}

TEST(SampleUniformBelowTest, OneIsCertainAndReadsNothing) {
  Script words({});
  EXPECT_EQ(SampleUniformBelow(1, words), 0);
}

TEST(SampleBernoulliExpTest, ExponentZeroIsCertain) {
  for (uint64_t word : {uint64_t{1}, kAllOnes}) {
    Script words({word});
    EXPECT_TRUE(SampleBernoulliExp(0, 7, words));
  }
}

TEST(SampleBernoulliExpTest, CountsDrawsUntilTheFirstFailure) {
  // gamma = 1/3. Fails at k = 1: true. Succeeds at 1, fails at 2, by gamma or by 1/2: false. And so on.
  const uint64_t hit = WordFor(0, 3);
  const uint64_t miss = WordFor(1, 3);
  Script first({miss});
  EXPECT_TRUE(SampleBernoulliExp(1, 3, first));
  Script second({hit, miss});
  EXPECT_FALSE(SampleBernoulliExp(1, 3, second));
  Script second_by_half({hit, hit, WordFor(1, 2)});
  EXPECT_FALSE(SampleBernoulliExp(1, 3, second_by_half));
  Script third({hit, hit, WordFor(0, 2), hit, WordFor(2, 3)});
  EXPECT_TRUE(SampleBernoulliExp(1, 3, third));
}

TEST(SampleBernoulliExpTest, TakesWholeExponentsApart) {
  // e^-(7/3) = e^-1 e^-1 e^-(1/3). Bernoulli(1/e): fails at k = 2 (false), or succeeds at 2 and fails at 3 (true).
  const uint64_t success_of_two = WordFor(0, 2);
  const uint64_t failure_of_two = WordFor(1, 2);
  const uint64_t failure_of_three = WordFor(1, 3);
  Script all({success_of_two, failure_of_three, success_of_two, failure_of_three, WordFor(1, 3)});
  EXPECT_TRUE(SampleBernoulliExp(7, 3, all));
  EXPECT_EQ(all.read(), 5);
  Script stopped({success_of_two, failure_of_three, failure_of_two});
  EXPECT_FALSE(SampleBernoulliExp(7, 3, stopped));
  EXPECT_EQ(stopped.read(), 3);
}

TEST(SampleDiscreteLaplaceTest, PutsRemainderAndQuotientTogether) {
  // Remainder 4 of 10, accepted at once; quotient 1 (one success, one failure of Bernoulli(1/e)); sign.
  const auto draw = [](uint64_t sign) {
    Script words({WordFor(4, 10), WordFor(9, 10), WordFor(0, 2), WordFor(1, 3), WordFor(1, 2), WordFor(sign, 2)});
    return SampleDiscreteLaplace(10, words);
  };
  EXPECT_THAT((std::vector<int64_t>{draw(0), draw(1)}), ElementsAre(14, -14));
}

TEST(SampleDiscreteLaplaceTest, StartsAgainAtMinusZero) {
  const uint64_t zero = WordFor(0, 10);
  const uint64_t accepted = WordFor(9, 10);
  const uint64_t no_success = WordFor(1, 2);
  Script words({zero, accepted, no_success, WordFor(1, 2), zero, accepted, no_success, WordFor(0, 2)});
  EXPECT_EQ(SampleDiscreteLaplace(10, words), 0);
  EXPECT_EQ(words.read(), 8);
}

TEST(SampleDiscreteGaussianTest, AcceptsTheScaleItselfWithoutFail) {
  // |y| = sigma: the exponent (|y| - sigma)^2 / (2 sigma^2) is 0. Remainder 0, quotient 1.
  Script words({WordFor(0, 10), WordFor(9, 10), WordFor(0, 2), WordFor(1, 3), WordFor(1, 2), WordFor(1, 2), kAllOnes});
  EXPECT_EQ(SampleDiscreteGaussian(10, words), -10);
  EXPECT_EQ(words.read(), 7);
}

TEST(SampleDiscreteGaussianTest, RejectsByTheExactFraction) {
  // y = 4, sigma = 10: e^-(36/200). 35 of 200 is a success at k = 1 and goes on, 36 is a failure and accepts.
  const std::vector<uint64_t> four = {WordFor(4, 10), WordFor(9, 10), WordFor(1, 2), WordFor(0, 2)};
  std::vector<uint64_t> accepted = four;
  accepted.push_back(WordFor(36, 200));
  Script accepting(accepted);
  EXPECT_EQ(SampleDiscreteGaussian(10, accepting), 4);
  std::vector<uint64_t> rejected = four;
  rejected.insert(rejected.end(), {WordFor(35, 200), WordFor(199, 200)});
  rejected.insert(rejected.end(), accepted.begin(), accepted.end());
  Script rejecting(rejected);
  EXPECT_EQ(SampleDiscreteGaussian(10, rejecting), 4);
  EXPECT_EQ(rejecting.read(), rejected.size());
}

TEST(DiscreteGaussianDeathTest, AbortsForParametersOutOfRange) {
  Script words({});
  EXPECT_DEATH(SampleUniformBelow(0, words), "bound >= 1");
  EXPECT_DEATH(SampleBernoulliExp(1, 0, words), "denominator >= 1");
  EXPECT_DEATH(SampleDiscreteLaplace(0, words), "1 <= scale < 2\\^31");
  EXPECT_DEATH(SampleDiscreteLaplace(uint32_t{1} << 31, words), "1 <= scale < 2\\^31");
  EXPECT_DEATH(SampleDiscreteGaussian(0, words), "1 <= sigma < 2\\^31");
  EXPECT_DEATH(SampleDiscreteGaussian(uint32_t{1} << 31, words), "1 <= sigma < 2\\^31");
}

TEST(DiscreteGaussianDeathTest, AbortsRatherThanOverflowsOnWordsThatNeverEnd) {
  // Remainder 0, accepted; then successes of Bernoulli(1/e), which succeeds at 2 and fails at 3, for ever.
  int read = 0;
  const auto words = [&read]() -> uint64_t {
    ++read;
    if (read <= 2) {
      return read == 1 ? WordFor(0, 3) : WordFor(2, 3);
    }
    return read % 2 == 1 ? WordFor(0, 2) : WordFor(1, 3);
  };
  EXPECT_DEATH(SampleDiscreteLaplace(3, words), "geometric variable below 2\\^20");
}

}  // namespace
}  // namespace splitveil
