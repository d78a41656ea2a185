// What a link takes for a batch: measured before the first of them, so that a run which is continued, and repeats its
// steps, has as many in flight (common/schedule/link_use.h) as before.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_LINK_MEASUREMENT_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_LINK_MEASUREMENT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

#include "common/schedule/link_use.h"
#include "nonlabel_party/session/label_party_peer.h"

namespace splitveil {

// The round trip: the least of some calls of next to nothing. A batch: what `batch_bytes` take of calls that carry so
// many, eight at once, in the slower direction; of 128 KiB and in proportion, where a batch has more. As many at once
// as keep the connection busy for some round trips: one that is not never shows how fast it is, above all where packets
// are lost. Errors: the label party's; a refusal for an answer of another size.
absl::StatusOr<LinkFigures> MeasureLink(RunPeer& peer, const std::string& run_id, int64_t batch_bytes);

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_LINK_MEASUREMENT_H_
