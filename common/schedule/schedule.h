// Which examples make up batch (epoch, batch): fixed by the joint seed, the same at both parties.
#ifndef SPLITVEIL_COMMON_SCHEDULE_SCHEDULE_H_
#define SPLITVEIL_COMMON_SCHEDULE_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/schedule/joint_seed.h"

#include "splitveil/v1/agreement.pb.h"

namespace splitveil {

struct ScheduleOptions {
  // Examples a batch, >= minimum_batch_size.
  int64_t batch_size = 1024;
  // A last batch smaller than this joins the one before it: a small batch hides its labels badly. >= 1.
  int64_t minimum_batch_size = 16;
};

// The agreed ones. `agreement`: valid.
ScheduleOptions AgreedSchedule(const v1::RunAgreement& agreement);

// Whether both parties write a checkpoint within an epoch once `steps` steps of the run are done: every `every`; 0:
// never (RunAgreement.checkpoint_steps).
inline bool IsCheckpointStep(int64_t steps, int64_t every) { return every > 0 && steps % every == 0; }

// Of an epoch of `examples` training examples, at least 1. `options`: in range.
int64_t BatchesPerEpoch(int64_t examples, const ScheduleOptions& options);

// Batches of one run. An epoch's order is a Fisher-Yates permutation of the training positions, drawn without bias from
// the SeededStream under SHA-256(domain tag, seed, epoch); batch b is its b-th slice. Not thread-safe: BatchRows caches
// the latest epoch's permutation.
class Schedule {
 public:
  // `train`: positions in the aligned order, strictly ascending, as SplitRule gives them. Errors: InvalidArgument
  // where fewer than minimum_batch_size are given, where they do not ascend, or for options out of range.
  static absl::StatusOr<Schedule> Create(const JointSeed& seed, std::vector<uint32_t> train,
                                         const ScheduleOptions& options);

  // The training positions, strictly ascending.
  absl::Span<const uint32_t> positions() const { return train_; }
  int64_t batches_per_epoch() const;
  // Rows of batch `batch`. Aborts unless 0 <= batch < batches_per_epoch(): what a peer asks for is checked before.
  int64_t batch_rows(int64_t batch) const;
  // The batch's positions in the aligned order. Every training position occurs in exactly one batch of an epoch. The
  // span is valid until another epoch is asked for. Aborts as batch_rows does.
  absl::Span<const uint32_t> BatchRows(uint32_t epoch, int64_t batch);

 private:
  Schedule(const JointSeed& seed, std::vector<uint32_t> train, const ScheduleOptions& options);

  void Permute(uint32_t epoch);

  JointSeed seed_;
  std::vector<uint32_t> train_;
  ScheduleOptions options_;
  int64_t cached_epoch_ = -1;
  std::vector<uint32_t> permutation_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_SCHEDULE_SCHEDULE_H_
