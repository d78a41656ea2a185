#include "common/crypto/aes_ctr.h"

#include <algorithm>
#include <openssl/evp.h>

#include "common/crypto/invariant.h"

namespace splitveil {
namespace {

// EVP lengths are int.
constexpr size_t kMaxCallBytes = size_t{1} << 30;

}  // namespace

void AesCtr::Free::operator()(evp_cipher_ctx_st* context) const { EVP_CIPHER_CTX_free(context); }

AesCtr::AesCtr(const std::array<uint8_t, 32>& key) : context_(EVP_CIPHER_CTX_new()) {
  // The key schedule is computed once; Seek changes the counter alone.
  const std::array<uint8_t, 16> zero = {};
  CheckInvariant(context_ != nullptr &&
                     EVP_EncryptInit_ex(context_.get(), EVP_aes_256_ctr(), nullptr, key.data(), zero.data()) == 1,
                 "OpenSSL starts AES-256-CTR");
}

AesCtr::AesCtr(const AesCtr& other) : context_(EVP_CIPHER_CTX_new()) {
  CheckInvariant(context_ != nullptr && EVP_CIPHER_CTX_copy(context_.get(), other.context_.get()) == 1,
                 "OpenSSL copies AES-256-CTR");
}

void AesCtr::Seek(const std::array<uint8_t, 16>& counter) {
  CheckInvariant(EVP_EncryptInit_ex(context_.get(), nullptr, nullptr, nullptr, counter.data()) == 1,
                 "OpenSSL sets the AES-256-CTR counter");
}

void AesCtr::Generate(absl::Span<uint8_t> bytes) {
  // CTR mode adds the keystream to its input: of zeros that is the keystream itself.
  std::fill(bytes.begin(), bytes.end(), uint8_t{0});
  while (!bytes.empty()) {
    const size_t call_bytes = std::min(bytes.size(), kMaxCallBytes);
    int written = 0;
    CheckInvariant(
        EVP_EncryptUpdate(context_.get(), bytes.data(), &written, bytes.data(), static_cast<int>(call_bytes)) == 1 &&
            written == static_cast<int>(call_bytes),
        "OpenSSL generates an AES-256-CTR keystream");
    bytes.remove_prefix(call_bytes);
  }
}

}  // namespace splitveil
