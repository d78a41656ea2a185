#include "common/crypto/secure_random.h"

#include <algorithm>
#include <openssl/crypto.h>
#include <openssl/rand.h>

#include "common/crypto/invariant.h"

namespace splitveil {
namespace {

// RAND_priv_bytes takes an int.
constexpr size_t kMaxCallBytes = size_t{1} << 30;

}  // namespace

void FillSecureRandom(absl::Span<uint8_t> bytes) {
  while (!bytes.empty()) {
    const size_t call_bytes = std::min(bytes.size(), kMaxCallBytes);
    // Aborts: noise from a generator that failed would be none.
    CheckInvariant(RAND_priv_bytes(bytes.data(), static_cast<int>(call_bytes)) == 1, "the system gives entropy");
    bytes.remove_prefix(call_bytes);
  }
}

// The bias of a remainder of 64 bits is below size / 2^64, which no one can notice.
size_t SecureIndex(size_t size) {
  uint64_t word = 0;
  FillSecureRandom(absl::MakeSpan(reinterpret_cast<uint8_t*>(&word), sizeof(word)));
  return static_cast<size_t>(word % size);
}

SecretKey SecretKey::Generate() {
  SecretKey key;
  FillSecureRandom(absl::MakeSpan(key.bytes_));
  return key;
}

SecretKey::SecretKey(const std::array<uint8_t, 32>& bytes) : bytes_(bytes) {}

// A moved-from key is wiped: a secret should stand in memory once.
SecretKey::SecretKey(SecretKey&& other) noexcept : bytes_(other.bytes_) {
  OPENSSL_cleanse(other.bytes_.data(), other.bytes_.size());
}

SecretKey& SecretKey::operator=(SecretKey&& other) noexcept {
  if (this != &other) {
    bytes_ = other.bytes_;
    OPENSSL_cleanse(other.bytes_.data(), other.bytes_.size());
  }
  return *this;
}

SecretKey::~SecretKey() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

}  // namespace splitveil
