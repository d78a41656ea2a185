// splitveil.v1.Operations over a RunStatus.
#ifndef SPLITVEIL_COMMON_OPERATIONS_OPERATIONS_SERVICE_H_
#define SPLITVEIL_COMMON_OPERATIONS_OPERATIONS_SERVICE_H_

#include "common/operations/run_status.h"

#include "splitveil/v1/operations.grpc.pb.h"

namespace splitveil {

// Thread-safe.
class OperationsService final : public v1::Operations::Service {
 public:
  // `status`: not owned; must outlive this.
  explicit OperationsService(const RunStatus* status) : status_(status) {}

  grpc::Status GetStatus(grpc::ServerContext* context, const v1::GetStatusRequest* request,
                         v1::GetStatusResponse* response) override;

 private:
  const RunStatus* status_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_OPERATIONS_OPERATIONS_SERVICE_H_
