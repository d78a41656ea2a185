// inference.GRPCInferenceService over an OpenInference.
#ifndef SPLITVEIL_LABEL_PARTY_SERVING_GRPC_INFERENCE_H_
#define SPLITVEIL_LABEL_PARTY_SERVING_GRPC_INFERENCE_H_

#include <atomic>
#include <cstdint>
#include <grpcpp/server_context.h>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "common/process/steady_time.h"
#include "common/transport/server.h"
#include "label_party/serving/open_inference.h"

#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "inference/grpc_service.grpc.pb.h"

namespace splitveil {

// gRPC reads and parses the message of a unary call before it calls anybody, from any sender and of any length.
// So here each call is served as if it were a stream: the caller is looked at first, and only then is a message read.
// Of strangers, who may ask whether the server lives and is ready, no message is read at all. Thread-safe.
class GrpcInference final : public inference::GRPCInferenceService::Service {
 public:
  struct Options {
    bool by_socket = false;  // CallerProof's.
    // Of a request, those of the messages in it included, and the elements of lists: what is parsed may take fifty
    // times the bytes of a field without content.
    int64_t max_fields = 0;
    // From the beginning of a call to the end of its answer, and the same of a stranger's.
    absl::Duration request_limit = absl::Seconds(30), stranger_limit = absl::Seconds(5);
  };

  // `protocol`: not owned; must outlive this.
  GrpcInference(OpenInference* protocol, const Options& options);

  // grpc.reflection.v1alpha, by which callers learn the calls; to be registered beside this.
  grpc::Service* reflection() { return &reflection_; }

  // Whether a call is a caller's: of strangers the listener keeps fewer connections.
  bool IsCallers(const grpc::ServerContextBase& context) const { return protocol_->Knows(ProofOf(context)); }
  // Ends the calls that have taken longer than they may: the client sends, or takes its answer, too slowly. Somebody
  // has to call it every now and then.
  void EndSlowCalls() ABSL_LOCKS_EXCLUDED(mutex_);
  // Requests of callers that have been read and whose answers have not been taken.
  int under_way() const { return under_way_; }

 private:
  static constexpr int kMostOfStrangers = 4;  // Their calls at a time; others are refused at once.

  // What its call does is set here: the generated one would read messages before it looks whose they are.
  class Reflection final : public grpc::reflection::v1alpha::ServerReflection::Service {
   public:
    void Handle(grpc::internal::MethodHandler* handler) { MarkMethodStreamed(0, handler); }
  };

  // A call that EndSlowCalls sees, as long as this lives.
  class Timed;

  // Serves `method`, its number in the .proto, with what `ask` makes of a request, its caller and its deadline.
  template <typename Request, typename Response, typename Ask>
  void ServeCallers(int method, Ask ask);
  // For everybody, with what `ask` says.
  template <typename Response, typename Ask>
  void ServeAll(int method, Ask ask);
  // For callers, as many messages as they like within a request's time.
  void ServeReflection();
  CallerProof ProofOf(const grpc::ServerContextBase& context) const;

  Reflection reflection_;
  OpenInference* const protocol_;
  const Options options_;
  CallLimit strangers_{kMostOfStrangers};
  std::atomic<int> under_way_{0};
  absl::Mutex mutex_;
  std::map<grpc::ServerContext*, SteadyTime> ends_ ABSL_GUARDED_BY(mutex_);  // Of the calls under way.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SERVING_GRPC_INFERENCE_H_
