// What the label party holds of a batch before its activations come: labels, targets, own features.
#ifndef SPLITVEIL_LABEL_PARTY_TRAINING_BATCH_SOURCE_H_
#define SPLITVEIL_LABEL_PARTY_TRAINING_BATCH_SOURCE_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "absl/types/span.h"

#include "common/dataset/feature_table.h"
#include "common/dataset/features.h"
#include "common/schedule/schedule.h"
#include "common/schedule/slice_assembler.h"
#include "label_party/audit/leak_auditor.h"
#include "label_party/training/training_data.h"

namespace splitveil {

// One batch of the training data.
struct LocalBatch {
  ReleasedBatch released;              // Step and hints are the training step's to fill in.
  std::vector<float> labels;           // [rows]
  std::vector<float> targets;          // [rows * outputs], or empty.
  double target_noise = 0;             // TrainingTargets.noise_stddev of them.
  BatchSlices cuts;                    // In which it crosses the wire.
  std::vector<FeatureBatch> features;  // Of each of cuts.Computed(needs_whole_batch()).
};

// Gathers the rows of batches and draws their targets, those of the next batch on a thread of its own while the one
// before is trained on: neither reading nor drawing waits for a whole epoch. Not thread-safe.
class BatchSource {
 public:
  struct Options {
    int64_t batch_size = 0;  // Of evaluation, too.
    int64_t in_flight_batches = 1;
    bool needs_whole_batch = false;  // TopModel::needs_whole_batch.
    // Draws all targets at once, for checkpoints to keep: nothing else would draw the same. Of targets with one draw.
    bool keeps_targets = false;
  };

  BatchSource(TrainingData data, const Options& options);

  // The rows of batch (epoch, batch), which the schedule has; the source's until it is asked for another one.
  const LocalBatch& Gathered(uint32_t epoch, uint32_t batch);
  // The same, to keep; begins to gather the next one of the run. Each batch once, in order.
  LocalBatch Take(uint32_t epoch, uint32_t batch);
  // Begins to gather the batch, unless the run has no such epoch.
  void GatherAhead(uint32_t epoch, uint32_t batch);

  // Aligned positions of the rows of batch (epoch, batch), which the schedule has; valid until another epoch is asked
  // for.
  absl::Span<const uint32_t> PositionsOf(uint32_t epoch, uint32_t batch) {
    return data_.schedule.BatchRows(epoch, batch);
  }

  bool needs_whole_batch() const { return options_.needs_whole_batch; }
  int64_t batches_per_epoch() const { return data_.schedule.batches_per_epoch(); }
  int64_t batch_rows(int64_t batch) const { return data_.schedule.batch_rows(batch); }
  // Aligned examples.
  int64_t examples() const { return data_.features->rows(); }

  // Those that are evaluated, of both parts.
  int64_t test_examples() const { return static_cast<int64_t>(data_.test.size()); }
  // The last so many of them.
  int64_t validation_examples() const { return data_.validation_examples; }
  // Rows of test batch `batch`: batch_size, the last one fewer, none after that.
  int64_t test_rows(uint32_t batch) const;
  FeatureBatch TestFeatures(uint32_t batch) const;
  std::vector<float> TestLabels() const { return data_.LabelsAt(data_.test); }
  const Task& task() const { return data_.task; }

  // A copy of the aligned positions of the training examples, ascending.
  std::vector<uint32_t> training_positions() const { return data_.schedule.positions(); }
  std::vector<uint8_t> AuditedLabelsOf(absl::Span<const uint32_t> positions) const;

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    if (options_.keeps_targets) {
      archive(kept_targets_);
    }
  }

  struct BatchAhead {
    uint32_t epoch = 0, batch = 0;
    std::future<LocalBatch> gathered;
  };

  // `positions`: of the batch. Thread-safe.
  LocalBatch Gather(uint32_t epoch, uint32_t batch, absl::Span<const uint32_t> positions) const;
  // [positions * outputs] of `positions` and their labels.
  std::vector<float> DrawTargets(uint32_t epoch, absl::Span<const uint32_t> positions,
                                 absl::Span<const float> labels) const;
  std::vector<float> TargetsOf(const LocalBatch& batch) const;
  // Of several classes and of numbers.
  void AddCandidates(ReleasedBatch& batch) const;

  TrainingData data_;
  const Options options_;
  std::vector<float> kept_targets_;  // [aligned * outputs], where they are kept; NaN of those that are not trained on.
  std::optional<LocalBatch> gathered_;
  std::optional<BatchAhead> ahead_;  // Last: its thread uses all above.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TRAINING_BATCH_SOURCE_H_
