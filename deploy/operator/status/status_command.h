// What a running party answers its operator, as text.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_STATUS_STATUS_COMMAND_H_
#define SPLITVEIL_DEPLOY_OPERATOR_STATUS_STATUS_COMMAND_H_

#include <string>

#include "grpc/health/v1/health.grpc.pb.h"
#include "splitveil/v1/operations.pb.h"

namespace splitveil {

using ServingStatus = grpc::health::v1::HealthCheckResponse::ServingStatus;

// One line on where the run stands; once steps have been trained, lines in two columns with what the party's page shows
// too: progress, leak against the bound, loss and quality, the gate, times, traffic, the latest events. Each ends in
// '\n'; nothing in `status` can add another line.
std::string StatusText(const v1::GetStatusResponse& status, ServingStatus health);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_STATUS_STATUS_COMMAND_H_
