#include "common/crypto/label_noise.h"

#include <algorithm>
#include <cmath>
#include <openssl/crypto.h>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/crypto/discrete_gaussian.h"
#include "common/crypto/invariant.h"
#include "common/crypto/sha256.h"

namespace splitveil {
namespace {

constexpr size_t kMaxReleases = size_t{1} << 20;
constexpr size_t kBlockBytes = 16;
// A sample takes 14 words on average.
constexpr size_t kBufferBytes = 32 * sizeof(uint64_t);
constexpr size_t kMaxDrawBytes = kBlockBytes << 16;  // Where the counter would run into the next component.
constexpr absl::string_view kPurpose = "splitveil label noise v1";
constexpr double kGrid = kLabelGridUnit;

std::array<char, 4> BigEndian(uint32_t number) {
  return {static_cast<char>(number >> 24), static_cast<char>(number >> 16), static_cast<char>(number >> 8),
          static_cast<char>(number)};
}

absl::string_view View(const std::array<char, 4>& bytes) { return {bytes.data(), bytes.size()}; }

// The key of a release: independent of those of all other releases, label sets and sigmas.
AesCtr KeystreamOf(const SecretKey& key, const Digest& label_set, uint32_t release, uint32_t sigma_units) {
  Sha256Hasher hasher;
  // Every field has a fixed length, so no two inputs give the same bytes.
  hasher.Update(View(BigEndian(1)));
  hasher.Update(AsBytes(key.bytes()));
  hasher.Update(kPurpose);
  hasher.Update(AsBytes(label_set));
  hasher.Update(View(BigEndian(release)));
  hasher.Update(View(BigEndian(sigma_units)));
  Digest derived = hasher.Finish();
  AesCtr keystream(derived);
  OPENSSL_cleanse(derived.data(), derived.size());
  return keystream;
}

// The words of one draw; wiped afterwards, since they say what the noise is.
class DrawWords {
 public:
  explicit DrawWords(AesCtr& keystream) : keystream_(keystream) {}
  ~DrawWords() { OPENSSL_cleanse(buffer_.data(), buffer_.size()); }
  DrawWords(const DrawWords&) = delete;
  DrawWords& operator=(const DrawWords&) = delete;

  uint64_t Next() {
    if (used_ == buffer_.size()) {
      // 2^16 blocks are some 9,000 samples' worth: rejections that many are a fault of the cipher, not chance.
      CheckInvariant(drawn_bytes_ < kMaxDrawBytes, "LabelNoise: a draw of at most 2^16 blocks");
      keystream_.Generate(absl::MakeSpan(buffer_));
      drawn_bytes_ += buffer_.size();
      used_ = 0;
    }
    uint64_t word = 0;
    for (size_t i = 0; i < sizeof(word); ++i) {
      // Little-endian on every machine, so that an account that moves to another machine gives the same noise.
      word |= static_cast<uint64_t>(buffer_[used_++]) << (8 * i);
    }
    return word;
  }

 private:
  AesCtr& keystream_;  // Not owned; must outlive this.
  std::array<uint8_t, kBufferBytes> buffer_;
  size_t used_ = kBufferBytes;
  size_t drawn_bytes_ = 0;
};

}  // namespace

absl::StatusOr<uint32_t> SigmaUnits(double sigma) {
  // Up: the noise is never weaker than what was promised.
  const double units = std::ceil(sigma * kGrid);  // A product with a power of two is exact.
  if (!(units >= kMinSigmaUnits && units <= kMaxSigmaUnits)) {
    return absl::InvalidArgumentError(absl::StrCat("label noise: expected sigma in [", kMinSigmaUnits / kGrid, ", ",
                                                   (kMaxSigmaUnits + 1.0) / kGrid, "), found ", sigma));
  }
  return static_cast<uint32_t>(units);
}

int64_t LabelOnGrid(double label) {
  CheckInvariant(std::abs(label) <= 0x1p31, "LabelOnGrid: |label| <= 2^31");
  return std::llround(label * kGrid);
}

NoiseRow NoiseRow::OfIndex(uint64_t index) {
  std::array<uint8_t, 12> bytes = {};
  for (size_t i = 0; i < sizeof(index); ++i) {
    bytes[bytes.size() - 1 - i] = static_cast<uint8_t>(index >> (8 * i));
  }
  return NoiseRow(bytes);
}

// By id and not by position: an example keeps its noise if the table's order or the alignment changes.
NoiseRow NoiseRow::OfId(absl::string_view id) {
  const Digest digest = Sha256(id);
  std::array<uint8_t, 12> bytes;
  std::copy_n(digest.begin(), bytes.size(), bytes.begin());
  return NoiseRow(bytes);
}

std::vector<NoiseRow> NumberedNoiseRows(size_t rows) {
  std::vector<NoiseRow> numbered;
  numbered.reserve(rows);
  for (size_t row = 0; row < rows; ++row) {
    numbered.push_back(NoiseRow::OfIndex(row));
  }
  return numbered;
}

absl::StatusOr<LabelNoise> LabelNoise::Create(const SecretKey& key, const Digest& label_set,
                                              absl::Span<const uint32_t> sigma_units) {
  if (sigma_units.empty() || sigma_units.size() > kMaxReleases) {
    return absl::InvalidArgumentError(
        absl::StrCat("label noise: expected 1 to ", kMaxReleases, " releases, found ", sigma_units.size()));
  }
  std::vector<Release> releases;
  releases.reserve(sigma_units.size());
  for (uint32_t release = 0; release < sigma_units.size(); ++release) {
    const uint32_t units = sigma_units[release];
    if (units < kMinSigmaUnits || units > kMaxSigmaUnits) {
      return absl::InvalidArgumentError(absl::StrCat("label noise: release ", release, ": expected sigma of ",
                                                     kMinSigmaUnits, " to ", kMaxSigmaUnits, " grid units, found ",
                                                     units));
    }
    releases.push_back(Release(KeystreamOf(key, label_set, release, units), units));
  }
  return LabelNoise(std::move(releases));
}

int64_t LabelNoise::Release::At(const NoiseRow& row, uint32_t component) {
  CheckInvariant(component < kMaxComponents, "LabelNoise: component < 2^16");
  std::array<uint8_t, 16> counter = {};
  std::copy(row.bytes().begin(), row.bytes().end(), counter.begin());
  counter[12] = static_cast<uint8_t>(component >> 8);
  counter[13] = static_cast<uint8_t>(component);
  // Random access: the noise of a row does not depend on which rows were drawn before it.
  keystream_.Seek(counter);
  DrawWords words(keystream_);
  return SampleDiscreteGaussian(sigma_units_, [&words] { return words.Next(); });
}

LabelNoise::Release LabelNoise::OfRelease(uint32_t release) const {
  CheckInvariant(release < releases_.size(), "LabelNoise: release < releases()");
  return releases_[release];
}

int64_t LabelNoise::At(const NoiseRow& row, uint32_t release, uint32_t component) {
  CheckInvariant(release < releases_.size(), "LabelNoise: release < releases()");
  return releases_[release].At(row, component);
}

double LabelNoise::sigma(uint32_t release) const { return sigma_units(release) / kGrid; }

uint32_t LabelNoise::sigma_units(uint32_t release) const {
  CheckInvariant(release < releases_.size(), "LabelNoise: release < releases()");
  return releases_[release].sigma_units_;
}

}  // namespace splitveil
