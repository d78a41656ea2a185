#include "common/telemetry/progress.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

#include "common/telemetry/log.h"

namespace splitveil {
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

// The first `columns` bytes of `text`, less where that would cut a UTF-8 character in two.
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
  // On a terminal again in any case: a log line may have wiped it.
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
  return text;
}

}  // namespace splitveil
