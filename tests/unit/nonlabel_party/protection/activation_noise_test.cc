#include <algorithm>
#include <cereal/archives/binary.hpp>
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <memory>
#include <sstream>
#include <vector>

#include "common/privacy/gaussian_privacy.h"
#include "nonlabel_party/protection/activation_protection.h"
#include "tests/unit/common/crypto/low_bits.h"

namespace splitveil {
namespace {

std::unique_ptr<ActivationNoise> Make(double sigma, double clip_norm) {
  absl::StatusOr<std::unique_ptr<ActivationNoise>> noise = ActivationNoise::Create(sigma, clip_norm);
  EXPECT_TRUE(noise.ok()) << noise.status();
  return *std::move(noise);
}

bool Same(const Matrix& a, const Matrix& b) { return std::equal(a.data(), a.data() + a.size(), b.data()); }

int64_t Equals(const Matrix& a, const Matrix& b) {
  int64_t equal = 0;
  for (int64_t k = 0; k < a.size(); ++k) {
    equal += a.data()[k] == b.data()[k] ? 1 : 0;
  }
  return equal;
}

TEST(ActivationNoiseTest, HasTheMomentsOfItsLaw) {
  Matrix activations(400, 50);
  std::fill_n(activations.data(), activations.size(), 3.0f);
  ASSERT_TRUE(Make(2, 0)->Apply(activations).ok());
  double sum = 0, squares = 0;
  for (int64_t k = 0; k < activations.size(); ++k) {
    const double draw = (activations.data()[k] - 3) / 2;
    sum += draw;
    squares += draw * draw;
  }
  // 20,000 draws: the mean has a standard deviation of 0.0071, the mean square one of 0.01. Five of them are passed
  // once in 1.7 million runs.
  EXPECT_NEAR(sum / 20000, 0, 0.0355);
  EXPECT_NEAR(squares / 20000, 1, 0.05);
}

TEST(ActivationNoiseTest, TheSameActivationsLeaveAsTheSameBytesAndNoOthers) {
  const std::unique_ptr<ActivationNoise> noise = Make(1, 0);
  Matrix first(4, 3), again(4, 3), other(4, 3);
  other.data()[0] = 1e-30f;
  ASSERT_TRUE(noise->Apply(first).ok());
  ASSERT_TRUE(noise->Apply(again).ok());
  ASSERT_TRUE(noise->Apply(other).ok());
  EXPECT_TRUE(Same(first, again));
  // Of two independent draws 2% are the same multiple: four of twelve are with a probability below 1e-4.
  EXPECT_LT(Equals(first, other), 4);
}

// A peer that makes the weights would learn something of the features from a run that ends on the one and not on the
// other.
TEST(ActivationNoiseTest, ARowThatIsNotFiniteIsSentAsAnyOther) {
  const std::unique_ptr<ActivationNoise> noise = Make(1, 2);
  Matrix zeros(4, 3);
  ASSERT_TRUE(noise->Apply(zeros).ok());
  for (const float value : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    Matrix activations(4, 3), gradients(4, 3);
    std::fill_n(gradients.data(), gradients.size(), 1.0F);
    activations.row(1)[2] = value;
    noise->Backpropagate(activations, gradients);
    EXPECT_EQ(gradients.row(0)[0], 1);
    EXPECT_EQ(gradients.row(1)[0], 0);
    ASSERT_TRUE(noise->Apply(activations).ok());
    EXPECT_TRUE(Same(activations, zeros));
  }
  Matrix activations(4, 3);
  activations.row(1)[2] = std::nanf("");
  EXPECT_EQ(Make(1, 0)->Apply(activations).code(), absl::StatusCode::kInternal);  // Nothing is promised.
}

// Equal bytes in two places would tell that the same activations were released in both, for whatever row they are of.
TEST(ActivationNoiseTest, TheSameActivationsInAnotherPlaceHaveIndependentNoise) {
  const std::unique_ptr<ActivationNoise> noise = Make(1, 0);
  std::vector<Matrix> released;
  for (const NoisePosition& position : {NoisePosition{0, 0, 0}, NoisePosition{1, 0, 0}, NoisePosition{0, 1, 0},
                                        NoisePosition{0, 0, 1}, NoisePosition{0, 0, 0}}) {
    noise->SetPosition(position);
    released.emplace_back(4, 3);
    ASSERT_TRUE(noise->Apply(released.back()).ok());
  }
  for (size_t i = 1; i < 4; ++i) {
    for (size_t j = 0; j < i; ++j) {
      EXPECT_LT(Equals(released[i], released[j]), 5) << i << " and " << j;  // Below 1e-5 each.
    }
  }
  EXPECT_TRUE(Same(released.front(), released.back()));
}

TEST(ActivationNoiseTest, AnotherRunHasOtherNoiseButNotOneThatIsContinued) {
  const std::unique_ptr<ActivationNoise> noise = Make(1, 0), another = Make(1, 0);
  Matrix first(4, 3), second(4, 3), third(4, 3);
  ASSERT_TRUE(noise->Apply(first).ok());
  ASSERT_TRUE(another->Apply(second).ok());
  EXPECT_FALSE(Same(first, second));
  std::stringstream checkpoint;
  cereal::BinaryOutputArchive writer(checkpoint);
  writer(*noise);
  cereal::BinaryInputArchive reader(checkpoint);
  reader(*another);
  ASSERT_TRUE(another->Apply(third).ok());
  EXPECT_TRUE(Same(first, third));
}

TEST(ActivationNoiseTest, ClipsLongRowsAlone) {
  Matrix activations(2, 2);
  activations.row(0)[0] = 3;
  activations.row(0)[1] = 4;
  activations.row(1)[0] = 0.5f;
  ASSERT_TRUE(Make(0, 1)->Apply(activations).ok());
  EXPECT_FLOAT_EQ(activations.row(0)[0], 0.6f);
  EXPECT_FLOAT_EQ(activations.row(0)[1], 0.8f);
  EXPECT_FLOAT_EQ(activations.row(1)[0], 0.5f);
}

// The derivative of g'clip(f) by f, by central differences.
TEST(ActivationNoiseTest, BackpropagatesThroughTheClipping) {
  const std::unique_ptr<ActivationNoise> noise = Make(0, 1);
  Matrix before(1, 3);
  const std::vector<float> f = {1.5f, -2.0f, 0.5f}, g = {0.3f, 0.7f, -1.1f};
  std::copy(f.begin(), f.end(), before.data());
  Matrix gradient(1, 3);
  std::copy(g.begin(), g.end(), gradient.data());
  noise->Backpropagate(before, gradient);
  const auto value = [&](int moved, float by) {
    Matrix at = before;
    at.data()[moved] += by;
    EXPECT_TRUE(noise->Apply(at).ok());
    double sum = 0;
    for (int k = 0; k < 3; ++k) {
      sum += static_cast<double>(g[k]) * at.data()[k];
    }
    return sum;
  };
  for (int k = 0; k < 3; ++k) {
    EXPECT_NEAR(gradient.data()[k], (value(k, 1.0f / 64) - value(k, -1.0f / 64)) * 32, 2e-4);
  }
}

// Mironov (CCS 2012): a sum of floats shows what was added to the noise. The second value is 4e-4 standard deviations
// from the first: real noise hides which of them a row has, with 0.5007 at most for 20 of them.
TEST(ActivationNoiseTest, TheLowBitsDoNotShowTheActivation) {
  constexpr int64_t kRows = 400, kWidth = 20;
  constexpr double kSigma = 10, kFirst = 0.4999, kSecond = 0.5039;
  const std::unique_ptr<ActivationNoise> noise = Make(kSigma, 0);
  std::vector<double> of_first, of_second;
  for (int64_t i = 0; i < 2 * kRows; ++i) {
    Matrix row(1, kWidth);
    std::fill_n(row.data(), kWidth, static_cast<float>(i < kRows ? kFirst : kSecond));
    noise->SetPosition({0, static_cast<uint32_t>(i), 0});
    ASSERT_TRUE(noise->Apply(row).ok());
    const double score = ReachableShare(row.row(0), std::vector<float>(kWidth, static_cast<float>(kSecond)), kSigma) -
                         ReachableShare(row.row(0), std::vector<float>(kWidth, static_cast<float>(kFirst)), kSigma);
    (i < kRows ? of_first : of_second).push_back(score);
  }
  // The AUC of 400 against 400 has a standard deviation of 0.0204; without a grid it is 1.
  EXPECT_NEAR(AucOfScores(of_second, of_first), 0.5, 4.5 * 0.0204);
}

TEST(ActivationNoiseTest, RefusesWhatIsNotFinite) {
  Matrix activations(1, 2);
  activations.data()[1] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(Make(1, 0)->Apply(activations).code(), absl::StatusCode::kInternal);
}

// An adversary that knows both inputs and picks them worst, f = +-C e, sees N(+-C, sigma^2): its likelihood ratio test
// has the AUC Phi(2 C / sigma / sqrt 2), which is what the stated mu bounds it by, and no more.
TEST(ActivationNoiseTest, MuIsWhatTheWorstCaseReaches) {
  const std::unique_ptr<ActivationNoise> noise = Make(2, 0.75);
  const double bound = GaussianPrivacy::FromMu(noise->Mu(1))->AucBound();
  constexpr int kEach = 4000;
  Matrix low(kEach, 1), high(kEach, 1);
  std::fill_n(low.data(), kEach, -100.0f);
  std::fill_n(high.data(), kEach, 100.0f);
  ASSERT_TRUE(noise->Apply(low).ok());
  ASSERT_TRUE(noise->Apply(high).ok());
  int64_t right = 0;
  std::vector<float> sorted(low.data(), low.data() + kEach);
  std::sort(sorted.begin(), sorted.end());
  for (int i = 0; i < kEach; ++i) {
    right += std::lower_bound(sorted.begin(), sorted.end(), high.data()[i]) - sorted.begin();
  }
  // The AUC of 4000 against 4000 has a standard deviation below 0.0058.
  EXPECT_NEAR(static_cast<double>(right) / (double{kEach} * kEach), bound, 5 * 0.0058);
  EXPECT_NEAR(noise->Mu(9), 3 * noise->Mu(1), 1e-12);
  EXPECT_TRUE(std::isinf(Make(1, 0)->Mu(1)));
}

}  // namespace
}  // namespace splitveil
