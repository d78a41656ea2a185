#include "label_party/session/replay_cache.h"

#include <algorithm>
#include <utility>

namespace splitveil {

absl::StatusOr<std::optional<SharedGradients>> ReplayCache::Find(const v1::CutActivations& request) const {
  const auto entry = std::find_if(entries_.begin(), entries_.end(), [&](const ReplayEntry& kept) {
    return kept.epoch == request.epoch() && kept.batch == request.batch();
  });
  if (entry == entries_.end()) {
    return std::optional<SharedGradients>();
  }
  const auto slice = entry->slices.find(request.first_row());
  const bool taken = slice != entry->slices.end();
  if (!taken && !entry->complete) {
    return std::optional<SharedGradients>();
  }
  if (!taken || slice->second.activations != request.activations().data()) {
    return absl::FailedPreconditionError("activations: not the same as were taken for this batch before");
  }
  return std::optional<SharedGradients>(slice->second.answer);
}

void ReplayCache::Keep(v1::CutActivations request, SharedGradients answer, bool last) {
  if (entries_.empty() || entries_.back().complete) {
    entries_.push_back({request.epoch(), request.batch(), {}});
  }
  ReplayEntry& entry = entries_.back();
  entry.slices[request.first_row()] = {std::move(*request.mutable_activations()->mutable_data()), std::move(answer)};
  entry.complete = last;
  while (last && entries_.size() > batches_) {
    entries_.pop_front();
  }
}

}  // namespace splitveil
