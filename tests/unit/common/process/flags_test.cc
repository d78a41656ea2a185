#include "common/process/flags.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace splitveil {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<FlagSpec>& Specs() {
  static const auto* specs = new std::vector<FlagSpec>{
      {"config", "", "The party's configuration.", /*required=*/true},
      {"rows", "100", "Rows."},
      {"rate", "0.5", "Rate."},
      {"check", "", "Validate and exit.", false, /*is_switch=*/true},
      {"ledger", "", "A ledger.", false, false, /*is_list=*/true},
      {"help", "", "This text.", false, /*is_switch=*/true},
  };
  return *specs;
}

absl::StatusOr<Flags> Parse(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) {
    argv.push_back(word.data());
  }
  return Flags::Parse(static_cast<int>(argv.size()), argv.data(), 0, Specs());
}

// The message of the refusal.
std::string Refusal(const std::vector<std::string>& words) {
  const absl::Status status = Parse(words).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(FlagsTest, TakesValuesAndDefaults) {
  const Flags flags = Parse({"--config=a=b.textproto", "--rows=7"}).value();
  EXPECT_EQ(flags.Get("config"), "a=b.textproto");
  EXPECT_EQ(flags.GetInt("rows").value(), 7);
  EXPECT_EQ(flags.GetDouble("rate").value(), 0.5);
  EXPECT_FALSE(flags.GetSwitch("check"));
  EXPECT_THAT(flags.GetList("ledger"), IsEmpty());
}

TEST(FlagsTest, SkipsTheWordsBeforeFirst) {
  char program[] = "splitveil", command[] = "generate", flag[] = "--config=c";
  char* argv[] = {program, command, flag};
  EXPECT_EQ(Flags::Parse(3, argv, 2, Specs()).value().Get("config"), "c");
}

TEST(FlagsTest, SwitchStandsAloneOrHasAValue) {
  EXPECT_TRUE(Parse({"--config=c", "--check"}).value().GetSwitch("check"));
  EXPECT_TRUE(Parse({"--config=c", "--check=true"}).value().GetSwitch("check"));
  EXPECT_FALSE(Parse({"--config=c", "--check=false"}).value().GetSwitch("check"));
}

TEST(FlagsTest, ListKeepsAllValuesInOrder) {
  const Flags flags = Parse({"--ledger=b", "--config=c", "--ledger=a,1"}).value();
  EXPECT_THAT(flags.GetList("ledger"), ElementsAre("b", "a,1"));
}

TEST(FlagsTest, HelpNeedsNoRequiredFlag) {
  EXPECT_TRUE(Parse({"--help"}).value().GetSwitch("help"));
  EXPECT_THAT(Refusal({"--help=false"}), HasSubstr("--config is missing"));
}

TEST(FlagsTest, RefusesAMissingRequiredFlag) {
  EXPECT_EQ(Refusal({}),
            "command line: --config is missing; expected --config=VALUE --rows=VALUE --rate=VALUE --check "
            "--ledger=VALUE --help");
}

TEST(FlagsTest, RefusesAnUnknownFlagAndNamesTheKnown) {
  const std::string message = Refusal({"--config=c", "--row=7"});
  EXPECT_THAT(message, HasSubstr("--row is not a flag of this program"));
  EXPECT_THAT(message, HasSubstr("--rows=VALUE"));
}

TEST(FlagsTest, RefusesAFlagWithoutValue) {
  EXPECT_THAT(Refusal({"--config"}), HasSubstr("--config has no value"));
  EXPECT_THAT(Refusal({"--config="}), HasSubstr("--config has no value"));
  EXPECT_THAT(Refusal({"--config=c", "--check="}), HasSubstr("--check has no value"));
}

TEST(FlagsTest, RefusesAStrayWord) {
  for (const char* word : {"run.textproto", "-c", "-", "--", ""}) {
    EXPECT_THAT(Refusal({"--config=c", word}), HasSubstr(std::string("found \"") + word + "\""));
  }
}

TEST(FlagsTest, RefusesAValueInAWordOfItsOwn) { EXPECT_THAT(Refusal({"--config", "c"}), HasSubstr("has no value")); }

TEST(FlagsTest, RefusesAFlagGivenTwice) {
  EXPECT_THAT(Refusal({"--config=a", "--config=b"}), HasSubstr("--config is given twice"));
}

TEST(FlagsTest, RefusesASwitchThatIsNeitherTrueNorFalse) {
  EXPECT_THAT(Refusal({"--config=c", "--check=maybe"}), HasSubstr("expected true or false, found \"maybe\""));
}

TEST(FlagsTest, RefusesNumbersThatAreNone) {
  for (const char* value : {"7x", "1e3", "0x10", "9223372036854775808"}) {
    const absl::Status status = Parse({"--config=c", std::string("--rows=") + value}).value().GetInt("rows").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << value;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--rows: expected an integer"));
  }
  for (const char* value : {"half", "nan", "inf", "1e999", "0.5.5"}) {
    const absl::Status status =
        Parse({"--config=c", std::string("--rate=") + value}).value().GetDouble("rate").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << value;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--rate: expected a number"));
  }
}

TEST(FlagsTest, RefusesNumbersOutOfRange) {
  const Flags flags = Parse({"--config=c", "--rows=7", "--rate=1"}).value();
  EXPECT_TRUE(flags.GetInt("rows", 1, 7).ok());
  EXPECT_EQ(flags.GetInt("rows", 8, 9).status().message(),
            "command line: --rows: expected an integer in [8, 9], found \"7\"");
  EXPECT_FALSE(flags.GetInt("rows", 1, 6).ok());
  EXPECT_FALSE(flags.GetDouble("rate", 0, 0.5).ok());
}

TEST(FlagsTest, ReadingAFlagThatIsNotDeclaredEndsTheProcess) {
  const Flags flags = Parse({"--config=c"}).value();
  EXPECT_DEATH(flags.Get("confg"), "--confg is read but not declared");
  EXPECT_DEATH(flags.GetList("rows"), "--rows is read but not declared");
}

TEST(FlagsTest, HelpShowsEveryFlagWithItsDefault) {
  EXPECT_EQ(Flags::Help("party [flags]", {{"config", "", "The configuration.", true},
                                          {"rows", "100", "Rows."},
                                          {"check", "", "Validate.", false, true},
                                          {"ledger", "", "A ledger.", false, false, true}}),
            "Usage: party [flags]\n"
            "  --config=VALUE  The configuration. (required)\n"
            "  --rows=VALUE    Rows. (default: 100)\n"
            "  --check         Validate.\n"
            "  --ledger=VALUE  A ledger. (may be given several times)\n");
}

}  // namespace
}  // namespace splitveil
