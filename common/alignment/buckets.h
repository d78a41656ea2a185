// How the ids of an alignment are split into buckets, and the points of a bucket into messages.
#ifndef SPLITVEIL_COMMON_ALIGNMENT_BUCKETS_H_
#define SPLITVEIL_COMMON_ALIGNMENT_BUCKETS_H_

#include <sodium.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/string_view.h"

#include "common/crypto/digest.h"

namespace splitveil {

// A larger set is split, unless the agreement says otherwise (AlignmentAgreement.bucket_ids).
inline constexpr uint64_t kBucketIds = uint64_t{1} << 20;

// The same at both parties, from what both have announced.
struct Buckets {
  uint64_t count = 1;          // A power of two.
  uint64_t own_capacity = 0;   // Ids and padding of each own bucket.
  uint64_t peer_capacity = 0;  // Of each of the peer's.
};

// The fewest buckets with at most `bucket_ids` ids of the larger set each, on average.
uint64_t BucketCount(uint64_t own_ids, uint64_t peer_ids, uint64_t bucket_ids);
Buckets SplitIntoBuckets(uint64_t own_ids, uint64_t peer_ids, uint64_t bucket_ids);

// A size that, but with a probability below 2^-40, none of `buckets` buckets exceeds into which `ids` ids fall at
// random: ids, where that is less, or m + L/3 + sqrt(L^2 / 9 + 2 m L) with m = ids / buckets and L = ln(2^40 buckets),
// by Bernstein's inequality and the union bound. In the four operations and the root that IEEE 754 rounds alike
// everywhere, so that both parties compute the same.
uint64_t BucketCapacity(uint64_t ids, uint64_t buckets);

// Which bucket an id is in: bits of SHA-512 of a domain tag, the key of the run, and the id. With a key that
// neither party chose, nobody can make ids that crowd a bucket. Thread-safe.
class BucketHasher {
 public:
  explicit BucketHasher(const Digest& key);
  uint64_t BucketOf(absl::string_view id, uint64_t buckets) const;

 private:
  crypto_hash_sha512_state state_;
};

// Commitment to a half of the key, bound to the run: both parties are committed before either reveals its half.
Digest CommitmentToHalf(absl::string_view run_id, const Digest& half);
// The key: the same whichever half comes first.
Digest BucketKey(absl::string_view run_id, const Digest& half, const Digest& other_half);
// What both parties call the alignment with this key. Reveals nothing of it.
Digest NameOfAlignment(const Digest& bucket_key);

// How the points of each bucket are cut into messages of `chunk` (at least 1), the last one of a bucket shorter; the
// same at both parties. Points and messages are counted over all buckets.
struct PointChunks {
  uint64_t points = 0;  // Of one bucket.
  uint64_t chunk = 1;

  uint64_t SizeAt(uint64_t first) const { return std::min(chunk, points - first % points); }
  uint64_t count() const { return (points + chunk - 1) / chunk; }  // Of one bucket.
  // The number of the message whose first point is `first`, and back.
  uint64_t NumberOf(uint64_t first) const { return first / points * count() + first % points / chunk; }
  uint64_t FirstOf(uint64_t number) const { return number / count() * points + number % count() * chunk; }
};

// Masked points of a bucket with `ids` ids and paddings: these, test points and the canaries, which are the same at
// both parties, so that both must find all of them.
inline constexpr uint64_t kMaxTestPoints = 64;
inline constexpr uint64_t kCanaries = 64;
inline uint64_t TestPoints(uint64_t ids) { return std::min(ids, kMaxTestPoints); }
inline uint64_t MaskedPoints(uint64_t ids) { return ids + TestPoints(ids) + kCanaries; }
inline PointChunks MaskedChunks(uint64_t ids, uint64_t chunk_ids) { return {MaskedPoints(ids), chunk_ids}; }

// The answers to such a bucket, which are sent in step with those of the other party: all buckets together in at least
// kAnswerSteps messages, if there are as many points.
inline constexpr uint64_t kAnswerSteps = 64;
inline PointChunks AnswerChunks(uint64_t ids, uint64_t chunk_ids, uint64_t buckets = 1) {
  const uint64_t points = MaskedPoints(ids), steps = std::max<uint64_t>(kAnswerSteps / buckets, 4);
  return {points, std::clamp<uint64_t>((points + steps - 1) / steps, 1, chunk_ids)};
}

// Messages of answers that a party sends beyond the other's same share: three in kAnswerSteps of all `messages`, but
// eight at most, which keep a link of 100 Mbit/s busy for 80 ms. One of them is for rounding.
inline uint64_t AnswerLead(uint64_t messages) { return std::clamp<uint64_t>(3 * messages / kAnswerSteps, 3, 9) - 1; }

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_ALIGNMENT_BUCKETS_H_
