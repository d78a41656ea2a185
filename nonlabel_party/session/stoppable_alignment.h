// Alignment with the label party that ends soon when the process is asked to stop.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_STOPPABLE_ALIGNMENT_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_STOPPABLE_ALIGNMENT_H_

#include "absl/status/statusor.h"

#include "common/alignment/private_set_intersection.h"
#include "nonlabel_party/session/label_party_peer.h"
#include "nonlabel_party/session/stop_request.h"

namespace splitveil {

// Opens one Align stream and runs the intersection of `ids` over it. Errors: StoppedOnRequest where `stop`, asked every
// 100 ms on a thread of its own, ended it; the label party's verdict on the stream before what AlignIds says, which is
// only the consequence; as StopWatcher::Create.
absl::StatusOr<AlignedIds> AlignUnlessStopped(RunPeer& peer, const IdList& ids, const AlignmentOptions& options,
                                              StopRequest& stop);

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_STOPPABLE_ALIGNMENT_H_
