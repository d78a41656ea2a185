#include "common/telemetry/log.h"

#include <unistd.h>

#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace splitveil {
namespace {

using ::testing::Each;
using ::testing::EndsWith;
using ::testing::MatchesRegex;
using ::testing::SizeIs;

TEST(FormatLogLineTest, HasUtcTimeWithMillisecondsSeverityAndMessage) {
  const absl::Time time = absl::FromUnixMillis(1795250267123);
  EXPECT_EQ(FormatLogLine(time, Severity::kInfo, "listening on 0.0.0.0:7443"),
            "2026-11-21T08:37:47.123Z INFO listening on 0.0.0.0:7443\n");
}

TEST(FormatLogLineTest, WritesAllThreeDigitsOfMilliseconds) {
  EXPECT_EQ(FormatLogLine(absl::UnixEpoch(), Severity::kWarning, "x"), "1970-01-01T00:00:00.000Z WARNING x\n");
  EXPECT_EQ(FormatLogLine(absl::FromUnixMillis(50), Severity::kError, "x"), "1970-01-01T00:00:00.050Z ERROR x\n");
}

TEST(FormatLogLineTest, AMessageOfManyLinesStaysOneLine) {
  EXPECT_EQ(FormatLogLine(absl::UnixEpoch(), Severity::kInfo, "a\nERROR forged\033[2J\n"),
            "1970-01-01T00:00:00.000Z INFO a ERROR forged [2J\n");
}

TEST(LogTest, JoinsItsParts) {
  ::testing::internal::CaptureStderr();
  LogInfo("step ", 7, " of ", 9);
  LogWarning("slow");
  LogError("gone");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              MatchesRegex("[^ ]+Z INFO step 7 of 9\n[^ ]+Z WARNING slow\n[^ ]+Z ERROR gone\n"));
}

TEST(LogTest, LinesOfManyThreadsStayWhole) {
  const std::string message(300, 'm');
  ::testing::internal::CaptureStderr();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&message] {
      for (int line = 0; line < 200; ++line) {
        LogInfo(message);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const std::string captured = ::testing::internal::GetCapturedStderr();
  std::vector<std::string> lines = absl::StrSplit(captured, '\n', absl::SkipEmpty());
  EXPECT_THAT(lines, SizeIs(1600));
  EXPECT_THAT(lines, Each(EndsWith("INFO " + message)));
  EXPECT_THAT(lines, Each(SizeIs(lines[0].size())));
}

TEST(LogTest, GoesOnWhereStandardErrorIsClosed) {
  EXPECT_EXIT(
      {
        close(STDERR_FILENO);
        LogInfo("lost");
        _exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(OneLineTest, KeepsPlainTextAndUtf8) {
  EXPECT_EQ(OneLine("field: expected 1…2, found \"é\" \\n"), "field: expected 1…2, found \"é\" \\n");
}

TEST(OneLineTest, KeepsInvalidUtf8ByteForByte) { EXPECT_EQ(OneLine("\xFF\x80 \xC2"), "\xFF\x80 \xC2"); }

TEST(OneLineTest, JoinsLines) { EXPECT_EQ(OneLine("a\nb\r\nc\vd\n\n"), "a b  c d"); }

TEST(OneLineTest, TakesAwayEscapeSequences) {
  for (int c = 0; c < 256; ++c) {
    const std::string line = OneLine(std::string("x") + static_cast<char>(c) + "y");
    EXPECT_EQ(line[1], c < 0x20 || c == 0x7F ? ' ' : static_cast<char>(c)) << c;
  }
}

TEST(OneLineTest, TakesAwayC1ControlsAndNothingBesideThem) {
  EXPECT_EQ(OneLine("x\xC2\x80y\xC2\x9Fz"), "x y z");
  EXPECT_EQ(OneLine("x\xC2\xA0y"), "x\xC2\xA0y");  // No-break space.
}

TEST(OneLineTest, OfNothingIsNothing) { EXPECT_EQ(OneLine(""), ""); }

}  // namespace
}  // namespace splitveil
