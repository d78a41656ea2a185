// A SHA-256 digest as a value, apart from sha256.h: what only holds a digest need not be compiled when that changes.
#ifndef SPLITVEIL_COMMON_CRYPTO_DIGEST_H_
#define SPLITVEIL_COMMON_CRYPTO_DIGEST_H_

#include <array>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace splitveil {

using Digest = std::array<uint8_t, 32>;

// The digest's 32 bytes as a string view for protobuf fields. Borrows `digest`.
inline absl::string_view AsBytes(const Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CRYPTO_DIGEST_H_
