// Requests that wait for one thread, which computes them together.
#ifndef SPLITVEIL_LABEL_PARTY_SERVING_REQUEST_QUEUE_H_
#define SPLITVEIL_LABEL_PARTY_SERVING_REQUEST_QUEUE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

#include "common/process/steady_time.h"
#include "label_party/serving/served_version.h"
#include "label_party/serving/serving_metrics.h"

namespace splitveil {

// Requests of one version that follow each other are one batch, up to max_batch_rows, on whatever terms each is.
// Thread-safe.
class RequestQueue {
 public:
  struct Options {
    int64_t max_batch_rows = 0;
    absl::Duration max_delay;     // The first of a batch waits so long for others.
    int64_t max_queued_rows = 0;  // Rows that wait; those that are computed do not count.
  };

  // `metrics`: not owned; must outlive this. Errors: Internal where no thread can be started.
  static absl::StatusOr<std::unique_ptr<RequestQueue>> Create(const Options& options, ServingMetrics* metrics);
  // Computes what waits.
  ~RequestQueue();
  RequestQueue(const RequestQueue&) = delete;
  RequestQueue& operator=(const RequestQueue&) = delete;

  int64_t max_batch_rows() const { return options_.max_batch_rows; }
  // Answers of `version` for the question's ids. Errors: InvalidArgument for no id, or more than
  // max_batch_rows; ResourceExhausted, at once, where more than max_queued_rows would wait, or more than half of them
  // of this `caller`, so that one does not keep out the others; DeadlineExceeded where its turn came after `deadline`,
  // and nothing was computed; those of AnswerSource.
  absl::StatusOr<Answers> Ask(std::shared_ptr<AnswerSource> version, const AskedIds& question, SteadyTime deadline,
                              const std::string& caller) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // Of a caller that waits.
  struct Request {
    std::shared_ptr<AnswerSource> version;
    AskedIds question;
    SteadyTime deadline, arrived;
    std::string caller;
    absl::StatusOr<Answers> answers;
    absl::Notification done;
  };

  RequestQueue(const Options& options, ServingMetrics* metrics) : options_(options), metrics_(metrics) {}
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  // The next batch; empty: stopping, and nothing waits.
  std::vector<Request*> Take() ABSL_LOCKS_EXCLUDED(mutex_);
  void Compute(const std::vector<Request*>& batch);

  const Options options_;
  ServingMetrics* const metrics_;
  mutable absl::Mutex mutex_;
  std::deque<Request*> waiting_ ABSL_GUARDED_BY(mutex_);
  int64_t rows_ ABSL_GUARDED_BY(mutex_) = 0;                        // Of those.
  std::map<std::string, int64_t> rows_of_ ABSL_GUARDED_BY(mutex_);  // By caller; none of 0.
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  WakeableSleep delay_;  // The thread's.
  std::thread thread_;   // Last: uses all above.
};

}  // namespace splitveil

#endif  // SPLITVEIL_LABEL_PARTY_SERVING_REQUEST_QUEUE_H_
