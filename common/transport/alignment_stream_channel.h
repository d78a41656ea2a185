// The server's end of an alignment's stream as the protocol sees it.
#ifndef SPLITVEIL_COMMON_TRANSPORT_ALIGNMENT_STREAM_CHANNEL_H_
#define SPLITVEIL_COMMON_TRANSPORT_ALIGNMENT_STREAM_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/alignment/private_set_intersection.h"

#include "splitveil/v1/alignment.pb.h"

namespace splitveil {

// Errors: Unavailable where a message cannot be sent; OutOfRange once the peer has closed its side. Not thread-safe.
class AlignmentStreamChannel final : public AlignmentChannel {
 public:
  using Stream = grpc::ServerReaderWriter<v1::AlignmentMessage, v1::AlignmentMessage>;

  // `stream`: not owned; must outlive this.
  explicit AlignmentStreamChannel(Stream* stream) : stream_(stream) {}

  absl::Status Send(const v1::AlignmentMessage& message) override {
    return stream_->Write(message) ? absl::OkStatus() : absl::UnavailableError("alignment: the peer is gone");
  }
  absl::StatusOr<v1::AlignmentMessage> Receive() override {
    v1::AlignmentMessage message;
    if (!stream_->Read(&message)) {
      return absl::OutOfRangeError("alignment: the peer has closed its side");
    }
    return message;
  }

 private:
  Stream* const stream_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TRANSPORT_ALIGNMENT_STREAM_CHANNEL_H_
