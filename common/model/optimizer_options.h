// Optimiser settings, checked once and then passed on as plain numbers.
#ifndef SPLITVEIL_COMMON_MODEL_OPTIMIZER_OPTIONS_H_
#define SPLITVEIL_COMMON_MODEL_OPTIMIZER_OPTIONS_H_

#include <cstdint>

#include "absl/status/statusor.h"

#include "splitveil/v1/optimizer.pb.h"

namespace splitveil {

// Names, ranges, defaults and sources as in v1::Optimizer.
struct OptimizerOptions {
  enum class Method { kAdam, kSgd, kAdagrad };  // AdamW is Adam with a weight decay.

  Method method = Method::kAdam;
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;  // Adam, Adagrad.
  double weight_decay = 0;
  double momentum = 0;
  bool nesterov = false;
  double initial_accumulator = 0;
  double l2 = 0;
  double clip_norm = 0;      // 0: never.
  double average_decay = 0;  // 0: no average.

  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;  // 0: none.
  double decay_factor = 1;
  int64_t cosine_steps = 0;  // 0: none.
  double cosine_floor = 0;

  // Learning rate of step `step`, from 0, under the schedule (v1::LearningRateSchedule).
  double LearningRate(int64_t step) const;
  // Numbers that the method remembers for each parameter: Adam 2, Adagrad 1, SGD 1 with momentum and else 0.
  int moments() const;
  bool has_average() const { return average_decay > 0; }
  // The part of the average that step `step`, from 0, replaces by the parameters.
  double AverageRate(int64_t step) const;
};

// Reads and checks the settings of `optimizer`. Errors: InvalidArgument with field, expected and found.
absl::StatusOr<OptimizerOptions> ReadOptimizerOptions(const v1::Optimizer& optimizer);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_OPTIMIZER_OPTIONS_H_
