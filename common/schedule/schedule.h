// Which examples make up batch (epoch, batch): fixed by the joint seed, the same at both parties.
#ifndef SPLITVEIL_COMMON_SCHEDULE_SCHEDULE_H_
#define SPLITVEIL_COMMON_SCHEDULE_SCHEDULE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/schedule/joint_seed.h"

namespace splitveil {

// Positions in the aligned order, ascending.
struct TrainTestSplit {
  std::vector<uint32_t> train;
  std::vector<uint32_t> test;
};

// Each aligned position is a test example with probability `test_fraction`, by a hash of the position keyed with the
// seed. `examples` < 2^32.
TrainTestSplit SplitTrainTest(const JointSeed& seed, uint64_t examples, double test_fraction);

struct ScheduleOptions {
  int64_t batch_size = 1024;
  // A last batch smaller than this joins the one before it.
  int64_t minimum_batch_size = 16;
};

// Batches of one run. Thread-compatible; BatchRows caches the latest epoch's permutation.
class Schedule {
 public:
  // `train`: positions in the aligned order. Errors: InvalidArgument where fewer than minimum_batch_size are given.
  static absl::StatusOr<Schedule> Create(const JointSeed& seed, std::vector<uint32_t> train,
                                         const ScheduleOptions& options);

  int64_t batches_per_epoch() const;
  // Rows of batch `batch`, < batches_per_epoch().
  int64_t batch_rows(int64_t batch) const;
  // The batch's positions in the aligned order. Every training position occurs in exactly one batch of an epoch. The
  // span is valid until another epoch is asked for.
  absl::Span<const uint32_t> BatchRows(uint32_t epoch, int64_t batch);

 private:
  Schedule(const JointSeed& seed, std::vector<uint32_t> train, const ScheduleOptions& options);

  JointSeed seed_;
  std::vector<uint32_t> train_;
  ScheduleOptions options_;
  int64_t cached_epoch_ = -1;
  std::vector<uint32_t> permutation_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_SCHEDULE_SCHEDULE_H_
