// Means over a stream of batches in which the earlier ones fade.
#ifndef SPLITVEIL_COMMON_LEAKAGE_FADING_MEAN_H_
#define SPLITVEIL_COMMON_LEAKAGE_FADING_MEAN_H_

#include <cstdint>

#include "common/matrix/matrix.h"

namespace splitveil {

// What the batches before weigh against the latest: some ten of them count.
inline constexpr double kFadingMemory = 0.9;

// mean = memory mean + (1 - memory) share sum, component by component; of one shape.
inline void Fade(const Matrix& sum, double share, Matrix& mean) {
  for (int64_t i = 0; i < mean.size(); ++i) {
    mean.data()[i] = static_cast<float>(kFadingMemory * mean.data()[i] + (1 - kFadingMemory) * share * sum.data()[i]);
  }
}
inline void Fade(double latest, double& mean) { mean = kFadingMemory * mean + (1 - kFadingMemory) * latest; }

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_FADING_MEAN_H_
