#include "nonlabel_party/session/stoppable_alignment.h"

#include <memory>
#include <utility>

#include "nonlabel_party/session/stop_watcher.h"

namespace splitveil {

absl::StatusOr<std::optional<AlignedIds>> AlignUnlessStopped(LabelPartyPeer& peer, const IdList& ids,
                                                             const AlignmentOptions& options, bool (*stop)()) {
  absl::StatusOr<std::unique_ptr<AlignmentStream>> stream = peer.Align();
  if (!stream.ok()) {
    return stream.status();
  }
  AlignmentStream* const cancelled_on_stop = stream->get();
  const absl::StatusOr<std::unique_ptr<StopWatcher>> watcher =
      StopWatcher::Create(stop, [cancelled_on_stop] { cancelled_on_stop->Cancel(); });
  if (!watcher.ok()) {
    return watcher.status();
  }
  absl::StatusOr<AlignedIds> aligned = AlignIds(ids, options, **stream);
  const absl::Status finished = (*stream)->Finish();
  if ((*watcher)->Finish() && !(finished.ok() && aligned.ok())) {
    return std::nullopt;  // Both failures are our own doing.
  }
  if (!finished.ok()) {
    return finished;
  }
  if (!aligned.ok()) {
    return aligned.status();
  }
  return std::optional<AlignedIds>(*std::move(aligned));
}

}  // namespace splitveil
