// An alignment stream that counts the bytes of its messages.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_ALIGN_COUNTING_CHANNEL_H_
#define SPLITVEIL_DEPLOY_OPERATOR_ALIGN_COUNTING_CHANNEL_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/alignment/private_set_intersection.h"
#include "common/dataset/dataset.h"
#include "common/operations/run_status.h"
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

// As AlignmentChannel: Send and Receive may be called from different threads.
class CountingChannel final : public AlignmentChannel {
 public:
  // `channel`: not owned; must outlive this.
  explicit CountingChannel(AlignmentChannel* channel) : channel_(channel) {}

  absl::Status Send(const v1::AlignmentMessage& message) override;
  absl::StatusOr<v1::AlignmentMessage> Receive() override;

  // Of the messages that went through, without what frames them on the wire.
  int64_t bytes_sent() const { return bytes_sent_; }
  int64_t bytes_received() const { return bytes_received_; }

 private:
  AlignmentChannel* const channel_;
  std::atomic<int64_t> bytes_sent_ = 0, bytes_received_ = 0;
};

// Aligns `side`'s ids over `channel` as the run `run_id`, and shows how far it is. `heard`: called after every block of
// ids. Errors: as AlignIds.
absl::StatusOr<FinishedAlignment> AlignCounted(const AlignmentSide& side, const std::string& run_id, RunStatus* status,
                                               const std::function<void()>& heard, AlignmentChannel& channel);

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_ALIGN_COUNTING_CHANNEL_H_
