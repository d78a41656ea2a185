// What the peer is to be sent of an alignment, in order, by a thread of its own: the next points are computed while the
// link carries those before.
#ifndef SPLITVEIL_COMMON_ALIGNMENT_PEER_OUTBOX_H_
#define SPLITVEIL_COMMON_ALIGNMENT_PEER_OUTBOX_H_

#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

#include "common/alignment/alignment_options.h"

#include "splitveil/v1/alignment.pb.h"

namespace splitveil {

// Holds a bounded number of entries. Put, Flush and Clear from one thread.
class PeerOutbox {
 public:
  // Makes the next message of several, on the outbox's thread; none: there are no more. Large messages are then made
  // one at a time, when the link takes them.
  using Messages = std::function<std::optional<v1::AlignmentMessage>()>;

  // `channel`: not owned; must outlive this. Throws std::system_error if the system has no thread.
  explicit PeerOutbox(AlignmentChannel* channel);
  // What has not been sent is dropped. Waits for the message that is being sent.
  ~PeerOutbox();
  PeerOutbox(const PeerOutbox&) = delete;
  PeerOutbox& operator=(const PeerOutbox&) = delete;

  // Waits for room. Errors: why an earlier message could not be sent.
  absl::Status Put(v1::AlignmentMessage message);
  absl::Status Put(Messages messages);
  // Waits until everything has been sent. Errors: see Put.
  absl::Status Flush();
  // Drops what has not been sent.
  void Clear();

 private:
  void SendAll();
  // The next entry; false at the end.
  bool Take(Messages* entry);
  absl::Status Send(const Messages& entry);
  bool IsDropped();

  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ending_ || !entries_.empty(); }
  bool HasRoom() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsIdle() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !failure_.ok() || (entries_.empty() && !busy_); }

  AlignmentChannel* const channel_;
  absl::Mutex mutex_;
  std::deque<Messages> entries_ ABSL_GUARDED_BY(mutex_);
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;      // With an entry that was taken.
  bool dropping_ ABSL_GUARDED_BY(mutex_) = false;  // The rest of that entry.
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_ALIGNMENT_PEER_OUTBOX_H_
