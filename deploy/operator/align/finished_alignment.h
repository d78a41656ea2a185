// What either side of an alignment brings, and what it ends with.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_ALIGN_FINISHED_ALIGNMENT_H_
#define SPLITVEIL_DEPLOY_OPERATOR_ALIGN_FINISHED_ALIGNMENT_H_

#include <cstdint>
#include <memory>

#include "common/alignment/private_set_intersection.h"
#include "common/dataset/dataset.h"
#include "common/transport/credentials.h"

#include "splitveil/v1/agreement.pb.h"

namespace splitveil {

struct AlignmentSide {
  v1::RunAgreement agreement;  // Canonical and valid.
  TlsIdentity identity;
  std::shared_ptr<const Dataset> data;
};

struct FinishedAlignment {
  AlignedIds aligned;
  double seconds = 0;  // From the opened stream to the end of the own half.
  int64_t bytes_sent = 0, bytes_received = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_ALIGN_FINISHED_ALIGNMENT_H_
