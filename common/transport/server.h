// A party's server, and its end of a stream.
#ifndef SPLITVEIL_COMMON_TRANSPORT_SERVER_H_
#define SPLITVEIL_COMMON_TRANSPORT_SERVER_H_

#include <atomic>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/server.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>
#include <grpcpp/support/sync_stream.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#include "common/alignment/private_set_intersection.h"
#include "common/transport/connection_listener.h"
#include "common/transport/credentials.h"

#include "splitveil/v1/alignment.pb.h"

namespace splitveil {

struct ServerOptions {
  std::string listen_address;            // host:port; port 0 takes a free one.
  int64_t max_message_bytes = 0;         // Of a message in either direction.
  std::vector<grpc::Service*> services;  // Not owned; must outlive the server. grpc.health.v1 comes by itself.
};

struct RunningServer {
  std::unique_ptr<ConnectionListener> listener;  // Outlives the server, whose calls it is told of.
  std::unique_ptr<grpc::Server> server;
  int port = 0;
};

// A call for which no thread is left (32 in all) ends with ResourceExhausted, like a message above the limit: the
// caller is refused, not halted; a connection has 16 calls at a time and 10 seconds for its handshake, and there are
// ConnectionLimits of connections. The log says when the port accepts no more (ListenerWatch). Errors: Internal where
// threads are lacking; InvalidArgument where the address cannot be listened on.
absl::StatusOr<RunningServer> StartServer(const ServerOptions& options, const TlsIdentity& identity);

// Reads the next message of `stream` into `message`; false once the peer has closed its side or is gone. gRPC's own
// Read of messages answers that, too, where the peer has sent bytes that are no message, and a stream broken by the
// peer reads as one that has ended well. Errors: InvalidArgument, naming `call`, for such bytes.
template <typename Response, typename Message>
absl::StatusOr<bool> ReadMessage(grpc::ServerReaderWriter<Response, grpc::ByteBuffer>* stream, const char* call,
                                 Message* message) {
  grpc::ByteBuffer bytes;
  if (!stream->Read(&bytes)) {
    return false;
  }
  const size_t size = bytes.Length();
  if (!grpc::SerializationTraits<Message>::Deserialize(&bytes, message).ok()) {
    return absl::InvalidArgumentError(absl::StrCat(call, ": expected a message ", Message::descriptor()->name(),
                                                   ", found ", size, " bytes that are none"));
  }
  return true;
}

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

// A stream holds a thread of the server for as long as its peer likes. Streams that are opened and left alone must not
// take the threads that other methods need, the operator's status among them. Thread-safe.
class CallLimit {
 public:
  explicit CallLimit(int most) : most_(most) {}

  // One call, as long as it lives. The limit must outlive it.
  class Slot {
   public:
    explicit Slot(CallLimit* limit) : limit_(limit), granted_(limit->calls_.fetch_add(1) < limit->most_) {}
    ~Slot() { limit_->calls_.fetch_sub(1); }
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

    bool granted() const { return granted_; }
    // For a call that is not granted. ResourceExhausted, which is no halt.
    grpc::Status Refusal(const char* method) const {
      return grpc::Status(
          grpc::StatusCode::RESOURCE_EXHAUSTED,
          absl::StrCat(method, ": expected at most ", limit_->most_, " calls at a time, found one more"));
    }

   private:
    CallLimit* const limit_;
    const bool granted_;
  };

 private:
  const int most_;
  std::atomic<int> calls_{0};
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TRANSPORT_SERVER_H_
