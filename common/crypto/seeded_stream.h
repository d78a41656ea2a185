// The seeded generator: reproducible numbers from a seed that both parties know.
#ifndef SPLITVEIL_COMMON_CRYPTO_SEEDED_STREAM_H_
#define SPLITVEIL_COMMON_CRYPTO_SEEDED_STREAM_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "common/crypto/aes_ctr.h"
#include "common/crypto/digest.h"

namespace splitveil {

// PUBLIC randomness: anyone who holds the seed knows every number, and the peer holds it. For schedules and splits;
// never for keys or protection, which take a SecretKey (SecureGaussian). The two types share no base and do not
// convert.
//
// The stream is the AES-256-CTR keystream under the seed, read as little-endian words, so it is the same on every
// machine and of cryptographic quality. Movable; not thread-safe.
class SeededStream {
 public:
  explicit SeededStream(const Digest& seed);

  // The next 8 bytes of the stream.
  uint64_t NextUint64();

  // Uniform in [0, bound), without bias (Lemire, "Fast Random Integer Generation in an Interval", 2019, algorithm 5 on
  // 32-bit words). Takes 4 bytes of the stream, rarely more. `bound` >= 1.
  uint32_t UniformBelow(uint32_t bound);

 private:
  static constexpr size_t kBufferBytes = 4096;

  // The next `count` bytes, little-endian.
  uint64_t NextBytes(size_t count);

  AesCtr keystream_;
  std::array<uint8_t, kBufferBytes> buffer_;
  size_t used_ = kBufferBytes;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CRYPTO_SEEDED_STREAM_H_
