// The server's end of an alignment's stream as the protocol sees it.
#ifndef SPLITVEIL_COMMON_TRANSPORT_ALIGNMENT_STREAM_CHANNEL_H_
#define SPLITVEIL_COMMON_TRANSPORT_ALIGNMENT_STREAM_CHANNEL_H_

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/byte_buffer.h>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/alignment/private_set_intersection.h"
#include "common/transport/message_reader.h"

#include "splitveil/v1/alignment.pb.h"

namespace splitveil {

// Errors: Unavailable where a message cannot be sent; OutOfRange once the peer has closed its side; InvalidArgument for
// bytes that are no message. Not thread-safe.
class AlignmentStreamChannel final : public AlignmentChannel {
 public:
  // As kMethod of a service in the place of the generated Align, to which bytes that are no message read as the
  // stream's end (ReadMessage).
  using Stream = grpc::ServerReaderWriter<v1::AlignmentMessage, grpc::ByteBuffer>;
  template <typename Service>
  using Handler = grpc::internal::BidiStreamingHandler<Service, grpc::ByteBuffer, v1::AlignmentMessage>;
  static constexpr int kMethod = 0;  // Place of Align in the service of alignment.proto.

  // `stream`: not owned; must outlive this.
  explicit AlignmentStreamChannel(Stream* stream) : stream_(stream) {}

  absl::Status Send(const v1::AlignmentMessage& message) override {
    return stream_->Write(message) ? absl::OkStatus() : absl::UnavailableError("alignment: the peer is gone");
  }
  absl::StatusOr<v1::AlignmentMessage> Receive() override {
    v1::AlignmentMessage message;
    const absl::StatusOr<bool> read = ReadMessage(stream_, "Align", &message);
    if (!read.ok()) {
      return read.status();
    }
    return *read ? absl::StatusOr<v1::AlignmentMessage>(std::move(message))
                 : absl::OutOfRangeError("alignment: the peer has closed its side");
  }

 private:
  Stream* const stream_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TRANSPORT_ALIGNMENT_STREAM_CHANNEL_H_
