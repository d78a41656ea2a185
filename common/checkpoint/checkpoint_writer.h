// Writes a party's checkpoints, those within an epoch while it trains.
#ifndef SPLITVEIL_COMMON_CHECKPOINT_CHECKPOINT_WRITER_H_
#define SPLITVEIL_COMMON_CHECKPOINT_CHECKPOINT_WRITER_H_

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"

#include "common/checkpoint/checkpoint_plan.h"
#include "common/ledger/ledger.h"
#include "common/model/parameters.h"
#include "common/process/steady_time.h"

#include "splitveil/v1/checkpoint.pb.h"

namespace splitveil {

// A checkpoint within an epoch costs training a copy of the state; hashing it and waiting for the disk is another
// thread's, of a lower priority, and training waits for that only where the next checkpoint is due before it is done. A
// crash meanwhile leaves the one before, and both parties resume from there: neither trains past a checkpoint's place
// before its own checkpoint before that one is on the disk, so that what one lacks is at most two of the other's three;
// and a run that resumes begins with what both have as their latest (CheckpointPlan::GoBackTo). Not thread-safe.
class CheckpointWriter {
 public:
  // Not owned; all must outlive this, and `plan` stays as it is until Wait. `sync`: makes durable what a checkpoint
  // relies on beside the ledger, on the other thread; may be empty.
  CheckpointWriter(const CheckpointPlan* plan, Ledger* ledger, std::function<absl::Status()> sync)
      : plan_(plan), ledger_(ledger), sync_(std::move(sync)) {}

  // Between two steps.
  struct Place {
    std::string run_id;
    uint32_t epochs = 0, batches = 0;  // Trained: whole epochs, and batches of the next one.
    int64_t steps = 0;
    uint32_t peer_epochs = 0;                        // As LedgerPosition's.
    std::optional<v1::LabelPartyState> label_party;  // Of the label party.
    uint32_t kept_epochs = 0;                        // As KeptModel's.
    std::shared_ptr<const NamedParameters> kept;     // KeptModel::Beside.
  };
  // What the party holds there; `since`: when it began to gather it, after Wait, so that a slow disk never makes it
  // hold two. The first, and one between two epochs, is on the disk and recorded as an event when this returns. Another
  // will be: what goes wrong with it is in the log at once, and told by the next call. Errors: those of
  // CheckpointPlan::Write, the ledger and `sync`.
  absl::Status Write(Place place, NamedParameters model, std::string progress, SteadyTime since);
  // Until the latest is on the disk. Errors: as Write, once.
  absl::Status Wait();

 private:
  struct Gathered {
    Place place;
    int64_t last_event;
    NamedParameters model;
    std::string progress;
    SteadyTime since;
  };
  // Low: once the ledger has been committed the calling thread gives way to the others, for good.
  enum class Priority { kUsual, kLow };
  absl::Status WriteNow(const Gathered& gathered, Priority priority) const;

  const CheckpointPlan* const plan_;
  Ledger* const ledger_;
  const std::function<absl::Status()> sync_;
  bool has_written_ = false;
  std::future<absl::Status> under_way_;  // Last: its end is waited for before all above goes.
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CHECKPOINT_CHECKPOINT_WRITER_H_
