// What is predicted of an example.
#ifndef SPLITVEIL_COMMON_DATASET_TASK_H_
#define SPLITVEIL_COMMON_DATASET_TASK_H_

#include <cstdint>

namespace splitveil {

struct Task {
  enum class Kind {
    kBinary,      // A label, 0 or 1.
    kMultiClass,  // A label, 0 to classes - 1.
    kRegression,  // A number in [0, 1].
  };

  Kind kind = Kind::kBinary;
  int64_t classes = 2;  // 0 of a regression.

  // Numbers a model gives for an example: a logit, one for each class, or a prediction.
  int64_t outputs() const { return kind == Kind::kMultiClass ? classes : 1; }
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_DATASET_TASK_H_
