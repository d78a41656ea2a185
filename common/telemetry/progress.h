// The line a person watches during long work: the only printer of progress.
#ifndef SPLITVEIL_COMMON_TELEMETRY_PROGRESS_H_
#define SPLITVEIL_COMMON_TELEMETRY_PROGRESS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>

namespace splitveil {

struct ProgressUpdate {
  int64_t step = 0;  // Of the work, done so far: batches, say.
  int64_t total_steps = 0;
  int64_t epoch = 0;   // From 0.
  int64_t epochs = 0;  // 0: the work has none, left out.
  int64_t items = 0;   // Done since the start, for the rate.
  // NaN: not known to this party, or the work has none; left out.
  double loss = std::numeric_limits<double>::quiet_NaN();
  std::string leak;  // Latest leak AUC, for example "norm 0.54 cosine 0.68 at cut"; empty: left out.
};

// On a terminal one line, redrawn in place at most five times a second and cut at the terminal's width:
//
//   TITLE  120/680  epoch 2/5  eta 19s  loss 0.4512  leak norm 0.54 cosine 0.68 at cut  30412 ex/s
//
// Otherwise (a pipe, a file, TERM=dumb) the same as a log line, at most every five seconds. Rate and time left are
// measured from the first update on, so a resumed run's earlier steps and the time to start do not distort them, and
// are left out until they are known. Log lines written in between (log.h) get lines of their own. Not thread-safe.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  // `unit`: of the items, for the rate; empty: no rate. `fd`: where it is written, usually STDERR_FILENO; borrowed.
  // `clock`: the time; tests pass their own.
  Progress(std::string title, std::string unit, int fd, std::function<Clock::time_point()> clock = Clock::now);
  // As Finish.
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

#endif  // SPLITVEIL_COMMON_TELEMETRY_PROGRESS_H_
