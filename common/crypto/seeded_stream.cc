#include "common/crypto/seeded_stream.h"

#include "absl/types/span.h"

#include "common/crypto/invariant.h"

namespace splitveil {

SeededStream::SeededStream(const Digest& seed) : keystream_(seed) {}

uint64_t SeededStream::NextBytes(size_t count) {
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i) {
    if (used_ == buffer_.size()) {
      keystream_.Generate(absl::MakeSpan(buffer_));
      used_ = 0;
    }
    value |= static_cast<uint64_t>(buffer_[used_++]) << (8 * i);
  }
  return value;
}

uint64_t SeededStream::NextUint64() { return NextBytes(sizeof(uint64_t)); }

uint32_t SeededStream::UniformBelow(uint32_t bound) {
  CheckInvariant(bound >= 1, "UniformBelow: bound >= 1");
  // Lemire's rejection, as in SampleUniformBelow: both parties' schedules must be uniform and the same.
  uint64_t product = NextBytes(sizeof(uint32_t)) * bound;
  if (static_cast<uint32_t>(product) < bound) {
    const uint32_t threshold = (0U - bound) % bound;
    while (static_cast<uint32_t>(product) < threshold) {
      product = NextBytes(sizeof(uint32_t)) * bound;
    }
  }
  return static_cast<uint32_t>(product >> 32);
}

}  // namespace splitveil
