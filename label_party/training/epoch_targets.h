// What each epoch of a run trains on in place of the labels.
#ifndef SPLITVEIL_LABEL_PARTY_TRAINING_EPOCH_TARGETS_H_
#define SPLITVEIL_LABEL_PARTY_TRAINING_EPOCH_TARGETS_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/crypto/label_noise.h"
#include "label_party/label_privacy/label_targets.h"

namespace splitveil {

// Holds the targets of one epoch, and draws those of the next when it begins: for all examples at once, so that how
// long it takes tells of none. Not thread-safe.
class EpochTargets {
 public:
  // `examples`, `labels` [n]: as LabelTargets::TrainingTargets takes them, of the aligned `positions` [n], each below
  // `aligned`. `outputs` of each example. Ends with the targets of `first_epoch`: errors of the first TrainingTargets.
  struct Options {
    std::shared_ptr<LabelTargets> source;
    std::vector<NoiseRow> examples;
    std::vector<float> labels;
    std::vector<uint32_t> positions;
    size_t aligned = 0;
    size_t outputs = 1;
    uint32_t first_epoch = 0;
  };
  static absl::StatusOr<std::unique_ptr<EpochTargets>> Create(Options options);

  // From here on, those of `epoch`.
  void BeginEpoch(uint32_t epoch);
  // [outputs] of the example at an aligned position; NaN of one that is not among `positions`, for which no number
  // stands.
  absl::Span<const float> At(uint32_t position) const {
    return absl::MakeConstSpan(targets_).subspan(options_.outputs * position, options_.outputs);
  }
  // LabelTargets::target_noise of the epoch.
  double noise() const { return options_.source->target_noise(epoch_); }

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(targets_);
  }

  explicit EpochTargets(Options options) : options_(std::move(options)) {}

  absl::Status Draw(uint32_t epoch);

  Options options_;
  uint32_t epoch_ = 0;
  std::vector<float> targets_;  // [aligned * outputs]
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_TRAINING_EPOCH_TARGETS_H_
