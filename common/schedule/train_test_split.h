// Which examples are held out for testing: known before any run, so that preprocessing is fitted on the others alone.
#ifndef SPLITVEIL_COMMON_SCHEDULE_TRAIN_TEST_SPLIT_H_
#define SPLITVEIL_COMMON_SCHEDULE_TRAIN_TEST_SPLIT_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/crypto/sha256.h"
#include "common/dataset/id_list.h"

#include "splitveil/v1/agreement.pb.h"

namespace splitveil {

// What an example is for. Auxiliary ones are an adversary's: they neither train nor test.
enum class SplitPart { kTraining, kTest, kAuxiliary };

// Positions in the aligned order, ascending.
struct TrainTestSplit {
  std::vector<uint32_t> train;
  std::vector<uint32_t> test;
  std::vector<uint32_t> auxiliary;
};

// An example is a test example with probability `test_fraction`, an auxiliary one with `auxiliary_fraction`, by a hash
// of its id under a salt both parties agreed on: the first 64 bits, big-endian, of SHA-256(domain tag, SHA-256(salt),
// id), over 2^64: below test_fraction it is a test example, in the next auxiliary_fraction an auxiliary one. So both
// parties find the same examples without a word, whatever order theirs are in, and a run on the same salt has the same
// test set. Not secret. Thread-safe.
class SplitRule {
 public:
  // Aborts unless both fractions are in [0, 1), and their sum is.
  SplitRule(absl::string_view salt, double test_fraction, double auxiliary_fraction = 0);
  // The agreed one. `agreement`: valid.
  explicit SplitRule(const v1::RunAgreement& agreement);

  SplitPart PartOf(absl::string_view id) const;
  bool IsTest(absl::string_view id) const { return PartOf(id) == SplitPart::kTest; }
  // `ids`: the party's own; `rows`: its row for each aligned position.
  TrainTestSplit Split(const IdList& ids, absl::Span<const uint32_t> rows) const;

 private:
  Digest salt_;
  uint64_t test_end_, auxiliary_end_;
};

// Of the training examples, those whose attributes an adversary is taken to know (AttributeAuditAgreement's
// marked_fraction): each with that probability, by another hash of id and salt. Not secret. Thread-safe.
class MarkRule {
 public:
  // Aborts unless `marked_fraction` is in [0, 1).
  MarkRule(absl::string_view salt, double marked_fraction);
  // The agreed one. `agreement`: canonical.
  explicit MarkRule(const v1::RunAgreement& agreement);

  bool IsMarked(absl::string_view id) const;

 private:
  Digest salt_;
  uint64_t end_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_SCHEDULE_TRAIN_TEST_SPLIT_H_
