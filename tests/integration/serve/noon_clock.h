// A day that does not end in the middle of a test.
#ifndef SPLITVEIL_TESTS_INTEGRATION_SERVE_NOON_CLOCK_H_
#define SPLITVEIL_TESTS_INTEGRATION_SERVE_NOON_CLOCK_H_

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "tests/testing/process/environment.h"

namespace splitveil::testing {

// While the object lives, what is started has a wall clock that begins at the next noon (UTC): ahead, so that no
// certificate is of the future.
class NoonClock {
 public:
  // `file`: to be made.
  explicit NoonClock(const std::string& file)
      : preload_("LD_PRELOAD", JUMPING_WALL_CLOCK),
        file_("SPLITVEIL_TEST_CLOCK_FILE", file),
        seconds_("SPLITVEIL_TEST_CLOCK_SECONDS",
                 absl::StrCat((kDay + kDay / 2 - absl::ToUnixSeconds(absl::Now()) % kDay) % kDay)) {
    std::ofstream(file) << "set";
  }

 private:
  static constexpr int64_t kDay = 86400;

  const Environment preload_, file_, seconds_;
};

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_INTEGRATION_SERVE_NOON_CLOCK_H_
