#include "common/command_line/command_line.h"

#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace splitveil {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

struct Outcome {
  int code = 0;
  std::string out, err;
};

Outcome Call(CommandLine& line, std::vector<std::string> words) {
  words.insert(words.begin(), "/usr/bin/anything");
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.code = line.Main(static_cast<int>(argv.size()), argv.data());
  outcome.out = ::testing::internal::GetCapturedStdout();
  outcome.err = ::testing::internal::GetCapturedStderr();
  return outcome;
}

// A tool with the commands "pack" and "bench speed", "bench size", as a user meets it.
class CommandLineTest : public ::testing::Test {
 protected:
  CommandLineTest() {
    CLI::App& pack = line_.AddCommand({"pack", "Pack files.", "tool pack --out=box --file=a", "Work"}, [this] {
      done_.push_back("pack");
      return result_;
    });
    pack.add_option("--file", files_, "A file.")->type_name("FILE");
    pack.add_option("--out", out_, "The box.")->type_name("FILE")->required();
    pack.add_option("--layers", layers_, "Layers.")->type_name("N")->check(IntegerIn(1, 9));
    pack.add_option("--peer", peer_, "Where to.")->type_name("HOST:PORT");
    pack.add_option("--share", share_, "Share.")->type_name("SHARE")->check(NumberIn(0, 1));
    pack.add_flag("--force", force_, "Replace the box.");
    for (const char* name : {"bench speed", "bench size"}) {
      line_.AddCommand({name, "Measure.", std::string("tool ") + name, "Benchmarks"}, [this, name] {
        done_.push_back(name);
        return result_;
      });
    }
  }

  // The refusal: exit code 2, one line on standard error, nothing done.
  std::string Refusal(const std::vector<std::string>& words) {
    const Outcome outcome = Call(line_, words);
    EXPECT_EQ(outcome.code, 2) << outcome.out;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err.find('\n') + 1, outcome.err.size()) << outcome.err;
    EXPECT_THAT(done_, IsEmpty());
    return outcome.err;
  }

  CommandLine line_{{"tool", "A tool for tests.", "tool pack --help"}};
  std::vector<std::string> files_, done_;
  std::string out_;
  int layers_ = 3;
  std::optional<double> share_;
  bool force_ = false;
  absl::StatusOr<ExitCode> result_ = ExitCode::kDone;
};

TEST_F(CommandLineTest, ReadsTypedFlagsAndKeepsDefaults) {
  EXPECT_EQ(Call(line_, {"pack", "--out=a=b", "--share=0.25", "--file=y", "--file=x,1"}).code, 0);
  EXPECT_EQ(out_, "a=b");
  EXPECT_EQ(share_, 0.25);
  EXPECT_THAT(files_, ElementsAre("y", "x,1"));
  EXPECT_EQ(layers_, 3);
  EXPECT_FALSE(force_);
  EXPECT_THAT(done_, ElementsAre("pack"));
}

TEST_F(CommandLineTest, AValueMayBeAWordOfItsOwn) {
  EXPECT_EQ(Call(line_, {"pack", "--out", "box", "--layers", "4", "--file", "a", "b", "--force"}).code, 0);
  EXPECT_EQ(out_, "box");
  EXPECT_EQ(layers_, 4);
  EXPECT_THAT(files_, ElementsAre("a", "b"));
  EXPECT_TRUE(force_);
}

TEST_F(CommandLineTest, AValueInBracketsIsLeftWhole) {
  EXPECT_EQ(Call(line_, {"pack", "--out=[o]", "--file=[a,b]", "--file", "[c]", "[d,e", "--file=[[f]]"}).code, 0);
  EXPECT_EQ(out_, "[o]");
  EXPECT_THAT(files_, ElementsAre("[a,b]", "[c]", "[d,e", "[[f]]"));
}

TEST_F(CommandLineTest, AListWithoutAValueFails) {
  EXPECT_THAT(Refusal({"pack", "--out=o", "--file"}), HasSubstr("--file: expected a value, found none"));
  EXPECT_THAT(Refusal({"pack", "--file", "--out=o"}), HasSubstr("--file: expected a value, found \"--out=o\""));
}

TEST_F(CommandLineTest, ASwitchMayHaveAValue) {
  EXPECT_EQ(Call(line_, {"pack", "--out=o", "--force=true"}).code, 0);
  EXPECT_TRUE(force_);
}

TEST_F(CommandLineTest, CommandsOfTwoWordsAreToldApart) {
  EXPECT_EQ(Call(line_, {"bench", "size"}).code, 0);
  EXPECT_THAT(done_, ElementsAre("bench size"));
}

TEST_F(CommandLineTest, TheCommandDecidesTheExitCode) {
  result_ = ExitCode::kPolicyNotMet;
  EXPECT_EQ(Call(line_, {"pack", "--out=o"}).code, 10);
  result_ = absl::UnavailableError("nobody there");
  const Outcome outcome = Call(line_, {"pack", "--out=o"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.err, "tool pack: error: nobody there\n");
}

TEST_F(CommandLineTest, AnUnknownFlagIsNamedWithTheNearestAndAllKnown) {
  EXPECT_EQ(Refusal({"pack", "--ouut=box"}),
            "tool pack: error: command line: expected a flag of tool pack (--file, --out, --layers, --share, --force, "
            "--help), found \"--ouut=box\"; did you mean --out?\n");
}

TEST_F(CommandLineTest, AnUnknownCommandIsNamedWithTheNearestAndAllKnown) {
  EXPECT_EQ(Refusal({"pakc"}),
            "tool: error: command line: expected a command (pack, bench speed, bench size), found \"pakc\"; did you "
            "mean pack?\n");
  EXPECT_THAT(Refusal({"bench", "sped"}), HasSubstr("found \"bench sped\"; did you mean bench speed?"));
  EXPECT_THAT(Refusal({"unrelated"}), Not(HasSubstr("did you mean")));
}

TEST_F(CommandLineTest, NoCommandFailsWithTheList) {
  EXPECT_THAT(Refusal({}), HasSubstr("expected a command (pack, bench speed, bench size), found none"));
  EXPECT_THAT(Refusal({"bench"}), HasSubstr("expected a command (bench speed, bench size), found none"));
}

TEST_F(CommandLineTest, AStrayWordFails) {
  for (const char* word : {"box.txt", "-o", "-", "pack"}) {
    EXPECT_THAT(Refusal({"pack", "--out=o", word}), HasSubstr(std::string("found \"") + word + "\"")) << word;
  }
}

TEST_F(CommandLineTest, AnUnknownFlagMattersMoreThanAMissingOne) {
  EXPECT_THAT(Refusal({"pack", "--uot=box"}), HasSubstr("did you mean --out?"));
}

TEST_F(CommandLineTest, AMissingRequiredFlagFails) {
  EXPECT_EQ(Refusal({"pack"}),
            "tool pack: error: command line: expected --out, found none; tool pack --help explains every flag\n");
}

TEST_F(CommandLineTest, AFlagWithoutValueFails) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"pack", "--out"}, {"pack", "--out="}, {"pack", "--out=", "--force"}}) {
    EXPECT_THAT(Refusal(words), HasSubstr("--out: expected a value, found none"));
  }
  EXPECT_THAT(Refusal({"pack", "--out", "--force"}), HasSubstr("--out: expected a value, found \"--force\""));
}

TEST_F(CommandLineTest, AFlagGivenTwiceFails) {
  EXPECT_THAT(Refusal({"pack", "--out=a", "--out=b"}), HasSubstr("--out: expected one value, found 2: \"a\", \"b\""));
}

TEST_F(CommandLineTest, AValueOutOfRangeFails) {
  EXPECT_THAT(Refusal({"pack", "--out=o", "--layers=10"}),
              HasSubstr("command line: --layers: expected an integer, 1 to 9, found \"10\""));
  EXPECT_THAT(Refusal({"pack", "--out=o", "--share=much"}), HasSubstr("--share: expected a number, 0 to 1"));
}

TEST_F(CommandLineTest, ASwitchThatIsNeitherTrueNorFalseFails) {
  for (const char* value : {"maybe", "2", "on"}) {
    EXPECT_THAT(Refusal({"pack", "--out=o", std::string("--force=") + value}),
                HasSubstr(std::string("--force: expected true or false, found \"") + value + "\""));
  }
}

TEST_F(CommandLineTest, TextOfTheUserCannotSteerTheTerminal) {
  EXPECT_THAT(Refusal({"\033[2J\npack"}), HasSubstr("found \" [2J pack\""));
}

TEST_F(CommandLineTest, HelpOfTheToolListsCommandsByGroup) {
  for (const char* word : {"--help", "help"}) {
    const Outcome outcome = Call(line_, {word});
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.out,
              "A tool for tests.\n"
              "\n"
              "Usage: tool COMMAND [--flag=value ...]\n"
              "\n"
              "Work:\n"
              "  pack         Pack files.\n"
              "\n"
              "Benchmarks:\n"
              "  bench speed  Measure.\n"
              "  bench size   Measure.\n"
              "\n"
              "Flags:\n"
              "  --version  Print the version.\n"
              "  --help     Print this text.\n"
              "\n"
              "Example:\n"
              "  tool pack --help\n");
  }
}

TEST_F(CommandLineTest, HelpOfACommandShowsTypesRangesDefaultsAndAnExample) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"pack", "--help"}, {"help", "pack"}, {"pack", "--layers=4", "--help"}}) {
    const Outcome outcome = Call(line_, words);
    EXPECT_EQ(outcome.code, 0);
    EXPECT_EQ(outcome.out,
              "Pack files.\n"
              "\n"
              "Usage: tool pack [--flag=value ...]\n"
              "\n"
              "Flags:\n"
              "  --file=FILE    A file. (may be given several times)\n"
              "  --out=FILE     The box. (required)\n"
              "  --layers=N     Layers. (1 to 9; default: 3)\n"
              "  --share=SHARE  Share. (0 to 1)\n"
              "  --force        Replace the box.\n"
              "  --help         Print this text.\n"
              "\n"
              "Example:\n"
              "  tool pack --out=box --file=a\n");
  }
  EXPECT_THAT(done_, IsEmpty());
}

TEST_F(CommandLineTest, HelpOfAFamilyListsItsCommands) {
  EXPECT_THAT(Call(line_, {"bench", "--help"}).out,
              AllOf(HasSubstr("Usage: tool bench COMMAND"), HasSubstr("\n  speed  Measure.\n")));
}

TEST_F(CommandLineTest, ACommandMayHaveCommandsBelowIt) {
  std::string name;
  CLI::App& ship = line_.AddCommand({"ship", "Ship a box.", "tool ship --to=home", "Work"}, [this] {
    done_.push_back("ship");
    return result_;
  });
  ship.add_option("--to", name, "Where to.")->type_name("PLACE");
  line_.AddCommand({"ship back", "Ship it back.", "tool ship back", "Work"}, [this] {
    done_.push_back("ship back");
    return result_;
  });
  EXPECT_THAT(Refusal({"ship", "--too=x"}),
              AllOf(HasSubstr("expected a flag of tool ship (--to"), HasSubstr("--too=x")));
  EXPECT_THAT(Refusal({"ship", "forth"}), HasSubstr("found \"ship forth\""));
  EXPECT_THAT(Call(line_, {"help"}).out, AllOf(HasSubstr("\n  ship "), HasSubstr("\n  ship back ")));
  EXPECT_EQ(Call(line_, {"ship", "--to=home"}).code, 0);
  EXPECT_EQ(Call(line_, {"ship", "back"}).code, 0);
  EXPECT_THAT(done_, ElementsAre("ship", "ship back"));
  EXPECT_EQ(name, "home");
}

TEST_F(CommandLineTest, LongHelpIsWrapped) {
  line_.AddCommand({"long", std::string(50, 'a') + " " + std::string(60, 'b'), "tool long", "Work"},
                   [this] { return result_; });
  EXPECT_THAT(Call(line_, {"help"}).out, HasSubstr(std::string(50, 'a') + "\n" + std::string(15, ' ') + "bbb"));
}

TEST(CommandLineProgramTest, AProgramWithoutCommandsReadsItsFlags) {
  int runs = 0;
  bool check = false;
  CommandLine line({"party", "A party.", "party --check"}, [&runs] {
    ++runs;
    return ExitCode::kDone;
  });
  line.program().add_flag("--check", check, "Check only.");
  EXPECT_EQ(Call(line, {"--check"}).code, 0);
  EXPECT_TRUE(check);
  EXPECT_EQ(Call(line, {}).code, 0);
  EXPECT_EQ(runs, 2);
  EXPECT_THAT(Call(line, {"--version"}).out, StartsWith("party "));
  EXPECT_THAT(Call(line, {"--help"}).out, HasSubstr("Usage: party [--flag=value ...]\n"));
  EXPECT_THAT(Call(line, {"--chek"}).err,
              StartsWith("party: error: command line: expected a flag of party (--check, --version, --help)"));
  EXPECT_EQ(runs, 2);
}

using ::testing::HasSubstr;

// What the check says of `value`; empty: accepted.
std::string Verdict(const CLI::Validator& check, std::string value) { return check(value); }

TEST(FlagChecksTest, IntegersAreDecimalAndInRange) {
  const CLI::Validator check = IntegerIn(1, 7);
  for (const char* value : {"1", "7"}) {
    EXPECT_EQ(Verdict(check, value), "") << value;
  }
  for (const char* value : {"", "0", "8", "007", "+3", "-1", "7x", "1e0", "0x3", "9223372036854775808", "1.0"}) {
    EXPECT_EQ(Verdict(check, value), std::string("expected an integer, 1 to 7, found \"") + value + "\"");
  }
}

TEST(FlagChecksTest, AnIntegerWithoutUpperBoundSaysSo) {
  EXPECT_EQ(Verdict(IntegerIn(0), "-1"), "expected an integer, at least 0, found \"-1\"");
  EXPECT_EQ(Verdict(IntegerIn(0), "9223372036854775807"), "");
}

TEST(FlagChecksTest, NumbersAreFiniteAndInRange) {
  const CLI::Validator check = NumberIn(0.5, 1);
  for (const char* value : {"0.5", "1", "7e-1"}) {
    EXPECT_EQ(Verdict(check, value), "") << value;
  }
  for (const char* value : {"", "0.49", "1.01", "half", "nan", "inf", "1e999", "0.5.5"}) {
    EXPECT_THAT(Verdict(check, value), HasSubstr("expected a number, 0.5 to 1, found")) << value;
  }
}

TEST(FlagChecksTest, AChoiceNamesTheWordsAndTheNearest) {
  const CLI::Validator check = OneOf({"criteo", "avazu", "table"});
  EXPECT_EQ(Verdict(check, "avazu"), "");
  EXPECT_EQ(Verdict(check, "Table"), "expected criteo, avazu or table, found \"Table\"; did you mean table?");
  EXPECT_EQ(Verdict(check, "parquet"), "expected criteo, avazu or table, found \"parquet\"");
}

}  // namespace
}  // namespace splitveil
