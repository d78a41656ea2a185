#include "label_party/label_privacy/label_targets.h"

#include "common/crypto/label_noise.h"

namespace splitveil {

LabelKind LabelKindOf(const Task& task) {
  switch (task.kind) {
    case Task::Kind::kBinary:
      return LabelKind::kBinary;
    case Task::Kind::kMultiClass:
      return LabelKind::kOneHot;
    case Task::Kind::kRegression:
      return LabelKind::kUnitInterval;
  }
  return LabelKind::kOneHot;  // The largest sensitivity.
}

int64_t LabelNumber(const Task& task, float label) {
  // On the grid, since noise is added to integers: equal labels are then equal in the account, too.
  return task.kind == Task::Kind::kRegression ? LabelOnGrid(label) : static_cast<int64_t>(label);
}

std::vector<int64_t> LabelNumbers(const Task& task, absl::Span<const float> labels) {
  std::vector<int64_t> numbers;
  numbers.reserve(labels.size());
  for (const float label : labels) {
    numbers.push_back(LabelNumber(task, label));
  }
  return numbers;
}

int64_t LabelComponent(const Task& task, float label, int64_t component) {
  const int64_t number = LabelNumber(task, label);
  switch (task.kind) {
    case Task::Kind::kBinary:
      return number * kLabelGridUnit;
    case Task::Kind::kMultiClass:
      // One-hot: one label more or less moves two components, which LabelSensitivity counts.
      return number == component ? kLabelGridUnit : 0;
    case Task::Kind::kRegression:
      break;
  }
  return number;
}

}  // namespace splitveil
