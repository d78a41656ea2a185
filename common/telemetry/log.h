// Log lines on standard error: time, severity, message. Never a label, an id, a row of data or a key.
#ifndef SPLITVEIL_COMMON_TELEMETRY_LOG_H_
#define SPLITVEIL_COMMON_TELEMETRY_LOG_H_

#include "absl/strings/str_cat.h"

namespace splitveil {

enum class Severity { kInfo, kWarning, kError };

// Thread-safe; one write a line.
void LogLine(Severity severity, absl::string_view message);

template <typename... Parts>
void LogInfo(const Parts&... parts) {
  LogLine(Severity::kInfo, absl::StrCat(parts...));
}
template <typename... Parts>
void LogWarning(const Parts&... parts) {
  LogLine(Severity::kWarning, absl::StrCat(parts...));
}

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TELEMETRY_LOG_H_
