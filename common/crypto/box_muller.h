// Uniform random words to standard normal numbers: the Box-Muller transform in vectorised single precision.
#ifndef SPLITVEIL_COMMON_CRYPTO_BOX_MULLER_H_
#define SPLITVEIL_COMMON_CRYPTO_BOX_MULLER_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace splitveil {

// Words of random input that one pair of normals consumes: one AES block.
inline constexpr size_t kWordsPerNormalPair = 4;

// The instruction sets the transform is compiled for. Processors other than x86 have the baseline only.
enum class InstructionSet { kBaseline, kAvx2, kAvx512 };

// The widest set that this processor runs and this binary contains.
InstructionSet WidestInstructionSet();

// normals[2i], normals[2i + 1] = r cos(a), r sin(a) from words[4i .. 4i + 3], where r = sqrt(-2 ln u)
// (Box and Muller, "A Note on the Generation of Random Normal Deviates", 1958):
//   words 0, 1  u, 62 bits, in [2^-63, 1 - 2^-63]: the tail reaches sqrt(2 * 63 ln 2) = 9.35, the radius is never 0
//   word 2      the angle inside one quadrant
//   word 3      bits 0 and 31 choose the quadrant
// Each number is within 3e-7 r of the exact one. The same words give the same bits on every instruction set: the
// operations are IEEE 754 additions, multiplications and square roots in a fixed order, none of them contracted. Sizes:
// words.size() == 2 * normals.size(), normals.size() even; aborts otherwise. Thread-safe.
void BoxMuller(absl::Span<const uint32_t> words, absl::Span<float> normals,
               InstructionSet instruction_set = WidestInstructionSet());

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CRYPTO_BOX_MULLER_H_
