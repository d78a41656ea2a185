#include "label_party/label_privacy/noised_labels.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include "common/leakage/bounds.h"
#include "common/leakage/leak_auc.h"
#include "label_party/protection/gaussian_label_dp_planner.h"
#include "label_party/protection/gradient_protection.h"
#include "tests/testing/drawn_targets.h"

namespace splitveil {
namespace {

using Config = v1::GradientProtection::GaussianLabelDp;

SecretKey FixedKey(uint8_t key_byte = 7) {
  std::array<uint8_t, 32> key;
  key.fill(key_byte);
  return SecretKey(key);
}

Config WithSigma(double sigma) {
  Config config;
  config.set_sigma(sigma);
  return config;
}

std::shared_ptr<NoisedLabels> Make(const Config& config) {
  absl::StatusOr<std::shared_ptr<NoisedLabels>> labels = NoisedLabels::Create(config, Task(), FixedKey());
  EXPECT_TRUE(labels.ok()) << labels.status();
  return *labels;
}

TEST(NoisedLabelsTest, EveryWayToStateAStrengthGivesItsSigma) {
  EXPECT_EQ(Make(WithSigma(2))->sigma(), 2);
  Config config;
  config.set_mu(0.5);
  EXPECT_NEAR(Make(config)->sigma(), 2, 1e-5);
  // Phi^-1(0.7) sqrt(2) = 0.741615 and Phi^-1(0.6) sqrt(2) = 0.358287.
  config.set_max_run_auc_bound(0.7);
  EXPECT_NEAR(Make(config)->sigma(), 1 / 0.741615, 1e-5);
  config.set_max_run_auc_bound(0.6);
  EXPECT_NEAR(Make(config)->sigma(), 1 / 0.358287, 1e-4);
  EXPECT_LE(Make(config)->privacy().AucBound(), 0.6);
  // delta(1) of mu = 1, Dong, Roth and Su, corollary 2.13: Phi(-1/2) - e Phi(-3/2) = 0.126936737507.
  config.mutable_budget()->set_epsilon(1);
  config.mutable_budget()->set_delta(0.126936737507);
  EXPECT_NEAR(Make(config)->sigma(), 1, 1e-5);
}

TEST(NoisedLabelsTest, TheSigmaThatIsDrawnIsNeverSmallerThanTheConfigured) {
  for (double sigma : {0.1, 0.7, 1.0 / 3, 2.791}) {
    EXPECT_GE(Make(WithSigma(sigma))->sigma(), sigma);
    EXPECT_LT(Make(WithSigma(sigma))->sigma(), sigma + 1e-6);
  }
}

TEST(NoisedLabelsTest, RefusesStrengthsThatAreNoNoise) {
  EXPECT_EQ(NoisedLabels::Create(Config(), Task(), FixedKey()).status().code(), absl::StatusCode::kInvalidArgument);
  for (double sigma : {0.0, -1.0, 1e-6, 1e9, std::nan("")}) {
    const absl::Status status = NoisedLabels::Create(WithSigma(sigma), Task(), FixedKey()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << sigma;
    EXPECT_NE(status.message().find("gaussian_label_dp"), absl::string_view::npos) << status;
  }
}

// 200,000 labels under a fixed key: the sample AUC of the likelihood ratio test lies within six standard errors
// (0.0013 each) of Phi(1 / (sigma sqrt 2)).
TEST(NoisedLabelsTest, TellAsMuchAsTheMechanismSaysAndNoMore) {
  std::vector<uint8_t> labels(200'000);
  for (size_t j = 0; j < labels.size(); ++j) {
    labels[j] = j % 2;
  }
  for (double sigma : {0.5, 1.0, 2.79}) {
    const std::shared_ptr<NoisedLabels> noised = Make(WithSigma(sigma));
    const std::vector<float> targets = DrawTargets(*noised, labels);
    EXPECT_NEAR(*LeakAuc(targets, labels), noised->privacy().AucBound(), 0.008);
    double sum = 0;
    for (size_t j = 0; j < targets.size(); ++j) {
      sum += targets[j] - labels[j];
    }
    EXPECT_NEAR(sum / 200'000, 0, 6 * sigma / std::sqrt(200'000.0));
  }
}

// Two classes are sqrt 2 apart, so that the same guarantee takes sqrt 2 times the noise of two. Of 60,000 examples of
// classes 1 and 3, the difference of their components, which is the likelihood ratio test, tells what the mechanism
// says.
TEST(NoisedLabelsTest, OfSeveralClassesTellAsMuchAsTheMechanismSaysAndNoMore) {
  const Task task = {Task::Kind::kMultiClass, 5};
  const std::shared_ptr<NoisedLabels> noised = *NoisedLabels::Create(WithSigma(2), task, FixedKey());
  EXPECT_NEAR(noised->privacy().mu(), std::sqrt(2) / 2, 1e-6);
  Config config;
  config.set_mu(0.5);
  EXPECT_NEAR((*NoisedLabels::Create(config, task, FixedKey()))->sigma(), 2 * std::sqrt(2), 1e-5);
  constexpr size_t kExamples = 60'000;
  std::vector<float> labels(kExamples);
  for (size_t j = 0; j < kExamples; ++j) {
    labels[j] = j % 2 == 0 ? 1 : 3;
  }
  const std::vector<float> targets = *noised->TrainingTargets(NumberedNoiseRows(kExamples), labels);
  ASSERT_EQ(targets.size(), 5 * kExamples);
  std::vector<float> ratios;
  std::vector<uint8_t> is_third;
  double squared = 0;
  for (size_t j = 0; j < kExamples; ++j) {
    ratios.push_back(targets[5 * j + 3] - targets[5 * j + 1]);
    is_third.push_back(labels[j] == 3 ? 1 : 0);
    for (size_t k = 0; k < 5; ++k) {
      squared += std::pow(targets[5 * j + k] - (labels[j] == static_cast<float>(k) ? 1 : 0), 2);
    }
  }
  EXPECT_NEAR(*LeakAuc(ratios, is_third), noised->privacy().AucBound(), 0.014);  // Six standard errors.
  EXPECT_NEAR(squared / (5 * kExamples), 4, 6 * 4 * std::sqrt(2.0 / (5 * kExamples)));
}

TEST(NoisedLabelsTest, OfNumbersHaveTheirMean) {
  const std::shared_ptr<NoisedLabels> noised =
      *NoisedLabels::Create(WithSigma(0.5), {Task::Kind::kRegression, 0}, FixedKey());
  EXPECT_NEAR(noised->privacy().mu(), 2, 1e-5);
  Config corrected = WithSigma(0.5);
  corrected.set_likelihood_correction(true);
  EXPECT_EQ((*NoisedLabels::Create(corrected, {Task::Kind::kRegression, 0}, FixedKey()))->target_noise(), 0);
  constexpr size_t kExamples = 40'000;
  const std::vector<float> labels(kExamples, 0.3F);
  double sum = 0;
  const std::vector<float> targets = *noised->TrainingTargets(NumberedNoiseRows(kExamples), labels);
  for (const float target : targets) {
    sum += target;
  }
  EXPECT_NEAR(sum / kExamples, 0.3, 6 * 0.5 / std::sqrt(static_cast<double>(kExamples)));
}

TEST(NoisedLabelsTest, AreTheSameForTheSameKeyOnly) {
  const std::vector<uint8_t> labels(100, 1);
  const std::vector<float> targets = DrawTargets(*Make(WithSigma(1)), labels);
  EXPECT_EQ(DrawTargets(*Make(WithSigma(1)), labels), targets);
  EXPECT_NE(DrawTargets(**NoisedLabels::Create(WithSigma(1), Task(), FixedKey(8)), labels), targets);
}

TEST(GaussianLabelDpPlannerTest, GradientsLeaveAsTheyAreAtTheMechanismsDivergence) {
  const std::shared_ptr<NoisedLabels> labels = Make(WithSigma(2));
  GradientProtection protection(std::make_unique<GaussianLabelDpPlanner>(labels), nullptr);
  EXPECT_TRUE(protection.is_passthrough());
  EXPECT_EQ(protection.name(), "gaussian_label_dp(sigma=2)");
  Matrix gradients(2, 2);
  gradients.row(0)[0] = 1;
  gradients.row(1)[1] = -3;
  const std::vector<uint8_t> classes = {0, 1};
  Matrix out;
  EXPECT_EQ(protection.Perturb(gradients, classes, {1, 2, 0}, out).status().code(),
            absl::StatusCode::kFailedPrecondition);
  DrawTargets(*labels, classes);
  const auto report = protection.Perturb(gradients, classes, {1, 2, 0}, out);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(out.row(0)[0], 1);
  EXPECT_EQ(out.row(1)[1], -3);
  EXPECT_DOUBLE_EQ(report->sum_kl, 0.25);
  EXPECT_DOUBLE_EQ(report->run_sum_kl, 0.25);                                             // However many releases.
  EXPECT_NEAR(GaussianAucBound(report->run_sum_kl), labels->privacy().AucBound(), 1e-9);  // But for rounding.
}

}  // namespace
}  // namespace splitveil
