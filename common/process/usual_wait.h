// Waits that are out of the ordinary.
#ifndef SPLITVEIL_COMMON_PROCESS_USUAL_WAIT_H_
#define SPLITVEIL_COMMON_PROCESS_USUAL_WAIT_H_

#include <cstdint>

namespace splitveil {

// A network may stall for seconds while its connections hold: nothing but the wait tells. Not thread-safe.
class UsualWait {
 public:
  // Whether a wait of this many seconds is a stall: five or more, and ten times the mean of those before it, of which
  // there were three at least. What is none counts for the mean.
  bool IsStall(double seconds) {
    if (waits_ >= kLeastWaits && seconds >= kLeastSeconds &&
        seconds * static_cast<double>(waits_) >= kTimesTheMean * total_seconds_) {
      return true;
    }
    ++waits_;
    total_seconds_ += seconds;
    return false;
  }

 private:
  static constexpr int64_t kLeastWaits = 3;
  static constexpr double kLeastSeconds = 5, kTimesTheMean = 10;

  int64_t waits_ = 0;
  double total_seconds_ = 0;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_PROCESS_USUAL_WAIT_H_
