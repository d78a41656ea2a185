#include "common/schedule/shared_examples.h"

#include "absl/strings/str_cat.h"

namespace splitveil {

absl::Status CheckSharedExamples(const SharedExamples& examples, int64_t minimum_batch_size) {
  if (examples.shared >= minimum_batch_size) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "alignment: expected at least minimum_batch_size = ", minimum_batch_size, " shared examples, found ",
      examples.shared, " of ", examples.own_ids, " own ids and ", examples.peer_ids,
      " of the peer's; an id must be the same bytes at both parties: see that both tables name examples by the same "
      "column, alike in case, leading zeros and prefixes, and try again with `splitveil align`"));
}

}  // namespace splitveil
