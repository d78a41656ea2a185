#include "deploy/operator/preparation/column_sketches.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace splitveil {

namespace {

template <typename Word>
uint64_t Load(const char* bytes) {
  Word word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

}  // namespace

uint64_t HashText(absl::string_view text) {
  const size_t size = text.size();
  const char* const bytes = text.data();
  if (size > 8) {
    uint64_t hash = MixBits(size);  // Not the size itself, which another first byte would undo.
    for (size_t i = 0; i + 8 < size; i += 8) {
      hash = MixBits(hash ^ Load<uint64_t>(bytes + i)) * 0x9e3779b97f4a7c15;
    }
    return MixBits(hash ^ Load<uint64_t>(bytes + size - 8));
  }
  // Loads that overlap, instead of one byte at a time.
  const uint64_t word =
      size >= 4  ? Load<uint32_t>(bytes) | Load<uint32_t>(bytes + size - 4) << 32
      : size > 0 ? Load<uint8_t>(bytes) | Load<uint8_t>(bytes + size / 2) << 8 | Load<uint8_t>(bytes + size - 1) << 16
                 : 0;
  // With the size, or "a" and "aa" would overlap to the same word.
  return MixBits(word + (size << 56) + size * 0x9e3779b97f4a7c15);
}

void DistinctSketch::Keep(uint64_t hash) {
  if (!hashes_.insert(hash).second) {
    ++repeats_;
    return;
  }
  while (hashes_.size() > kMaxHashes) {
    // Adaptive sampling (Wegman): of all hashes those with so many zero bits are kept, and their number is scaled up.
    // The memory is bounded whatever the column.
    mask_ = 2 * mask_ + 1;
    absl::flat_hash_set<uint64_t, AsHash> kept;
    for (const uint64_t known : hashes_) {
      if ((known & mask_) == 0) {
        kept.insert(known);
      }
    }
    hashes_ = std::move(kept);
  }
}

// Advances next_ to the number that replaces one of the sample.
void NumberSample::Skip() {
  const auto size = static_cast<double>(size_);
  // Algorithm L (Li, ACM TOMS 1994): the gap to the next number that enters is drawn, in place of one draw a number.
  weight_ *= std::exp(std::log(1 - draws_.Uniform()) / size);
  const double gap = std::floor(std::log(1 - draws_.Uniform()) / std::log1p(-weight_));
  // A weight near 0 gives a gap beyond int64_t.
  next_ += std::isfinite(gap) && gap < 1e18 ? static_cast<int64_t>(gap) + 1 : std::numeric_limits<int32_t>::max();
}

void NumberSample::Take(double number) {
  if (numbers_.size() == size_) {
    // Each of the sample is as likely to leave as any other, so that all numbers so far stay equally likely to be in
    // it.
    numbers_[draws_.Below(size_)] = number;
    Skip();
    return;
  }
  numbers_.push_back(number);
  if (numbers_.size() == size_) {
    next_ = count_;
    Skip();
  }
}

double NumberSample::Quantile(double share) const {
  if (numbers_.empty()) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  std::vector<double> sorted = numbers_;
  const auto place = sorted.begin() + static_cast<int64_t>(share * static_cast<double>(sorted.size() - 1));
  std::nth_element(sorted.begin(), place, sorted.end());
  return *place;
}

std::vector<int64_t> NumberSample::Histogram(size_t bins, double low, double high) const {
  std::vector<int64_t> rows(bins);
  for (const double number : numbers_) {
    // Halves, as the difference of two doubles may overflow.
    const double share = high > low ? (number / 2 - low / 2) / (high / 2 - low / 2) : 0;
    // Just below 1, so that the greatest number falls into the last bin and not behind it.
    ++rows[static_cast<size_t>(std::clamp(share, 0.0, 1 - 1e-9) * static_cast<double>(bins))];
  }
  return rows;
}

void Extremes::Count(double number, std::vector<Extreme>& kept, double& limit) {
  const auto place = std::lower_bound(kept.begin(), kept.end(), number,
                                      [](const Extreme& extreme, double value) { return extreme.number < value; });
  if (place != kept.end() && place->number == number) {
    ++place->rows;
    return;
  }
  kept.insert(place, {number, 1});
  if (kept.size() > kKept) {
    kept.pop_back();
  }
  // What lies beyond it need not be looked up: nearly all numbers of a long column.
  limit = kept.size() < kKept ? limit : kept.back().number;
}

}  // namespace splitveil
