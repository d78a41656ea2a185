#include "tests/testing/process/running_program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "tests/testing/process/child_process.h"

extern char** environ;

namespace splitveil::testing {
std::string ReadWholeFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

RunningProgram::RunningProgram(const std::string& program, const std::vector<std::string>& arguments,
                               const std::string& folder, int open_files) {
  static int count = 0;
  const std::string base = absl::StrCat(folder, "/", program, ".", ++count);
  output_path_ = base + ".out";
  error_path_ = base + ".err";
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, error_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  std::string path = absl::StrCat(BinDir(), "/", program);
  std::vector<std::string> words = {path};
  if (open_files > 0) {
    words = {"/bin/sh", "-c", absl::StrCat("ulimit -n ", open_files, "; exec \"$0\" \"$@\""), path};
    path = words[0];
  }
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  argv.push_back(nullptr);
  if (posix_spawn(&pid_, path.c_str(), &actions, nullptr, argv.data(), environ) != 0) {
    ADD_FAILURE() << "cannot start " << path;
    ended_ = true;
  }
  posix_spawn_file_actions_destroy(&actions);
}

RunningProgram::~RunningProgram() {
  if (!Reap()) {
    kill(pid_, SIGKILL);
    waitpid(pid_, &status_, 0);
  }
}

bool RunningProgram::Reap() {
  if (!ended_) {
    ended_ = waitpid(pid_, &status_, WNOHANG) == pid_;
  }
  return ended_;
}

int RunningProgram::Wait(absl::Duration limit) {
  const absl::Time deadline = absl::Now() + limit;
  while (!Reap()) {
    if (absl::Now() > deadline) {
      return -1;
    }
    absl::SleepFor(absl::Milliseconds(10));
  }
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
}

void RunningProgram::Signal(int signal) {
  if (!Reap()) {
    kill(pid_, signal);
  }
}

void RunningProgram::LimitFileBytes(uint64_t bytes) const {
  rlimit limit = {};
  EXPECT_EQ(prlimit(pid_, RLIMIT_FSIZE, nullptr, &limit), 0);
  limit.rlim_cur = bytes;
  EXPECT_EQ(prlimit(pid_, RLIMIT_FSIZE, &limit, nullptr), 0);
}

std::string RunningProgram::Output() const { return ReadWholeFile(output_path_); }
std::string RunningProgram::Errors() const { return ReadWholeFile(error_path_); }

bool RunningProgram::WaitForError(const std::string& text, absl::Duration limit) {
  const absl::Time deadline = absl::Now() + limit;
  while (true) {
    const bool ended = Reap();
    if (Errors().find(text) != std::string::npos) {
      return true;
    }
    if (ended || absl::Now() > deadline) {
      return false;
    }
    absl::SleepFor(absl::Milliseconds(10));
  }
}

}  // namespace splitveil::testing
