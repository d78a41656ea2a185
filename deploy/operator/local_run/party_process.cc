#include "deploy/operator/local_run/party_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace splitveil {
namespace {

// Closes itself.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { Close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }
  void Close() {
    if (number_ >= 0) {
      close(number_);
      number_ = -1;
    }
  }

 private:
  int number_;
};

// `path`, replaced; empty: another descriptor of `own`.
int OpenOutput(const std::string& path, int own) {
  return path.empty() ? fcntl(own, F_DUPFD_CLOEXEC, 0)
                      : open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
}

// Between fork and exec in a program with threads: async-signal-safe calls only. Writes errno to `failure` on failure.
[[noreturn]] void Execute(const char* program, char* const* argv, const int (&standard)[3], int failure, pid_t parent) {
  // A group of its own: Ctrl-C at the terminal reaches this program alone, which then stops its parties in order.
  setpgid(0, 0);
  // A party must not train on without the program that started it.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (int i = 0; i < 3; ++i) {
    dup2(standard[i], i);  // The duplicate stays open over the exec.
  }
  if (getppid() == parent) {  // Else the parent died before the prctl.
    execv(program, argv);
  }
  const int error = errno;
  if (write(failure, &error, sizeof error) < 0) {
    // The parent is gone: nobody to tell.
  }
  _exit(127);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PartyProcess>> PartyProcess::Start(const PartyCommand& command) {
  std::vector<char*> argv = {const_cast<char*>(command.program.c_str())};
  for (const std::string& argument : command.arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  const Descriptor in(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const Descriptor out(OpenOutput(command.output_path, STDOUT_FILENO));
  const Descriptor log(OpenOutput(command.log_path, STDERR_FILENO));
  if (in.number() < 0 || out.number() < 0 || log.number() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(out.number() < 0 ? command.output_path : command.log_path, ": cannot be opened"));
  }
  // A pipe tells an exec that failed from a program that ended at once.
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::InternalError(absl::StrCat("pipe: ", std::strerror(errno)));
  }
  const Descriptor failure(ends[0]);
  Descriptor failure_in_child(ends[1]);
  const int standard[3] = {in.number(), out.number(), log.number()};
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    return absl::InternalError(absl::StrCat("fork: ", std::strerror(errno)));
  }
  if (child == 0) {
    Execute(argv[0], argv.data(), standard, failure_in_child.number(), parent);
  }
  std::unique_ptr<PartyProcess> process(new PartyProcess(child));
  failure_in_child.Close();
  int error = 0;
  // End of file once the program executes.
  if (read(failure.number(), &error, sizeof error) == sizeof error) {
    return absl::InternalError(absl::StrCat(command.program, ": cannot be executed: ", std::strerror(error)));
  }
  return process;
}

PartyProcess::~PartyProcess() {
  if (!exit_code()) {
    kill(pid_, SIGKILL);
    // Waited for: a zombie would keep the process id.
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

std::optional<int> PartyProcess::exit_code() {
  int status = 0;
  if (!exit_code_ && waitpid(pid_, &status, WNOHANG) == pid_) {
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return exit_code_;
}

void PartyProcess::Terminate() {
  if (!exit_code()) {
    kill(pid_, SIGTERM);
  }
}

}  // namespace splitveil
