// Which part of the split a row is in.
#ifndef SPLITVEIL_COMMON_DATASET_SPLIT_PART_H_
#define SPLITVEIL_COMMON_DATASET_SPLIT_PART_H_

#include <cstdint>

namespace splitveil {

// What an example is for. Auxiliary ones are an adversary's: they neither train nor test. By validation ones training
// is stopped and its best epoch chosen. The numbers are those of prepared data.
enum class SplitPart : uint8_t { kTraining = 0, kTest = 1, kAuxiliary = 2, kValidation = 3 };
inline constexpr uint8_t kSplitParts = 4;

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_DATASET_SPLIT_PART_H_
