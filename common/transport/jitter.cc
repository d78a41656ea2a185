#include "common/transport/jitter.h"

#include <cstddef>

#include "common/crypto/secure_random.h"

namespace splitveil {

absl::Duration Jittered(absl::Duration pause) {
  constexpr size_t kSteps = 1000;
  return pause / 2 + pause / 2 * static_cast<double>(SecureIndex(kSteps)) / kSteps;
}

}  // namespace splitveil
