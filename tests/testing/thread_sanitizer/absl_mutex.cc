// absl::Mutex, CondVar and Notification made of std::mutex and std::condition_variable, for the tests under
// ThreadSanitizer.
//
// The distribution's Abseil is not instrumented: ThreadSanitizer does not see that its Lock and Unlock order anything,
// and would report every guarded field. Suppressions would hide the real races beside them. These definitions lie in
// the executable and so take the place of those in libabsl_synchronization.so, for our code as for gRPC's; what they
// lock, ThreadSanitizer knows (orders of locking, too). Two differences: readers exclude each other, so a write under a
// reader's lock is left to -Wthread-safety; AssertHeld checks nothing.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#if !defined(ABSL_LTS_RELEASE_VERSION) || ABSL_LTS_RELEASE_VERSION != 20220623
#error "expected Abseil 20220623, whose functions these replace: compare them with your version's mutex.h"
#endif

namespace absl {
ABSL_NAMESPACE_BEGIN
namespace {

using SteadyTime = std::chrono::steady_clock::time_point;

struct MutexState {
  std::mutex mutex;
  std::condition_variable changed;  // Somebody has unlocked it: conditions may hold now.
  int waiting_for_conditions = 0;   // Guarded by mutex.
};

struct CondVarState {
  std::condition_variable signalled;
};

// What stands behind the one word of a Mutex or CondVar; made when first used.
template <typename State>
State& StateOf(std::atomic<intptr_t>& word) {
  intptr_t value = word.load(std::memory_order_acquire);
  if (value == 0) {
    auto* made = new State();
    if (word.compare_exchange_strong(value, reinterpret_cast<intptr_t>(made), std::memory_order_acq_rel)) {
      return *made;
    }
    delete made;
  }
  return *reinterpret_cast<State*>(value);
}

SteadyTime InTime(Duration timeout) {
  return std::chrono::steady_clock::now() + ToChronoMicroseconds(std::clamp(timeout, ZeroDuration(), Hours(24 * 365)));
}

void WakeConditions(MutexState& state) {
  if (state.waiting_for_conditions > 0) {
    state.changed.notify_all();
  }
}

// With the mutex held. Whether `condition` holds before `deadline`, null: whenever it may.
bool WaitFor(MutexState& state, const Condition& condition, const SteadyTime* deadline) {
  std::unique_lock<std::mutex> lock(state.mutex, std::adopt_lock);
  bool holds = condition.Eval();
  if (!holds) {
    WakeConditions(state);  // Once: what the caller has changed. To wait again changes nothing.
    ++state.waiting_for_conditions;
    bool in_time = true;
    while (!holds && in_time) {
      if (deadline == nullptr) {
        state.changed.wait(lock);
      } else {
        in_time = state.changed.wait_until(lock, *deadline) == std::cv_status::no_timeout;
      }
      holds = condition.Eval();
    }
    --state.waiting_for_conditions;
  }
  lock.release();
  return holds;
}

}  // namespace

Mutex::~Mutex() {
  ABSL_TSAN_MUTEX_DESTROY(this, __tsan_mutex_not_static);
  delete reinterpret_cast<MutexState*>(mu_.load(std::memory_order_acquire));
}

void Mutex::Lock() { StateOf<MutexState>(mu_).mutex.lock(); }

void Mutex::Unlock() {
  auto& state = StateOf<MutexState>(mu_);
  WakeConditions(state);
  state.mutex.unlock();
}

bool Mutex::TryLock() { return StateOf<MutexState>(mu_).mutex.try_lock(); }

void Mutex::ReaderLock() { Lock(); }
void Mutex::ReaderUnlock() { Unlock(); }
bool Mutex::ReaderTryLock() { return TryLock(); }

void Mutex::AssertHeld() const {}
void Mutex::AssertReaderHeld() const {}
void Mutex::AssertNotHeld() const {}
void Mutex::ForgetDeadlockInfo() {}
void Mutex::EnableDebugLog(const char* /*name*/) {}
void Mutex::EnableInvariantDebugging(void (* /*invariant*/)(void*), void* /*argument*/) {}

void Mutex::Await(const Condition& condition) { WaitFor(StateOf<MutexState>(mu_), condition, nullptr); }

bool Mutex::AwaitWithTimeout(const Condition& condition, Duration timeout) {
  const SteadyTime deadline = InTime(timeout);
  return WaitFor(StateOf<MutexState>(mu_), condition, &deadline);
}

bool Mutex::AwaitWithDeadline(const Condition& condition, Time deadline) {
  return AwaitWithTimeout(condition, deadline - Now());
}

void Mutex::LockWhen(const Condition& condition) {
  Lock();
  Await(condition);
}

bool Mutex::LockWhenWithTimeout(const Condition& condition, Duration timeout) {
  Lock();
  return AwaitWithTimeout(condition, timeout);
}

bool Mutex::LockWhenWithDeadline(const Condition& condition, Time deadline) {
  Lock();
  return AwaitWithDeadline(condition, deadline);
}

void Mutex::ReaderLockWhen(const Condition& condition) { LockWhen(condition); }

bool Mutex::ReaderLockWhenWithTimeout(const Condition& condition, Duration timeout) {
  return LockWhenWithTimeout(condition, timeout);
}

bool Mutex::ReaderLockWhenWithDeadline(const Condition& condition, Time deadline) {
  return LockWhenWithDeadline(condition, deadline);
}

CondVar::~CondVar() { delete reinterpret_cast<CondVarState*>(cv_.load(std::memory_order_acquire)); }

void CondVar::Wait(Mutex* mutex) {
  auto& state = StateOf<MutexState>(mutex->mu_);
  WakeConditions(state);
  std::unique_lock<std::mutex> lock(state.mutex, std::adopt_lock);
  StateOf<CondVarState>(cv_).signalled.wait(lock);
  lock.release();
}

bool CondVar::WaitWithTimeout(Mutex* mutex, Duration timeout) {
  auto& state = StateOf<MutexState>(mutex->mu_);
  WakeConditions(state);
  std::unique_lock<std::mutex> lock(state.mutex, std::adopt_lock);
  const bool timed_out =
      StateOf<CondVarState>(cv_).signalled.wait_until(lock, InTime(timeout)) == std::cv_status::timeout;
  lock.release();
  return timed_out;
}

bool CondVar::WaitWithDeadline(Mutex* mutex, Time deadline) { return WaitWithTimeout(mutex, deadline - Now()); }

void CondVar::Signal() { StateOf<CondVarState>(cv_).signalled.notify_one(); }
void CondVar::SignalAll() { StateOf<CondVarState>(cv_).signalled.notify_all(); }
void CondVar::EnableDebugLog(const char* /*name*/) {}

Notification::~Notification() { MutexLock lock(&mutex_); }  // Until Notify has left.

void Notification::Notify() {
  MutexLock lock(&mutex_);
  notified_yet_.store(true, std::memory_order_release);
}

void Notification::WaitForNotification() const {
  MutexLock lock(&mutex_, Condition(&HasBeenNotifiedInternal, &notified_yet_));
}

bool Notification::WaitForNotificationWithTimeout(Duration timeout) const {
  const bool notified = mutex_.LockWhenWithTimeout(Condition(&HasBeenNotifiedInternal, &notified_yet_), timeout);
  mutex_.Unlock();
  return notified;
}

bool Notification::WaitForNotificationWithDeadline(Time deadline) const {
  return WaitForNotificationWithTimeout(deadline - Now());
}

ABSL_NAMESPACE_END
}  // namespace absl
