#include "common/schedule/train_test_split.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/crypto/invariant.h"
#include "common/crypto/sha256.h"

namespace splitveil {

absl::Status CheckSharedExamples(const SharedExamples& examples, int64_t minimum_batch_size) {
  if (examples.shared >= minimum_batch_size) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "alignment: expected at least minimum_batch_size = ", minimum_batch_size, " shared examples, found ",
      examples.shared, " of ", examples.own_ids, " own ids and ", examples.peer_ids,
      " of the peer's; an id must be the same bytes at both parties: check that both tables use the same id "
      "column, with the same case, leading zeros and prefixes, and try again with `splitveil align`"));
}

std::string DescribeLowShare(const SharedExamples& examples, double low_share) {
  const auto smaller = static_cast<double>(std::min(examples.own_ids, examples.peer_ids));
  if (static_cast<double>(examples.shared) >= low_share * smaller) {
    return "";
  }
  return absl::StrFormat(
      "only %d of %d own ids and %d of the peer's are shared, %.1f%% of the smaller table (low_shared_share: %g). If "
      "the "
      "tables should have more in common: the id columns may name different things (a row number, another kind of "
      "customer), ids may be written differently (capitals, leading zeros, .0, accents, prefixes; id_form gives them "
      "one form), or one table may be of another period or region",
      examples.shared, examples.own_ids, examples.peer_ids, 100 * static_cast<double>(examples.shared) / smaller,
      low_share);
}

namespace {

// The tag ends in a newline and the salt is hashed to a fixed length, so no two inputs of the hash can be read as each
// other.
constexpr char kSplitTag[] = "splitveil.v1 train test split\n";
constexpr char kMarkTag[] = "splitveil.v1 marked training examples\n";
constexpr char kDigestTag[] = "splitveil.v1 parts of the aligned examples\n";

uint64_t HashOf(const char* tag, const Digest& salt, absl::string_view id) {
  const Digest digest = Sha256(absl::StrCat(tag, AsBytes(salt), id));
  uint64_t hash = 0;
  for (size_t i = 0; i < sizeof(hash); ++i) {
    hash = hash << 8 | digest[i];
  }
  return hash;
}

bool IsFraction(double value) { return value >= 0 && value < 1; }

uint64_t EndOf(double fraction) { return static_cast<uint64_t>(std::ldexp(fraction, 64)); }

std::vector<uint32_t>& PositionsOf(SplitPart part, TrainTestSplit& split) {
  switch (part) {
    case SplitPart::kTest:
      return split.test;
    case SplitPart::kAuxiliary:
      return split.auxiliary;
    case SplitPart::kValidation:
      return split.validation;
    case SplitPart::kTraining:
      break;
  }
  return split.train;
}

// `own_rows`: how many the party has; `part_of` is asked about each of `rows` once.
TrainTestSplit SplitBy(size_t own_rows, absl::Span<const uint32_t> rows,
                       absl::FunctionRef<SplitPart(uint32_t)> part_of) {
  // Only shared rows are asked about: ids of the others need not be read.
  std::vector<bool> aligned(own_rows);
  for (const uint32_t row : rows) {
    aligned[row] = true;
  }
  std::vector<SplitPart> parts(own_rows, SplitPart::kTraining);
  for (size_t row = 0; row < own_rows; ++row) {  // As they lie on the disk, which may be slow in any other order.
    if (aligned[row]) {
      parts[row] = part_of(static_cast<uint32_t>(row));
    }
  }
  TrainTestSplit split;
  for (size_t position = 0; position < rows.size(); ++position) {
    PositionsOf(parts[rows[position]], split).push_back(static_cast<uint32_t>(position));
  }
  return split;
}

}  // namespace

std::vector<uint32_t> TrainTestSplit::Evaluated() const {
  std::vector<uint32_t> evaluated = test;
  evaluated.insert(evaluated.end(), validation.begin(), validation.end());
  return evaluated;
}

SplitRule::SplitRule(absl::string_view salt, double test_fraction, double auxiliary_fraction,
                     double validation_fraction)
    : salt_(Sha256(salt)) {
  CheckInvariant(IsFraction(test_fraction), "SplitRule: test_fraction in [0, 1)");
  CheckInvariant(IsFraction(auxiliary_fraction) && IsFraction(test_fraction + auxiliary_fraction),
                 "SplitRule: auxiliary_fraction in [0, 1 - test_fraction)");
  const double held_out = test_fraction + auxiliary_fraction + validation_fraction;
  CheckInvariant(IsFraction(validation_fraction) && IsFraction(held_out),
                 "SplitRule: validation_fraction in [0, 1 - test_fraction - auxiliary_fraction)");
  test_end_ = EndOf(test_fraction);
  auxiliary_end_ = EndOf(test_fraction + auxiliary_fraction);
  validation_end_ = EndOf(held_out);
}

SplitRule::SplitRule(const v1::RunAgreement& agreement)
    : SplitRule(agreement.split_salt(), agreement.test_after().empty() ? agreement.test_fraction() : 0,
                agreement.attribute_audit().auxiliary_fraction(), agreement.validation_fraction()) {}

SplitRule::SplitRule(const v1::Preprocessing& prepared)
    : SplitRule(prepared.split_salt(), prepared.test_after().empty() ? prepared.test_fraction() : 0,
                prepared.auxiliary_fraction(), prepared.validation_fraction()) {}

SplitPart SplitRule::PartOf(absl::string_view key) const {
  if (validation_end_ == 0) {
    return SplitPart::kTraining;
  }
  // By the hash of the key alone: a row stays in its part when the data grow, and both parties agree without a message.
  const uint64_t hash = HashOf(kSplitTag, salt_, key);
  if (hash < test_end_) {
    return SplitPart::kTest;
  }
  if (hash < auxiliary_end_) {
    return SplitPart::kAuxiliary;
  }
  return hash < validation_end_ ? SplitPart::kValidation : SplitPart::kTraining;
}

SplitPart SplitRule::PartOf(const Dataset& data, uint32_t row) const {
  return data.parts().empty() ? PartOf(data.ids()[row]) : static_cast<SplitPart>(data.parts()[row]);
}

TrainTestSplit SplitRule::Split(const IdList& ids, absl::Span<const uint32_t> rows) const {
  return SplitBy(ids.size(), rows, [&](uint32_t row) { return PartOf(ids[row]); });
}

TrainTestSplit SplitRule::Split(const Dataset& data, absl::Span<const uint32_t> rows) const {
  return SplitBy(data.ids().size(), rows, [&](uint32_t row) { return PartOf(data, row); });
}

bool IsSplitByTables(const v1::RunAgreement& agreement) {
  return agreement.split_by_group() || !agreement.test_after().empty();
}

Digest SplitDigest(const TrainTestSplit& split) {
  // A byte for each position. Training is 0, which the string is filled with.
  std::string parts(split.train.size() + split.test.size() + split.auxiliary.size() + split.validation.size(), '\0');
  const auto mark = [&](const std::vector<uint32_t>& positions, SplitPart part) {
    for (const uint32_t position : positions) {
      parts[position] = static_cast<char>(part);
    }
  };
  mark(split.test, SplitPart::kTest);
  mark(split.auxiliary, SplitPart::kAuxiliary);
  mark(split.validation, SplitPart::kValidation);
  return Sha256(absl::StrCat(kDigestTag, parts));
}

MarkRule::MarkRule(absl::string_view salt, double marked_fraction) : salt_(Sha256(salt)) {
  CheckInvariant(IsFraction(marked_fraction), "MarkRule: marked_fraction in [0, 1)");
  end_ = EndOf(marked_fraction);
}

MarkRule::MarkRule(const v1::RunAgreement& agreement)
    : MarkRule(agreement.split_salt(), agreement.attribute_audit().marked_fraction()) {}

bool MarkRule::IsMarked(absl::string_view id) const { return end_ > 0 && HashOf(kMarkTag, salt_, id) < end_; }

AttributeExamples AttributeExamplesOf(const v1::RunAgreement& agreement, const Dataset& data,
                                      absl::Span<const uint32_t> rows, const TrainTestSplit& split, size_t most) {
  const MarkRule rule(agreement);
  AttributeExamples examples;
  examples.test = split.test;
  examples.auxiliary = split.auxiliary;
  for (const uint32_t position : split.train) {
    if (examples.marked.size() > most && examples.unmarked.size() > most) {
      break;  // No further id is hashed in vain.
    }
    // By the id alone, so that both parties and every run mark the same examples.
    (rule.IsMarked(data.ids()[rows[position]]) ? examples.marked : examples.unmarked).push_back(position);
  }
  for (auto* const positions : {&examples.test, &examples.auxiliary, &examples.marked, &examples.unmarked}) {
    examples.is_sample = examples.is_sample || positions->size() > most;
    positions->resize(std::min(positions->size(), most));
  }
  return examples;
}

std::string DescribeSample(const AttributeExamples& examples) {
  return examples.is_sample ? absl::StrCat("of each kind of examples, attacks on attributes keep the first ",
                                           AttributeExamples::kMost, " in the aligned order")
                            : "";
}

}  // namespace splitveil
