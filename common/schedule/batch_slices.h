// How a batch crosses the wire: in slices of rows, so that either party computes on what has come while the other still
// computes what follows (as the micro-batches of Huang et al., "GPipe", NeurIPS 2019, section 2.3). Both parties derive
// the same slices. Nothing is learnt from before the whole batch is there, so the result is that of the batch at once.
#ifndef SPLITVEIL_COMMON_SCHEDULE_BATCH_SLICES_H_
#define SPLITVEIL_COMMON_SCHEDULE_BATCH_SLICES_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace splitveil {

struct RowRange {
  int64_t first = 0;
  int64_t rows = 0;

  int64_t end() const { return first + rows; }
};

// Where no other batch is under way, a party has only the rest of a batch to compute while the peer has its beginning.
constexpr int64_t kSlicesOfOneInFlight = 3;
constexpr int64_t kLeastSliceRows = 256;  // Each slice costs a message and a call of every layer.
constexpr int64_t kMostSliceRows = 1024;  // Above, the numbers of a layer outgrow a core's cache.

// Slices of a batch of `rows` >= 1, in order, equal but for the last. `in_flight_batches`: the agreement's.
inline std::vector<RowRange> SlicesOf(int64_t rows, int64_t in_flight_batches) {
  const int64_t wanted = in_flight_batches == 1 ? kSlicesOfOneInFlight : 1;
  const int64_t slice_rows = std::clamp((rows + wanted - 1) / wanted, kLeastSliceRows, kMostSliceRows);
  std::vector<RowRange> slices;
  for (int64_t first = 0; first < rows; first += slice_rows) {
    slices.push_back({first, std::min(slice_rows, rows - first)});
  }
  return slices;
}

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_SCHEDULE_BATCH_SLICES_H_
