// How many batches in flight keep a link busy: measured before the first of them, so that a run which is continued, and
// repeats its steps, has as many as before.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_LINK_MEASUREMENT_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_LINK_MEASUREMENT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "nonlabel_party/session/label_party_peer.h"

#include "splitveil/v1/agreement.pb.h"

namespace splitveil {

struct LinkFigures {
  absl::Duration round_trip;  // Of a message and an answer that hold next to nothing.
  absl::Duration batch;       // What the bytes of a batch take besides, in one direction.
};

// Bytes of a whole batch's activations, as of its gradients.
int64_t BatchBytes(const v1::RunAgreement& agreement);

// The least of a few calls each, of nothing and of `batch_bytes` both ways (of 4 MiB, where a batch has more, and in
// proportion): a connection sends faster from call to call at first. Errors: the label party's; a refusal for an answer
// of another size.
absl::StatusOr<LinkFigures> MeasureLink(RunPeer& peer, const std::string& run_id, int64_t batch_bytes);

// As many as are under way while the first of them returns: (round trip + 2 batch) / the longer of `batch` and what the
// parties at least compute between two batches, 2 ms; one more, so that a batch waits when its turn comes. In [1,
// most].
int64_t BatchesInFlight(const LinkFigures& link, int64_t most);

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_LINK_MEASUREMENT_H_
