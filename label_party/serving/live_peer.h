// The other party's activations of the moment.
//
//   label party                                 non-label party (nonlabel_party/serving)
//   Ask(positions) ── ActivateRequest ────────► f on its data as they are now
//                  ◄── ActivateResponse ─────── activations, and which half they are of
#ifndef SPLITVEIL_LABEL_PARTY_SERVING_LIVE_PEER_H_
#define SPLITVEIL_LABEL_PARTY_SERVING_LIVE_PEER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"

#include "common/matrix/matrix.h"
#include "common/monitoring/live_metrics.h"
#include "common/process/steady_time.h"
#include "common/transport/credentials.h"

#include "splitveil/v1/agreement.pb.h"
#include "splitveil/v1/live.pb.h"
#include "splitveil/v1/serving.pb.h"

namespace splitveil {

// What is sent follows from the ids that callers ask for, and from nothing else: neither a label nor a score.
// Thread-safe.
class LivePeer {
 public:
  // `identity`: the training's. `max_rows`: of a request.
  LivePeer(const v1::LiveAnswers& config, const v1::RunAgreement& agreement, const TlsIdentity& identity,
           int64_t max_rows);

  struct Answer {
    Matrix activations;             // [positions that are not missing, cut_width]
    std::vector<uint32_t> missing;  // Indices in the positions, ascending: the other party has these rows no longer.
  };
  // Counted and timed. Errors: FailedPrecondition where the other party's half is not that of the version, with what
  // differs; InvalidArgument for an answer that does not fit; DeadlineExceeded; Unavailable, also without asking for a
  // second after one that took too long; else the other party's. The log says when errors begin and end, once a
  // second at most.
  absl::StatusOr<Answer> Ask(const v1::VersionHeader& version, absl::Span<const uint32_t> positions)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Why the other party, if it answers, cannot be asked for this version; OK also where it does not answer.
  absl::Status Lacks(const v1::VersionHeader& version);

  bool falls_back() const { return config_.fallback() == v1::LiveAnswers::STORED; }
  const LiveMetrics& metrics() const { return metrics_; }

 private:
  absl::StatusOr<Answer> Call(const v1::VersionHeader& version, absl::Span<const uint32_t> positions);
  absl::StatusOr<Answer> Read(const v1::ActivateResponse& response, const v1::VersionHeader& version,
                              int64_t positions) const;

  const v1::LiveAnswers config_;
  const v1::DataType wire_dtype_;
  const int64_t cut_width_;
  ReloadedChannel channel_;
  LiveMetrics metrics_;
  absl::Mutex mutex_;
  SteadyTime paused_until_ ABSL_GUARDED_BY(mutex_);
  SteadyTime quiet_until_ ABSL_GUARDED_BY(mutex_);
  absl::StatusCode latest_ ABSL_GUARDED_BY(mutex_) = absl::StatusCode::kOk;  // That the log knows.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SERVING_LIVE_PEER_H_
