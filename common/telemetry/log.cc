#include "common/telemetry/log.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "absl/strings/ascii.h"
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

// True for the one caller that takes the open line of `fd` over.
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

// U+0080 to U+009F, which some terminals obey as they obey escape sequences.
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

}  // namespace splitveil
