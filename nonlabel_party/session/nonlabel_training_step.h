// One batch's way through the non-label party: features -> z -> bytes out; bytes in -> gradients -> back-propagation ->
// update.
#ifndef SPLITVEIL_NONLABEL_PARTY_SESSION_NONLABEL_TRAINING_STEP_H_
#define SPLITVEIL_NONLABEL_PARTY_SESSION_NONLABEL_TRAINING_STEP_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <deque>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/dataset/feature_table.h"
#include "common/schedule/schedule.h"
#include "common/schedule/slice_assembler.h"
#include "nonlabel_party/protection/protected_bottom_model.h"
#include "nonlabel_party/session/activation_account.h"
#include "nonlabel_party/session/answer_protocol.h"
#include "nonlabel_party/session/attack_runner.h"
#include "nonlabel_party/session/label_party_peer.h"
#include "nonlabel_party/session/nonlabel_step_recorder.h"

namespace splitveil {

struct BatchAddress {
  uint32_t epoch = 0;
  uint32_t batch = 0;
};

// For each batch of an epoch, in order: Gather where there is time for it, Send, later Learn, then Attack. Batches may
// be in flight: several Sends ahead of the oldest one's Learn. Not thread-safe.
class NonLabelTrainingStep {
 public:
  // What a batch meets on its way. Not owned; all must outlive this.
  struct Parts {
    Schedule* schedule = nullptr;
    const FeatureTable* features = nullptr;
    ProtectedBottomModel* model = nullptr;
    AnswerProtocol* protocol = nullptr;
    AttackRunner* attacks = nullptr;
    NonLabelStepRecorder* recorder = nullptr;
    ActivationAccount* account = nullptr;  // Null: nothing counts.
  };
  // How it crosses the wire: the run's, and as agreed.
  struct Wire {
    std::string run_id;
    v1::DataType dtype = v1::FLOAT32;
    int64_t cut_width = 0;
    int64_t in_flight_batches = 1;
  };
  NonLabelTrainingStep(const Parts& parts, const Wire& wire) : parts_(parts), wire_(wire) {}

  // Begins to gather the rows of the batch that is sent next, on a thread of its own, unless that is done.
  void Gather(const BatchAddress& address);
  // Computes the batch's activations and sends them, slice by slice. Errors: the stream's; Internal for activations
  // that overflow.
  absl::Status Send(const BatchAddress& address, TrainingStream& stream);
  // Takes the answer to the oldest batch in flight, which is `address`, and learns from it; from a frozen answer
  // nothing. Errors: the stream's; a refusal for an answer that is malformed or out of turn.
  absl::Status Learn(const BatchAddress& address, TrainingStream& stream);
  // Attacks the batch that was learnt from last, and records it, once. Errors: as AttackRunner::Report; the ledger's.
  absl::Status Attack();
  // Records it where its attacks do not come any more.
  absl::Status Record() { return parts_.recorder->Record(parts_.attacks->latest()); }

 private:
  friend class cereal::access;
  // Between steps, nothing in flight.
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(frozen_);
  }

  // A batch whose activations were sent and whose gradients have not come.
  struct SentBatch {
    Matrix activations;  // Where an attack reads them.
    int64_t bytes = 0;
    SteadyTime sent_at;  // All of it.
  };
  struct GatheredRows {
    uint32_t batch = 0;
    std::future<std::vector<FeatureBatch>> features;  // Of the rows that are computed together, range by range.
  };

  BatchSlices Slices(const BatchAddress& address) const {
    return {parts_.schedule->batch_rows(address.batch), wire_.in_flight_batches};
  }
  // Sends the slices of rows that are computed.
  absl::Status SendRows(const BatchAddress& address, const RowRange& rows, ConstMatrixView activations,
                        TrainingStream& stream);
  absl::StatusOr<v1::CutGradients> Receive(const BatchAddress& address, int64_t first_row, TrainingStream& stream);
  // Those rows whose turn has come, and keeps for the attacks what they give at the agreed layers.
  absl::Status Backpropagate(SliceAssembler& gradients);
  // The oldest batch in flight gets no gradients.
  absl::Status StayFrozen(const BatchSlices& slices);

  const Parts parts_;
  const Wire wire_;
  std::optional<GatheredRows> gathered_;
  std::deque<SentBatch> in_flight_;
  ReceivedBatch received_;  // What Attack attacks; without gradients: nothing.
  bool frozen_ = false;
};

}  // namespace splitveil

#endif  // SPLITVEIL_NONLABEL_PARTY_SESSION_NONLABEL_TRAINING_STEP_H_
