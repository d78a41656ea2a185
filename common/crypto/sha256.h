// SHA-256.
#ifndef SPLITVEIL_COMMON_CRYPTO_SHA256_H_
#define SPLITVEIL_COMMON_CRYPTO_SHA256_H_

#include <array>
#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"

#include "common/crypto/digest.h"

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX.

namespace splitveil {

// Digest of `bytes`. Thread-safe.
Digest Sha256(absl::string_view bytes);

// HMAC-SHA-256 (RFC 2104) of `bytes`: a random value to a reader who does not hold the key. Thread-safe.
Digest HmacSha256(const std::array<uint8_t, 32>& key, absl::string_view bytes);

// Digest of bytes that come in pieces. Not thread-safe.
class Sha256Hasher {
 public:
  Sha256Hasher();
  void Update(absl::string_view bytes);
  // Once; nothing may follow.
  Digest Finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CRYPTO_SHA256_H_
