// SHA-256, and a digest that two people can compare by voice.
#ifndef SPLITVEIL_COMMON_CRYPTO_SHA256_H_
#define SPLITVEIL_COMMON_CRYPTO_SHA256_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>

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

// Six groups of five decimal digits, "01234 56789 ...": group k is bytes [5k, 5k + 5) of `digest`, big-endian, modulo
// 100,000, as Signal's safety numbers are made. 99.6 bits: to find a text whose fingerprint is a given one takes some
// 2^99 digests, to find two texts that share one some 2^50. The programs compare whole digests; this is for people, who
// make sure that both mean the same file. Thread-safe.
std::string SpokenFingerprint(const Digest& digest);

// Whether `spoken` has the digits of `fingerprint`, however they are grouped by blanks and hyphens.
bool SameFingerprint(absl::string_view spoken, absl::string_view fingerprint);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CRYPTO_SHA256_H_
