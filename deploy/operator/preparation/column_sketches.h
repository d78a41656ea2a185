// What is known of a column's cells in bounded memory: how many are distinct, where its numbers lie.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_COLUMN_SKETCHES_H_
#define SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_COLUMN_SKETCHES_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "deploy/operator/preparation/seeded_draws.h"

namespace splitveil {

// The same on every machine. Texts that share a hash count as one: once in 2^64 / n^2 columns of n texts.
uint64_t HashText(absl::string_view text);

// Of what is a hash already. Its lowest bits are 0 in a sketch.
struct AsHash {
  size_t operator()(uint64_t hash) const { return hash << 32 | hash >> 32; }
};

// Counts distinct texts by adaptive sampling (Wegman; Flajolet, "On adaptive sampling", Computing 43, 1990): keeps the
// hashes whose lowest `depth` bits are 0, and raises the depth when there are too many. Exact up to kMaxHashes texts;
// beyond, the standard error is 1.2 / sqrt(kMaxHashes) = 1.3%. Memory: 160 KiB at most, which stays in a processor's
// cache. Not thread-safe.
class DistinctSketch {
 public:
  static constexpr size_t kMaxHashes = size_t{1} << 13;

  void Add(uint64_t hash) {
    if ((hash & mask_) == 0) {
      Keep(hash);
    }
  }

  // A text again that was added before, while exact().
  void AddRepeat() { ++repeats_; }

  int64_t estimate() const { return static_cast<int64_t>(hashes_.size()) * static_cast<int64_t>(mask_ + 1); }
  bool exact() const { return mask_ == 0; }
  // Of texts that are kept, how many cells had one that was there before. 0: all texts differ, as far as is known; the
  // two cells of a text are kept or not together, so that a column of which a share r of the texts repeats is found
  // out with probability 1 - (1 - r)^4096 or more.
  int64_t repeats() const { return repeats_; }

 private:
  void Keep(uint64_t hash);

  absl::flat_hash_set<uint64_t, AsHash> hashes_;
  uint64_t mask_ = 0;  // Of the lowest `depth` bits.
  int64_t repeats_ = 0;
};

// A uniform sample without replacement (Li, "Reservoir-sampling algorithms of time complexity O(n(1 + log(N/n)))", ACM
// TOMS 1994, algorithm L). By the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart, every quantile of the sample
// is at a rank within 1.6% of the column's from its own with probability 99.9%, and it is exact up to kSize numbers.
// Memory: 8 bytes a number kept. The same numbers in the same order give the same sample. Not thread-safe.
class NumberSample {
 public:
  static constexpr size_t kSize = 16384;

  // `size`: numbers that are kept at most. `draws`: of one column, no other's.
  explicit NumberSample(size_t size = kSize, SeededDraws draws = {1, 1}) : size_(size), draws_(draws) {}

  void Add(double number) {
    if (++count_ >= next_) {
      Take(number);
    }
  }

  // The sample, in no order.
  const std::vector<double>& numbers() const { return numbers_; }
  // `share` in [0, 1]; NaN without numbers.
  double Quantile(double share) const;
  // So many intervals of equal width from the `low` to the `high` quantile, and the sample's numbers in each; those
  // outside are in the first and the last.
  std::vector<int64_t> Histogram(size_t bins, double low, double high) const;

 private:
  void Take(double number);
  void Skip();

  size_t size_;
  std::vector<double> numbers_;
  int64_t count_ = 0;
  int64_t next_ = 0;   // The number, counted from 1, that goes into the sample next; 0: each, until it is full.
  double weight_ = 1;  // W of algorithm L.
  SeededDraws draws_;
};

// The kKept smallest and the kKept largest numbers and how often each occurs, exactly: one that is among them at the
// end has been among them from its first cell on. Not thread-safe.
class Extremes {
 public:
  static constexpr size_t kKept = 8;
  struct Extreme {
    double number;
    int64_t rows;
  };

  void Add(double number) {
    if (number <= least_limit_) {
      Count(number, least_, least_limit_);
    }
    if (-number <= greatest_limit_) {
      Count(-number, greatest_, greatest_limit_);
    }
  }

  // Ascending.
  const std::vector<Extreme>& least() const { return least_; }
  // Negated, ascending: the greatest first.
  const std::vector<Extreme>& negated_greatest() const { return greatest_; }

 private:
  static void Count(double number, std::vector<Extreme>& kept, double& limit);

  std::vector<Extreme> least_, greatest_;
  // Numbers beyond are none of them.
  double least_limit_ = std::numeric_limits<double>::infinity();
  double greatest_limit_ = std::numeric_limits<double>::infinity();
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_PREPARATION_COLUMN_SKETCHES_H_
