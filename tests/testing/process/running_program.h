// A program that goes on while the test watches: started, signalled, reaped. One that is only run to its end: RunChild.
#ifndef SPLITVEIL_TESTS_TESTING_PROCESS_RUNNING_PROGRAM_H_
#define SPLITVEIL_TESTS_TESTING_PROCESS_RUNNING_PROGRAM_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace splitveil::testing {

// Kills and reaps the child when destroyed. Not thread-safe.
class RunningProgram {
 public:
  // Starts build/bin/`program` (SPLITVEIL_BIN_DIR) with standard output and error in files under `folder`.
  // `open_files`: the most it may open, which it cannot raise; 0: as this process.
  RunningProgram(const std::string& program, const std::vector<std::string>& arguments, const std::string& folder,
                 int open_files = 0);
  ~RunningProgram();
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  // Exit code; -1 where the child did not end within `limit`, 128 + signal where a signal ended it.
  int Wait(absl::Duration limit = absl::Seconds(120));
  void Signal(int signal);
  // Whether it has: Wait returns at once.
  bool HasEnded() { return ended_ || Reap(); }
  // From now on no file of its own may grow beyond `bytes`: a disk that has run full.
  void LimitFileBytes(uint64_t bytes) const;
  // What it has written so far.
  std::string Output() const;
  std::string Errors() const;
  // Waits until standard error contains `text`; false past `limit` or when the child has ended without.
  bool WaitForError(const std::string& text, absl::Duration limit = absl::Seconds(60));

 private:
  bool Reap();

  pid_t pid_ = -1;
  int status_ = -1;
  bool ended_ = false;
  std::string output_path_, error_path_;
};

// Contents of a file, empty where it cannot be read.
std::string ReadWholeFile(const std::string& path);

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_TESTING_PROCESS_RUNNING_PROGRAM_H_
