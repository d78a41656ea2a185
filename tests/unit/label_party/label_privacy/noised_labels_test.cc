#include "label_party/label_privacy/noised_labels.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include "common/crypto/sha256.h"
#include "common/leakage/bounds.h"
#include "common/leakage/summary.h"
#include "common/process/exit_code.h"
#include "label_party/protection/gradient_protection.h"
#include "tests/testing/drawn_targets.h"
#include "tests/testing/process/temp_folder.h"
#include "tests/unit/label_party/protection/head_behind.h"

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
  EXPECT_EQ(Make(WithSigma(2))->sigma(0), 2);
  Config config;
  config.set_mu(0.5);
  EXPECT_NEAR(Make(config)->sigma(0), 2, 1e-5);
  // Phi^-1(0.7) sqrt(2) = 0.741615 and Phi^-1(0.6) sqrt(2) = 0.358287.
  config.set_max_run_auc_bound(0.7);
  EXPECT_NEAR(Make(config)->sigma(0), 1 / 0.741615, 1e-5);
  config.set_max_run_auc_bound(0.6);
  EXPECT_NEAR(Make(config)->sigma(0), 1 / 0.358287, 1e-4);
  EXPECT_LE(Make(config)->privacy().AucBound(), 0.6);
  // delta(1) of mu = 1, Dong, Roth and Su, corollary 2.13: Phi(-1/2) - e Phi(-3/2) = 0.126936737507.
  config.mutable_budget()->set_epsilon(1);
  config.mutable_budget()->set_delta(0.126936737507);
  EXPECT_NEAR(Make(config)->sigma(0), 1, 1e-5);
}

TEST(NoisedLabelsTest, TheSigmaThatIsDrawnIsNeverSmallerThanTheConfigured) {
  for (double sigma : {0.1, 0.7, 1.0 / 3, 2.791}) {
    EXPECT_GE(Make(WithSigma(sigma))->sigma(0), sigma);
    EXPECT_LT(Make(WithSigma(sigma))->sigma(0), sigma + 1e-6);
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
  EXPECT_NEAR((*NoisedLabels::Create(config, task, FixedKey()))->sigma(0), 2 * std::sqrt(2), 1e-5);
  constexpr size_t kExamples = 60'000;
  std::vector<float> labels(kExamples);
  for (size_t j = 0; j < kExamples; ++j) {
    labels[j] = j % 2 == 0 ? 1 : 3;
  }
  const std::vector<float> targets = *noised->TrainingTargets(NumberedNoiseRows(kExamples), labels, /*epoch=*/0);
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
  EXPECT_EQ((*NoisedLabels::Create(corrected, {Task::Kind::kRegression, 0}, FixedKey()))->target_noise(0), 0);
  constexpr size_t kExamples = 40'000;
  const std::vector<float> labels(kExamples, 0.3F);
  double sum = 0;
  const std::vector<float> targets = *noised->TrainingTargets(NumberedNoiseRows(kExamples), labels, /*epoch=*/0);
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

Config EveryEpoch(double mu, int32_t epochs, double growth = 1) {
  Config config;
  config.set_mu(mu);
  config.set_planned_epochs(epochs);
  config.set_noise_growth_per_epoch(growth);
  return config;
}

// mu of the run is sqrt(sum 1 / sigma_e^2): Dong, Roth and Su, corollary 3.3.
TEST(NoisedLabelsTest, SeveralDrawsShareTheStrengthOfTheRun) {
  const std::shared_ptr<NoisedLabels> constant = Make(EveryEpoch(0.5, 4));
  EXPECT_EQ(constant->draws(), 4);
  EXPECT_NEAR(constant->privacy().mu(), 0.5, 1e-6);
  EXPECT_NEAR(constant->sigma(0), 4, 1e-5);
  EXPECT_EQ(constant->sigma(3), constant->sigma(0));
  EXPECT_NEAR(constant->sum_kl(2), 0.25 / 4, 1e-6);
  EXPECT_NEAR(constant->sum_kl_so_far(2), 0.25 * 3 / 4, 1e-6);
  const std::shared_ptr<NoisedLabels> growing = Make(EveryEpoch(1, 2, 3));
  EXPECT_NEAR(growing->sigma(0), std::sqrt(4.0 / 3), 1e-5);
  EXPECT_NEAR(growing->sigma(1), 2, 1e-5);
  EXPECT_NEAR(growing->target_noise(1), 2, 1e-5);
  EXPECT_FALSE(growing->releases_repeat());
}

TEST(NoisedLabelsTest, EveryPlannedEpochHasNoiseOfItsOwn) {
  const std::vector<uint8_t> labels(50'000, 1);
  const std::shared_ptr<NoisedLabels> noised = Make(EveryEpoch(0.5, 2));
  const std::vector<float> first = DrawTargets(*noised, labels, 0), second = DrawTargets(*noised, labels, 1);
  EXPECT_EQ(DrawTargets(*Make(EveryEpoch(0.5, 2)), labels, 1), second);  // Also if a run begins with it.
  EXPECT_EQ(DrawTargets(*noised, labels, 7), second);
  double products = 0;
  for (size_t j = 0; j < labels.size(); ++j) {
    products += (first[j] - 1) * (second[j] - 1) / (noised->sigma(0) * noised->sigma(1));
  }
  EXPECT_LE(std::abs(products), 6 * std::sqrt(50'000.0));
}

// A run of more epochs begins as the shorter one does, and a run of one draw, too.
TEST(NoisedLabelsTest, DrawsOfOneStrengthAreTakenInOrder) {
  const std::vector<uint8_t> labels(100, 1);
  const std::vector<float> once = DrawTargets(*Make(WithSigma(2)), labels);
  const std::shared_ptr<NoisedLabels> four = Make(EveryEpoch(1, 4)), nine = Make(EveryEpoch(1.5, 9));
  EXPECT_EQ(four->sigma(0), 2);
  EXPECT_EQ(nine->sigma(0), 2);
  EXPECT_EQ(DrawTargets(*four, labels, 0), once);
  EXPECT_EQ(DrawTargets(*nine, labels, 0), once);
  EXPECT_EQ(DrawTargets(*nine, labels, 3), DrawTargets(*four, labels, 3));
}

// However a strength is said, it is that of the run.
TEST(NoisedLabelsTest, SigmaIsThatOfOneDraw) {
  Config config = WithSigma(2);
  config.set_planned_epochs(4);
  EXPECT_NEAR(Make(config)->sigma(0), 4, 1e-5);
  EXPECT_NEAR(Make(config)->privacy().mu(), 0.5, 1e-6);
  EXPECT_LE(Make(config)->privacy().mu(), 0.5);
  config.set_noise_draws(Config::ONE_DRAW);
  EXPECT_EQ(Make(config)->sigma(3), 2);
  EXPECT_EQ(Make(config)->draws(), 1);
}

// 200,000 labels: the sample AUC of the sum, weighted by 1 / sigma^2, lies within six standard errors of the bound.
TEST(NoisedLabelsTest, SeveralDrawsTellAsMuchAsTheMechanismSaysAndNoMore) {
  std::vector<uint8_t> labels(200'000);
  for (size_t j = 0; j < labels.size(); ++j) {
    labels[j] = j % 2;
  }
  const std::shared_ptr<NoisedLabels> noised = Make(EveryEpoch(1, 3, 2));
  std::vector<float> sums(labels.size());
  for (uint32_t epoch = 0; epoch < 3; ++epoch) {
    const std::vector<float> targets = DrawTargets(*noised, labels, epoch);
    for (size_t j = 0; j < labels.size(); ++j) {
      sums[j] += targets[j] * static_cast<float>(noised->sum_kl(epoch));
    }
  }
  EXPECT_NEAR(*LeakAuc(sums, labels), 0.760250, 0.008);  // Phi(1 / sqrt 2)
}

TEST(GaussianLabelDpMethodTest, GradientsLeaveAsTheyAreAtTheMechanismsDivergence) {
  const std::shared_ptr<NoisedLabels> labels = Make(WithSigma(2));
  GradientProtection protection(std::make_unique<GaussianLabelDpMethod>(labels));
  EXPECT_TRUE(protection.is_passthrough());
  EXPECT_EQ(protection.name(), "gaussian_label_dp(sigma=2)");
  Matrix gradients(2, 2);
  gradients.row(0)[0] = 1;
  gradients.row(1)[1] = -3;
  const std::vector<uint8_t> classes = {0, 1};
  Matrix out;
  EXPECT_EQ(PerturbRows(protection, gradients, classes, {1, 2, 0}, out).status().code(),
            absl::StatusCode::kFailedPrecondition);
  DrawTargets(*labels, classes);
  const auto report = PerturbRows(protection, gradients, classes, {1, 2, 0}, out);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(out.row(0)[0], 1);
  EXPECT_EQ(out.row(1)[1], -3);
  EXPECT_DOUBLE_EQ(report->sum_kl, 0.25);
  EXPECT_DOUBLE_EQ(report->run_sum_kl, 0.25);  // However many releases.
  EXPECT_DOUBLE_EQ(report->sum_kl_so_far, 0.25);
  EXPECT_TRUE(report->releases_repeat);
  EXPECT_NEAR(GaussianAucBound(report->run_sum_kl), labels->privacy().AucBound(), 1e-9);  // But for rounding.
}

TEST(GaussianLabelDpMethodTest, EveryDrawHasADivergenceOfItsOwn) {
  const std::shared_ptr<NoisedLabels> labels = Make(EveryEpoch(1, 4));
  GradientProtection protection(std::make_unique<GaussianLabelDpMethod>(labels));
  EXPECT_EQ(protection.name(), "gaussian_label_dp(sigma=2, draws=4)");
  EXPECT_EQ(GaussianLabelDpMethod(Make(EveryEpoch(1, 2, 3))).name(), "gaussian_label_dp(sigma=1.155 to 2, draws=2)");
  const std::vector<uint8_t> classes = {0, 1};
  DrawTargets(*labels, classes);
  Matrix out;
  const auto report = PerturbRows(protection, Matrix(2, 2), classes, {/*epoch=*/2, 0, 0}, out);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_NEAR(report->sum_kl, 0.25, 1e-6);
  EXPECT_NEAR(report->sum_kl_so_far, 0.75, 1e-6);
  EXPECT_NEAR(report->run_sum_kl, 1, 1e-6);
  EXPECT_FALSE(report->releases_repeat);
}

// Of the discrete Gaussian on the grid: the sums of its densities that flip a 0 (above 1/2) and a 1 (-1/2 and below).
TEST(LabelRandomizerTest, NeitherLabelFlipsWithLessThanTheProbabilityThatEpsilonAllows) {
  for (const double epsilon : {0.001, 0.1, 1.0, 3.0, 8.0}) {
    v1::GradientProtection config;
    config.mutable_label_dp()->set_epsilon(epsilon);
    const std::vector<NoiseReleases> planned = *PlannedReleases(config, Task());
    ASSERT_EQ(planned.size(), 1U);
    EXPECT_EQ(planned[0].draws, 1U);
    const double sigma = planned[0].sigma_units;
    const int64_t half = int64_t{1} << 19;
    // Tails by the Gaussian integral from the first unit's edge: exact to 1e-12 at these sigmas (Poisson's summation).
    const double of_zero = 0.5 * std::erfc((static_cast<double>(half) + 0.5) / sigma / std::sqrt(2));
    const double of_one = 0.5 * std::erfc((static_cast<double>(half) - 0.5) / sigma / std::sqrt(2));
    const double rho = 1 / (1 + std::exp(epsilon));
    EXPECT_GE(of_zero, rho) << epsilon;
    EXPECT_LE(of_one, rho * (1 + 1e-3)) << epsilon;
    EXPECT_LE(std::log((1 - of_zero) / of_zero), epsilon) << epsilon;
  }
}

// On all cores, in shares, what one object draws one by one.
TEST(NoisedLabelsTest, ManyExamplesGetTheNoiseOfEachByItself) {
  Task task;
  task.kind = Task::Kind::kMultiClass;
  task.classes = 8;
  constexpr size_t kMany = 5000;
  const std::shared_ptr<NoisedLabels> noised = *NoisedLabels::Create(WithSigma(2), task, FixedKey());
  LabelNoise alone = *LabelNoise::Create(FixedKey(), Sha256("labels of one run"), {*SigmaUnits(2)});
  const std::vector<NoiseRow> examples = NumberedNoiseRows(kMany);
  std::vector<float> labels(kMany);
  for (size_t j = 0; j < kMany; ++j) {
    labels[j] = static_cast<float>(j % 8);
  }
  const std::vector<float> targets = *noised->TrainingTargets(examples, labels, 0);
  ASSERT_EQ(targets.size(), 8 * kMany);
  for (size_t j = 0; j < kMany; ++j) {
    for (uint32_t k = 0; k < 8; ++k) {
      const int64_t expected = (j % 8 == k ? kLabelGridUnit : 0) + alone.At(examples[j], 0, k);
      ASSERT_EQ(targets[8 * j + k], std::ldexp(static_cast<float>(expected), -kLabelGridBits)) << j << ", " << k;
    }
  }
}

TEST(NoisedLabelsTest, DrawsNothingBeforeTheAccountHasCounted) {
  const testing::TempFolder folder;
  const auto noised = [&](double limit) {
    return *NoisedLabels::Create(
        WithSigma(1), Task(),
        *PrivacyAccount::Open({folder.File("labels.account.db"), "clicks", limit, LabelKind::kBinary}));
  };
  const std::shared_ptr<NoisedLabels> admitted = noised(1);
  EXPECT_EQ(admitted->TrainingTargets(NumberedNoiseRows(1), {1}, 0).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(admitted->drawn());
  const std::shared_ptr<NoisedLabels> halted = noised(0.6);
  EXPECT_TRUE(IsHalt(halted->Count("run-1", NumberedNoiseRows(1), {1})));
  EXPECT_FALSE(halted->TrainingTargets(NumberedNoiseRows(1), {1}, 0).ok());
  ASSERT_TRUE(admitted->Count("run-1", NumberedNoiseRows(1), {1}).ok());
  EXPECT_TRUE(admitted->TrainingTargets(NumberedNoiseRows(1), {1}, 0).ok());
}

// Of two partners with examples of their own: what was released of the other's is stated, and not held against these.
TEST(NoisedLabelsTest, AnotherExamplesReleasesDoNotPassTheLimitOfThese) {
  const testing::TempFolder folder;
  const auto count = [&](double sigma, double limit, std::vector<NoiseRow> rows) {
    const std::shared_ptr<NoisedLabels> noised = *NoisedLabels::Create(
        WithSigma(sigma), Task(),
        *PrivacyAccount::Open({folder.File("labels.account.db"), "clicks", limit, LabelKind::kBinary}));
    const std::vector<float> labels(rows.size(), 1);
    EXPECT_TRUE(noised->Count(absl::StrCat("run of ", sigma), rows, labels).ok());
    return *noised->accounted();
  };
  const std::vector<NoiseRow> all = NumberedNoiseRows(20);
  count(1, 1, {all.begin(), all.begin() + 10});
  const AccountedReleases second = count(2, 0.65, {all.begin() + 10, all.end()});  // 0.638.
  EXPECT_NEAR(second.of_examples_sum_kl, 0.25, 1e-3);
  EXPECT_NEAR(second.earlier_sum_kl, 0.75, 1e-3);
}

TEST(LabelRandomizerTest, RefusesAnEpsilonOfNoNoise) {
  for (const double epsilon : {0.0, -1.0, 1e5, std::nan("")}) {
    EXPECT_FALSE(LabelRandomizer::Create(epsilon, FixedKey()).ok()) << epsilon;
  }
}

// Flips that are drawn again count once; with Gaussian noise on the same labels mu^2 adds.
TEST(LabelRandomizerTest, AnAccountCountsFlipsOnceAndAddsThemToOtherNoise) {
  const testing::TempFolder folder;
  const std::vector<uint8_t> labels(400, 1);
  const auto account = [&] {
    return *PrivacyAccount::Open({folder.File("labels.account.db"), "clicks", 1, LabelKind::kBinary});
  };
  const std::shared_ptr<LabelRandomizer> first = *LabelRandomizer::Create(1, account());
  const std::vector<float> flips = DrawTargets(*first, labels);
  ASSERT_TRUE(first->accounted().has_value());
  const double mu = 1.232035;  // 2 Phi^-1(0.731059), by Python's statistics.NormalDist.
  EXPECT_NEAR(first->accounted()->run_sum_kl, mu * mu, 1e-3);
  EXPECT_EQ(first->accounted()->earlier_sum_kl, 0);

  const std::shared_ptr<LabelRandomizer> again = *LabelRandomizer::Create(1, account());
  EXPECT_EQ(DrawTargets(*again, labels), flips);
  EXPECT_NEAR(again->accounted()->earlier_sum_kl, 0, 1e-9);

  const std::shared_ptr<NoisedLabels> noised = *NoisedLabels::Create(WithSigma(2), Task(), account());
  DrawTargets(*noised, labels);
  EXPECT_NEAR(noised->accounted()->earlier_sum_kl, mu * mu, 1e-3);

  const std::shared_ptr<LabelRandomizer> stronger = *LabelRandomizer::Create(2, account());
  EXPECT_NE(DrawTargets(*stronger, labels), flips);
  EXPECT_NEAR(stronger->accounted()->earlier_sum_kl, mu * mu + 0.25, 1e-3);
}

}  // namespace
}  // namespace splitveil
