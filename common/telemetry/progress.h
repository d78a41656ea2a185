// The line a person watches while a run trains.
#ifndef SPLITVEIL_COMMON_TELEMETRY_PROGRESS_H_
#define SPLITVEIL_COMMON_TELEMETRY_PROGRESS_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace splitveil {

struct ProgressUpdate {
  int64_t step = 0;  // Batches done.
  int64_t total_steps = 0;
  int64_t epoch = 0;  // From 0.
  int64_t epochs = 0;
  int64_t examples = 0;  // Done since the start.
  double loss = 0;       // NaN: not known to this party, left out.
  std::string leak;      // Latest leak AUC, for example "norm 0.54 cosine 0.68 at cut"; empty: left out.
};

// On a terminal one line redrawn in place; otherwise a plain line every few seconds. Not thread-safe.
class Progress {
 public:
  // `fd`: where it is written, usually STDERR_FILENO.
  Progress(std::string title, int fd);
  ~Progress();

  void Update(const ProgressUpdate& update);
  // Writes the last state and ends the line.
  void Finish();

 private:
  void Draw(const ProgressUpdate& update);

  std::string title_;
  int fd_;
  bool terminal_;
  absl::Time started_;
  absl::Time drawn_;
  ProgressUpdate latest_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_COMMON_TELEMETRY_PROGRESS_H_
