#include <fcntl.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/telemetry/log.h"

namespace splitveil {
namespace {

using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kWipe[] = "\r\033[K";

std::string ReadAvailable(int fd) {
  fcntl(fd, F_SETFL, O_NONBLOCK);
  std::string text;
  char buffer[4096];
  for (ssize_t count = 0; (count = read(fd, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, count);
  }
  return text;
}

class ProgressTest : public ::testing::Test {
 protected:
  ProgressTest() { setenv("TERM", "xterm", 1); }
  ~ProgressTest() override {
    for (const int fd : {reader_, writer_}) {
      if (fd >= 0) {
        close(fd);
      }
    }
  }

  std::unique_ptr<Progress> OnTerminal(int columns) {
    winsize size = {};
    size.ws_col = columns;
    EXPECT_EQ(openpty(&reader_, &writer_, nullptr, nullptr, &size), 0);
    termios modes = {};
    tcgetattr(writer_, &modes);
    modes.c_oflag &= ~OPOST;  // Bytes as written, "\n" not as "\r\n".
    tcsetattr(writer_, TCSANOW, &modes);
    return Start();
  }

  std::unique_ptr<Progress> OnPipe() {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    reader_ = ends[0];
    writer_ = ends[1];
    return Start();
  }

  // What has come out since the last call.
  std::string Output() { return ReadAvailable(reader_); }

  static ProgressUpdate At(int64_t step) {
    ProgressUpdate update;
    update.step = step;
    update.total_steps = 1000;
    update.epochs = 5;
    update.epoch = step / 200;
    update.items = 100 * step;
    update.loss = 0.51234;
    return update;
  }

  Progress::Clock::time_point now_;
  int reader_ = -1;
  int writer_ = -1;

 private:
  std::unique_ptr<Progress> Start() {
    return std::make_unique<Progress>("label party", "ex", writer_, [this] { return now_; });
  }
};

TEST_F(ProgressTest, TerminalShowsEverything) {
  auto progress = OnTerminal(200);
  progress->Update(At(100));
  Output();
  now_ += std::chrono::seconds(10);
  ProgressUpdate update = At(300);
  update.leak = "norm 0.54 cosine 0.68 at cut";
  update.bytes = 12'460'000;
  progress->Update(update);
  EXPECT_EQ(Output(), std::string(kWipe) +
                          "label party  300/1000  epoch 2/5  eta 35s  loss 0.5123  leak norm 0.54 cosine 0.68 at cut  "
                          "2000 ex/s  12.5 MB");
}

TEST_F(ProgressTest, TerminalRedrawsAtMostFiveTimesASecond) {
  auto progress = OnTerminal(200);
  int redraws = 0;
  for (int step = 0; step < 1000; ++step) {  // One second, a step a millisecond.
    progress->Update(At(step));
    redraws += Output().empty() ? 0 : 1;
    now_ += std::chrono::milliseconds(1);
  }
  EXPECT_EQ(redraws, 5);
}

TEST_F(ProgressTest, TerminalLineIsCutBelowTheWidth) {
  auto progress = OnTerminal(20);
  progress->Update(At(100));
  EXPECT_EQ(Output(), std::string(kWipe) + "label party  100/10");
}

TEST_F(ProgressTest, TerminalLineFollowsAResize) {
  auto progress = OnTerminal(20);
  progress->Update(At(100));
  Output();
  winsize size = {};
  size.ws_col = 24;
  ioctl(writer_, TIOCSWINSZ, &size);
  now_ += std::chrono::seconds(1);
  progress->Update(At(101));
  EXPECT_EQ(Output(), std::string(kWipe) + "label party  101/1000  ");
}

TEST_F(ProgressTest, TerminalWithoutASizeCountsAsEightyColumns) {
  auto progress = OnTerminal(0);
  ProgressUpdate update = At(100);
  update.leak = std::string(200, 'x');
  progress->Update(update);
  EXPECT_EQ(Output().size(), std::string(kWipe).size() + 79);
}

TEST_F(ProgressTest, TerminalOfOneColumnShowsNothingAndLives) {
  auto progress = OnTerminal(1);
  progress->Update(At(100));
  EXPECT_EQ(Output(), kWipe);
}

TEST_F(ProgressTest, CutKeepsCharactersWhole) {
  auto progress = OnTerminal(20);
  ProgressUpdate update;
  Progress titled("ééééé", "ex", writer_, [this] { return now_; });  // Ten bytes.
  titled.Update(update);
  EXPECT_THAT(Output(), HasSubstr("ééééé  0/0"));
  Progress long_title("xééééééééééé", "ex", writer_, [this] { return now_; });
  long_title.Update(update);
  EXPECT_THAT(Output(), EndsWith("xééééééééé"));
}

TEST_F(ProgressTest, TerminalFinishShowsTheLastStateAndEndsTheLine) {
  auto progress = OnTerminal(200);
  progress->Update(At(998));
  progress->Update(At(1000));
  Output();
  now_ += std::chrono::milliseconds(10);
  progress->Finish();
  const std::string output = Output();
  EXPECT_THAT(output, HasSubstr("1000/1000"));
  EXPECT_THAT(output, Not(HasSubstr("eta")));
  EXPECT_THAT(output, EndsWith("\n"));
  progress.reset();
  EXPECT_EQ(Output(), "");
}

TEST_F(ProgressTest, DestructorEndsTheLineSoThatAnErrorStartsItsOwn) {
  auto progress = OnTerminal(200);
  progress->Update(At(3));
  progress.reset();
  EXPECT_THAT(Output(), EndsWith("\n"));
}

TEST_F(ProgressTest, LogLineWipesTheOpenLineAndTheNextUpdateRedrawsIt) {
  auto progress = OnTerminal(200);
  progress->Update(At(3));
  Output();
  WriteLine(writer_, "log line\n");
  EXPECT_EQ(Output(), std::string(kWipe) + "log line\n");
  WriteLine(writer_, "another\n");
  EXPECT_EQ(Output(), "another\n");
  progress->Finish();
  EXPECT_THAT(Output(), HasSubstr("3/1000"));
}

TEST_F(ProgressTest, PipeGetsALogLineAtMostEveryFiveSeconds) {
  auto progress = OnPipe();
  for (int step = 0; step < 120; ++step) {  // Twelve seconds.
    progress->Update(At(step));
    now_ += std::chrono::milliseconds(100);
  }
  progress->Finish();
  const std::vector<std::string> lines = absl::StrSplit(Output(), '\n', absl::SkipEmpty());
  EXPECT_THAT(
      lines, ElementsAre(ContainsRegex(
                             "^[0-9]{4}-[0-9-]+T[0-9:]+\\.[0-9]{3}Z INFO label party  0/1000  epoch 1/5  loss 0.5123$"),
                         HasSubstr("Z INFO label party  50/1000"),
                         HasSubstr("100/1000  epoch 1/5  eta 1m30s  loss 0.5123  1000 ex/s"), HasSubstr("119/1000")));
}

TEST_F(ProgressTest, PipeGetsNoControlCharacters) {
  auto progress = OnPipe();
  ProgressUpdate update = At(1);
  update.leak = "norm 0.5\r\n\033[K";
  progress->Update(update);
  progress->Finish();
  EXPECT_THAT(Output(), EndsWith("leak norm 0.5   [K\n"));
}

TEST_F(ProgressTest, PipeFinishDoesNotRepeatALineThatStandsThere) {
  auto progress = OnPipe();
  progress->Update(At(1));
  Output();
  progress->Finish();
  progress->Finish();
  EXPECT_EQ(Output(), "");
}

TEST_F(ProgressTest, DumbTerminalGetsPlainLines) {
  setenv("TERM", "dumb", 1);
  auto progress = OnTerminal(200);
  progress->Update(At(1));
  EXPECT_THAT(Output(), HasSubstr("Z INFO label party"));
  unsetenv("TERM");
  EXPECT_FALSE(CanRedraw(writer_));
}

TEST_F(ProgressTest, WritesNothingWithoutAnUpdate) {
  auto progress = OnTerminal(200);
  progress->Finish();
  progress.reset();
  EXPECT_EQ(Output(), "");
}

TEST_F(ProgressTest, LeavesOutWhatIsNotKnown) {
  auto progress = OnPipe();
  ProgressUpdate update;
  update.step = 3;
  progress->Update(update);
  EXPECT_THAT(Output(), EndsWith("INFO label party  3/0\n"));
}

TEST_F(ProgressTest, WorkWithoutAUnitHasNoRate) {
  OnPipe();
  Progress progress("runs", "", writer_, [this] { return now_; });
  progress.Update(At(100));
  now_ += std::chrono::seconds(10);
  Output();
  progress.Update(At(200));
  EXPECT_THAT(Output(), EndsWith("INFO runs  200/1000  epoch 2/5  eta 1m20s  loss 0.5123\n"));
}

TEST_F(ProgressTest, RateOfAResumedRunLeavesItsEarlierStepsOut) {
  auto progress = OnPipe();
  ProgressUpdate update = At(900);
  update.items = 0;
  progress->Update(update);
  Output();
  now_ += std::chrono::seconds(10);
  update = At(950);
  update.items = 5000;
  progress->Update(update);
  EXPECT_THAT(Output(), HasSubstr("eta 10s  loss 0.5123  500 ex/s"));
}

TEST_F(ProgressTest, TimeLeftIsReadable) {
  auto progress = OnPipe();
  progress->Update(At(0));
  now_ += std::chrono::seconds(10);
  progress->Update(At(1));  // Ten seconds a step: 999 left.
  EXPECT_THAT(Output(), HasSubstr("eta 2h46m"));
}

TEST_F(ProgressTest, AReaderThatIsGoneDoesNotStopTheRun) {
  EXPECT_EXIT(
      {
        std::signal(SIGPIPE, SIG_IGN);
        auto progress = OnPipe();
        close(reader_);
        progress->Update(At(1));
        progress->Finish();
        _exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace splitveil
