// Which examples are held out for testing: known before any run, so that preprocessing is fitted on the others alone.
#ifndef SPLITVEIL_COMMON_SCHEDULE_TRAIN_TEST_SPLIT_H_
#define SPLITVEIL_COMMON_SCHEDULE_TRAIN_TEST_SPLIT_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/crypto/sha256.h"
#include "common/dataset/id_list.h"

namespace splitveil {

// Positions in the aligned order, ascending.
struct TrainTestSplit {
  std::vector<uint32_t> train;
  std::vector<uint32_t> test;
};

// An example is a test example with probability `test_fraction`, by a hash of its id under a salt both parties agreed
// on: the first 64 bits, big-endian, of SHA-256(domain tag, SHA-256(salt), id). So both parties find the same examples
// without a word, whatever order theirs are in, and a run on the same salt has the same test set. Not secret.
// Thread-safe.
class SplitRule {
 public:
  // Aborts unless `test_fraction` is in [0, 1).
  SplitRule(absl::string_view salt, double test_fraction);

  bool IsTest(absl::string_view id) const;
  // `ids`: the party's own; `rows`: its row for each aligned position.
  TrainTestSplit Split(const IdList& ids, absl::Span<const uint32_t> rows) const;

 private:
  Digest salt_;
  uint64_t threshold_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_SCHEDULE_TRAIN_TEST_SPLIT_H_
