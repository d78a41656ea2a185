// Whether the parties share enough examples for a run.
#ifndef SPLITVEIL_COMMON_SCHEDULE_SHARED_EXAMPLES_H_
#define SPLITVEIL_COMMON_SCHEDULE_SHARED_EXAMPLES_H_

#include <cstdint>

#include "absl/status/status.h"

namespace splitveil {

struct SharedExamples {
  int64_t shared = 0;  // In both sets.
  int64_t own_ids = 0, peer_ids = 0;
};

// InvalidArgument, with the counts and what to look at, where fewer are shared than the smallest batch has. Both
// parties know the counts, so each refuses by itself.
absl::Status CheckSharedExamples(const SharedExamples& examples, int64_t minimum_batch_size);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_SCHEDULE_SHARED_EXAMPLES_H_
