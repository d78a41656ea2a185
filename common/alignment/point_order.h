// Tens of millions of points in ascending order.
#ifndef SPLITVEIL_COMMON_ALIGNMENT_POINT_ORDER_H_
#define SPLITVEIL_COMMON_ALIGNMENT_POINT_ORDER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "common/alignment/masking_key.h"

namespace splitveil {

// The positions of `points`, fewer than 2^32, such that the points ascend; equal ones in any order. Takes 4 bytes a
// point. Fast where the leading bits are spread evenly, as masked ids' are; right for any points. Thread-safe.
std::vector<uint32_t> AscendingPositions(absl::Span<const Point> points);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_ALIGNMENT_POINT_ORDER_H_
