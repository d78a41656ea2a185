#include "common/crypto/sha256.h"

#include <openssl/evp.h>

#include "common/crypto/invariant.h"

namespace splitveil {

Digest Sha256(absl::string_view bytes) {
  Digest digest;
  unsigned int written = 0;
  CheckInvariant(EVP_Digest(bytes.data(), bytes.size(), digest.data(), &written, EVP_sha256(), nullptr) == 1 &&
                     written == digest.size(),
                 "OpenSSL computes SHA-256");
  return digest;
}

}  // namespace splitveil
