// What the commands share that run both parties' programs on this machine.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_LOCAL_PROGRAMS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_LOCAL_PROGRAMS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace splitveil {

struct LocalRunsOptions {
  std::string config_path;               // What to run, as text.
  std::string out;                       // Folder of the results; made if it does not exist.
  int jobs = 1;                          // Runs at a time, each of two processes; >= 1.
  std::string programs;                  // The folder of label_party and nonlabel_party.
  std::function<bool()> stop_requested;  // Polled from several threads.
};

// Once the flags are read: fills in the programs beside this one and, where `jobs` is 0, half the cores, for each run
// is two processes; and has the signals that end a program stop the runs in order. Errors: Internal.
absl::Status FindLocalPrograms(LocalRunsOptions& options);

// The folder this program lies in, with those of the parties beside it.
absl::StatusOr<std::string> OwnFolder();

// Holds a folder until it is destroyed or the process ends, however it ends: two sweeps or streams would throw away
// each other's runs. The lock is on the file run.lock, which stays.
class FolderLock {
 public:
  // Makes the folder if it does not exist. Errors: InvalidArgument if it cannot be made or is held.
  static absl::StatusOr<std::unique_ptr<FolderLock>> Take(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  explicit FolderLock(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_LOCAL_PROGRAMS_H_
