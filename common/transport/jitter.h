// Pauses between attempts to reach a peer.
#ifndef SPLITVEIL_COMMON_TRANSPORT_JITTER_H_
#define SPLITVEIL_COMMON_TRANSPORT_JITTER_H_

#include "absl/time/time.h"

namespace splitveil {

// Random, between half of `pause` and all of it: parties that lost each other together do not come back together.
// Thread-safe.
absl::Duration Jittered(absl::Duration pause);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TRANSPORT_JITTER_H_
