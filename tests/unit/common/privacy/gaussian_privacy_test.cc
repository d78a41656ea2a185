#include "common/privacy/gaussian_privacy.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

namespace splitveil {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kMus[] = {1e-4, 1e-3, 0.05, 0.3, 1, 2.5, 6, 20, 40};

GaussianPrivacy Mu(double mu) { return *GaussianPrivacy::FromMu(mu); }

double NormalDensity(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * M_PI); }

// Simpson's rule with 20,000 intervals.
double Integral(double from, double to, const std::function<double(double)>& f) {
  constexpr int kIntervals = 20'000;
  const double width = (to - from) / kIntervals;
  double sum = f(from) + f(to);
  for (int i = 1; i < kIntervals; ++i) {
    sum += (i % 2 == 1 ? 4 : 2) * f(from + i * width);
  }
  return sum * width / 3;
}

TEST(NormalTest, EqualsTheTables) {
  EXPECT_NEAR(NormalQuantile(0.975), 1.959963984540054, 1e-14);
  EXPECT_NEAR(NormalCdf(-1.959963984540054), 0.025, 1e-15);
  EXPECT_NEAR(NormalQuantile(1e-300), -37.0471, 1e-4);
  EXPECT_NEAR(NormalCdf(NormalQuantile(1e-300)) / 1e-300, 1, 1e-10);
  EXPECT_EQ(NormalQuantile(0.5), 0);
  EXPECT_EQ(NormalQuantile(0), -kInfinity);
  EXPECT_EQ(NormalQuantile(1), kInfinity);
  EXPECT_TRUE(std::isnan(NormalQuantile(-0.1)));
  EXPECT_TRUE(std::isnan(NormalQuantile(1.1)));
  EXPECT_TRUE(std::isnan(NormalQuantile(std::nan(""))));
}

// Computed with mpmath in 60 digits from the formula of corollary 2.13.
TEST(GaussianPrivacyTest, DeltaEqualsTheFormulaInManyDigits) {
  struct Row {
    double mu, epsilon, delta;
  };
  constexpr Row kRows[] = {{1, 1, 0.126936737506643946},
                           {1, 0, 0.382924922548026207},
                           {0.5, 2, 9.43916863494723376e-6},
                           {2, 0.3, 0.633508002976921362},
                           {10, 50, 0.460493305898613997},
                           {40, 700, 0.993323245009655031},
                           {40, 799, 0.500002073552241565},
                           {40, 0, 1.0},
                           {1e-4, 0, 0.0000398942280235206747},
                           {1e-4, 1e-6, 0.0000393962424164190094},
                           {1e-4, 1e-4, 8.33196363992520995e-6},
                           {1e-4, 1e-3, 7.47829846001956424e-29},
                           {1e-4, 3.6e-3, 1.16214390941781922e-289},
                           {1e-3, 0.02, 1.38378117708644242e-93},
                           {0.05, 1.5, 1.72688767023794202e-200},
                           {20, 700, 1.35666212775249706e-138},
                           {0.3, 5, 2.46551618851154249e-63},
                           {1, 20, 2.66470670536549765e-86},
                           {1, 36, 6.72318992310302992e-278},
                           {6, 18, 0.435220685675553151},
                           {3, 21, 6.48780278678444004e-9}};
  for (const Row& row : kRows) {
    EXPECT_NEAR(Mu(row.mu).DeltaAt(row.epsilon) / row.delta, 1, 1e-10) << row.mu << " " << row.epsilon;
  }
}

TEST(GaussianPrivacyTest, DeltaIsTheHockeyStickDivergence) {
  for (double mu : {0.05, 0.5, 1.0, 4.0}) {
    for (double epsilon : {0.0, 0.01, 0.5, 2.0, 8.0}) {
      const double crossing = epsilon / mu + mu / 2;  // Where the density ratio is e^epsilon.
      const double divergence = Integral(crossing, std::max(crossing, mu) + 12, [&](double x) {
        return NormalDensity(x - mu) - std::exp(epsilon) * NormalDensity(x);
      });
      EXPECT_NEAR(Mu(mu).DeltaAt(epsilon), divergence, 1e-11) << mu << " " << epsilon;
    }
  }
}

TEST(GaussianPrivacyTest, DeltaIsTheLargestGapBetweenTheRates) {
  // (epsilon, delta)-DP says TPR <= e^epsilon FPR + delta; the curve touches that line (proposition 2.12).
  for (double mu : {0.3, 1.0, 3.0}) {
    for (double epsilon : {0.0, 0.7, 2.0}) {
      double gap = 0;
      for (double threshold = -8; threshold < 8; threshold += 1e-3) {
        const double fpr = NormalCdf(-threshold);
        gap = std::max(gap, Mu(mu).TprBound(fpr) - std::exp(epsilon) * fpr);
      }
      const double delta = Mu(mu).DeltaAt(epsilon);
      EXPECT_LE(gap, delta + 1e-14);
      EXPECT_GE(gap, delta - 1e-6);
    }
  }
}

TEST(GaussianPrivacyTest, DeltaFallsWithEpsilonAndGrowsWithMu) {
  for (double mu : kMus) {
    double previous = 1;
    for (double z = -3; z < 12; z += 0.25) {
      const double epsilon = mu * (mu / 2 + z);
      if (epsilon < 0) {
        continue;
      }
      const double delta = Mu(mu).DeltaAt(epsilon);
      EXPECT_LE(delta, previous) << mu << " " << epsilon;
      EXPECT_LE(delta, Mu(mu * 1.000001).DeltaAt(epsilon)) << mu << " " << epsilon;
      previous = delta;
    }
  }
}

TEST(GaussianPrivacyTest, AucAndRatesHaveTheirClosedForms) {
  EXPECT_NEAR(Mu(std::sqrt(2)).AucBound(), 0.8413447460685429, 1e-15);
  EXPECT_NEAR(Mu(1).AucBound(), 0.7602499389065233, 1e-15);
  EXPECT_NEAR(Mu(1).TprBound(0.5), 0.8413447460685429, 1e-15);
  EXPECT_NEAR(Mu(2).TprBound(NormalCdf(-1)), NormalCdf(1), 1e-15);
  EXPECT_EQ(Mu(0).AucBound(), 0.5);
  EXPECT_NEAR(Mu(0).TprBound(0.2), 0.2, 1e-15);
  EXPECT_EQ(Mu(3).TprBound(0), 0);
  EXPECT_EQ(Mu(3).TprBound(1), 1);
}

TEST(GaussianPrivacyTest, AucIsTheAreaUnderTheRates) {
  for (double mu : {0.1, 1.0, 3.0}) {
    // By the threshold: int TPR dFPR = int Phi(mu - t) phi(t) dt.
    const double area = Integral(-12, 12, [mu](double t) { return Mu(mu).TprBound(NormalCdf(-t)) * NormalDensity(t); });
    EXPECT_NEAR(Mu(mu).AucBound(), area, 1e-10);
  }
}

TEST(GaussianPrivacyTest, RatesAreSymmetricInTheTwoErrors) {
  for (double fpr : {0.001, 0.1, 0.4}) {
    const double false_negatives = 1 - Mu(1.3).TprBound(fpr);
    EXPECT_NEAR(1 - Mu(1.3).TprBound(false_negatives), fpr, 1e-12);
  }
}

TEST(GaussianPrivacyTest, ConversionsGoBackToMu) {
  for (double mu : kMus) {
    if (mu <= 4) {
      EXPECT_NEAR(GaussianPrivacy::FromAucBound(Mu(mu).AucBound())->mu(), mu, 1e-11);
    }
    EXPECT_NEAR(GaussianPrivacy::FromSigma(3 / mu, 3)->mu(), mu, 1e-14 * mu);
  }
}

TEST(GaussianPrivacyTest, EpsilonAndDeltaGoBackToEachOtherAndToMu) {
  for (double mu : kMus) {
    for (double delta : {1e-200, 1e-12, 1e-5, 0.01}) {
      const double epsilon = Mu(mu).EpsilonAt(delta);
      EXPECT_LE(Mu(mu).DeltaAt(epsilon), delta);
      if (epsilon == 0) {
        continue;
      }
      EXPECT_NEAR(Mu(mu).DeltaAt(epsilon) / delta, 1, 1e-9) << mu << " " << delta;
      const double back = GaussianPrivacy::FromEpsilonDelta(epsilon, delta)->mu();
      EXPECT_NEAR(back / mu, 1, 1e-10) << mu << " " << delta;
      EXPECT_LE(Mu(back).DeltaAt(epsilon), delta);
    }
  }
}

TEST(GaussianPrivacyTest, FromEpsilonDeltaReachesBothEnds) {
  EXPECT_NEAR(GaussianPrivacy::FromEpsilonDelta(1, 0.126936737506643946)->mu(), 1, 1e-12);
  EXPECT_NEAR(GaussianPrivacy::FromEpsilonDelta(0, 3.98942280235206747e-5)->mu(), 1e-4, 1e-15);
  EXPECT_NEAR(GaussianPrivacy::FromEpsilonDelta(700, 0.993323245009655031)->mu(), 40, 1e-9);
  // The approximation sigma = sqrt(2 ln(1.25/delta)) / epsilon (Dwork and Roth 2014) is on the safe side.
  EXPECT_GT(GaussianPrivacy::FromEpsilonDelta(0.5, 1e-5)->mu(), 0.5 / std::sqrt(2 * std::log(1.25e5)));
}

TEST(GaussianPrivacyTest, EpsilonIsZeroWhereDeltaAloneIsEnough) {
  EXPECT_EQ(Mu(1).EpsilonAt(0.3829249225480263), 0);
  EXPECT_GT(Mu(1).EpsilonAt(0.3829), 0);
  EXPECT_EQ(Mu(0).EpsilonAt(0), 0);
  EXPECT_EQ(Mu(1).EpsilonAt(1), 0);
}

TEST(GaussianPrivacyTest, ComposesBySquares) {
  EXPECT_EQ(GaussianPrivacy::Compose({}).mu(), 0);
  EXPECT_DOUBLE_EQ(GaussianPrivacy::Compose({Mu(3), Mu(4)}).mu(), 5);
  EXPECT_DOUBLE_EQ(GaussianPrivacy::Compose(std::vector<GaussianPrivacy>(100, Mu(0.2))).mu(), 2);
  EXPECT_DOUBLE_EQ(GaussianPrivacy::Compose({Mu(1e-200), Mu(1e-200)}).mu(), std::sqrt(2) * 1e-200);
  EXPECT_EQ(GaussianPrivacy::Compose({Mu(1), Mu(kInfinity)}).mu(), kInfinity);
}

TEST(GaussianPrivacyTest, NoProtectionAndNoNumbersFailClosed) {
  EXPECT_EQ(Mu(kInfinity).AucBound(), 1);
  EXPECT_EQ(Mu(kInfinity).TprBound(0), 1);
  EXPECT_EQ(Mu(kInfinity).TprBound(0.1), 1);
  EXPECT_EQ(Mu(kInfinity).DeltaAt(1e300), 1);
  EXPECT_EQ(Mu(kInfinity).EpsilonAt(0.5), kInfinity);
  EXPECT_EQ(Mu(1).EpsilonAt(0), kInfinity);
  EXPECT_EQ(Mu(1).DeltaAt(kInfinity), 0);
  EXPECT_EQ(Mu(1e160).DeltaAt(1e300), 1);
  EXPECT_EQ(Mu(1e-300).DeltaAt(700), 0);
  for (double wrong : {-0.1, std::nan("")}) {
    EXPECT_EQ(Mu(1).DeltaAt(wrong), 1);
    EXPECT_EQ(Mu(1).TprBound(wrong), 1);
    EXPECT_EQ(Mu(1).EpsilonAt(wrong), kInfinity);
  }
  EXPECT_EQ(Mu(1).TprBound(1.1), 1);
  EXPECT_EQ(Mu(1).EpsilonAt(1.1), kInfinity);
}

void ExpectInvalid(const absl::StatusOr<GaussianPrivacy>& result) {
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(GaussianPrivacyTest, RefusesWhatIsOutOfRange) {
  const double nan = std::nan("");
  for (double mu : {-1.0, nan}) {
    ExpectInvalid(GaussianPrivacy::FromMu(mu));
  }
  EXPECT_EQ(GaussianPrivacy::FromMu(-1).status().message(), "Gaussian privacy: expected mu >= 0, found -1");
  for (double sigma : {0.0, -1.0, nan}) {
    ExpectInvalid(GaussianPrivacy::FromSigma(sigma));
  }
  for (double sensitivity : {-1.0, kInfinity, nan}) {
    ExpectInvalid(GaussianPrivacy::FromSigma(1, sensitivity));
  }
  for (double auc : {0.49, 1.01, nan}) {
    ExpectInvalid(GaussianPrivacy::FromAucBound(auc));
  }
  for (double epsilon : {-0.1, kInfinity, nan}) {
    ExpectInvalid(GaussianPrivacy::FromEpsilonDelta(epsilon, 0.1));
  }
  for (double delta : {0.0, 1.0, -0.1, nan}) {
    ExpectInvalid(GaussianPrivacy::FromEpsilonDelta(1, delta));
  }
}

}  // namespace
}  // namespace splitveil
