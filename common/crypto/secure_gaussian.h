// The noise of the protections: normal numbers from a secret key and a position in the run.
#ifndef SPLITVEIL_COMMON_CRYPTO_SECURE_GAUSSIAN_H_
#define SPLITVEIL_COMMON_CRYPTO_SECURE_GAUSSIAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/crypto/digest.h"
#include "common/crypto/secure_random.h"

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

// Where in the run a draw belongs. The same position always gives the same numbers under the same key and, where the
// key outlives a run (KeyLife::kManyRuns), the same binding, so a retried or resumed step re-creates its noise;
// different positions are independent.
struct NoisePosition {
  uint32_t epoch = 0;
  uint32_t batch = 0;
  // Separates independent streams of one batch, for example 0 isotropic and 1 directional noise. < 2^16.
  uint32_t stream = 0;
};

// Components 2k and 2k + 1 of a position are the Box-Muller transform (BoxMuller) of one AES-256 block, whose
// 128-bit counter is, big-endian,
//
//   epoch, 32 bits | batch, 32 bits | stream, 16 bits | k, 48 bits
//
// so that no two draws of a key share a block and each is found without drawing those before it. To who does not hold
// the key the numbers are indistinguishable from independent N(0, 1) rounded to float32: |x| <= 9.35, and P(|x| > t) is
// right up to there. The same key and position give the same bits on every little-endian machine, whatever its vector
// instructions, so a run may be resumed on another one.
//
// A sum with such a number is sent on a grid only (noise_grid.h): its low bits would reveal what the noise was added
// to.
//
// A key that outlives a run meets the same position again: in a step that is repeated after a crash, and in another
// run. The same noise on other values, or on another scale, would cancel out of the difference. Such a key is never
// drawn from itself, but through Bind, under a key derived from it and from all that the noise is added to and scaled
// by: what is repeated as a whole gets the same bytes, and anything else independent ones.
class SecureGaussian {
 public:
  enum class KeyLife {
    kOneRun,    // No position comes twice with other values.
    kManyRuns,  // Nothing is drawn before Bind.
  };
  static absl::StatusOr<std::unique_ptr<SecureGaussian>> Create(SecretKey key, KeyLife life = KeyLife::kOneRun);
  ~SecureGaussian();

  // Whether what is drawn next must be bound first.
  bool needs_binding() const { return life_ == KeyLife::kManyRuns; }
  // What follows is drawn under the key derived for `context`, a digest of all that it will be used with.
  void Bind(const Digest& context);

  // Writes components [first, first + out.size()) of `position`: independent N(0, 1) numbers. `first` must be even.
  // A batch's matrix is filled with first = row * cols_rounded_up_to_even. Aborts where `first` is odd, `stream` is
  // 2^16 or more, or a component is 2^49 or more: counters that ran into each other would repeat noise; and where
  // nothing is bound that must be. One call for many rows is faster than one a row. Not thread-safe.
  void Fill(const NoisePosition& position, uint64_t first, absl::Span<float> out);

 private:
  struct Cipher;
  SecureGaussian(SecretKey key, KeyLife life);

  const SecretKey key_;
  const KeyLife life_;
  std::unique_ptr<Cipher> cipher_;  // Null until something is bound that must be.
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CRYPTO_SECURE_GAUSSIAN_H_
