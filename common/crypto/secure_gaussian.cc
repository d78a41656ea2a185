#include "common/crypto/secure_gaussian.h"

#include <algorithm>
#include <array>
#include <openssl/crypto.h>
#include <utility>

#include "common/crypto/aes_ctr.h"
#include "common/crypto/box_muller.h"
#include "common/crypto/invariant.h"
#include "common/crypto/sha256.h"

namespace splitveil {
namespace {

// 16 KiB of keystream and 8 KiB of normals: they stay in the first-level cache.
constexpr size_t kChunkPairs = 1024;
constexpr uint64_t kMaxPairs = uint64_t{1} << 48;
constexpr uint32_t kMaxStreams = uint32_t{1} << 16;

std::array<uint8_t, 16> Counter(const NoisePosition& position, uint64_t pair) {
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

struct SecureGaussian::Cipher {
  explicit Cipher(const SecretKey& key) : keystream(key.bytes()) {}
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
  Digest derived = HmacSha256(key_.bytes(), AsBytes(context));
  cipher_ = std::make_unique<Cipher>(SecretKey(derived));
  OPENSSL_cleanse(derived.data(), derived.size());
}

SecureGaussian::~SecureGaussian() = default;

void SecureGaussian::Fill(const NoisePosition& position, uint64_t first, absl::Span<float> out) {
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
    std::array<float, 2> last_pair;
    cipher_->Generate(absl::MakeSpan(last_pair));
    out[0] = last_pair[0];
  }
}

}  // namespace splitveil
