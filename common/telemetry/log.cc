#include "common/telemetry/log.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace splitveil {
namespace {

constexpr char kWipe[] = "\r\033[K";  // To the first column, then erase to the end of the line (ECMA-48 EL).
constexpr int kNone = -1;

// The descriptor on which a redrawn line stands without its newline.
std::atomic<int> open_line_fd{kNone};

void WriteOnce(int fd, absl::string_view text) {
  while (write(fd, text.data(), text.size()) < 0 && errno == EINTR) {
  }
}

// True for the one caller that takes over the open line of `fd`, so that two threads do not both wipe it.
bool TakeOpenLine(int fd) {
  int expected = fd;
  return open_line_fd.compare_exchange_strong(expected, kNone);
}

}  // namespace

bool CanRedraw(int fd) {
  const char* terminal = std::getenv("TERM");
  return isatty(fd) == 1 && terminal != nullptr && absl::string_view(terminal) != "dumb";
}

int TerminalColumns(int fd) {
  winsize size = {};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

void WriteLine(int fd, absl::string_view line) {
  if (TakeOpenLine(fd)) {
    WriteOnce(fd, absl::StrCat(kWipe, line));
  } else {
    WriteOnce(fd, line);
  }
}

void RedrawLine(int fd, absl::string_view text) {
  // Marked open before the write, so that another thread's log line never lands behind the text.
  open_line_fd.store(fd);
  WriteOnce(fd, absl::StrCat(kWipe, text));
}

void EndRedrawnLine(int fd) {
  if (TakeOpenLine(fd)) {
    WriteOnce(fd, "\n");
  }
}

namespace {

// U+0080 to U+009F in UTF-8: some terminals obey them like escape sequences.
bool IsC1Control(unsigned char lead, unsigned char trail) { return lead == 0xC2 && trail >= 0x80 && trail <= 0x9F; }

}  // namespace

std::string OneLine(absl::string_view text) {
  std::string line;
  line.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    // Names and errors may come from the peer: none may forge a second log line or steer a terminal.
    if (absl::ascii_iscntrl(text[i])) {
      line.push_back(' ');
    } else if (i + 1 < text.size() && IsC1Control(text[i], text[i + 1])) {
      line.push_back(' ');
      ++i;
    } else {
      line.push_back(text[i]);
    }
  }
  absl::StripTrailingAsciiWhitespace(&line);
  return line;
}

namespace {

absl::string_view SeverityName(Severity severity) {
  return severity == Severity::kInfo ? "INFO" : severity == Severity::kWarning ? "WARNING" : "ERROR";
}

}  // namespace

std::string FormatLogLine(absl::Time time, Severity severity, absl::string_view message) {
  return absl::StrCat(absl::FormatTime("%Y-%m-%d%ET%H:%M:%E3SZ", time, absl::UTCTimeZone()), " ",
                      SeverityName(severity), " ", OneLine(message), "\n");
}

void LogLine(Severity severity, absl::string_view message) {
  WriteLine(STDERR_FILENO, FormatLogLine(absl::Now(), severity, message));
}

namespace {

constexpr std::chrono::milliseconds kRedrawInterval(200);
constexpr std::chrono::milliseconds kPlainInterval(5000);

// "42s", "3m07s", "2h05m".
std::string FormatTimeLeft(double seconds_left) {
  const auto seconds = static_cast<int64_t>(std::ceil(seconds_left));
  if (seconds < 60) {
    return absl::StrFormat("%ds", seconds);
  }
  if (seconds < 3600) {
    return absl::StrFormat("%dm%02ds", seconds / 60, seconds % 60);
  }
  return absl::StrFormat("%dh%02dm", seconds / 3600, seconds / 60 % 60);
}

// At most the first `columns` bytes of `text`, and never half of a UTF-8 character.
absl::string_view Cut(absl::string_view text, size_t columns) {
  if (text.size() <= columns) {
    return text;
  }
  while (columns > 0 && (static_cast<unsigned char>(text[columns]) & 0xC0) == 0x80) {
    --columns;
  }
  return text.substr(0, columns);
}

}  // namespace

Progress::Progress(std::string title, std::string unit, int fd, std::function<Clock::time_point()> clock)
    : title_(std::move(title)), unit_(std::move(unit)), fd_(fd), clock_(std::move(clock)), terminal_(CanRedraw(fd)) {}

Progress::~Progress() { Finish(); }

void Progress::Update(const ProgressUpdate& update) {
  const Clock::time_point now = clock_();
  // The rate is of this process: a resumed run begins in the middle.
  if (!started_.has_value()) {
    started_ = now;
    first_ = update;
  }
  latest_ = update;
  latest_drawn_ = false;
  finished_ = false;
  if (!drawn_.has_value() || now - *drawn_ >= (terminal_ ? kRedrawInterval : kPlainInterval)) {
    Draw(update);
  }
}

void Progress::Finish() {
  // On a terminal always once more: a log line may have wiped the line.
  if (!finished_ && (terminal_ || !latest_drawn_)) {
    Draw(latest_);
  }
  EndRedrawnLine(fd_);
  finished_ = true;
}

void Progress::Draw(const ProgressUpdate& update) {
  drawn_ = clock_();
  latest_drawn_ = true;
  const std::string text = OneLine(Describe(update));
  if (terminal_) {
    // The last column stays free: text in it makes some terminals wrap.
    RedrawLine(fd_, Cut(text, TerminalColumns(fd_) - 1));
  } else {
    WriteLine(fd_, FormatLogLine(absl::Now(), Severity::kInfo, text));
  }
}

std::string Progress::Describe(const ProgressUpdate& update) const {
  // What matters most comes first: eighty columns hold about everything but the rate.
  std::string text = absl::StrCat(title_, "  ", update.step, "/", update.total_steps);
  if (update.epochs > 0) {
    absl::StrAppend(&text, "  epoch ", update.epoch + 1, "/", update.epochs);
  }
  const double elapsed = std::chrono::duration<double>(*drawn_ - *started_).count();
  const int64_t steps = update.step - first_.step;
  const bool has_rate = elapsed > 0 && steps > 0;
  if (has_rate && update.step < update.total_steps) {
    absl::StrAppend(
        &text, "  eta ",
        FormatTimeLeft(elapsed * static_cast<double>(update.total_steps - update.step) / static_cast<double>(steps)));
  }
  if (!std::isnan(update.loss)) {
    absl::StrAppendFormat(&text, "  loss %.4f", update.loss);
  }
  if (!update.leak.empty()) {
    absl::StrAppend(&text, "  leak ", update.leak);
  }
  if (has_rate && !unit_.empty()) {
    const auto items = static_cast<double>(update.items - first_.items);
    absl::StrAppendFormat(&text, "  %.0f %s/s", items / elapsed, unit_);
  }
  if (update.bytes > 0) {
    absl::StrAppendFormat(&text, "  %.1f MB", static_cast<double>(update.bytes) / 1e6);
  }
  return text;
}

}  // namespace splitveil
