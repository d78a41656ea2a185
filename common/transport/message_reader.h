// The messages of a stream that a server reads, told apart from its end.
#ifndef SPLITVEIL_COMMON_TRANSPORT_MESSAGE_READER_H_
#define SPLITVEIL_COMMON_TRANSPORT_MESSAGE_READER_H_

#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/sync_stream.h>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace splitveil {

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

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TRANSPORT_MESSAGE_READER_H_
