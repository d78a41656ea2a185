#include "label_party/serving/grpc_inference.h"

#include <algorithm>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpc/grpc_security_constants.h>
#include <grpc/support/time.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include "common/transport/client_call.h"

#include "grpc/health/v1/health.pb.h"

namespace splitveil {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using grpc::reflection::v1alpha::ServerReflectionRequest;
using grpc::reflection::v1alpha::ServerReflectionResponse;

// Numbers of the methods in grpc_service.proto.
constexpr int kServerLive = 0, kServerReady = 1, kModelReady = 2, kServerMetadata = 3, kModelMetadata = 4,
              kModelInfer = 5;

// Whether the message of this type in `bytes` has no more than `left` fields and elements, which it counts down.
bool HasFewFields(const google::protobuf::Descriptor& type, google::protobuf::io::CodedInputStream& bytes,
                  int64_t& left) {
  while (const uint32_t tag = bytes.ReadTag()) {
    const WireFormatLite::WireType kind = WireFormatLite::GetTagWireType(tag);
    // A group of an older syntax has fields that no descriptor tells.
    if (--left < 0 || kind == WireFormatLite::WIRETYPE_START_GROUP) {
      return false;
    }
    if (kind != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      if (!WireFormatLite::SkipField(&bytes, tag)) {
        return false;
      }
      continue;
    }
    int size = 0;
    if (!bytes.ReadVarintSizeAsInt(&size)) {
      return false;
    }
    const FieldDescriptor* const field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    if (field != nullptr && field->message_type() != nullptr) {
      const auto outer = bytes.PushLimit(size);
      if (!HasFewFields(*field->message_type(), bytes, left)) {
        return false;
      }
      bytes.PopLimit(outer);
    } else {
      // Numbers one after the other, each of which may have one byte, unless their type says how many.
      const int bytes_of_one = field == nullptr                                       ? 1
                               : field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE ? 8
                               : field->cpp_type() == FieldDescriptor::CPPTYPE_FLOAT  ? 4
                                                                                      : 1;
      left -= field != nullptr && field->is_packable() ? size / bytes_of_one : 0;
      if (!bytes.Skip(size)) {
        return false;
      }
    }
  }
  return left >= 0 && bytes.ConsumedEntireMessage();
}

template <typename Request>
absl::Status Parse(grpc::ByteBuffer& bytes, int64_t max_fields, Request& request) {
  {
    grpc::ProtoBufferReader reader(&bytes);
    google::protobuf::io::CodedInputStream coded(&reader);
    if (!HasFewFields(*Request::descriptor(), coded, max_fields)) {
      return absl::InvalidArgumentError(
          "the request is no message of its type, or has more elements than the server takes: ask for fewer ids at a "
          "time");
    }
  }
  return grpc::SerializationTraits<Request>::Deserialize(&bytes, &request).ok()
             ? absl::OkStatus()
             : absl::InvalidArgumentError("the request is no message of its type");
}

template <typename Request, typename Stream>
absl::Status Read(Stream& stream, int64_t max_fields, Request& request) {
  grpc::ByteBuffer bytes;
  return stream.Read(&bytes)
             ? Parse(bytes, max_fields, request)
             : absl::InvalidArgumentError("the request has no message, or one that is too long or came too slowly");
}

// What a client may learn the calls of. The pool has all messages of this program, which are nobody's business.
const google::protobuf::FileDescriptor* DescribedFile(const google::protobuf::FileDescriptor* file) {
  const bool is_described = file != nullptr && (file == inference::ModelInferRequest::descriptor()->file() ||
                                                file == ServerReflectionRequest::descriptor()->file() ||
                                                file == grpc::health::v1::HealthCheckRequest::descriptor()->file());
  return is_described ? file : nullptr;
}

ServerReflectionResponse Reflected(const ServerReflectionRequest& request) {
  ServerReflectionResponse response;
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  const auto& pool = *google::protobuf::DescriptorPool::generated_pool();
  const google::protobuf::FileDescriptor* file = nullptr;
  switch (request.message_request_case()) {
    case ServerReflectionRequest::kListServices:
      for (const char* const name :
           {"inference.GRPCInferenceService", "grpc.health.v1.Health", "grpc.reflection.v1alpha.ServerReflection"}) {
        response.mutable_list_services_response()->add_service()->set_name(name);
      }
      return response;
    case ServerReflectionRequest::kFileByFilename:
      file = DescribedFile(pool.FindFileByName(request.file_by_filename()));
      break;
    case ServerReflectionRequest::kFileContainingSymbol:
      file = DescribedFile(pool.FindFileContainingSymbol(request.file_containing_symbol()));
      break;
    default:  // None of these messages has extensions.
      break;
  }
  if (file == nullptr) {
    response.mutable_error_response()->set_error_code(static_cast<int>(grpc::StatusCode::NOT_FOUND));
    response.mutable_error_response()->set_error_message("no such service, call, message or file");
    return response;
  }
  google::protobuf::FileDescriptorProto described;
  file->CopyTo(&described);
  // None imports another.
  *response.mutable_file_descriptor_response()->add_file_descriptor_proto() = described.SerializeAsString();
  return response;
}

// Of the client's, if it has one, on the monotonic clock as all our deadlines.
SteadyTime DeadlineOf(const grpc::ServerContext& context) {
  const gpr_timespec left =
      gpr_time_sub(gpr_convert_clock_type(context.raw_deadline(), GPR_CLOCK_MONOTONIC), gpr_now(GPR_CLOCK_MONOTONIC));
  return SteadyAfter(absl::Microseconds(gpr_timespec_to_micros(left)));
}

}  // namespace

class GrpcInference::Timed {
 public:
  Timed(GrpcInference* service, grpc::ServerContext* context, absl::Duration limit)
      : service_(service), context_(context), end_(SteadyAfter(limit)) {
    const absl::MutexLock lock(&service_->mutex_);
    service_->ends_.emplace(context_, end_);
  }
  ~Timed() {
    const absl::MutexLock lock(&service_->mutex_);
    service_->ends_.erase(context_);
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

  SteadyTime end() const { return end_; }

 private:
  GrpcInference* const service_;
  grpc::ServerContext* const context_;
  const SteadyTime end_;
};

template <typename Request, typename Response, typename Ask>
void GrpcInference::ServeCallers(int method, Ask ask) {
  using Stream = grpc::ServerReaderWriter<Response, grpc::ByteBuffer>;
  const auto serve = [ask](GrpcInference* self, grpc::ServerContext* context, Stream* stream) {
    OpenInference& protocol = *self->protocol_;
    // Until the client has taken the answer: also then it holds a thread.
    absl::StatusOr<Callers::Caller> caller = protocol.Admit(self->ProofOf(*context));
    if (!caller.ok()) {
      return ToGrpcStatus(protocol.CountRefusal(caller.status()));
    }
    const Timed timed(self, context, self->options_.request_limit);
    Request request;
    if (const absl::Status read = Read(*stream, self->options_.max_fields, request); !read.ok()) {
      return ToGrpcStatus(protocol.CountRefusal(read));
    }
    ++self->under_way_;  // Before it looks whether the server stops: what it lets through, the end waits for.
    const absl::StatusOr<Response> response = ask(request, *caller, std::min(DeadlineOf(*context), timed.end()));
    const bool is_gone = response.ok() && !stream->Write(*response);
    --self->under_way_;
    return is_gone ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "the client is gone")
                   : ToGrpcStatus(response.status());
  };
  MarkMethodStreamed(method,
                     new grpc::internal::BidiStreamingHandler<GrpcInference, grpc::ByteBuffer, Response>(serve, this));
}

template <typename Response, typename Ask>
void GrpcInference::ServeAll(int method, Ask ask) {
  using Stream = grpc::ServerReaderWriter<Response, grpc::ByteBuffer>;
  const auto serve = [ask](GrpcInference* self, grpc::ServerContext* context, Stream* stream) {
    const Timed timed(self, context, self->options_.stranger_limit);
    const CallLimit::Slot slot(&self->strangers_);
    if (!slot.granted() && !self->IsCallers(*context)) {
      return slot.Refusal("health");
    }
    stream->Write(ask());
    return grpc::Status::OK;
  };
  MarkMethodStreamed(method,
                     new grpc::internal::BidiStreamingHandler<GrpcInference, grpc::ByteBuffer, Response>(serve, this));
}

void GrpcInference::ServeReflection() {
  using Stream = grpc::ServerReaderWriter<ServerReflectionResponse, grpc::ByteBuffer>;
  const auto serve = [](GrpcInference* self, grpc::ServerContext* context, Stream* stream) {
    const absl::StatusOr<Callers::Caller> caller = self->protocol_->Admit(self->ProofOf(*context));
    if (!caller.ok()) {
      return ToGrpcStatus(caller.status());
    }
    const Timed timed(self, context, self->options_.request_limit);
    grpc::ByteBuffer bytes;
    while (stream->Read(&bytes)) {
      ServerReflectionRequest request;
      if (const absl::Status parsed = Parse(bytes, self->options_.max_fields, request); !parsed.ok()) {
        return ToGrpcStatus(parsed);
      }
      if (!stream->Write(Reflected(request))) {
        break;
      }
    }
    return grpc::Status::OK;
  };
  reflection_.Handle(
      new grpc::internal::BidiStreamingHandler<GrpcInference, grpc::ByteBuffer, ServerReflectionResponse>(serve, this));
}

GrpcInference::GrpcInference(OpenInference* protocol, const Options& options) : protocol_(protocol), options_(options) {
  using Caller = Callers::Caller;
  ServeAll<inference::ServerLiveResponse>(kServerLive, [] {
    inference::ServerLiveResponse response;
    response.set_live(true);
    return response;
  });
  ServeAll<inference::ServerReadyResponse>(kServerReady, [protocol] {
    inference::ServerReadyResponse response;
    response.set_ready(protocol->ServerReady());
    return response;
  });
  ServeCallers<inference::ModelReadyRequest, inference::ModelReadyResponse>(
      kModelReady, [protocol](const auto& request, const Caller& caller, SteadyTime /*deadline*/) {
        return protocol->ModelReady(request, caller);
      });
  ServeCallers<inference::ServerMetadataRequest, inference::ServerMetadataResponse>(
      kServerMetadata, [](const auto& /*request*/, const Caller& caller, SteadyTime /*deadline*/) {
        return OpenInference::ServerMetadata(caller);
      });
  ServeCallers<inference::ModelMetadataRequest, inference::ModelMetadataResponse>(
      kModelMetadata, [protocol](const auto& request, const Caller& caller, SteadyTime /*deadline*/) {
        return protocol->ModelMetadata(request, caller);
      });
  ServeCallers<inference::ModelInferRequest, inference::ModelInferResponse>(
      kModelInfer, [protocol](const auto& request, Caller& caller, SteadyTime deadline) {
        return protocol->ModelInfer(request, caller, deadline);
      });
  ServeReflection();
}

void GrpcInference::EndSlowCalls() {
  const SteadyTime now = SteadyNow();
  const absl::MutexLock lock(&mutex_);  // A call cannot end meanwhile.
  for (const auto& [context, end] : ends_) {
    if (end < now) {
      context->TryCancel();
    }
  }
}

CallerProof GrpcInference::ProofOf(const grpc::ServerContextBase& context) const {
  CallerProof proof;
  proof.by_socket = options_.by_socket;
  const auto& metadata = context.client_metadata();
  if (const auto found = metadata.find("authorization"); found != metadata.end()) {
    proof.authorization.assign(found->second.data(), found->second.size());
  }
  if (const auto peer = context.auth_context(); peer != nullptr && peer->IsPeerAuthenticated()) {
    for (const grpc::string_ref& name : peer->FindPropertyValues(GRPC_PEER_DNS_PROPERTY_NAME)) {
      proof.certificate_names.emplace_back(name.data(), name.size());
    }
  }
  return proof;
}

}  // namespace splitveil
