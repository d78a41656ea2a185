#include "nonlabel_party/session/stoppable_alignment.h"

#include <memory>
#include <utility>

#include "common/process/exit_code.h"
#include "common/status/status_macros.h"
#include "nonlabel_party/session/stop_watcher.h"

namespace splitveil {

absl::StatusOr<AlignedIds> AlignUnlessStopped(RunPeer& peer, const IdList& ids, const AlignmentOptions& options,
                                              StopRequest& stop) {
  SPLITVEIL_ASSIGN_OR_RETURN(std::unique_ptr<AlignmentStream> stream, peer.Align());
  AlignmentStream* const cancelled_on_stop = stream.get();
  SPLITVEIL_ASSIGN_OR_RETURN(const std::unique_ptr<StopWatcher> watcher,
                             StopWatcher::Create(&stop, [cancelled_on_stop] { cancelled_on_stop->Cancel(); }));
  absl::StatusOr<AlignedIds> aligned = AlignIds(ids, options, *stream);
  const absl::Status finished = stream->Finish();
  if (watcher->Finish() && !(finished.ok() && aligned.ok())) {
    return StoppedOnRequest();  // Both failures are our own doing.
  }
  // Where the last word of a whole alignment was lost, nobody knows whether the label party has all of it.
  return finished.ok() ? aligned : finished;
}

}  // namespace splitveil
