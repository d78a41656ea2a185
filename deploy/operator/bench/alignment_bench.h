// How fast two parties align their ids on this machine.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_BENCH_ALIGNMENT_BENCH_H_
#define SPLITVEIL_DEPLOY_OPERATOR_BENCH_ALIGNMENT_BENCH_H_

#include <cstdint>

#include "absl/status/status.h"

namespace splitveil {

// Runs both parties' protocol in this process, `ids` each (>= 10), nine tenths of them in common, and prints a JSON
// line. They share the cores, so two machines are up to twice as fast. Errors: those of the alignment; Internal where
// it finds another number of ids.
absl::Status RunAlignmentBench(int64_t ids);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_BENCH_ALIGNMENT_BENCH_H_
