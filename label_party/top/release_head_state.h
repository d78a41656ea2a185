// How a checkpoint tells the head that computes what leaves from one that has learned from labels.
#ifndef SPLITVEIL_LABEL_PARTY_TOP_RELEASE_HEAD_STATE_H_
#define SPLITVEIL_LABEL_PARTY_TOP_RELEASE_HEAD_STATE_H_

#include "absl/status/statusor.h"

#include "common/model/model_state.h"

namespace splitveil {

// TrainingState of each head; empty where there is none.
struct HeadStates {
  NamedParameters releasing, predicting;
};

// One state: the prediction head's, and the release head's under "release_head.NAME".
NamedParameters JoinHeads(HeadStates heads);
// The way back. Error: InvalidArgument where there is no release head: parameters that have learned from labels must
// not release.
absl::StatusOr<HeadStates> SplitHeads(const NamedParameters& state);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TOP_RELEASE_HEAD_STATE_H_
