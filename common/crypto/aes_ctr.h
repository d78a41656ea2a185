// The AES-256-CTR keystream that both generators are made of. Not itself a generator: use SecureGaussian for privacy
// and SeededStream for the schedule.
#ifndef SPLITVEIL_COMMON_CRYPTO_AES_CTR_H_
#define SPLITVEIL_COMMON_CRYPTO_AES_CTR_H_

#include <array>
#include <cstdint>
#include <memory>

#include "absl/types/span.h"

struct evp_cipher_ctx_st;  // OpenSSL's EVP_CIPHER_CTX.

namespace splitveil {

// Keystream AES(key, counter), AES(key, counter + 1), ... of NIST SP 800-38A, section 6.5, the counter a 128-bit
// big-endian number. Aborts if OpenSSL fails, which leaves no safe way on. Copies are keystreams of their own, and may
// be made at the same time of one that does not change. Not thread-safe otherwise.
class AesCtr {
 public:
  // The counter starts at zero. OpenSSL's copy of the key is wiped when this is destroyed.
  explicit AesCtr(const std::array<uint8_t, 32>& key);
  AesCtr(const AesCtr& other);
  AesCtr& operator=(const AesCtr&) = delete;
  AesCtr(AesCtr&&) = default;
  AesCtr& operator=(AesCtr&&) = default;
  ~AesCtr() = default;

  // The next byte is the first of the block `counter`.
  void Seek(const std::array<uint8_t, 16>& counter);

  // Overwrites `bytes` with the next keystream bytes.
  void Generate(absl::Span<uint8_t> bytes);

 private:
  struct Free {
    void operator()(evp_cipher_ctx_st* context) const;
  };

  std::unique_ptr<evp_cipher_ctx_st, Free> context_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CRYPTO_AES_CTR_H_
