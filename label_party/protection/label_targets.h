// The label side of a protection: what is trained on in place of the labels.
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_LABEL_TARGETS_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_LABEL_TARGETS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace splitveil {

// Not thread-safe.
class LabelTargets {
 public:
  virtual ~LabelTargets() = default;

  // What to train on instead of `labels`, 0 or 1: the same for the same object. Call it once for a run, before the
  // first batch.
  virtual std::vector<float> TrainingTargets(absl::Span<const uint8_t> labels) = 0;
  // Whether targets have been given out: gradients of the labels themselves must not leave.
  virtual bool drawn() const = 0;
  // Whether a head that learns from the targets alone computes what leaves, and another one predicts.
  virtual bool needs_release_head() const = 0;
  // TopModelOptions.target_noise of that head.
  virtual double target_noise() const = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_LABEL_TARGETS_H_
