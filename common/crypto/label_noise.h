// The noise that is added to labels: discrete Gaussian, random access by row and release (architecture rule 2).
#ifndef SPLITVEIL_COMMON_CRYPTO_LABEL_NOISE_H_
#define SPLITVEIL_COMMON_CRYPTO_LABEL_NOISE_H_

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/crypto/aes_ctr.h"
#include "common/crypto/digest.h"
#include "common/crypto/secure_random.h"

namespace splitveil {

// Noise and noisy labels are integer multiples of 2^-20, the grid. A label must be put on it before noise is added
// (LabelOnGrid), and the sum is exact; only what is computed of the sum afterwards may round.
inline constexpr int kLabelGridBits = 20;
inline constexpr int64_t kLabelGridUnit = int64_t{1} << kLabelGridBits;

// sigma in [2^-7, 2048): mu above 128 hides nothing, and mu below 2^-11 learns nothing.
inline constexpr uint32_t kMinSigmaUnits = uint32_t{1} << 13;
inline constexpr uint32_t kMaxSigmaUnits = (uint32_t{1} << 31) - 1;

// The smallest multiple of 2^-20 that is at least sigma, in grid units: rounding adds noise, never takes any. Errors:
// InvalidArgument where that is outside [kMinSigmaUnits, kMaxSigmaUnits], and for NaN.
absl::StatusOr<uint32_t> SigmaUnits(double sigma);

// The multiple of 2^-20 nearest to `label`, in grid units; |label| <= 2^31. Labels in [0, 1] stay there, so that their
// sensitivity stays 1. Aborts outside.
int64_t LabelOnGrid(double label);

// Which example noise belongs to. Rows of one run may be told apart by their index or by their id; ids keep their noise
// where the order of rows changes from run to run.
class NoiseRow {
 public:
  static NoiseRow OfIndex(uint64_t index);
  // 96 bits of SHA-256: among 10^9 ids two share noise with probability below 1e-11.
  static NoiseRow OfId(absl::string_view id);

  const std::array<uint8_t, 12>& bytes() const { return bytes_; }

 private:
  explicit NoiseRow(const std::array<uint8_t, 12>& bytes) : bytes_(bytes) {}

  std::array<uint8_t, 12> bytes_;
};

// Of the indices 0 to rows - 1.
std::vector<NoiseRow> NumberedNoiseRows(size_t rows);

// Protects a label against anyone who sees label + sigma xi, xi from here: the discrete counterpart of the Gaussian
// mechanism, how near to it see common/privacy/label_privacy.h. Each release of an example draws new noise and is to be
// composed with the others; asking for the same noise again, however often and in whatever order, gives the same bits
// and discloses nothing.
//
// The sample of (row, release, component) is SampleDiscreteGaussian of the 64-bit little-endian words of AES-256-CTR at
// the counter, big-endian,
//
//   row, 96 bits | component, 16 bits | block, 16 bits
//
// under the key SHA-256(00000001 | key | "splitveil label noise v1" | label_set | release, 32 bits | sigma units, 32
// bits), big-endian (one-step key derivation of NIST SP 800-56C, section 4). So two releases, two label sets or two
// sigmas never share noise; if they did, the difference of what left would have less noise or none.
//
// Not protected: time. How long a draw takes depends on the noise (discrete_gaussian.h). The peer sees the time of a
// whole batch's answer, to which the draws of the first batch of an epoch add a few microseconds a row; those of the
// others are made while the batch before is trained on. Not protected either: a label that changes. The old and the new
// one with the same noise would differ in the open; `label_set` is there to make that two releases, to be accounted
// for.
//
// Movable. Not thread-safe, but for OfRelease while nothing else is called: what that returns is for one thread.
class LabelNoise {
 public:
  static constexpr uint32_t kMaxComponents = uint32_t{1} << 16;

  // That of one release. Movable, copyable; not thread-safe.
  class Release {
   public:
    // sigma xi in grid units. Component: the class of a one-hot label, 0 of a scalar one. Aborts where component >=
    // kMaxComponents.
    int64_t At(const NoiseRow& row, uint32_t component = 0);

   private:
    friend class LabelNoise;
    Release(AesCtr keystream, uint32_t sigma_units) : keystream_(std::move(keystream)), sigma_units_(sigma_units) {}

    AesCtr keystream_;
    uint32_t sigma_units_;
  };

  // Release r draws with `sigma_units[r]` (SigmaUnits). `label_set`: digest of all that the labels were made of; what
  // differs in it has independent noise. Errors: InvalidArgument for no release, more than 2^20 of them, or a sigma
  // outside [kMinSigmaUnits, kMaxSigmaUnits], with the release's number.
  static absl::StatusOr<LabelNoise> Create(const SecretKey& key, const Digest& label_set,
                                           absl::Span<const uint32_t> sigma_units);

  // A copy. Aborts where release >= releases().
  Release OfRelease(uint32_t release) const;
  // As OfRelease(release).At(row, component).
  int64_t At(const NoiseRow& row, uint32_t release, uint32_t component = 0);

  uint32_t releases() const { return static_cast<uint32_t>(releases_.size()); }
  // Exact: a multiple of 2^-20 below 2^11.
  double sigma(uint32_t release) const;
  uint32_t sigma_units(uint32_t release) const;

 private:
  explicit LabelNoise(std::vector<Release> releases) : releases_(std::move(releases)) {}

  std::vector<Release> releases_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CRYPTO_LABEL_NOISE_H_
