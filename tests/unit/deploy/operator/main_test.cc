#include <regex>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/unit/deploy/operator/operator_tool.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kCommands[] = {"agreement accept",
                                     "agreement show",
                                     "align",
                                     "audit",
                                     "certificates",
                                     "certificates authority",
                                     "certificates request",
                                     "certificates self_signed",
                                     "certificates show",
                                     "certificates sign",
                                     "generate",
                                     "init",
                                     "marvell",
                                     "plan",
                                     "prepare",
                                     "report",
                                     "status",
                                     "stream",
                                     "sweep",
                                     "validate"};

// A command line of `command`, of one word or two, and a flag.
std::vector<std::string> Words(const std::string& command, const std::string& flag) {
  std::vector<std::string> words = absl::StrSplit(command, ' ');
  words.push_back(flag);
  return words;
}

TEST(OperatorToolTest, HelpListsEveryCommand) {
  for (const char* word : {"help", "--help"}) {
    const std::string help = ExpectDone({word});
    for (const char* command : kCommands) {
      EXPECT_THAT(help, HasSubstr(std::string("\n  ") + command + " ")) << word;
    }
  }
}

TEST(OperatorToolTest, EveryCommandExplainsItselfWithAnExample) {
  for (const char* command : kCommands) {
    const std::string help = ExpectDone(Words(command, "--help"));
    EXPECT_THAT(help, HasSubstr(std::string("Usage: splitveil ") + command));
    EXPECT_THAT(help, HasSubstr(std::string("\nExample:\n  splitveil ") + command + " --"));
  }
}

// A default that the flag itself refuses tells the user nothing.
TEST(OperatorToolTest, EveryDefaultThatHelpShowsIsInItsRange) {
  const std::regex note(
      R"re((--\w+)=[^()]*\((?:required; )?([-.e+0-9]+) to ([-.e+0-9]+)[^;()]*; default: ([-.e+0-9]+)\))re");
  int seen = 0;
  for (const char* command : kCommands) {
    std::string help = ExpectDone(Words(command, "--help"));
    help = absl::StrJoin(absl::StrSplit(help, absl::ByAnyChar(" \n"), absl::SkipEmpty()), " ");
    EXPECT_THAT(help, Not(HasSubstr("(("))) << command;  // CLI11's own words for combined checks.
    for (std::sregex_iterator each(help.begin(), help.end(), note), end; each != end; ++each, ++seen) {
      const double shown = std::stod((*each)[4]);
      EXPECT_GE(shown, std::stod((*each)[2])) << command << " " << (*each)[1];
      EXPECT_LE(shown, std::stod((*each)[3])) << command << " " << (*each)[1];
    }
  }
  EXPECT_GE(seen, 10);
}

// The example of each command, run where its files are not: its flags are known and their values fit.
TEST(OperatorToolTest, TheFlagsOfEveryExampleAreKnown) {
  for (const char* command : {"agreement accept", "agreement show", "align", "audit", "certificates show",
                              "certificates sign", "init", "report", "status", "stream", "sweep", "validate"}) {
    const std::string help = ExpectDone(Words(command, "--help"));
    const std::string example = help.substr(help.find("\nExample:\n  splitveil ") + 22);
    const std::vector<std::string> words =
        absl::StrSplit(absl::string_view(example).substr(0, example.find('\n')), ' ');
    const ChildResult result = RunTool(words);
    EXPECT_EQ(result.exit_code, 2) << command;
    EXPECT_THAT(result.err, Not(HasSubstr("command line"))) << command;
  }
}

TEST(OperatorToolTest, VersionIsOneLine) {
  EXPECT_THAT(ExpectDone({"--version"}), MatchesRegex("splitveil [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(OperatorToolTest, NoCommandFailsWithTheList) {
  const std::string error = ExpectError(2, {});
  for (const char* command : kCommands) {
    EXPECT_THAT(error, HasSubstr(command));
  }
}

TEST(OperatorToolTest, UnknownCommandFailsWithTheList) {
  const std::string error = ExpectError(2, {"analyse"});
  EXPECT_THAT(error, HasSubstr("found \"analyse\""));
  EXPECT_THAT(error, HasSubstr("validate"));
}

TEST(OperatorToolTest, AMistypedCommandOrFlagIsAnsweredWithTheNearest) {
  EXPECT_THAT(ExpectError(2, {"valdiate"}), HasSubstr("did you mean validate?"));
  EXPECT_THAT(ExpectError(2, {"sweep", "--dry-run"}), HasSubstr("did you mean --dry_run?"));
}

TEST(OperatorToolTest, HalfOfACommandFailsWithTheList) {
  EXPECT_THAT(ExpectError(2, {"agreement"}), HasSubstr("agreement show"));
  EXPECT_THAT(ExpectError(2, {"agreement", "nothing"}), HasSubstr("found \"agreement nothing\""));
  EXPECT_THAT(ExpectError(2, {"marvell", "agreement"}), HasSubstr("agreement"));
}

TEST(OperatorToolTest, UnknownFlagOfEveryCommandFails) {
  for (const char* command : kCommands) {
    const std::string error = ExpectError(2, Words(command, "--no_such_flag=1"));
    EXPECT_THAT(error, StartsWith(std::string("command line: expected a flag of splitveil ") + command + " (--"));
    EXPECT_THAT(error, HasSubstr("found \"--no_such_flag=1\""));
  }
}

TEST(OperatorToolTest, AMistypedWordCannotSteerTheTerminal) {
  EXPECT_THAT(ExpectError(2, {"\033[2J\nstatus"}), HasSubstr("found \" [2J status\""));
}

TEST(OperatorToolTest, FullStandardOutputFails) {
  const ChildResult result = RunChild({"/bin/sh", "-c", BinDir() + "/splitveil help >/dev/full"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err, "splitveil: error: standard output: cannot be written\n");
}

}  // namespace
}  // namespace splitveil::testing
