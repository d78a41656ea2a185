// The batch on which protections prove themselves.
#ifndef SPLITVEIL_LABEL_PARTY_PROTECTION_SYNTHETIC_BATCH_H_
#define SPLITVEIL_LABEL_PARTY_PROTECTION_SYNTHETIC_BATCH_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "common/matrix/matrix.h"

namespace splitveil {

struct SyntheticBatch {
  static constexpr int64_t kRows = 64;
  static constexpr int64_t kCols = 16;

  Matrix gradients{kRows, kCols};
  std::vector<uint8_t> labels = std::vector<uint8_t>(kRows);
};

// Every fourth row is positive; class means apart, spreads and norms unequal, no two rows alike.
inline SyntheticBatch MakeSyntheticBatch() {
  SyntheticBatch batch;
  for (int64_t j = 0; j < SyntheticBatch::kRows; ++j) {
    batch.labels[j] = j % 4 == 1 ? 1 : 0;
    const double mean = batch.labels[j] == 1 ? 0.4 : -0.1;
    const double spread = batch.labels[j] == 1 ? 0.2 : 0.1;
    for (int64_t k = 0; k < SyntheticBatch::kCols; ++k) {
      const double wave = std::sin(12.9898 * static_cast<double>(j * SyntheticBatch::kCols + k + 1));
      batch.gradients.row(j)[k] = static_cast<float>(mean * (1 + 0.05 * static_cast<double>(k)) + spread * wave);
    }
  }
  return batch;
}

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_PROTECTION_SYNTHETIC_BATCH_H_
