// What an example is for, and what is predicted of it.
#ifndef SPLITVEIL_COMMON_DATASET_TASK_H_
#define SPLITVEIL_COMMON_DATASET_TASK_H_

#include <cstdint>

namespace splitveil {

// What an example is for. Auxiliary ones are an adversary's: they neither train nor test. By validation ones training
// is stopped and its best epoch chosen. The numbers are those of prepared data.
enum class SplitPart : uint8_t { kTraining = 0, kTest = 1, kAuxiliary = 2, kValidation = 3 };
inline constexpr uint8_t kSplitParts = 4;

struct Task {
  enum class Kind {
    kBinary,      // A label, 0 or 1.
    kMultiClass,  // A label, 0 to classes - 1.
    kRegression,  // A number in [0, 1].
  };

  Kind kind = Kind::kBinary;
  int64_t classes = 2;  // 0 of a regression.
  // Of a regression: what 1 is in the target's own unit, less what 0 is. Errors are reported in that unit.
  double target_range = 1;

  // Numbers a model gives for an example: a logit, one for each class, or a prediction.
  int64_t outputs() const { return kind == Kind::kMultiClass ? classes : 1; }
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_DATASET_TASK_H_
