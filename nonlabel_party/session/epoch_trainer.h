// One epoch of training: the agreed number of batches in flight, each through a NonLabelTrainingStep.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_EPOCH_TRAINER_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_EPOCH_TRAINER_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"

#include "nonlabel_party/session/label_party_peer.h"
#include "nonlabel_party/session/nonlabel_step_recorder.h"
#include "nonlabel_party/session/nonlabel_training_step.h"
#include "nonlabel_party/session/stop_request.h"

namespace splitveil {

// Not thread-safe.
class EpochTrainer {
 public:
  struct Options {
    TrainingPeer* peer = nullptr;  // Not owned; must outlive this, as all here.
    NonLabelTrainingStep* step = nullptr;
    NonLabelStepRecorder* recorder = nullptr;
    StopRequest* stop = nullptr;  // Asked between batches.
    int64_t batches_per_epoch = 0;
    int64_t in_flight_batches = 1;  // As agreed.
    int64_t checkpoint_steps = 0;   // As agreed.
    // Within an epoch, after so many of its batches; nothing is in flight, and all attacks are judged.
    std::function<absl::Status(uint32_t epoch, uint32_t batches)> write_checkpoint;
  };
  explicit EpochTrainer(const Options& options) : options_(options) {}

  // Trains the batches of the epoch from `first` on over one stream. OK, too, where `stop` said so (StopRequest::seen):
  // answers to batches under way are then still taken, so that the run ends between steps. Errors: what ended the
  // stream, the label party's verdict before what a broken stream says; as NonLabelTrainingStep's.
  absl::Status Train(uint32_t epoch, uint32_t first);

 private:
  // Until the next checkpoint is due, or the epoch ends: how many of its batches are trained then.
  uint32_t NextPlace(uint32_t epoch, uint32_t batch) const;
  absl::Status TrainEpoch(uint32_t epoch, uint32_t first, TrainingStream& stream);
  // Batches [first, end).
  absl::Status TrainBatches(uint32_t epoch, uint32_t first, uint32_t end, TrainingStream& stream);

  const Options options_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_EPOCH_TRAINER_H_
