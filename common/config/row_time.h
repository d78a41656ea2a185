// When a row was: cells of kind TIME, and the time from which on rows are for testing.
#ifndef SPLITVEIL_COMMON_CONFIG_ROW_TIME_H_
#define SPLITVEIL_COMMON_CONFIG_ROW_TIME_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace splitveil {

// Of a finite decimal number, the number; of an ISO 8601 date with or without a time of day ("2024-06-01",
// "2024-06-01 12:30", "2024-06-01T12:30:05.5+02:00"), seconds since 1970 in UTC. A date alone is its midnight in UTC,
// so that it means the same everywhere; a time of day without an offset is one of `zone`. Nullopt: neither. Numbers and
// dates compare with themselves alone: a table has the one or the other.
struct RowTime {
  double value = 0;
  bool is_date = false;
  bool needs_zone = false;  // A time of day without an offset: what it means depends on `zone`.
};
std::optional<RowTime> ParseRowTime(absl::string_view text, absl::TimeZone zone = absl::UTCTimeZone());

// What a text that is none should have been.
inline constexpr char kRowTimeWords[] = "a number or a date such as 2024-06-01 or 2024-06-01T12:30:00Z";

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_CONFIG_ROW_TIME_H_
