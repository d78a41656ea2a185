// The Open Inference Protocol (proto/inference/grpc_service.proto) over the versions of one model, free of gRPC and
// HTTP.
#ifndef SPLITVEIL_LABEL_PARTY_SERVING_OPEN_INFERENCE_H_
#define SPLITVEIL_LABEL_PARTY_SERVING_OPEN_INFERENCE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "common/process/steady_time.h"
#include "label_party/serving/callers.h"
#include "label_party/serving/request_queue.h"
#include "label_party/serving/served_version.h"
#include "label_party/serving/serving_metrics.h"

#include "inference/grpc_service.pb.h"
#include "splitveil/v1/serving.pb.h"

namespace splitveil {

// Input "id" BYTES [n]; of own callers also own columns of these rows, by name (ReadTensors). Outputs "probability"
// FP32 [n], with several classes [n, classes]; of a regression "prediction" FP32 [n]; and "found" BOOL [n]. An id that
// is not known has NaN, and spoils no other.
//
// ServerReady is for everybody; all else for a caller. Thread-safe.
class OpenInference {
 public:
  struct Options {
    std::string model_name;                       // That of the run.
    std::optional<v1::UnprovedAnswers> unproved;  // What outside callers get beside noised labels; nullopt: nothing.
    std::string ledger_path;                      // That counts these.
    const LiveMetrics* live = nullptr;            // Not owned; must outlive this. Null: nothing is asked live.
  };

  // All pointers: not owned; must outlive this.
  OpenInference(Options options, const ServedVersions* versions, RequestQueue* queue, Callers* callers,
                ServingMetrics* metrics)
      : options_(std::move(options)), versions_(versions), queue_(queue), callers_(callers), metrics_(metrics) {}

  // False before the first version and from StopAnswering on.
  bool ServerReady() const { return !stopping_ && versions_->Find() != nullptr; }
  // Before the request is read. Errors: see Callers::Admit.
  absl::StatusOr<Callers::Caller> Admit(const CallerProof& proof) const { return callers_->Admit(proof); }
  bool Knows(const CallerProof& proof) const { return callers_->Knows(proof); }
  // Errors: NotFound for another model or a version that is not served.
  absl::StatusOr<inference::ModelReadyResponse> ModelReady(const inference::ModelReadyRequest& request,
                                                           const Callers::Caller& caller) const;
  static inference::ServerMetadataResponse ServerMetadata(const Callers::Caller& caller);
  absl::StatusOr<inference::ModelMetadataResponse> ModelMetadata(const inference::ModelMetadataRequest& request,
                                                                 const Callers::Caller& caller) const;
  // Errors: NotFound for another model or version; InvalidArgument for other inputs or outputs; PermissionDenied for an
  // outside caller where the version has learned from true labels, unless they are answered within unproved_answers;
  // ResourceExhausted beyond what the caller or the
  // queue may have; DeadlineExceeded; Unavailable without a version, and while the server stops.
  absl::StatusOr<inference::ModelInferResponse> ModelInfer(const inference::ModelInferRequest& request,
                                                           Callers::Caller& caller, SteadyTime deadline);
  // Counts a request that was refused before it could be read; `status`.
  absl::Status CountRefusal(absl::Status status) {
    metrics_->CountRequest(status.code(), /*version=*/0, /*seconds=*/0);
    return status;
  }
  // Figures for Prometheus, and drift as a table. Errors: PermissionDenied for an outside caller.
  absl::StatusOr<std::string> Metrics(const Callers::Caller& caller) const;
  absl::StatusOr<std::string> Drift(const Callers::Caller& caller) const;
  // The same figures, for this party's own page.
  std::string AllMetrics() const;

  // New requests are refused from now on; those under way go on.
  void StopAnswering() { stopping_ = true; }

 private:
  // Errors: NotFound; Unavailable where there is no version yet.
  absl::StatusOr<std::shared_ptr<ServedVersion>> FindVersion(const std::string& name, const std::string& version) const;
  absl::StatusOr<inference::ModelInferResponse> Infer(const inference::ModelInferRequest& request,
                                                      Callers::Caller& caller, SteadyTime deadline, int64_t& version);

  // Once `rows` answers are there, and before they are sent. Errors: ResourceExhausted; Unavailable where they cannot
  // be counted.
  absl::Status CountUnproved(const ServedVersion& version, const std::string& caller, int64_t rows);

  const Options options_;
  const ServedVersions* const versions_;
  RequestQueue* const queue_;
  Callers* const callers_;
  ServingMetrics* const metrics_;
  std::atomic<bool> stopping_{false};
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SERVING_OPEN_INFERENCE_H_
