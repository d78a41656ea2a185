// Which of a peer's streams counts.
#ifndef SPLITVEIL_LABEL_PARTY_SERVICE_LATEST_STREAM_H_
#define SPLITVEIL_LABEL_PARTY_SERVICE_LATEST_STREAM_H_

#include <cstdint>
#include <grpcpp/server_context.h>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace splitveil {

// A peer whose connection broke opens another stream, while the one before may wait for minutes until it is known to be
// broken. The latest one that has brought an acceptable message counts, and cuts the one before off, for good: what an
// earlier one still brings, delayed, never takes the place back. Once the run has
// ended, the one that counts is cut off where it waits for the peer, which thereby learns that it was no accident; one
// that has an answer to give gives it first. Thread-safe.
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
    // Whether an earlier stream counts, and is open.
    bool overtakes() const;
    // Whether a later stream has counted: this one is over.
    bool overtaken() const;
    // An acceptable message has come: from now on this one counts. False: a later one has counted, nothing changes.
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

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SERVICE_LATEST_STREAM_H_
