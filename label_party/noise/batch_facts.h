// What a plan may go by.
#ifndef SPLITVEIL_LABEL_PARTY_NOISE_BATCH_FACTS_H_
#define SPLITVEIL_LABEL_PARTY_NOISE_BATCH_FACTS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

#include "common/crypto/secure_gaussian.h"
#include "common/matrix/matrix.h"
#include "label_party/noise/class_moments.h"

namespace splitveil {

// A batch before it is protected. Borrows rows and labels, which must outlive it.
struct BatchFacts {
  ConstMatrixView gradients;          // [batch, d], clean and finite.
  absl::Span<const uint8_t> labels;   // [batch], 0 or 1.
  NoisePosition position;             // Its epoch and batch; the stream is not read.
  std::vector<double> squared_norms;  // [batch], ||g_j||^2.
  ClassMoments moments;               // Of these gradients.
  RunningMoments running;             // Of the batches before this one.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_NOISE_BATCH_FACTS_H_
