#include "deploy/operator/local_run/party_process.h"

#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/process/file.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil {
namespace {

using ::testing::HasSubstr;

class PartyProcessTest : public ::testing::Test {
 protected:
  PartyCommand Shell(const std::string& script) const {
    return {"/bin/sh", {"-c", script}, folder_.File("out"), folder_.File("log")};
  }
  std::string Output() const { return ReadFile(folder_.File("out")).value(); }
  // Until a whole line is written; the processes of this test write theirs at once.
  pid_t WaitForPid() const {
    int pid = 0;
    while (Output().find('\n') == std::string::npos) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    EXPECT_TRUE(absl::SimpleAtoi(Output(), &pid));
    return pid;
  }
  static int Await(PartyProcess& process) {
    while (!process.exit_code()) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    return *process.exit_code();
  }

  testing::TempFolder folder_;
};

TEST_F(PartyProcessTest, RunsWithBothStreamsInTheirFilesAndNoInput) {
  const auto process = PartyProcess::Start(Shell("cat; echo said; echo logged >&2; exit 5")).value();
  EXPECT_EQ(Await(*process), 5);
  EXPECT_EQ(process->exit_code(), 5);  // And again.
  EXPECT_EQ(Output(), "said\n");
  EXPECT_EQ(ReadFile(folder_.File("log")).value(), "logged\n");
}

TEST_F(PartyProcessTest, ASignalsEndIsItsNumberAbove128) {
  EXPECT_EQ(Await(*PartyProcess::Start(Shell("kill -9 $$")).value()), 128 + SIGKILL);
}

TEST_F(PartyProcessTest, IsAskedToStopInOrder) {
  const auto process = PartyProcess::Start(Shell("trap 'exit 7' TERM; echo $$; while :; do sleep 0.01; done")).value();
  WaitForPid();
  process->Terminate();
  EXPECT_EQ(Await(*process), 7);
  process->Terminate();  // Harmless once it has ended.
}

TEST_F(PartyProcessTest, StandsInAGroupOfItsOwn) {
  const auto process = PartyProcess::Start(Shell("echo $$; exec sleep 1000")).value();
  const pid_t pid = WaitForPid();
  EXPECT_EQ(getpgid(pid), pid);
}

TEST_F(PartyProcessTest, DoesNotOutliveItsObject) {
  auto process = PartyProcess::Start(Shell("trap '' TERM; echo $$; while :; do sleep 0.01; done")).value();
  const pid_t pid = WaitForPid();
  process.reset();
  EXPECT_NE(kill(pid, 0), 0);  // Reaped: not even a zombie has the number.
}

TEST_F(PartyProcessTest, DoesNotOutliveTheThreadThatStartedIt) {
  std::unique_ptr<PartyProcess> process;
  std::thread starter([&] { process = PartyProcess::Start(Shell("exec sleep 1000")).value(); });
  starter.join();
  EXPECT_EQ(Await(*process), 128 + SIGKILL);
}

TEST_F(PartyProcessTest, FailsWhereTheProgramCannotBeExecuted) {
  PartyCommand command = Shell("true");
  command.program = folder_.File("none");
  const auto absent = PartyProcess::Start(command);
  EXPECT_EQ(absent.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(absent.status().message(), HasSubstr("No such file"));
  command.program = folder_.path();
  EXPECT_THAT(PartyProcess::Start(command).status().message(), HasSubstr("cannot be executed"));
}

TEST_F(PartyProcessTest, FailsWhereItCannotLog) {
  PartyCommand command = Shell("true");
  command.log_path = folder_.File("none/log");
  EXPECT_EQ(PartyProcess::Start(command).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(PartyProcess::Start(command).status().message(), HasSubstr("none/log: cannot be opened"));
}

}  // namespace
}  // namespace splitveil
