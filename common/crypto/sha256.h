// SHA-256.
#ifndef SPLITVEIL_COMMON_CRYPTO_SHA256_H_
#define SPLITVEIL_COMMON_CRYPTO_SHA256_H_

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace splitveil {

using Digest = std::array<uint8_t, 32>;

// Digest of `bytes`. Thread-safe.
Digest Sha256(absl::string_view bytes);

// The digest's 32 bytes as a string view for protobuf fields. Borrows `digest`.
inline absl::string_view AsBytes(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CRYPTO_SHA256_H_
