#include "common/transport/client_call.h"

#include <cstddef>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/cord.h"
#include "absl/synchronization/mutex.h"

#include "common/crypto/secure_random.h"
#include "common/process/local_paths.h"
#include "common/process/steady_time.h"
#include "common/telemetry/log.h"

namespace splitveil {
namespace {

constexpr int kLastCode = static_cast<int>(grpc::StatusCode::UNAUTHENTICATED);

// gRPC's codes and Abseil's are the same numbers by design; the ends and one in the middle stand for all.
static_assert(static_cast<int>(absl::StatusCode::kOk) == grpc::StatusCode::OK);
static_assert(static_cast<int>(absl::StatusCode::kFailedPrecondition) == grpc::StatusCode::FAILED_PRECONDITION);
static_assert(static_cast<int>(absl::StatusCode::kUnauthenticated) == kLastCode);

bool SaysPeerIsGone(absl::StatusCode code) {
  return code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kDeadlineExceeded ||
         code == absl::StatusCode::kCancelled;
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) {
    return grpc::Status::OK;
  }
  // The payload, not the code, marks a halt: gRPC's own limits end calls with the same code.
  const bool halted = absl::IsResourceExhausted(status) && status.GetPayload(kHaltedPayloadUrl).has_value();
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), WithoutLocalPaths(status.message()),
                      halted ? kHaltedPayloadUrl : "");
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) {
    return absl::OkStatus();
  }
  const int number = static_cast<int>(status.error_code());
  // The number is the peer's: outside the enumeration it must not be cast to one.
  const bool known = number > 0 && number <= kLastCode;
  // UNKNOWN is what gRPC itself reports when it loses the connection at a moment for which it has no code ("Stream
  // removed", "Error in HTTP transport completing operation"; grpc issue 34076). No party sends it.
  const bool lost = status.error_code() == grpc::StatusCode::UNKNOWN;
  const absl::StatusCode code = lost    ? absl::StatusCode::kUnavailable
                                : known ? static_cast<absl::StatusCode>(number)
                                        : absl::StatusCode::kUnknown;
  // The text is the peer's: on one line, so that it cannot forge a log line.
  absl::Status mapped(code, OneLine(status.error_message()));
  if (absl::IsResourceExhausted(mapped) && status.error_details() == kHaltedPayloadUrl) {
    mapped.SetPayload(kHaltedPayloadUrl, absl::Cord());
  }
  // Codes that gRPC itself produces when a connection breaks say nothing of the peer's opinion, and are retried.
  return SaysPeerIsGone(code) ? mapped : MarkRefusedByPeer(mapped);
}

absl::Status MarkRefusedByPeer(absl::Status status) {
  status.SetPayload(kRefusedByPeerPayloadUrl, absl::Cord());  // No effect on OK.
  return status;
}

bool RefusedByPeer(const absl::Status& status) { return status.GetPayload(kRefusedByPeerPayloadUrl).has_value(); }

absl::Duration Jittered(absl::Duration pause) {
  // From half the pause to all of it: both parties must not retry in step for ever.
  // A thousand steps are fine enough; the value comes from the secure generator because nothing here is seeded.
  constexpr size_t kSteps = 1000;
  return pause / 2 + pause / 2 * static_cast<double>(SecureIndex(kSteps)) / kSteps;
}

struct StreamWatchdog::State {
  const absl::Duration limit;
  const std::function<void()> cancel;
  WakeableSleep sleep;  // The thread's.
  mutable absl::Mutex mutex;
  // Armed while an answer is due; a stream that waits for its own side must not be cancelled.
  bool armed ABSL_GUARDED_BY(mutex) = false;
  bool idle ABSL_GUARDED_BY(mutex) = false;  // The thread sleeps past any deadline, so Arm has to wake it.
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  bool expired ABSL_GUARDED_BY(mutex) = false;
  SteadyTime deadline ABSL_GUARDED_BY(mutex);
  std::thread thread;  // Last: its function uses all above.

  State(absl::Duration limit_in, std::function<void()> cancel_in)
      : limit(limit_in), cancel(std::move(cancel_in)), thread([this] { Watch(); }) {}

  void Watch() ABSL_LOCKS_EXCLUDED(mutex) {
    while (const std::optional<SteadyTime> again = CheckExpiry()) {
      sleep.Until(*again);
    }
    // Without the lock: `cancel` may call the watchdog.
    if (IsExpired()) {
      cancel();
    }
  }

  // When to look again; nullopt once the time has run out or it is to stop.
  std::optional<SteadyTime> CheckExpiry() ABSL_LOCKS_EXCLUDED(mutex) {
    const absl::MutexLock lock(&mutex);
    expired = expired || (!stopping && armed && SteadyNow() >= deadline);
    // Told to Arm, which then knows that it must wake this thread.
    idle = !armed;
    if (stopping || expired) {
      return std::nullopt;
    }
    // A later Arm moves the deadline without waking the thread: it finds out when the old one has passed.
    return armed ? deadline : SteadyAfter(absl::InfiniteDuration());
  }

  bool IsExpired() const ABSL_LOCKS_EXCLUDED(mutex) {
    const absl::MutexLock lock(&mutex);
    return expired;
  }
};

StreamWatchdog::StreamWatchdog(absl::Duration limit, std::function<void()> cancel)
    : state_(std::make_unique<State>(limit, std::move(cancel))) {}

StreamWatchdog::~StreamWatchdog() {
  {
    const absl::MutexLock lock(&state_->mutex);
    state_->stopping = true;
  }
  // Outside the lock: the thread takes it as soon as it wakes.
  state_->sleep.Wake();
  state_->thread.join();
}

void StreamWatchdog::Arm() {
  const absl::MutexLock lock(&state_->mutex);
  state_->armed = true;
  state_->deadline = SteadyAfter(state_->limit);
  // Waking a thread at every message would cost a system call each.
  if (state_->idle) {
    state_->idle = false;
    state_->sleep.Wake();
  }
}

void StreamWatchdog::Disarm() {
  const absl::MutexLock lock(&state_->mutex);
  state_->armed = false;
}

bool StreamWatchdog::expired() const { return state_->IsExpired(); }

}  // namespace splitveil
