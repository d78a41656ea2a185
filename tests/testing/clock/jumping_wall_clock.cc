// A library for LD_PRELOAD: a wall clock that somebody sets while a program runs. Once the file that
// SPLITVEIL_TEST_CLOCK_FILE names is there, the wall clock is off by SPLITVEIL_TEST_CLOCK_SECONDS; the monotonic clock
// goes on as if nothing had been.
#include <dlfcn.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>

namespace {

using ClockGetTime = int(clockid_t, timespec*);

time_t Offset() {
  const char* const file = std::getenv("SPLITVEIL_TEST_CLOCK_FILE");
  const char* const seconds = std::getenv("SPLITVEIL_TEST_CLOCK_SECONDS");
  return file != nullptr && seconds != nullptr && access(file, F_OK) == 0 ? std::strtol(seconds, nullptr, 10) : 0;
}

bool IsWallClock(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE; }

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  static auto* const real = reinterpret_cast<ClockGetTime*>(dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = real(clock, now);
  if (result == 0 && IsWallClock(clock)) {
    now->tv_sec += Offset();
  }
  return result;
}

int gettimeofday(timeval* now, void* /*zone*/) noexcept {
  timespec precise = {};
  const int result = clock_gettime(CLOCK_REALTIME, &precise);
  now->tv_sec = precise.tv_sec;
  now->tv_usec = precise.tv_nsec / 1000;
  return result;
}

time_t time(time_t* now) noexcept {
  timespec precise = {};
  clock_gettime(CLOCK_REALTIME, &precise);
  if (now != nullptr) {
    *now = precise.tv_sec;
  }
  return precise.tv_sec;
}

}  // extern "C"
