#include "common/alignment/buckets.h"

#include <endian.h>

#include <array>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "common/crypto/sha256.h"

namespace splitveil {
namespace {

// Literals, not std::log, which may differ in its last bit from one C library to the next.
constexpr double kLn2 = 0.6931471805599453;
constexpr int kFailureBits = 40;

}  // namespace

uint64_t BucketCount(uint64_t own_ids, uint64_t peer_ids, uint64_t bucket_ids) {
  uint64_t count = 1;
  while (std::max(own_ids, peer_ids) > count * bucket_ids) {
    count *= 2;
  }
  return count;
}

Buckets SplitIntoBuckets(uint64_t own_ids, uint64_t peer_ids, uint64_t bucket_ids) {
  const uint64_t count = BucketCount(own_ids, peer_ids, bucket_ids);
  return {count, BucketCapacity(own_ids, count), BucketCapacity(peer_ids, count)};
}

uint64_t BucketCapacity(uint64_t ids, uint64_t buckets) {
  double log = kFailureBits * kLn2;
  for (uint64_t i = 1; i < buckets; i *= 2) {
    log += kLn2;
  }
  const double mean = static_cast<double>(ids) / static_cast<double>(buckets);
  const double bound = std::ceil(mean + log / 3 + std::sqrt(log * log / 9 + 2 * mean * log));
  return bound < static_cast<double>(ids) ? static_cast<uint64_t>(bound) : ids;
}

BucketHasher::BucketHasher(const Digest& key) {
  constexpr absl::string_view kTag = "Splitveil alignment bucket SHA-512 v1";
  crypto_hash_sha512_init(&state_);
  crypto_hash_sha512_update(&state_, reinterpret_cast<const uint8_t*>(kTag.data()), kTag.size());
  crypto_hash_sha512_update(&state_, key.data(), key.size());
}

uint64_t BucketHasher::BucketOf(absl::string_view id, uint64_t buckets) const {
  crypto_hash_sha512_state state = state_;
  crypto_hash_sha512_update(&state, reinterpret_cast<const uint8_t*>(id.data()), id.size());
  std::array<uint8_t, crypto_hash_sha512_BYTES> hash;
  crypto_hash_sha512_final(&state, hash.data());
  uint64_t leading = 0;
  std::memcpy(&leading, hash.data(), sizeof(leading));
  // A power of two, so that every bucket is as likely as the others.
  return le64toh(leading) & (buckets - 1);
}

Digest CommitmentToHalf(absl::string_view run_id, const Digest& half) {
  return Sha256(
      absl::StrCat("Splitveil alignment bucket key commitment v1 ", run_id.size(), " ", run_id, AsBytes(half)));
}

Digest BucketKey(absl::string_view run_id, const Digest& half, const Digest& other_half) {
  const auto& [less, more] = std::minmax(half, other_half);
  return Sha256(
      absl::StrCat("Splitveil alignment bucket key v1 ", run_id.size(), " ", run_id, AsBytes(less), AsBytes(more)));
}

Digest NameOfAlignment(const Digest& bucket_key) {
  return Sha256(absl::StrCat("Splitveil alignment name v1 ", AsBytes(bucket_key)));
}

}  // namespace splitveil
