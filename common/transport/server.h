// A party's server, and its end of a stream.
#ifndef SPLITVEIL_COMMON_TRANSPORT_SERVER_H_
#define SPLITVEIL_COMMON_TRANSPORT_SERVER_H_

#include <atomic>
#include <functional>
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_context.h>
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
  // Whether a call that the credentials admit counts as authorised for the listener. Null: each does. Thread-safe.
  std::function<bool(const grpc::ServerContextBase&)> is_authorised = nullptr;
  // Of all that is being read, about: beyond it gRPC ends calls, whosever they are. gRPC 1.51 compares a message with
  // max_message_bytes once it has all of it. 0: no limit, for peers that a certificate has proven.
  int64_t max_memory_bytes = 0;
};

struct RunningServer {
  std::unique_ptr<ConnectionListener> listener;  // Outlives the server, whose authorised calls are reported to it.
  std::unique_ptr<grpc::Server> server;
  int port = 0;
};

// Starts a server of 32 threads. A call for which no thread is free ends with ResourceExhausted, like a message above
// the limit: that refuses the caller and does not halt the run. A connection has 16 calls at a time and 10 seconds for
// its handshake; ConnectionLimits says how many connections there may be. The log says when the port accepts no more
// (ListenerWatch). Errors: Internal if no threads can be started; InvalidArgument if the address cannot be listened on.
absl::StatusOr<RunningServer> StartServer(const ServerOptions& options, const TlsIdentity& identity);
// The same with other credentials.
absl::StatusOr<RunningServer> StartServer(const ServerOptions& options,
                                          const std::shared_ptr<grpc::ServerCredentials>& credentials);

// Reads the next message of `stream` into `message`; false once the peer has closed its side or was lost. gRPC's own
// Read also returns false for bytes that are no message, so that a corrupt stream would read as one that ended well.
// Errors: InvalidArgument, naming `call`, for these bytes.
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

// Errors: Unavailable if a message cannot be sent; OutOfRange once the peer has closed its side; InvalidArgument for
// bytes that are no message. Not thread-safe.
class AlignmentStreamChannel final : public AlignmentChannel {
 public:
  // Registered as method kMethod of a service instead of the generated Align, which would take bytes that are no
  // message for the end of the stream (ReadMessage).
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

// Limits how many calls of a method run at a time. A stream holds a thread of the server for as long as its peer likes:
// idle streams must not take the threads that other methods need, the operator's status among them. Thread-safe.
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
