// What a protection of labels has them trained on.
#ifndef SPLITVEIL_TESTS_TESTING_DRAWN_TARGETS_H_
#define SPLITVEIL_TESTS_TESTING_DRAWN_TARGETS_H_

#include <cstdint>
#include <gtest/gtest.h>
#include <type_traits>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/crypto/label_noise.h"
#include "label_party/label_privacy/label_targets.h"

namespace splitveil {

// `source`: LabelTargets or Protection. The examples of `labels` are numbered. Of `epoch`.
template <typename Source>
std::vector<float> DrawTargets(Source&& source, absl::Span<const uint8_t> labels, uint32_t epoch = 0) {
  const std::vector<float> counted(labels.begin(), labels.end());
  if constexpr (std::is_base_of_v<LabelTargets, std::decay_t<Source>>) {
    const absl::Status status = source.Count("run-1", NumberedNoiseRows(labels.size()), counted);
    EXPECT_TRUE(status.ok()) << status;
  }
  absl::StatusOr<std::vector<float>> targets = source.TrainingTargets(NumberedNoiseRows(labels.size()), counted, epoch);
  EXPECT_TRUE(targets.ok()) << targets.status();
  return targets.ok() ? *std::move(targets) : std::vector<float>();
}

}  // namespace splitveil

#endif  // SPLITVEIL_TESTS_TESTING_DRAWN_TARGETS_H_
