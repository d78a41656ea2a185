// Ids as points of the group ristretto255, and the secret exponent that masks them.
#ifndef SPLITVEIL_COMMON_ALIGNMENT_MASKING_KEY_H_
#define SPLITVEIL_COMMON_ALIGNMENT_MASKING_KEY_H_

#include <sodium.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/crypto/digest.h"

namespace splitveil {

// Canonical encoding of a group element (RFC 9496, section 4.3.2). Ordered as bytes.
using Point = std::array<uint8_t, 32>;

// Whether `point` is the canonical encoding of an element other than the identity. Thread-safe.
bool IsUsablePoint(const Point& point);

// A random oracle from ids to group elements, separate for every run: SHA-512 of a domain tag, the run's id with its
// length, and the id; then RFC 9496's one-way map. Two runs with the same ids share no point.
class IdHasher {
 public:
  explicit IdHasher(absl::string_view run_id);
  // Thread-safe.
  Point Hash(absl::string_view id) const;

 private:
  crypto_hash_sha512_state prefix_;  // After the tag and the run's id.
};

// A uniformly random non-zero exponent k, used for one alignment and wiped when destroyed. Stays where it was made.
class MaskingKey {
 public:
  static MaskingKey Generate() { return MaskingKey(); }
  MaskingKey(const MaskingKey&) = delete;
  MaskingKey& operator=(const MaskingKey&) = delete;
  ~MaskingKey();

  // masked = point^k in constant time. False, and `masked` unspecified, unless IsUsablePoint(point): the multiplication
  // decodes `point` anyway, so this is also the check of a received point. Thread-safe.
  bool Mask(const Point& point, Point& masked) const;

 private:
  MaskingKey();
  std::array<uint8_t, 32> scalar_;
};

// The positions of `points`, fewer than 2^32, such that the points ascend; equal ones in any order. Takes 4 bytes a
// point. Fast where the leading bits are spread evenly, as masked ids' are; right for any points. Thread-safe.
std::vector<uint32_t> AscendingPositions(absl::Span<const Point> points);

// What a party sends in two steps: commitments to all messages, then the messages.
enum class PointKind { kMasked = 1, kDoubleMasked = 2 };

// Random and sent with the points. Both parties can compute the double-masked value of an id that they share, so that
// points alone would not hide what a commitment is to.
using CommitmentNonce = std::array<uint8_t, 32>;
CommitmentNonce DrawCommitmentNonce();

// To the message of `kind` whose first point has `first_index`: SHA-256 of a domain tag, the kind, the index, the run's
// id with its length, the nonce and the points. Thread-safe.
Digest CommitmentTo(PointKind kind, absl::string_view run_id, uint64_t first_index, const CommitmentNonce& nonce,
                    absl::string_view points);

// How `points` points are cut into messages of `chunk` (at least 1), the last one shorter; the same at both parties.
struct PointChunks {
  uint64_t points = 0;
  uint64_t chunk = 1;

  uint64_t SizeAt(uint64_t first) const { return std::min(chunk, points - first); }
  uint64_t count() const { return (points + chunk - 1) / chunk; }
};

// Masked points of a party with `ids` ids: these and its test points.
inline constexpr uint64_t kMaxTestPoints = 64;
inline uint64_t TestPoints(uint64_t ids) { return std::min(ids, kMaxTestPoints); }
inline PointChunks MaskedChunks(uint64_t ids, uint64_t chunk_ids) { return {ids + TestPoints(ids), chunk_ids}; }

// The answers to a party with `ids` ids, which leave in step with those of the other party: in at least kAnswerSteps
// messages, where there are as many points, of which neither party is ever more than three ahead.
inline constexpr uint64_t kAnswerSteps = 64;
inline PointChunks AnswerChunks(uint64_t ids, uint64_t chunk_ids) {
  const uint64_t points = ids + TestPoints(ids);
  return {points, std::clamp<uint64_t>((points + kAnswerSteps - 1) / kAnswerSteps, 1, chunk_ids)};
}

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_ALIGNMENT_MASKING_KEY_H_
