#include "common/telemetry/log.h"

#include <unistd.h>

#include "absl/time/clock.h"

#include "common/telemetry/line_output.h"
#include "common/telemetry/one_line.h"

namespace splitveil {
namespace {

absl::string_view SeverityName(Severity severity) {
  switch (severity) {
    case Severity::kInfo:
      return "INFO";
    case Severity::kWarning:
      return "WARNING";
    case Severity::kError:
      return "ERROR";
  }
  return "UNKNOWN";
}

}  // namespace

std::string FormatLogLine(absl::Time time, Severity severity, absl::string_view message) {
  return absl::StrCat(absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", time, absl::UTCTimeZone()), " ",
                      SeverityName(severity), " ", OneLine(message), "\n");
}

void LogLine(Severity severity, absl::string_view message) {
  WriteLine(STDERR_FILENO, FormatLogLine(absl::Now(), severity, message));
}

}  // namespace splitveil
