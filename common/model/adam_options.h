// Optimiser settings, checked once and then passed on as plain numbers.
#ifndef SPLITVEIL_COMMON_MODEL_ADAM_OPTIONS_H_
#define SPLITVEIL_COMMON_MODEL_ADAM_OPTIONS_H_

#include "absl/status/statusor.h"

#include "splitveil/v1/model.pb.h"

namespace splitveil {

// Kingma & Ba, "Adam: a method for stochastic optimization", ICLR 2015; names and defaults as in the configuration.
struct AdamOptions {
  double learning_rate = 1e-3;  // > 0
  double beta1 = 0.9;           // [0, 1)
  double beta2 = 0.999;         // [0, 1)
  double epsilon = 1e-8;        // > 0
  double l2 = 0;                // >= 0, added to the gradient of dense parameters only.
};

// Reads and checks the settings of `optimizer`. Errors: InvalidArgument with field, expected and found.
absl::StatusOr<AdamOptions> ReadAdamOptions(const v1::Optimizer& optimizer);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_MODEL_ADAM_OPTIONS_H_
