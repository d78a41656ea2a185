#include "common/leakage/ranked_scores.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <utility>

namespace splitveil {
namespace {

constexpr int kDigitBits = 11;
constexpr int kDigits = 3;  // Of 32 bits.
constexpr size_t kBuckets = size_t{1} << kDigitBits;

struct Keyed {
  uint32_t key;
  RankedScore ranked;
};

// Orders as the numbers do: those below zero with all bits turned over, the others above them.
uint32_t OrderedBits(float score) {
  const float zero_is_positive = score + 0.0f;
  uint32_t bits;
  std::memcpy(&bits, &zero_is_positive, sizeof bits);
  return (bits & 0x80000000) != 0 ? ~bits : bits | 0x80000000;
}

}  // namespace

void SortByScore(std::vector<RankedScore>& scores) {
  std::vector<Keyed> from(scores.size()), to(scores.size());
  std::array<std::array<uint32_t, kBuckets>, kDigits> starts = {};
  for (size_t i = 0; i < scores.size(); ++i) {
    from[i] = {OrderedBits(scores[i].score), scores[i]};
    for (int digit = 0; digit < kDigits; ++digit) {
      ++starts[digit][(from[i].key >> (digit * kDigitBits)) % kBuckets];
    }
  }
  for (int digit = 0; digit < kDigits; ++digit) {
    uint32_t start = 0;
    for (uint32_t& bucket : starts[digit]) {
      start += std::exchange(bucket, start);
    }
    for (const Keyed& item : from) {
      to[starts[digit][(item.key >> (digit * kDigitBits)) % kBuckets]++] = item;
    }
    from.swap(to);
  }
  for (size_t i = 0; i < scores.size(); ++i) {
    scores[i] = from[i].ranked;
  }
}

}  // namespace splitveil
