// Whether the peer answers all points with one exponent.
#ifndef SPLITVEIL_COMMON_ALIGNMENT_ANSWER_CHECK_H_
#define SPLITVEIL_COMMON_ALIGNMENT_ANSWER_CHECK_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "common/alignment/masking_key.h"

namespace splitveil {

// Among its masked ids P = H(x)^a a party hides test points Q = P^r of some of them, r secret: under the decisional
// Diffie-Hellman assumption nobody else can tell them from further ids, nor which belong together. Answers P^b and Q^b
// of one exponent b have Q^b = (P^b)^r. A peer that answers the share f of the points otherwise, by swapping answers or
// by further exponents, passes with a probability of at most (f^2 + (1 - f)^2)^64 where there are 64 or more ids: 0.1%
// at f = 5%, 10^-10 at f = 18%. It cannot see whether b is the exponent of its own masked ids, too: a peer with
// two exponents makes this party find nothing (see AlignmentOptions::min_shared_ids). Not thread-safe.
class AnswerCheck {
 public:
  // `order`: item at each position of the wire. Items below `ids` are own rows, item ids + t is the test point of row
  // t.
  AnswerCheck(absl::Span<const uint32_t> order, uint32_t ids);

  // The test point of a row whose masked id is `masked`.
  Point TestPoint(const Point& masked) const;

  // `answer`: to the point at a position of the wire, where it has come. InvalidArgument where a row and its test point
  // have been answered with different exponents; each pair is looked at once.
  absl::Status Check(const std::function<std::optional<Point>(uint64_t)>& answer);

 private:
  struct Pair {
    uint64_t row = 0, test = 0;  // Positions.
  };

  const MaskingKey key_ = MaskingKey::Generate();
  std::vector<Pair> open_;  // Not looked at yet.
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_ALIGNMENT_ANSWER_CHECK_H_
