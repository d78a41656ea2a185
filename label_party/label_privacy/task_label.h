// What the privacy of a label has to know of the task that the label is of.
#ifndef SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_TASK_LABEL_H_
#define SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_TASK_LABEL_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "common/dataset/task.h"
#include "common/privacy/label_privacy.h"

namespace splitveil {

LabelKind LabelKindOf(const Task& task);

// A label as the noise is added to it and as an account remembers it: 0 or 1, a class, or a number of [0, 1] in units
// of the grid (common/crypto/label_noise.h).
int64_t LabelNumber(const Task& task, float label);
std::vector<int64_t> LabelNumbers(const Task& task, absl::Span<const float> labels);

// One component of the label before noise, in units of the grid: of a class, 1 for its own component and 0 for the
// others.
int64_t LabelComponent(const Task& task, float label, int64_t component);

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_LABEL_PRIVACY_TASK_LABEL_H_
