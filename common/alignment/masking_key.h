// Ids as points of the group ristretto255, and the secret exponent that masks them.
#ifndef SPLITVEIL_COMMON_ALIGNMENT_MASKING_KEY_H_
#define SPLITVEIL_COMMON_ALIGNMENT_MASKING_KEY_H_

#include <sodium.h>

#include <array>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

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

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_ALIGNMENT_MASKING_KEY_H_
