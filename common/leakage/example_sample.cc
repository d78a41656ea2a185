#include "common/leakage/example_sample.h"

#include <algorithm>

#include "common/crypto/secure_random.h"

namespace splitveil {
namespace {

bool IsPrime(uint64_t number) {
  for (uint64_t divisor = 2; divisor * divisor <= number; ++divisor) {
    if (number % divisor == 0) {
      return false;
    }
  }
  return number > 1;
}

// Primes are dense: below 2^32 the next one is at most a few hundred away.
uint64_t PrimeFrom(uint64_t number) {
  while (!IsPrime(number)) {
    ++number;
  }
  return number;
}

uint64_t RandomWord() {
  uint64_t word = 0;
  FillSecureRandom({reinterpret_cast<uint8_t*>(&word), sizeof(word)});
  return word;
}

}  // namespace

ExampleSample::ExampleSample(int64_t examples, int64_t most)
    : examples_(examples),
      size_(std::min(examples, most)),
      modulus_(PrimeFrom(static_cast<uint64_t>(std::max<int64_t>(examples, 2)))) {}

ExampleSample ExampleSample::Secret(int64_t examples, int64_t most) {
  ExampleSample sample(examples, most);
  if (!sample.is_all()) {
    // A random line modulo a prime: each position is as likely in the sample, and so is each pair.
    sample.multiplier_ = 1 + RandomWord() % (sample.modulus_ - 1);
    sample.offset_ = RandomWord() % sample.modulus_;
  }
  return sample;
}

std::vector<uint32_t> MeasuredRows(absl::Span<const uint32_t> positions, absl::Span<const uint32_t> left_out,
                                   const ExampleSample& sample) {
  std::vector<uint32_t> rows;
  rows.reserve(positions.size());
  for (uint32_t row = 0; row < positions.size(); ++row) {
    if (sample.Has(positions[row]) && std::find(left_out.begin(), left_out.end(), row) == left_out.end()) {
      rows.push_back(row);
    }
  }
  return rows;
}

}  // namespace splitveil
