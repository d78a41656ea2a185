// Where log lines and the progress line meet: both write to the same terminal.
#ifndef SPLITVEIL_COMMON_TELEMETRY_LINE_OUTPUT_H_
#define SPLITVEIL_COMMON_TELEMETRY_LINE_OUTPUT_H_

#include "absl/strings/string_view.h"

namespace splitveil {

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

#endif  // SPLITVEIL_COMMON_TELEMETRY_LINE_OUTPUT_H_
