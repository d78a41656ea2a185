// Standard normal numbers from AES-256-CTR under a secret key, random access by position (architecture rule 2).
#ifndef SPLITVEIL_COMMON_CRYPTO_SECURE_GAUSSIAN_H_
#define SPLITVEIL_COMMON_CRYPTO_SECURE_GAUSSIAN_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/crypto/secure_random.h"

namespace splitveil {

// Where in the run a draw belongs. The same position always gives the same numbers under the same key, so a retried or
// resumed step re-creates its noise; different positions are independent.
struct NoisePosition {
  uint32_t epoch = 0;
  uint32_t batch = 0;
  // Separates independent streams of one batch, for example 0 isotropic and 1 directional noise.
  uint32_t stream = 0;
};

class SecureGaussian {
 public:
  static absl::StatusOr<std::unique_ptr<SecureGaussian>> Create(SecretKey key);
  ~SecureGaussian();

  // Writes components [first, first + out.size()) of `position`: independent N(0, 1) numbers. `first` must be even.
  // A batch's matrix is filled with first = row * cols_rounded_up_to_even. Not thread-safe.
  void Fill(const NoisePosition& position, uint64_t first, absl::Span<float> out);

 private:
  struct Cipher;
  explicit SecureGaussian(std::unique_ptr<Cipher> cipher);
  std::unique_ptr<Cipher> cipher_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CRYPTO_SECURE_GAUSSIAN_H_
