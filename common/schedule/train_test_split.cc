#include "common/schedule/train_test_split.h"

#include <cmath>

#include "absl/strings/str_cat.h"

#include "common/crypto/invariant.h"

namespace splitveil {
namespace {

// The tag ends in a newline and the salt is hashed to a fixed length, so no two inputs of the hash can be read as each
// other.
constexpr char kSplitTag[] = "splitveil.v1 train test split\n";

}  // namespace

SplitRule::SplitRule(absl::string_view salt, double test_fraction) : salt_(Sha256(salt)) {
  CheckInvariant(test_fraction >= 0 && test_fraction < 1, "SplitRule: test_fraction in [0, 1)");
  threshold_ = static_cast<uint64_t>(std::ldexp(test_fraction, 64));
}

bool SplitRule::IsTest(absl::string_view id) const {
  if (threshold_ == 0) {
    return false;
  }
  const Digest digest = Sha256(absl::StrCat(kSplitTag, AsBytes(salt_), id));
  uint64_t hash = 0;
  for (size_t i = 0; i < sizeof(hash); ++i) {
    hash = hash << 8 | digest[i];
  }
  return hash < threshold_;
}

TrainTestSplit SplitRule::Split(const IdList& ids, absl::Span<const uint32_t> rows) const {
  std::vector<bool> aligned(ids.size());
  for (const uint32_t row : rows) {
    aligned[row] = true;
  }
  std::vector<bool> test(ids.size());
  for (size_t row = 0; row < ids.size(); ++row) {  // As they lie on the disk, which may be slow in any other order.
    test[row] = aligned[row] && IsTest(ids[row]);
  }
  TrainTestSplit split;
  for (size_t position = 0; position < rows.size(); ++position) {
    (test[rows[position]] ? split.test : split.train).push_back(static_cast<uint32_t>(position));
  }
  return split;
}

}  // namespace splitveil
