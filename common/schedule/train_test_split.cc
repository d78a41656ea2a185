#include "common/schedule/train_test_split.h"

#include <cmath>

#include "absl/strings/str_cat.h"

#include "common/crypto/invariant.h"

namespace splitveil {
namespace {

// The tag ends in a newline and the salt is hashed to a fixed length, so no two inputs of the hash can be read as each
// other.
constexpr char kSplitTag[] = "splitveil.v1 train test split\n";
constexpr char kMarkTag[] = "splitveil.v1 marked training examples\n";

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

}  // namespace

SplitRule::SplitRule(absl::string_view salt, double test_fraction, double auxiliary_fraction) : salt_(Sha256(salt)) {
  CheckInvariant(IsFraction(test_fraction), "SplitRule: test_fraction in [0, 1)");
  CheckInvariant(IsFraction(auxiliary_fraction) && IsFraction(test_fraction + auxiliary_fraction),
                 "SplitRule: auxiliary_fraction in [0, 1 - test_fraction)");
  test_end_ = EndOf(test_fraction);
  auxiliary_end_ = EndOf(test_fraction + auxiliary_fraction);
}

SplitRule::SplitRule(const v1::RunAgreement& agreement)
    : SplitRule(agreement.split_salt(), agreement.test_fraction(), agreement.attribute_audit().auxiliary_fraction()) {}

SplitPart SplitRule::PartOf(absl::string_view id) const {
  if (auxiliary_end_ == 0) {
    return SplitPart::kTraining;
  }
  const uint64_t hash = HashOf(kSplitTag, salt_, id);
  if (hash < test_end_) {
    return SplitPart::kTest;
  }
  return hash < auxiliary_end_ ? SplitPart::kAuxiliary : SplitPart::kTraining;
}

TrainTestSplit SplitRule::Split(const IdList& ids, absl::Span<const uint32_t> rows) const {
  std::vector<bool> aligned(ids.size());
  for (const uint32_t row : rows) {
    aligned[row] = true;
  }
  std::vector<bool> test(ids.size()), auxiliary(ids.size());
  for (size_t row = 0; row < ids.size(); ++row) {  // As they lie on the disk, which may be slow in any other order.
    const SplitPart part = aligned[row] ? PartOf(ids[row]) : SplitPart::kTraining;
    test[row] = part == SplitPart::kTest;
    auxiliary[row] = part == SplitPart::kAuxiliary;
  }
  TrainTestSplit split;
  for (size_t position = 0; position < rows.size(); ++position) {
    const uint32_t row = rows[position];
    std::vector<uint32_t>& part = test[row] ? split.test : auxiliary[row] ? split.auxiliary : split.train;
    part.push_back(static_cast<uint32_t>(position));
  }
  return split;
}

MarkRule::MarkRule(absl::string_view salt, double marked_fraction) : salt_(Sha256(salt)) {
  CheckInvariant(IsFraction(marked_fraction), "MarkRule: marked_fraction in [0, 1)");
  end_ = EndOf(marked_fraction);
}

MarkRule::MarkRule(const v1::RunAgreement& agreement)
    : MarkRule(agreement.split_salt(), agreement.attribute_audit().marked_fraction()) {}

bool MarkRule::IsMarked(absl::string_view id) const { return end_ > 0 && HashOf(kMarkTag, salt_, id) < end_; }

}  // namespace splitveil
