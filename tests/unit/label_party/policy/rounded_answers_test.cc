#include <cmath>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <vector>

#include "common/leakage/summary.h"
#include "label_party/policy/release_gate.h"

namespace splitveil {
namespace {

v1::AuditAgreement Agreement() {
  v1::AuditAgreement audit;
  audit.set_disclosure(v1::ROUNDED);
  audit.mutable_rounded()->set_max_answers(2);
  return audit;
}

TEST(RoundedAnswersTest, AreDueUpToTheQuotaOnLargeEnoughBatches) {
  v1::AuditAgreement audit = Agreement();
  audit.set_every_batches(3);
  RoundedAnswers answers(audit);
  EXPECT_TRUE(answers.any());
  EXPECT_DOUBLE_EQ(answers.sum_kl(), 0.01);
  EXPECT_FALSE(answers.IsDue(0, 255));
  EXPECT_TRUE(answers.IsDue(0, 256));
  EXPECT_FALSE(answers.IsDue(1, 256));
  EXPECT_FALSE(answers.IsDue(2, 256));
  EXPECT_TRUE(answers.IsDue(3, 256));
  answers.Spend();
  EXPECT_TRUE(answers.IsDue(6, 256));
  answers.Spend();
  EXPECT_FALSE(answers.IsDue(9, 256));
}

TEST(RoundedAnswersTest, AreDueUnderNoOtherDisclosure) {
  for (const v1::DisclosureLevel disclosure : {v1::DISCLOSURE_LEVEL_UNSPECIFIED, v1::LABEL_SIDE_ONLY, v1::ORACLE}) {
    v1::AuditAgreement audit = Agreement();
    audit.set_disclosure(disclosure);
    EXPECT_FALSE(RoundedAnswers(audit).IsDue(0, 4096)) << disclosure;
    EXPECT_FALSE(RoundedAnswers(audit).any());
  }
}

TEST(RoundedAnswersTest, NoiseThatCannotBeDrawnIsNoAnswer) {
  v1::AuditAgreement audit = Agreement();
  audit.mutable_rounded()->set_mu(0.001);
  EXPECT_TRUE(RoundedAnswers(audit).IsDue(0, 1 << 20));
  EXPECT_FALSE(RoundedAnswers(audit).IsDue(0, 1 << 21));
}

TEST(RoundedAnswerTest, IsAMultipleOfOneHundredthBetweenZeroAndOneWhateverTheLabels) {
  std::vector<float> scores(256);
  std::iota(scores.begin(), scores.end(), 0.0F);
  for (const int positives : {0, 1, 128, 255, 256}) {
    std::vector<uint8_t> labels(256, 0);
    std::fill_n(labels.begin(), positives, 1);
    for (int i = 0; i < 50; ++i) {
      const double answer = RoundedAnswer(Agreement().rounded(), scores, labels);
      EXPECT_GE(answer, 0);
      EXPECT_LE(answer, 1);
      EXPECT_NEAR(answer * 100, std::round(answer * 100), 1e-9);
    }
  }
}

// With so little noise that the rounding is larger, it is the AUC that LeakAuc computes, ties among the scores
// included: mu = 1 at 65,536 examples has a standard deviation of 4e-5.
TEST(RoundedAnswerTest, IsTheAucButForNoise) {
  v1::RoundedAnswers config;
  config.set_mu(1);
  std::mt19937 random(5);
  std::vector<float> scores(65536);
  std::vector<uint8_t> labels(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    labels[i] = random() % 4 == 0 ? 1 : 0;
    scores[i] = static_cast<float>(random() % 7 + 2 * labels[i]);
  }
  EXPECT_NEAR(RoundedAnswer(config, scores, labels), *LeakAuc(scores, labels), 0.0055);
}

// Standard deviation sigma_W / (2 n1 n0) = 11.2 * 1023 / (2 * 256 * 768) = 0.029 at mu = 0.1; of 400 answers, the mean
// is within 0.0075 and the deviation within 20% but for once in 10^6 runs.
TEST(RoundedAnswerTest, HasTheStatedNoise) {
  std::vector<float> scores(1024);
  std::iota(scores.begin(), scores.end(), 0.0F);
  std::vector<uint8_t> labels(1024, 0);
  for (size_t i = 0; i < labels.size(); i += 4) {
    labels[i] = 1;
  }
  double sum = 0, squares = 0;
  constexpr int kAnswers = 400;
  for (int i = 0; i < kAnswers; ++i) {
    const double answer = RoundedAnswer(Agreement().rounded(), scores, labels);
    sum += answer / kAnswers;
    squares += answer * answer / kAnswers;
  }
  EXPECT_NEAR(sum, *LeakAuc(scores, labels), 0.0075);
  EXPECT_NEAR(std::sqrt(squares - sum * sum), 0.0293, 0.006);
}

}  // namespace
}  // namespace splitveil
