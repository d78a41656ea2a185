// How much of a link a run uses: from its round trip, what a batch takes on it, and how many batches are in flight.
#ifndef SPLITVEIL_COMMON_SCHEDULE_LINK_USE_H_
#define SPLITVEIL_COMMON_SCHEDULE_LINK_USE_H_

#include <cstdint>

#include "absl/time/time.h"

#include "splitveil/v1/tensor.pb.h"

namespace splitveil {

struct LinkFigures {
  absl::Duration round_trip;  // Of a message and an answer that hold next to nothing.
  absl::Duration batch;       // What the bytes of a batch take besides, in one direction.
};

// What the parties at least compute between two batches.
inline constexpr absl::Duration kLeastBatchWork = absl::Milliseconds(2);

// Bytes of the activations of `examples`, as of their gradients, at `cut_width` numbers each.
int64_t BatchBytes(int64_t examples, int64_t cut_width, v1::DataType wire_dtype);

// As many as are under way while the first of them returns and for eight round trips more, (9 round trips + 2 batch) /
// the longer of `batch` and kLeastBatchWork: a lost packet holds up all that follow it for about a round trip, on its
// way and on the way back, and with one of a thousand lost the next one is lost before those are made up for. One more,
// so that a batch waits when its turn comes. In [1, most].
int64_t BatchesInFlight(const LinkFigures& link, int64_t most);

// A sixteenth of an epoch's batches, at least 1: the most to choose, since the gradients of all of them are of
// activations that old.
int64_t FreshBatches(int64_t batches_per_epoch);

// From one batch to the next with `in_flight` of them, at least 1, under way: the longest of what the slower party
// computes for one (`work`), what it takes on the link in one direction, and a share of a whole turn, 1 / in_flight of
// (round trip + 2 batch + work). A lower limit: a connection that loses packets, or waits between batches, sends
// slower.
absl::Duration BatchInterval(const LinkFigures& link, absl::Duration work, int64_t in_flight);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_SCHEDULE_LINK_USE_H_
