// Log lines on standard error: time, severity, message. Never a label, an id, a row of data or a key.
#ifndef SPLITVEIL_COMMON_TELEMETRY_LOG_H_
#define SPLITVEIL_COMMON_TELEMETRY_LOG_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace splitveil {

enum class Severity { kInfo, kWarning, kError };

// "2026-11-21T08:37:47.123Z WARNING message\n": RFC 3339 time in UTC with milliseconds; the message as OneLine has it.
std::string FormatLogLine(absl::Time time, Severity severity, absl::string_view message);

// Thread-safe; one write a line. A progress line that stands on the terminal (progress.h) is wiped first. A line that
// cannot be written is lost: logging never stops a run.
void LogLine(Severity severity, absl::string_view message);

template <typename... Parts>
void LogInfo(const Parts&... parts) {
  LogLine(Severity::kInfo, absl::StrCat(parts...));
}
template <typename... Parts>
void LogWarning(const Parts&... parts) {
  LogLine(Severity::kWarning, absl::StrCat(parts...));
}
template <typename... Parts>
void LogError(const Parts&... parts) {
  LogLine(Severity::kError, absl::StrCat(parts...));
}

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TELEMETRY_LOG_H_
