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

// The least of a few calls each, of nothing and of `batch_bytes` both ways (of 4 MiB, where a batch has more, and in
// proportion): a connection sends faster from call to call at first. Errors: the label party's; a refusal for an answer
// of another size.
absl::StatusOr<LinkFigures> MeasureLink(RunPeer& peer, const std::string& run_id, int64_t batch_bytes);

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_LINK_MEASUREMENT_H_
