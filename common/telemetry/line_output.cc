#include "common/telemetry/line_output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "absl/strings/str_cat.h"

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

}  // namespace splitveil
