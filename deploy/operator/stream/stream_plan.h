// From a stream's configuration to the runs it asks for.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_STREAM_STREAM_PLAN_H_
#define SPLITVEIL_DEPLOY_OPERATOR_STREAM_STREAM_PLAN_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "deploy/operator/local_run/local_run.h"

namespace splitveil {

// One day of one protection. Its name, "marvell-0.1/day2", is its folder below the runs'; what it continues from lies
// in that of the day before. Its digest is of the days before, too.
struct StreamRun : LocalRun {
  std::string protection, day;
};

// The days of one protection, in their order.
using StreamChain = std::vector<StreamRun>;

// A chain for each protection of the stream configured in the file `config_path`. Everything is validated, each
// protection proves itself (SelfTestProtection), and the data are read. Errors: NotFound and InvalidArgument, one line
// with file and field.
absl::StatusOr<std::vector<StreamChain>> PlanStream(const std::string& config_path);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_STREAM_STREAM_PLAN_H_
