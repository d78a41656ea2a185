// Which examples are held out: known before any run, so that preprocessing is fitted on the others alone.
#ifndef SPLITVEIL_COMMON_SCHEDULE_TRAIN_TEST_SPLIT_H_
#define SPLITVEIL_COMMON_SCHEDULE_TRAIN_TEST_SPLIT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/crypto/digest.h"
#include "common/dataset/dataset.h"
#include "common/dataset/id_list.h"
#include "common/dataset/task.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/preprocessing.pb.h"

namespace splitveil {

// Positions in the aligned order, ascending.
struct TrainTestSplit {
  std::vector<uint32_t> train;
  std::vector<uint32_t> test;
  std::vector<uint32_t> auxiliary;
  std::vector<uint32_t> validation;

  // The test part, then the validation part: what is evaluated after each epoch, in this order at both parties.
  std::vector<uint32_t> Evaluated() const;
};

// An example is a test example with probability `test_fraction`, an auxiliary one with `auxiliary_fraction`, a
// validation one with `validation_fraction`, by a hash of its id under a salt both parties agreed on: the first 64
// bits, big-endian, of SHA-256(domain tag, SHA-256(salt), id), over 2^64: below test_fraction it is a test example, in
// the next auxiliary_fraction an auxiliary one, in the next validation_fraction a validation one. So both parties find
// the same examples without a word, whatever order theirs are in, and a run on the same salt has the same test set. Not
// secret. Thread-safe.
//
// Of a split by group or time (RunAgreement.split_by_group, test_after) the id tells nothing: `splitveil prepare`
// writes the part of each row into the party's data, and the parties compare SplitDigest before they train.
class SplitRule {
 public:
  // Aborts unless all fractions are in [0, 1), and their sum is.
  SplitRule(absl::string_view salt, double test_fraction, double auxiliary_fraction = 0,
            double validation_fraction = 0);
  // The agreed one. `agreement`: valid.
  explicit SplitRule(const v1::RunAgreement& agreement);
  // The one that data were prepared for. `prepared`: of data that a run has accepted (CheckSplit).
  explicit SplitRule(const v1::Preprocessing& prepared);

  // By the hash of `key`: of an id, or of the text of a group.
  SplitPart PartOf(absl::string_view key) const;
  bool IsTest(absl::string_view id) const { return PartOf(id) == SplitPart::kTest; }
  // Of a row of data prepared for this split: as they say, or by its id.
  SplitPart PartOf(const Dataset& data, uint32_t row) const;
  // `ids`: the party's own; `rows`: its row for each aligned position.
  TrainTestSplit Split(const IdList& ids, absl::Span<const uint32_t> rows) const;
  // The same of data prepared for this split.
  TrainTestSplit Split(const Dataset& data, absl::Span<const uint32_t> rows) const;

 private:
  Digest salt_;
  uint64_t test_end_, auxiliary_end_, validation_end_;
};

// Whether rows are held out by what the tables say of them, not by their ids alone: then both parties' tables must say
// the same.
bool IsSplitByTables(const v1::RunAgreement& agreement);

// SHA-256 of a domain tag and one byte for each aligned position, the number of its part: equal where the parties hold
// the same split of the same examples.
Digest SplitDigest(const TrainTestSplit& split);

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

// The aligned examples of attacks on attributes. Each list strictly ascending, all disjoint.
struct AttributeExamples {
  // Of each kind; an accuracy over so many is known to 0.003. All activations of more would fill the memory: 2.6 GB for
  // 10 million examples at a cut width of 64, in each of the up to 32 epochs that an attack remembers.
  static constexpr size_t kMost = size_t{1} << 17;

  std::vector<uint32_t> test;
  std::vector<uint32_t> auxiliary;  // Neither trained on nor tested: the adversary's.
  std::vector<uint32_t> marked;     // Training examples whose attributes the adversary knows,
  std::vector<uint32_t> unmarked;   // and all others.
  bool is_sample = false;           // Whether there are more of any kind.
};

// The same at both parties: of each kind the first `most` in the aligned order, which depends on neither features nor
// attributes. `rows` of `data`, as `split` divides them. Thread-safe.
AttributeExamples AttributeExamplesOf(const v1::RunAgreement& agreement, const Dataset& data,
                                      absl::Span<const uint32_t> rows, const TrainTestSplit& split,
                                      size_t most = AttributeExamples::kMost);

// "of each kind of examples, attacks on attributes keep the first 131072 in the aligned order"; empty unless some are
// left out.
std::string DescribeSample(const AttributeExamples& examples);

// Whether the parties share enough examples for a run.

struct SharedExamples {
  int64_t shared = 0;  // In both sets.
  int64_t own_ids = 0, peer_ids = 0;
};

// InvalidArgument, with the counts and what to look at, where fewer are shared than the smallest batch has. Both
// parties know the counts, so each refuses by itself.
absl::Status CheckSharedExamples(const SharedExamples& examples, int64_t minimum_batch_size);

// A warning with the likely reasons, if the parties share less than `low_share` of the smaller table
// (AlignmentAgreement.low_shared_share); else "".
std::string DescribeLowShare(const SharedExamples& examples, double low_share);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_SCHEDULE_TRAIN_TEST_SPLIT_H_
