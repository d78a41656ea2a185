// Ids as points of the group ristretto255, and the secret exponent that masks them.
#ifndef SPLITVEIL_COMMON_ALIGNMENT_MASKING_KEY_H_
#define SPLITVEIL_COMMON_ALIGNMENT_MASKING_KEY_H_

#include <sodium.h>

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/crypto/digest.h"
#include "common/crypto/ristretto.h"
#include "common/crypto/secure_random.h"

namespace splitveil {

using Point = RistrettoPoint;

// Whether `point` is the canonical encoding of an element other than the identity. Thread-safe.
bool IsUsablePoint(const Point& point);

// How many of `points` are not usable; on up to `threads` threads. Thread-safe.
uint64_t CountUnusablePoints(absl::Span<const Point> points, size_t threads);

// What a party sends in two steps: commitments to all messages, then the messages.
enum class PointKind { kMasked = 1, kDoubleMasked = 2 };
using CommitmentNonce = std::array<uint8_t, 32>;

// A random oracle from ids to group elements, separate for every run: SHA-512 of a domain tag, the run's id with its
// length, and the id; then RFC 9496's one-way map. Two runs with the same ids share no point.
class IdHasher {
 public:
  explicit IdHasher(absl::string_view run_id);
  // What the one-way map turns into the id's element. Thread-safe.
  RistrettoUniform Hash(absl::string_view id) const;
  // The same for a canary, which no id hashes to. Thread-safe.
  RistrettoUniform HashCanary(uint64_t number) const;

 private:
  crypto_hash_sha512_state ids_, canaries_;  // After the tag and the run's id.
};

// What one alignment keeps secret, all of it from 256 random bits, so that one that resumes sends the same bytes again.
class AlignmentSecret {
 public:
  explicit AlignmentSecret(SecretKey key = SecretKey::Generate()) : key_(std::move(key)) {}
  const SecretKey& key() const { return key_; }

  // A uniform non-zero scalar for `purpose`: SHA-512 of a domain tag, the bits and the purpose, modulo the order.
  RistrettoExponent Exponent(absl::string_view purpose) const;
  // What pads a bucket in the place of an id: nobody else can compute it, so no id of the peer's has it.
  RistrettoUniform HashPadding(uint64_t bucket, uint64_t number) const;
  // Sent with the points that it opens a commitment to. Both parties can compute the double-masked value of an id that
  // they share, so that points alone would not hide what a commitment is to.
  CommitmentNonce Nonce(PointKind kind, uint64_t first_index) const;

 private:
  SecretKey key_;
};

// A uniformly random non-zero exponent k, used for one alignment and wiped when destroyed. Stays where it was made. In
// constant time. Many points at once take up to an eighth of the time of single ones (common/crypto/ristretto.h).
class MaskingKey {
 public:
  static MaskingKey Generate() { return MaskingKey(); }
  MaskingKey(const AlignmentSecret& secret, absl::string_view purpose) : exponent_(secret.Exponent(purpose)) {}

  // masked = point^k. False, and zeros, unless IsUsablePoint(point): the multiplication decodes `point` anyway, so this
  // is also the check of a received point. Thread-safe.
  bool Mask(const Point& point, Point& masked) const;
  // The same for as many points as there is room for in `masked`; whether all of them were usable.
  bool Mask(absl::Span<const Point> points, size_t threads, absl::Span<Point> masked) const;
  // The points of what hash(i), called on several threads, returns for the i-th of `masked`. False if one is the
  // identity.
  bool MaskHashes(absl::FunctionRef<RistrettoUniform(size_t)> hash, size_t threads, absl::Span<Point> masked) const;

 private:
  MaskingKey() : exponent_(RistrettoExponent::Generate()) {}
  const RistrettoExponent exponent_;
};

// The positions of `points`, fewer than 2^32, such that the points ascend; equal ones in any order. Takes 20
// bytes a point. Fast where the leading bits are spread evenly, as masked ids' are; right for any points. Thread-safe.
std::vector<uint32_t> AscendingPositions(absl::Span<const Point> points);

// To the message of `kind` whose first point has `first_index`: SHA-256 of a domain tag, the kind, the index, the run's
// id with its length, the nonce and the points. Thread-safe.
Digest CommitmentTo(PointKind kind, absl::string_view run_id, uint64_t first_index, const CommitmentNonce& nonce,
                    absl::string_view points);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_ALIGNMENT_MASKING_KEY_H_
