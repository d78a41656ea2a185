#include "common/operations/operations_service.h"

namespace splitveil {

grpc::Status OperationsService::GetStatus(grpc::ServerContext* /*context*/, const v1::GetStatusRequest* /*request*/,
                                          v1::GetStatusResponse* response) {
  *response = status_->Snapshot();
  return grpc::Status::OK;
}

}  // namespace splitveil
