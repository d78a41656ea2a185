// What Marvell costs a training step on this machine.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_BENCH_MARVELL_BENCH_H_
#define SPLITVEIL_DEPLOY_OPERATOR_BENCH_MARVELL_BENCH_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace splitveil {

// Prints a JSON line on the solver, over the problems of the CSV table `problems_path` (d,u,v,g,p,P) or, where it is
// empty, over `instances` random ones; and one per batch shape on protecting a batch beside drawing as many Gaussians.
// Errors: those of the table; Internal.
absl::Status RunMarvellBench(int64_t instances, const std::string& problems_path);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_BENCH_MARVELL_BENCH_H_
