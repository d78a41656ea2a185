// The one source of secret randomness: keys, seed contributions, hint rows. Never for training.
#ifndef SPLITVEIL_COMMON_CRYPTO_SECURE_RANDOM_H_
#define SPLITVEIL_COMMON_CRYPTO_SECURE_RANDOM_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace splitveil {

// Fills `bytes` from the operating system's generator (OpenSSL RAND_priv_bytes). Aborts the process if entropy fails.
// Thread-safe.
void FillSecureRandom(absl::Span<uint8_t> bytes);

// A uniform draw from [0, size), size > 0, for choices the peer must not predict. The bias is below size / 2^64.
// Thread-safe.
size_t SecureIndex(size_t size);

// 256 secret bits, wiped when destroyed or moved from (a moved-from key is all zero). Movable, not copyable.
class SecretKey {
 public:
  // A new key from FillSecureRandom.
  static SecretKey Generate();
  // A copy of `bytes`; wiping the original is up to the caller.
  explicit SecretKey(const std::array<uint8_t, 32>& bytes);
  SecretKey(SecretKey&& other) noexcept;
  SecretKey& operator=(SecretKey&& other) noexcept;
  SecretKey(const SecretKey&) = delete;
  SecretKey& operator=(const SecretKey&) = delete;
  ~SecretKey();

  const std::array<uint8_t, 32>& bytes() const { return bytes_; }

 private:
  SecretKey() = default;

  std::array<uint8_t, 32> bytes_ = {};
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CRYPTO_SECURE_RANDOM_H_
