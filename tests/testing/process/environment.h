// The environment of programs that a test starts.
#ifndef SPLITVEIL_TESTS_TESTING_PROCESS_ENVIRONMENT_H_
#define SPLITVEIL_TESTS_TESTING_PROCESS_ENVIRONMENT_H_

#include <cstdlib>
#include <string>

namespace splitveil::testing {

// A variable of this process, for those that it starts while the object lives.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name) { setenv(name, value.c_str(), 1); }
  ~Environment() { unsetenv(name_); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
};

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_TESTING_PROCESS_ENVIRONMENT_H_
