// Log lines on standard error: time, severity, message. Never a label, an id, a row of data or a key.
#ifndef SPLITVEIL_COMMON_TELEMETRY_LOG_H_
#define SPLITVEIL_COMMON_TELEMETRY_LOG_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace splitveil {

// `text` with every control character (C0 and DEL, and C1 as UTF-8 writes it) replaced by a space, so that it stays one
// line and cannot steer the terminal it is shown on; trailing spaces are cut. Everything else is kept byte for byte.
std::string OneLine(absl::string_view text);

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

// Where log lines and the progress line meet: both write to the same terminal.

// Whether `fd` is a terminal that can redraw a line (TERM unset or "dumb" cannot).
bool CanRedraw(int fd);

// Columns of the terminal `fd`; 80 where it does not say.
int TerminalColumns(int fd);

// Writes `line`, which ends in a newline, in one write. Where a redrawn line stands open on `fd`, it is wiped first.
// What cannot be written is lost. Thread-safe.
void WriteLine(int fd, absl::string_view line);

// Writes `text` over the redrawn line that stands open on `fd`, or opens one. Thread-safe.
void RedrawLine(int fd, absl::string_view text);

// Ends the redrawn line on `fd`, if one stands open, so that what comes next starts on its own line. Thread-safe.
void EndRedrawnLine(int fd);

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TELEMETRY_LOG_H_
