#include "label_party/policy/rounded_answers.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "common/crypto/discrete_gaussian.h"
#include "common/crypto/invariant.h"
#include "common/crypto/secure_random.h"

namespace splitveil {
namespace {

constexpr double kRankShare = 0.8;       // Of mu^2.
constexpr int64_t kCountGrid = 1024;     // Positives are counted in these parts, so that a small sigma is exact.
constexpr double kEndOfSigmas = 0x1p31;  // SampleDiscreteGaussian's.
constexpr double kAnswersPerUnit = 100;  // Rounding to 0.01.

double RankSigma(double mu, int64_t examples) {
  // W moves by at most n - 1 with one label. Rounded up: more noise, never less, than mu asks for.
  return std::ceil(static_cast<double>(examples - 1) / (mu * std::sqrt(kRankShare)));
}

double CountSigma(double mu) { return std::ceil(static_cast<double>(kCountGrid) / (mu * std::sqrt(1 - kRankShare))); }

int64_t Noise(double sigma) {
  // Below 1 a discrete Gaussian no longer behaves like a continuous one, and the bound would not hold.
  CheckInvariant(sigma >= 1 && sigma < kEndOfSigmas, "RoundedAnswer: a sigma that can be drawn");
  return SampleDiscreteGaussian(static_cast<uint32_t>(sigma), [] {
    uint64_t word = 0;
    FillSecureRandom({reinterpret_cast<uint8_t*>(&word), sizeof(word)});
    return word;
  });
}

// W.
int64_t RankSum(absl::Span<const float> scores, absl::Span<const uint8_t> labels) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] < scores[b]; });
  int64_t sum = 0;
  const auto count = static_cast<int64_t>(order.size());
  for (int64_t begin = 0, end = 0; begin < count; begin = end) {  // Of equal scores.
    int64_t positives = 0;
    for (end = begin; end < count && scores[order[end]] == scores[order[begin]]; ++end) {
      positives += labels[order[end]];
    }
    sum += positives * (begin - (count - end));
  }
  return sum;
}

}  // namespace

std::optional<double> DisclosedAuc(v1::DisclosureLevel disclosure, std::optional<double> auc) {
  return disclosure == v1::ORACLE ? auc : std::nullopt;
}

bool RoundedAnswers::IsDue(int64_t step, int64_t examples) const {
  const v1::RoundedAnswers& config = audit_.rounded();
  // By public facts only: that a batch is answered must not tell of its labels.
  return any() && step % audit_.every_batches() == 0 && spent_ < static_cast<uint32_t>(config.max_answers()) &&
         examples >= config.minimum_batch() && RankSigma(config.mu(), examples) < kEndOfSigmas;
}

double RoundedAnswer(const v1::RoundedAnswers& config, absl::Span<const float> scores,
                     absl::Span<const uint8_t> labels) {
  const auto examples = static_cast<int64_t>(labels.size());
  const int64_t rank_sum = RankSum(scores, labels) + Noise(RankSigma(config.mu(), examples));
  const int64_t positive_parts =
      kCountGrid * std::accumulate(labels.begin(), labels.end(), int64_t{0}) + Noise(CountSigma(config.mu()));
  // From here on everything is made of noised numbers, and public ones.
  const double positives = std::clamp(static_cast<double>(positive_parts) / static_cast<double>(kCountGrid), 1.0,
                                      static_cast<double>(examples - 1));
  const double pairs = positives * (static_cast<double>(examples) - positives);
  const double auc = std::clamp(0.5 + static_cast<double>(rank_sum) / (2 * pairs), 0.0, 1.0);
  return std::round(auc * kAnswersPerUnit) / kAnswersPerUnit;
}

}  // namespace splitveil
