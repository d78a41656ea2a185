// What a person sees while a program runs, on standard error: log lines (time, severity, message) and the line of
// progress. Never a label, an id, a row of data or a key.
#ifndef SPLITVEIL_COMMON_TELEMETRY_LOG_H_
#define SPLITVEIL_COMMON_TELEMETRY_LOG_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
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

// Thread-safe; one write a line. A progress line that stands on the terminal (Progress) is wiped first. A line that
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

// Columns of the terminal `fd`; 80 if it does not say.
int TerminalColumns(int fd);

// Writes `line`, which ends in a newline, in one write. If a redrawn line stands open on `fd`, it is wiped first.
// What cannot be written is lost. Thread-safe.
void WriteLine(int fd, absl::string_view line);

// Writes `text` over the redrawn line that stands open on `fd`, or opens one. Thread-safe.
void RedrawLine(int fd, absl::string_view text);

// Ends the redrawn line on `fd`, if one stands open, so that what comes next starts on its own line. Thread-safe.
void EndRedrawnLine(int fd);

struct ProgressUpdate {
  int64_t step = 0;  // Of the work done so far, for instance batches.
  int64_t total_steps = 0;
  int64_t epoch = 0;   // From 0.
  int64_t epochs = 0;  // 0: the work has none, left out.
  int64_t items = 0;   // Done since the start, for the rate.
  int64_t bytes = 0;   // Sent and received since the start; 0: left out.
  // NaN: not known to this party, or the work has none; left out.
  double loss = std::numeric_limits<double>::quiet_NaN();
  std::string leak;  // Latest leak AUC, for example "norm 0.54 cosine 0.68 at cut"; empty: left out.
};

// On a terminal one line, redrawn in place at most five times a second and cut at the terminal's width:
//
//   TITLE  120/680  epoch 2/5  eta 19s  loss 0.4512  leak norm 0.54 cosine 0.68 at cut  30412 ex/s  12.5 MB
//
// Otherwise (a pipe, a file, TERM=dumb) the same as a log line, at most every five seconds. Rate and time left are
// measured from the first update on, so a resumed run's earlier steps and the time to start do not distort them, and
// are left out until they are known. Log lines written in between get lines of their own. Not thread-safe.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  // `unit`: of the items, for the rate; empty: no rate. `fd`: where it is written, usually STDERR_FILENO; borrowed.
  // `clock`: the time; tests pass their own.
  Progress(std::string title, std::string unit, int fd, std::function<Clock::time_point()> clock = Clock::now);
  // Finishes.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Update(const ProgressUpdate& update);
  // Writes the last state, unless it stands there already, and ends the line. Updates may follow.
  void Finish();

 private:
  void Draw(const ProgressUpdate& update);
  std::string Describe(const ProgressUpdate& update) const;

  std::string title_, unit_;
  int fd_;
  std::function<Clock::time_point()> clock_;
  bool terminal_;
  std::optional<Clock::time_point> started_;  // Of the first update.
  std::optional<Clock::time_point> drawn_;
  ProgressUpdate first_;
  ProgressUpdate latest_;
  bool latest_drawn_ = true;
  bool finished_ = true;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TELEMETRY_LOG_H_
