// Runs whose every epoch has noise of its own, attacked by who knows v and p: all releases together tell what the run
// claims, and the first ones less. Fixed seeds and keys; under random ones each comparison fails by chance with
// probability 1e-6 at most.
#include <array>
#include <cmath>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/crypto/label_noise.h"
#include "common/leakage/attack_scorer.h"
#include "common/leakage/summary.h"
#include "label_party/label_privacy/noised_labels.h"

namespace splitveil {
namespace {

constexpr size_t kExamples = 100'000;
constexpr int64_t kCols = 3;
constexpr double kNormalQuantile = 4.892;  // P(|N(0, 1)| > 4.892) = 1e-6.

std::shared_ptr<NoisedLabels> Make(const std::string& text) {
  v1::GradientProtection::GaussianLabelDp config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config));
  return *NoisedLabels::Create(config, Task(), SecretKey(std::array<uint8_t, 32>{'d', 'r', 'a', 'w'}));
}

double Phi(double x) { return 0.5 * std::erfc(-x / std::sqrt(2)); }

// A head with other p and v in every epoch, which know nothing of the labels.
class ReleasedRun {
 public:
  explicit ReleasedRun(std::shared_ptr<NoisedLabels> noised)
      : noised_(std::move(noised)), scorer_(ExampleSample(kExamples)) {
    for (size_t j = 0; j < kExamples; ++j) {
      labels_.push_back(j % 2);
      positions_.push_back(static_cast<uint32_t>(j));
    }
  }

  // AUC of the cumulative attack, `epoch` included.
  double AucAfter(uint32_t epoch) {
    const std::vector<float> targets = *noised_->TrainingTargets(
        NumberedNoiseRows(kExamples), std::vector<float>(labels_.begin(), labels_.end()), epoch);
    Matrix directions(kExamples, kCols), released(kExamples, kCols);
    std::vector<float> probabilities;
    const double noise = noised_->target_noise(epoch);
    for (size_t j = 0; j < kExamples; ++j) {
      const double logit = normal_(random_);
      const double p = 1 / (1 + std::exp(-logit));
      const double target =
          noise > 0 ? 1 / (1 + std::exp(-(logit + (targets[j] - 0.5) / (noise * noise)))) : targets[j];
      probabilities.push_back(static_cast<float>(p));
      for (int64_t i = 0; i < kCols; ++i) {
        const double v = normal_(random_);
        directions.row(static_cast<int64_t>(j))[i] = static_cast<float>(v);
        released.row(static_cast<int64_t>(j))[i] = static_cast<float>((p - target) * v);
      }
    }
    ReleasingHead head;
    head.label_directions = directions;
    head.probabilities = probabilities;
    head.noise_negative = head.noise_positive = {std::nan(""), std::nan("")};
    head.releases_repeat = noised_->releases_repeat();
    head.releases_posterior = noise > 0;
    head.label_mu = std::sqrt(noised_->sum_kl(epoch));
    AttackInput input;
    input.gradients = released;
    input.positions = positions_;
    input.head = &head;
    EXPECT_TRUE(scorer_.Begin(input).ok());
    return *LeakAuc(*scorer_.Score({v1::CUMULATIVE_CONDITIONAL_LIKELIHOOD_RATIO, 0}), labels_);
  }

 private:
  const std::shared_ptr<NoisedLabels> noised_;
  AttackScorer scorer_;
  std::vector<uint8_t> labels_;
  std::vector<uint32_t> positions_;
  std::mt19937_64 random_{7};  // NOLINT(cert-msc51-cpp): a fixed seed on purpose.
  std::normal_distribution<double> normal_;
};

class SeveralDrawsTest : public ::testing::TestWithParam<const char*> {};

TEST_P(SeveralDrawsTest, TellTogetherWhatTheyClaimAfterEveryEpoch) {
  for (const char* correction : {"likelihood_correction: true", "likelihood_correction: false"}) {
    const std::shared_ptr<NoisedLabels> noised = Make(std::string(GetParam()) + " " + correction);
    ReleasedRun run(noised);
    double squared_mu = 0;
    for (uint32_t epoch = 0; epoch < 4; ++epoch) {
      squared_mu += epoch < noised->draws() ? 1 / (noised->sigma(epoch) * noised->sigma(epoch)) : 0;
      const double bound = Phi(std::sqrt(squared_mu / 2));
      EXPECT_NEAR(run.AucAfter(epoch), bound, kNormalQuantile * std::sqrt(bound * (1 - bound) / (kExamples / 2.0)))
          << correction << ", epoch " << epoch;
      EXPECT_NEAR(noised->sum_kl_so_far(epoch), squared_mu, 1e-6);
    }
    EXPECT_NEAR(Phi(std::sqrt(squared_mu / 2)), 0.7, 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, SeveralDrawsTest,
                         ::testing::Values("max_run_auc_bound: 0.7", "max_run_auc_bound: 0.7 planned_epochs: 4",
                                           "max_run_auc_bound: 0.7 planned_epochs: 4 noise_growth_per_epoch: 3",
                                           "max_run_auc_bound: 0.7 planned_epochs: 4 noise_growth_per_epoch: 0.3"));

}  // namespace
}  // namespace splitveil
