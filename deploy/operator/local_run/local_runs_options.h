// What a command takes that runs both parties' programs many times on this machine.
#ifndef SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_LOCAL_RUNS_OPTIONS_H_
#define SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_LOCAL_RUNS_OPTIONS_H_

#include <functional>
#include <string>

namespace splitveil {

struct LocalRunsOptions {
  std::string config_path;               // What to run, as text.
  std::string out;                       // Folder of the results; made where it does not exist.
  int jobs = 1;                          // Runs at a time, each of two processes; >= 1.
  std::string programs;                  // The folder of label_party and nonlabel_party.
  std::function<bool()> stop_requested;  // Polled from several threads.
};

}  // namespace splitveil

#endif  // SPLITVEIL_DEPLOY_OPERATOR_LOCAL_RUN_LOCAL_RUNS_OPTIONS_H_
