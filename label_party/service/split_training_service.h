// gRPC adapters of the label party: each method hands its messages to the session and maps the status. A refusal is
// reported back to the session, which records it in the ledger.
#ifndef SPLITVEIL_LABEL_PARTY_SERVICE_SPLIT_TRAINING_SERVICE_H_
#define SPLITVEIL_LABEL_PARTY_SERVICE_SPLIT_TRAINING_SERVICE_H_

#include <cstdint>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

#include "common/transport/server.h"
#include "label_party/session/label_session.h"

#include "splitveil/v1/alignment.grpc.pb.h"
#include "splitveil/v1/attribute_audit.grpc.pb.h"
#include "splitveil/v1/leak_audit.grpc.pb.h"
#include "splitveil/v1/split_training.grpc.pb.h"

namespace splitveil {

// Which of a peer's streams counts. A peer that loses its connection opens a new stream, while the old one may wait for
// minutes until its loss is noticed. The latest stream that has brought an acceptable message counts. It cuts the one
// before off, for good: what an old stream still delivers late never takes the place back. When the run ends, a stream
// that waits for the peer is cut off, which shows the peer that the end was intended; a stream that has an answer to
// give sends it first. Thread-safe.
class LatestStream {
 public:
  // One stream, as long as its handler runs. `latest`, `context`: not owned; must outlive it. Use from one thread.
  class Turn {
   public:
    Turn(LatestStream* latest, grpc::ServerContext* context);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    // Around every wait for a message. False: the run has ended, no message is waited for.
    bool BeginRead();
    void EndRead();
    // Whether an earlier stream counts and is still open.
    bool overtakes() const;
    // Whether a later stream has counted, so that this one is over.
    bool overtaken() const;
    // An acceptable message has come: from now on this stream counts. False if a later one has counted; then nothing
    // changes.
    bool Accepted();
    bool counts() const;

   private:
    LatestStream* const latest_;
    grpc::ServerContext* const context_;
    const uint64_t number_;  // Later streams have larger ones.
  };

  // The run has ended.
  void End();

 private:
  mutable absl::Mutex mutex_;
  grpc::ServerContext* current_ ABSL_GUARDED_BY(mutex_) = nullptr;  // Of the stream that counts, while it is open.
  uint64_t streams_ ABSL_GUARDED_BY(mutex_) = 0;                    // That have begun.
  uint64_t accepted_ ABSL_GUARDED_BY(mutex_) = 0;  // Number of the latest one that has counted; 0: none has.
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;   // It waits for a message.
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

// Thread-safe.
class SplitTrainingService final : public v1::SplitTraining::Service {
 public:
  // `session`: not owned; must outlive this.
  explicit SplitTrainingService(LabelSession* session);

  // Once the run has ended: no stream waits for the peer any more.
  void EndStreams() { latest_.End(); }

  grpc::Status Open(grpc::ServerContext* context, const v1::OpenRequest* request, v1::OpenResponse* response) override;
  grpc::Status MeasureLink(grpc::ServerContext* context, const v1::MeasureLinkRequest* request,
                           v1::MeasureLinkResponse* response) override;
  grpc::Status Start(grpc::ServerContext* context, const v1::StartRequest* request,
                     v1::StartResponse* response) override;
  grpc::Status Close(grpc::ServerContext* context, const v1::CloseRequest* request,
                     v1::CloseResponse* response) override;

 private:
  // Replaces the generated Train, to which bytes that are no message read as the stream's end. So is Evaluate.
  grpc::Status TrainStream(grpc::ServerContext* context,
                           grpc::ServerReaderWriter<v1::CutGradients, grpc::ByteBuffer>* stream);

  LabelSession* session_;
  LatestStream latest_;
  // More than one of each while one whose connection broke has not been given up.
  CallLimit trainings_{4};
  CallLimit evaluations_{4};
};

// Thread-safe.
class AlignmentService final : public v1::Alignment::Service {
 public:
  // `session`: not owned; must outlive this.
  explicit AlignmentService(LabelSession* session);

 private:
  // In the place of the generated Align: AlignmentStreamChannel.
  grpc::Status AlignStream(grpc::ServerContext* context, AlignmentStreamChannel::Stream* stream);

  LabelSession* session_;
  LatestStream latest_;
  CallLimit alignments_{4};
};

// Thread-safe.
class LeakAuditService final : public v1::LeakAudit::Service {
 public:
  // `session`: not owned; must outlive this.
  explicit LeakAuditService(LabelSession* session) : session_(session) {}

  grpc::Status ScoreBatch(grpc::ServerContext* context, const v1::ScoreBatchRequest* request,
                          v1::ScoreBatchResponse* response) override;
  grpc::Status AuxiliaryLabels(grpc::ServerContext* context, const v1::AuxiliaryLabelsRequest* request,
                               v1::AuxiliaryLabelsResponse* response) override;
  grpc::Status ScoreExamples(grpc::ServerContext* context, const v1::ScoreExamplesRequest* request,
                             v1::ScoreExamplesResponse* response) override;

 private:
  LabelSession* session_;
};

// Thread-safe.
class AttributeAuditService final : public v1::AttributeAudit::Service {
 public:
  // `session`: not owned; must outlive this.
  explicit AttributeAuditService(LabelSession* session);

  grpc::Status GuessAttributes(grpc::ServerContext* context, const v1::GuessAttributesRequest* request,
                               grpc::ServerWriter<v1::AttributeGuesses>* writer) override;

 private:
  LabelSession* session_;
  CallLimit embeddings_{4};
  CallLimit guesses_{4};
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SERVICE_SPLIT_TRAINING_SERVICE_H_
