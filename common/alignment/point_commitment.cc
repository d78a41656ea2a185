#include "common/alignment/point_commitment.h"

#include <array>

#include "absl/types/span.h"

#include "common/crypto/secure_random.h"
#include "common/crypto/sha256.h"

namespace splitveil {
namespace {

constexpr absl::string_view kDomainTag = "Splitveil alignment commitment SHA-256 v1";

void UpdateWith(uint64_t number, Sha256Hasher& hasher) {
  std::array<char, 8> bytes;
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<char>(number >> (8 * i));
  }
  hasher.Update({bytes.data(), bytes.size()});
}

}  // namespace

CommitmentNonce DrawCommitmentNonce() {
  CommitmentNonce nonce;
  FillSecureRandom(absl::MakeSpan(nonce));
  return nonce;
}

Digest CommitmentTo(PointKind kind, absl::string_view run_id, uint64_t first_index, const CommitmentNonce& nonce,
                    absl::string_view points) {
  Sha256Hasher hasher;
  hasher.Update(kDomainTag);
  UpdateWith(static_cast<uint64_t>(kind), hasher);
  UpdateWith(first_index, hasher);
  UpdateWith(run_id.size(), hasher);
  hasher.Update(run_id);
  hasher.Update({reinterpret_cast<const char*>(nonce.data()), nonce.size()});
  hasher.Update(points);
  return hasher.Finish();
}

}  // namespace splitveil
