#include "common/crypto/sha256.h"

#include <cstddef>
#include <cstdint>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

#include "common/crypto/invariant.h"

namespace splitveil {
namespace {

constexpr size_t kGroups = 6;
constexpr size_t kBytesOfGroup = 5;
constexpr uint64_t kBelow = 100'000;

// People type what they heard with or without spaces and dashes.
std::string Digits(absl::string_view text) { return absl::StrReplaceAll(text, {{" ", ""}, {"-", ""}}); }

}  // namespace

Digest Sha256(absl::string_view bytes) {
  Digest digest;
  unsigned int written = 0;
  CheckInvariant(EVP_Digest(bytes.data(), bytes.size(), digest.data(), &written, EVP_sha256(), nullptr) == 1 &&
                     written == digest.size(),
                 "OpenSSL computes SHA-256");
  return digest;
}

Digest HmacSha256(const std::array<uint8_t, 32>& key, absl::string_view bytes) {
  Digest digest;
  unsigned int written = 0;
  CheckInvariant(
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), reinterpret_cast<const unsigned char*>(bytes.data()),
           bytes.size(), digest.data(), &written) != nullptr &&
          written == digest.size(),
      "OpenSSL computes HMAC-SHA-256");
  return digest;
}

Sha256Hasher::Sha256Hasher() : context_(EVP_MD_CTX_new()) {
  CheckInvariant(context_ != nullptr && EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) == 1,
                 "OpenSSL begins a SHA-256");
}

void Sha256Hasher::Update(absl::string_view bytes) {
  CheckInvariant(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1, "OpenSSL continues a SHA-256");
}

Digest Sha256Hasher::Finish() {
  Digest digest;
  unsigned int written = 0;
  CheckInvariant(EVP_DigestFinal_ex(context_.get(), digest.data(), &written) == 1 && written == digest.size(),
                 "OpenSSL ends a SHA-256");
  return digest;
}

void Sha256Hasher::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

// 30 digits, read over the telephone: about 99 bits, out of reach of someone who makes certificates until one fits.
std::string SpokenFingerprint(const Digest& digest) {
  std::string text;
  for (size_t group = 0; group < kGroups; ++group) {
    // Five bytes modulo 100,000 leave a bias below 2^-23, too little to help a forger.
    uint64_t number = 0;
    for (size_t byte = 0; byte < kBytesOfGroup; ++byte) {
      number = number << 8 | digest[group * kBytesOfGroup + byte];
    }
    absl::StrAppendFormat(&text, "%s%05d", group == 0 ? "" : " ", number % kBelow);
  }
  return text;
}

bool SameFingerprint(absl::string_view spoken, absl::string_view fingerprint) {
  return Digits(spoken) == Digits(fingerprint);
}

}  // namespace splitveil
