// Runs a program and keeps what it said.
#ifndef SPLITVEIL_TESTS_TESTING_PROCESS_CHILD_PROCESS_H_
#define SPLITVEIL_TESTS_TESTING_PROCESS_CHILD_PROCESS_H_

#include <string>
#include <utility>
#include <vector>

namespace splitveil::testing {

struct ChildOptions {
  std::string standard_input;
  // Set in the child's environment over the test's own; an empty value unsets.
  std::vector<std::pair<std::string, std::string>> environment;
  // The child is killed after this many seconds: no test hangs on it.
  int limit_seconds = 240;
};

struct ChildResult {
  int exit_code = -1;  // -1: killed by `signal_number`.
  int signal_number = 0;
  std::string out;
  std::string err;
};

// Runs argv[0] (a path; no shell) to its end. Exit code 127 where it cannot be executed.
ChildResult RunChild(const std::vector<std::string>& argv, const ChildOptions& options = {});

// build/bin, from SPLITVEIL_BIN_DIR, which splitveil_test sets. Aborts where it is unset.
std::string BinDir();

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_TESTING_PROCESS_CHILD_PROCESS_H_
