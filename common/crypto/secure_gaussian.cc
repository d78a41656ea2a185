// CMakeLists.txt compiles this file with -O3 and without errno and traps, which GCC needs to vectorise the loop, and
// with -ffp-contract=off, which keeps fused multiply-adds out and so the results equal on every instruction set.
#if defined(__x86_64__) && defined(__GNUC__)
#define SPLITVEIL_X86_VARIANTS 1
#else
#define SPLITVEIL_X86_VARIANTS 0
#endif
#define SPLITVEIL_INLINE inline __attribute__((always_inline))
#include "common/crypto/secure_gaussian.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <openssl/crypto.h>
#include <utility>

#include "absl/base/casts.h"

#include "common/crypto/aes_ctr.h"
#include "common/crypto/invariant.h"
#include "common/crypto/sha256.h"

namespace splitveil {
namespace {

constexpr float kTwoToMinus31 = 0x1p-31F;
constexpr float kTwoToMinus62 = 0x1p-62F;
constexpr float kLn2 = 0x1.62e43p-1F;
constexpr int32_t kSqrtHalfBits = 0x3f3504f3;  // The float sqrt(1/2).

// The polynomials are minimax in relative error (Remez), their coefficients then rounded to float; the stated bounds
// are those of the rounded coefficients in exact arithmetic.

// ln(1 + f) / f for 1 + f in [sqrt(1/2), sqrt(2)], relative error 5.9e-8.
SPLITVEIL_INLINE float LogOnePlusOverArgument(float f) {
  float p = 0x1.654488p-4F;
  p = p * f + -0x1.263ba2p-3F;
  p = p * f + 0x1.3238fp-3F;
  p = p * f + -0x1.5332a4p-3F;
  p = p * f + 0x1.98b748p-3F;
  p = p * f + -0x1.00057p-2F;
  p = p * f + 0x1.555792p-2F;
  p = p * f + -0x1.fffff8p-2F;
  return p * f + 1.0F;
}

// sin(pi/4 x) / x for z = x^2 in [0, 1], relative error 3.5e-8.
SPLITVEIL_INLINE float SinOverArgument(float z) {
  float p = -0x1.2d9302p-15F;
  p = p * z + 0x1.465e92p-9F;
  p = p * z + -0x1.4abbbap-4F;
  return p * z + 0x1.921fb6p-1F;
}

// cos(pi/4 x) for z = x^2 in [0, 1], relative error 8.4e-9.
SPLITVEIL_INLINE float Cos(float z) {
  float p = 0x1.d99f54p-19F;
  p = p * z + -0x1.55c4eap-12F;
  p = p * z + 0x1.03c1dap-6F;
  p = p * z + -0x1.3bd3ccp-2F;
  return p * z + 1.0F;
}

// (high + (low + 1/2) 2^-31) 2^-31 with the upper 31 bits of each word: 62 bits, in (0, 1). 31 bits because a
// conversion from signed integers is one instruction in every vector instruction set.
SPLITVEIL_INLINE float UnitInterval(uint32_t high_word, uint32_t low_word) {
  const auto high = static_cast<float>(static_cast<int32_t>(high_word >> 1));
  const auto low = static_cast<float>(static_cast<int32_t>(low_word >> 1));
  return high * kTwoToMinus31 + (low * kTwoToMinus62 + 0.5F * kTwoToMinus62);
}

// sqrt(-2 ln u).
SPLITVEIL_INLINE float Radius(uint32_t high_word, uint32_t low_word) {
  const float u = UnitInterval(high_word, low_word);
  // Exactly the complement. Near u = 1 a subtraction in float would leave a few bits of the radius, or none.
  const float one_minus_u = UnitInterval(~high_word, ~low_word);

  // u = 2^exponent * (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)).
  const int32_t offset_bits = absl::bit_cast<int32_t>(u) - kSqrtHalfBits;
  const int32_t exponent = offset_bits >> 23;
  const float reduced = absl::bit_cast<float>((offset_bits & 0x007fffff) + kSqrtHalfBits) - 1.0F;
  // Near 1 the logarithm is about u - 1, which the complement gives with all its bits: the small radii keep their law.
  const float f = exponent == 0 ? -one_minus_u : reduced;
  const float ln_u = static_cast<float>(exponent) * kLn2 + f * LogOnePlusOverArgument(f);
  return std::sqrt(-2.0F * ln_u);
}

SPLITVEIL_INLINE void Transform(const uint32_t* __restrict words, float* __restrict normals, size_t pairs) {
  for (size_t i = 0; i < pairs; ++i) {
    const float radius = Radius(words[4 * i], words[4 * i + 1]);
    // The angle is uniform in [-pi/4, pi/4); mirroring about the vertical axis and about the diagonal, each with
    // probability one half, makes it uniform on the circle.
    const float x = static_cast<float>(static_cast<int32_t>(words[4 * i + 2])) * kTwoToMinus31;
    // Polynomials, not the mathematical library: its results, and its time, differ between systems.
    const float z = x * x;
    const uint32_t quadrant = words[4 * i + 3];
    const uint32_t mirrored = absl::bit_cast<uint32_t>(radius * Cos(z)) ^ (quadrant & 0x80000000U);
    const uint32_t upright = absl::bit_cast<uint32_t>(radius * (x * SinOverArgument(z)));
    // Without a branch, so that the loop vectorises and takes the same time for every secret word.
    const uint32_t swapped_bits = (mirrored ^ upright) & (0U - (quadrant & 1U));
    normals[2 * i] = absl::bit_cast<float>(mirrored ^ swapped_bits);
    normals[2 * i + 1] = absl::bit_cast<float>(upright ^ swapped_bits);
  }
}

void TransformBaseline(const uint32_t* words, float* normals, size_t pairs) { Transform(words, normals, pairs); }

#if SPLITVEIL_X86_VARIANTS
__attribute__((target("avx2"))) void TransformAvx2(const uint32_t* words, float* normals, size_t pairs) {
  Transform(words, normals, pairs);
}

__attribute__((target("avx512f"))) void TransformAvx512(const uint32_t* words, float* normals, size_t pairs) {
  Transform(words, normals, pairs);
}
#endif

// 16 KiB of keystream and 8 KiB of normals: they stay in the first-level cache.
constexpr size_t kChunkPairs = 1024;
constexpr uint64_t kMaxPairs = uint64_t{1} << 48;
constexpr uint32_t kMaxStreams = uint32_t{1} << 16;

std::array<uint8_t, 16> Counter(const NoisePosition& position, uint64_t pair) {
  // Injective in (epoch, batch, stream, pair): two positions never share a block, which would repeat noise.
  const uint64_t upper = uint64_t{position.epoch} << 32 | position.batch;
  const uint64_t lower = uint64_t{position.stream} << 48 | pair;
  std::array<uint8_t, 16> counter;
  for (size_t i = 0; i < 8; ++i) {
    counter[i] = static_cast<uint8_t>(upper >> (56 - 8 * i));
    counter[8 + i] = static_cast<uint8_t>(lower >> (56 - 8 * i));
  }
  return counter;
}

}  // namespace

InstructionSet WidestInstructionSet() {
#if SPLITVEIL_X86_VARIANTS
  // The results are the same bits; only the time differs.
  if (__builtin_cpu_supports("avx512f")) {
    return InstructionSet::kAvx512;
  }
  if (__builtin_cpu_supports("avx2")) {
    return InstructionSet::kAvx2;
  }
#endif
  return InstructionSet::kBaseline;
}

void BoxMuller(absl::Span<const uint32_t> words, absl::Span<float> normals, InstructionSet instruction_set) {
  CheckInvariant(normals.size() % 2 == 0 && words.size() == 2 * normals.size(), "BoxMuller: two words a normal");
  // An instruction that the processor lacks would end the process with a signal.
  CheckInvariant(instruction_set <= WidestInstructionSet(), "BoxMuller: an instruction set this processor has");
  const size_t pairs = normals.size() / 2;
  switch (instruction_set) {
#if SPLITVEIL_X86_VARIANTS
    case InstructionSet::kAvx512:
      return TransformAvx512(words.data(), normals.data(), pairs);
    case InstructionSet::kAvx2:
      return TransformAvx2(words.data(), normals.data(), pairs);
#endif
    default:
      return TransformBaseline(words.data(), normals.data(), pairs);
  }
}

struct SecureGaussian::Cipher {
  explicit Cipher(const SecretKey& key) : keystream(key.bytes()) {}
  // The last words of the keystream would give the last noise.
  ~Cipher() { OPENSSL_cleanse(words.data(), sizeof(words)); }

  // The normals of the next `out.size() / 2` blocks; out.size() is even and at most 2 * kChunkPairs.
  void Generate(absl::Span<float> out) {
    const auto block_words = absl::MakeSpan(words).first(kWordsPerNormalPair * (out.size() / 2));
    keystream.Generate({reinterpret_cast<uint8_t*>(block_words.data()), sizeof(uint32_t) * block_words.size()});
    BoxMuller(block_words, out, instruction_set);
  }

  AesCtr keystream;
  const InstructionSet instruction_set = WidestInstructionSet();
  alignas(64) std::array<uint32_t, kWordsPerNormalPair * kChunkPairs> words;
};

absl::StatusOr<std::unique_ptr<SecureGaussian>> SecureGaussian::Create(SecretKey key, KeyLife life) {
  return std::unique_ptr<SecureGaussian>(new SecureGaussian(std::move(key), life));
}

SecureGaussian::SecureGaussian(SecretKey key, KeyLife life)
    : key_(std::move(key)), life_(life), cipher_(needs_binding() ? nullptr : std::make_unique<Cipher>(key_)) {}

void SecureGaussian::Bind(const Digest& context) {
  // A key of its own for each context: with equal noise, the difference of two answers would be free of it (rule 2).
  Digest derived = HmacSha256(key_.bytes(), AsBytes(context));
  cipher_ = std::make_unique<Cipher>(SecretKey(derived));
  OPENSSL_cleanse(derived.data(), derived.size());
}

SecureGaussian::~SecureGaussian() = default;

void SecureGaussian::Fill(const NoisePosition& position, uint64_t first, absl::Span<float> out) {
  // Box-Muller makes normals in pairs, so a block of the keystream is two components.
  const uint64_t first_pair = first / 2;
  CheckInvariant(cipher_ != nullptr, "SecureGaussian: a key of many runs is bound before it is drawn from");
  CheckInvariant(first % 2 == 0, "SecureGaussian: the first component is even");
  CheckInvariant(position.stream < kMaxStreams, "SecureGaussian: stream < 2^16");
  CheckInvariant(first_pair < kMaxPairs && out.size() <= 2 * (kMaxPairs - first_pair),
                 "SecureGaussian: components < 2^49");
  cipher_->keystream.Seek(Counter(position, first_pair));
  while (out.size() >= 2) {
    const size_t chunk = 2 * std::min(kChunkPairs, out.size() / 2);
    cipher_->Generate(out.first(chunk));
    out.remove_prefix(chunk);
  }
  if (!out.empty()) {
    // Of the last pair one component is dropped; positions stay aligned to pairs for the next draw.
    std::array<float, 2> last_pair;
    cipher_->Generate(absl::MakeSpan(last_pair));
    out[0] = last_pair[0];
  }
}

}  // namespace splitveil
