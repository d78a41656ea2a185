#include "tests/testing/process/child_process.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

namespace splitveil::testing {
namespace {

// A file without a name. Unlike a pipe it never fills up, so nothing has to be read while the child runs.
int AnonymousFile(const std::string& contents) {
  const int descriptor = memfd_create("splitveil_test", 0);
  if (descriptor < 0 || write(descriptor, contents.data(), contents.size()) != static_cast<ssize_t>(contents.size()) ||
      lseek(descriptor, 0, SEEK_SET) != 0) {
    std::perror("memfd");
    std::abort();
  }
  return descriptor;
}

std::string TakeContents(int descriptor) {
  std::string contents;
  char buffer[1 << 14];
  lseek(descriptor, 0, SEEK_SET);
  for (ssize_t count = 0; (count = read(descriptor, buffer, sizeof buffer)) > 0;) {
    contents.append(buffer, count);
  }
  close(descriptor);
  return contents;
}

[[noreturn]] void Execute(const std::vector<std::string>& argv, const ChildOptions& options) {
  for (const auto& [name, value] : options.environment) {
    if (value.empty()) {
      unsetenv(name.c_str());
    } else {
      setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
    }
  }
  std::vector<char*> words;
  for (const std::string& word : argv) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  alarm(options.limit_seconds);  // Survives the exec; the child dies of SIGALRM.
  execv(words[0], words.data());
  _exit(127);
}

}  // namespace

ChildResult RunChild(const std::vector<std::string>& argv, const ChildOptions& options) {
  const int in = AnonymousFile(options.standard_input);
  const int out = AnonymousFile("");
  const int err = AnonymousFile("");
  const pid_t child = fork();
  if (child < 0) {
    std::perror("fork");
    std::abort();
  }
  if (child == 0) {
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    close(in);
    close(out);
    close(err);
    Execute(argv, options);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  close(in);
  ChildResult result;
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.signal_number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  result.out = TakeContents(out);
  result.err = TakeContents(err);
  return result;
}

std::string BinDir() {
  const char* folder = std::getenv("SPLITVEIL_BIN_DIR");
  if (folder == nullptr) {
    std::fputs("SPLITVEIL_BIN_DIR is unset: run the tests with ctest\n", stderr);
    std::abort();
  }
  return folder;
}

}  // namespace splitveil::testing
