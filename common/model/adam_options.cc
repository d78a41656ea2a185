#include "common/model/adam_options.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace splitveil {
namespace {

absl::Status Mismatch(const char* field, const char* expected, double found) {
  return absl::InvalidArgumentError(absl::StrCat("optimizer.", field, ": expected ", expected, ", found ", found));
}

}  // namespace

absl::StatusOr<AdamOptions> ReadAdamOptions(const v1::Optimizer& optimizer) {
  if (!optimizer.has_adam()) {
    return absl::InvalidArgumentError("optimizer.method: expected adam, found none");
  }
  const AdamOptions options{optimizer.learning_rate(), optimizer.adam().beta1(), optimizer.adam().beta2(),
                            optimizer.adam().epsilon(), optimizer.l2()};
  // Each condition is written so that NaN fails it.
  if (!(options.learning_rate > 0 && options.learning_rate <= 100)) {
    return Mismatch("learning_rate", "a number in (0, 100]", options.learning_rate);
  }
  if (!(options.beta1 >= 0 && options.beta1 < 1)) {
    return Mismatch("adam.beta1", "a number in [0, 1)", options.beta1);
  }
  if (!(options.beta2 >= 0 && options.beta2 < 1)) {
    return Mismatch("adam.beta2", "a number in [0, 1)", options.beta2);
  }
  if (!(options.epsilon >= 1e-20 && options.epsilon <= 1)) {
    return Mismatch("adam.epsilon", "a number in [1e-20, 1]", options.epsilon);
  }
  if (!(options.l2 >= 0 && options.l2 <= 10)) {
    return Mismatch("l2", "a number in [0, 10]", options.l2);
  }
  return options;
}

}  // namespace splitveil
