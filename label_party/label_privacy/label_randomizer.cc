#include "label_party/label_privacy/label_randomizer.h"

#include <cmath>
#include <utility>

#include "common/crypto/aes_ctr.h"

namespace splitveil {

LabelRandomizer::LabelRandomizer(double epsilon, SecretKey key)
    : epsilon_(epsilon), rho_(1 / (1 + std::exp(epsilon))), key_(std::move(key)) {}

absl::StatusOr<std::vector<float>> LabelRandomizer::TrainingTargets(absl::Span<const NoiseRow>,
                                                                    absl::Span<const float> labels, uint32_t) {
  drawn_ = true;
  std::vector<uint64_t> words(labels.size());
  AesCtr(key_.bytes()).Generate({reinterpret_cast<uint8_t*>(words.data()), sizeof(uint64_t) * words.size()});
  const double limit = std::ldexp(rho_, 64);  // Below 2^63.
  std::vector<float> targets(labels.size());
  for (size_t j = 0; j < labels.size(); ++j) {
    const bool flip = words[j] < static_cast<uint64_t>(limit);
    targets[j] = static_cast<float>(((flip ? 1 - labels[j] : labels[j]) - rho_) / (1 - 2 * rho_));
  }
  return targets;
}

}  // namespace splitveil
