#include "common/alignment/answer_check.h"

#include <algorithm>

#include "common/alignment/point_commitment.h"
#include "common/crypto/invariant.h"

namespace splitveil {

AnswerCheck::AnswerCheck(absl::Span<const uint32_t> order, uint32_t ids) : open_(TestPoints(ids)) {
  for (uint64_t position = 0; position < order.size(); ++position) {
    const uint32_t item = order[position];
    if (item < open_.size()) {
      open_[item].row = position;
    } else if (item >= ids) {
      open_[item - ids].test = position;
    }
  }
}

Point AnswerCheck::TestPoint(const Point& masked) const {
  Point test;
  CheckInvariant(key_.Mask(masked, test), "AnswerCheck: a masked id is a usable point");
  return test;
}

absl::Status AnswerCheck::Check(const std::function<std::optional<Point>(uint64_t)>& answer) {
  bool one_exponent = true;
  const auto looked_at = [&](const Pair& pair) {
    const std::optional<Point> row = answer(pair.row), test = answer(pair.test);
    if (!row.has_value() || !test.has_value()) {
      return false;
    }
    Point expected;
    one_exponent = one_exponent && key_.Mask(*row, expected) && expected == *test;
    return true;
  };
  open_.erase(std::remove_if(open_.begin(), open_.end(), looked_at), open_.end());
  return one_exponent ? absl::OkStatus()
                      : absl::InvalidArgumentError(
                            "double_masked: expected answers by one exponent, found points answered by different ones");
}

}  // namespace splitveil
