#include "common/schedule/link_use.h"

#include <algorithm>
#include <cmath>

namespace splitveil {

int64_t BatchBytes(int64_t examples, int64_t cut_width, v1::DataType wire_dtype) {
  return examples * cut_width * (wire_dtype == v1::FLOAT32 ? 4 : 2);
}

int64_t BatchesInFlight(const LinkFigures& link, int64_t most) {
  // A lost packet holds up what follows for about a round trip: more must be in flight than one round trip needs.
  constexpr int64_t kMoreRoundTrips = 8;
  const absl::Duration between = std::max(link.batch, kLeastBatchWork);
  const double under_way = absl::FDivDuration((1 + kMoreRoundTrips) * link.round_trip + 2 * link.batch, between);
  return std::min(static_cast<int64_t>(std::ceil(under_way)) + 1, most);
}

int64_t FreshBatches(int64_t batches_per_epoch) {
  // Gradients of older activations than this cost accuracy.
  constexpr int64_t kShareOfAnEpoch = 16;
  return std::max<int64_t>(1, batches_per_epoch / kShareOfAnEpoch);
}

absl::Duration BatchInterval(const LinkFigures& link, absl::Duration work, int64_t in_flight) {
  return std::max({work, link.batch, (link.round_trip + 2 * link.batch + work) / in_flight});
}

}  // namespace splitveil
