// What the leader of a party's workers asks of the others. For the sources of this folder.
#ifndef SPLITVEIL_NONLABEL_PARTY_BOTTOM_WORKER_ORDER_H_
#define SPLITVEIL_NONLABEL_PARTY_BOTTOM_WORKER_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/dataset/features.h"
#include "common/matrix/matrix.h"

namespace splitveil {

enum class WorkerTask : int64_t {
  kCreate = 1,
  kForward,
  kPredict,
  kBackward,
  kDiscard,
  kUpdate,
  kHint,
  kSetParameters,
  kSetTrainingState,
  kEnd,
};

// What the leader asks of a worker; features, gradients and parameters follow it by themselves.
struct WorkerOrder {
  WorkerTask task = WorkerTask::kEnd;
  int64_t rows = 0;    // kForward, kPredict, kBackward: of the slice, at all workers. kHint: the worker's own row.
                       // kEnd: the leader's exit code.
  int64_t layers = 0;  // kBackward, kHint: whose gradients to send, a bit for each of layer_names().
  // kCreate.
  FeatureShape features = {};
  uint64_t seed = 0;
};

inline constexpr size_t kMostSharedLayers = 62;  // Bits of WorkerOrder::layers.

// The names that `layers` has a bit of, in their order.
inline std::vector<std::string> NamesOf(int64_t layers, const std::vector<std::string>& names) {
  std::vector<std::string> found;
  for (size_t i = 0; i < names.size(); ++i) {
    if ((layers >> i & 1) != 0) {
      found.push_back(names[i]);
    }
  }
  return found;
}

inline size_t BytesOf(ConstMatrixView matrix) { return static_cast<size_t>(matrix.size()) * sizeof(float); }

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_BOTTOM_WORKER_ORDER_H_
