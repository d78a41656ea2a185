#include "common/config/row_time.h"

#include <cmath>
#include <string>

#include "absl/strings/charconv.h"
#include "absl/time/time.h"

namespace splitveil {
namespace {

struct Format {
  const char* text;
  bool needs_zone;
};
// No month or day first: 03/04 is two different days, and the parties would split rows differently.
constexpr Format kFormats[] = {{"%E4Y-%m-%d", false},
                               {"%E4Y-%m-%d%ET%H:%M", true},
                               {"%E4Y-%m-%d %H:%M", true},
                               {"%E4Y-%m-%d%ET%H:%M:%E*S", true},
                               {"%E4Y-%m-%d %H:%M:%E*S", true},
                               {"%E4Y-%m-%d%ET%H:%M%Ez", false},
                               {"%E4Y-%m-%d%ET%H:%M:%E*S%Ez", false},
                               {"%E4Y-%m-%d %H:%M:%E*S%Ez", false}};

}  // namespace

std::optional<RowTime> ParseRowTime(absl::string_view text, absl::TimeZone zone) {
  // Numbers first: "2020" is a number in a column of numbers, and no format below takes a bare year.
  double number = 0;
  const absl::from_chars_result result = absl::from_chars(text.data(), text.data() + text.size(), number);
  if (result.ec == std::errc() && result.ptr == text.data() + text.size() && std::isfinite(number)) {
    return RowTime{number, /*is_date=*/false};
  }
  for (const auto& [format, needs_zone] : kFormats) {
    absl::Time time;
    std::string error;
    // ParseTime also takes "infinite-past" and blanks around a time.
    if (absl::ParseTime(format, text, needs_zone ? zone : absl::UTCTimeZone(), &time, &error) &&
        time != absl::InfinitePast() && time != absl::InfiniteFuture()) {
      // Seconds since 1970 as a double are exact to less than a microsecond until well after 2200.
      return RowTime{absl::ToDoubleSeconds(time - absl::UnixEpoch()), /*is_date=*/true, needs_zone};
    }
  }
  return std::nullopt;
}

}  // namespace splitveil
