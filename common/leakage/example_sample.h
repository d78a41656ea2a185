// Which examples the attacks of a run remember, if there are too many to remember all.
#ifndef SPLITVEIL_COMMON_LEAKAGE_EXAMPLE_SAMPLE_H_
#define SPLITVEIL_COMMON_LEAKAGE_EXAMPLE_SAMPLE_H_

#include <cereal/access.hpp>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"

namespace splitveil {

// The same examples in every epoch, so that what is added up over epochs is complete for each of them. An AUC over a
// million examples, a tenth of them positive, has a standard deviation of 0.001 at most.
//
// Thread-safe once made.
class ExampleSample {
 public:
  static constexpr int64_t kMost = 1 << 20;

  // All of `examples` aligned ones, at most 2^32, or the first `most`: the order of the alignment depends on neither
  // features nor labels.
  explicit ExampleSample(int64_t examples, int64_t most = kMost);
  // Instead of the first ones, up to `most` that a peer cannot know. It chooses its activations, and must not be able
  // to misbehave just where nobody looks. Draws secure randomness.
  static ExampleSample Secret(int64_t examples, int64_t most = kMost);

  int64_t examples() const { return examples_; }
  // How many are remembered, at most: slots lie below it.
  int64_t size() const { return size_; }
  bool is_all() const { return size_ == examples_; }
  // Where the example at aligned `position` is remembered; nullopt if it is not.
  std::optional<uint32_t> SlotOf(uint32_t position) const {
    // Injective, as the modulus is a prime that no position reaches.
    const auto slot = static_cast<uint64_t>((static_cast<unsigned __int128>(multiplier_) * position + offset_) %
                                            static_cast<unsigned __int128>(modulus_));
    return slot < static_cast<uint64_t>(size_) ? std::optional(static_cast<uint32_t>(slot)) : std::nullopt;
  }
  bool Has(uint32_t position) const { return SlotOf(position).has_value(); }

 private:
  friend class cereal::access;
  template <typename Archive>
  void serialize(Archive& archive) {
    archive(multiplier_, offset_);
  }

  int64_t examples_;
  int64_t size_;
  uint64_t modulus_;  // At least examples_.
  uint64_t multiplier_ = 1, offset_ = 0;
};

// Those rows of a batch over which an attack is measured: all but `left_out` (RowsLeftOut), of examples in `sample`.
// `positions`: [batch]. Thread-safe.
std::vector<uint32_t> MeasuredRows(absl::Span<const uint32_t> positions, absl::Span<const uint32_t> left_out,
                                   const ExampleSample& sample);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_LEAKAGE_EXAMPLE_SAMPLE_H_
