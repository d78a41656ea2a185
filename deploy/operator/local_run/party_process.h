// One party's program as a child process.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_PARTY_PROCESS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_PARTY_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace splitveil {

struct PartyCommand {
  std::string program;  // Path of the executable.
  std::vector<std::string> arguments;
  // Standard output and standard error; replaced. Empty: this process's own. Standard input is empty.
  std::string output_path = {}, log_path = {};
};

// A process in a group of its own, so that an interrupt at the terminal reaches it only through Terminate. Never
// outlives its object nor the thread that started it, however either ends. Not thread-safe.
class PartyProcess {
 public:
  // Errors: Internal if no process can be made or the program cannot be executed, InvalidArgument if a file
  // cannot be made.
  static absl::StatusOr<std::unique_ptr<PartyProcess>> Start(const PartyCommand& command);
  // Kills and reaps what still runs.
  ~PartyProcess();
  PartyProcess(const PartyProcess&) = delete;
  PartyProcess& operator=(const PartyProcess&) = delete;

  // Exit code, 128 + signal where one ended it; nullopt while it runs.
  std::optional<int> exit_code();
  // Asks it to stop in order (SIGTERM).
  void Terminate();

 private:
  explicit PartyProcess(pid_t pid) : pid_(pid) {}

  pid_t pid_;
  std::optional<int> exit_code_;
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_PARTY_PROCESS_H_
