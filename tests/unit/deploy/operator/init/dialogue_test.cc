#include "deploy/operator/init/dialogue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>
#include <string>

namespace splitveil {
namespace {

using ::testing::HasSubstr;

// The answer to a question, with what a person types and what is shown.
struct Asked {
  absl::Status status;
  std::string value, shown;
};

Asked Ask(const Question& question, const std::string& typed, bool asks, std::string value = "") {
  std::istringstream in(typed);
  std::ostringstream out;
  Dialogue dialogue(&in, &out, asks);
  Asked asked;
  asked.status = dialogue.Fill(question, value);
  asked.value = value;
  asked.shown = out.str();
  return asked;
}

const Question kRole = {"--role", "Which party is this", "", {"label_party", "nonlabel_party"}};
const Question kOut = {"--out", "Folder", "bank"};

TEST(DialogueTest, TakesWhatIsTyped) {
  const Asked asked = Ask(kRole, "label_party\n", true);
  EXPECT_EQ(asked.value, "label_party");
  EXPECT_EQ(asked.shown, "Which party is this (label_party, nonlabel_party): ");
}

TEST(DialogueTest, AsksAgainForWhatIsNoChoice) {
  const Asked asked = Ask(kRole, "bank\n\n  nonlabel_party \n", true);
  EXPECT_EQ(asked.value, "nonlabel_party");
}

TEST(DialogueTest, NothingTypedIsTheDefault) {
  const Asked asked = Ask(kOut, "\n", true);
  EXPECT_EQ(asked.value, "bank");
  EXPECT_EQ(asked.shown, "Folder [bank]: ");
}

TEST(DialogueTest, AsksNothingThatAFlagSaid) {
  const Asked asked = Ask(kRole, "nonlabel_party\n", true, "label_party");
  EXPECT_EQ(asked.value, "label_party");
  EXPECT_EQ(asked.shown, "");
}

TEST(DialogueTest, NobodyToAskIsTheDefaultOrAnErrorThatNamesTheFlag) {
  EXPECT_EQ(Ask(kOut, "other\n", false).value, "bank");
  const Asked asked = Ask(kRole, "label_party\n", false);
  EXPECT_EQ(asked.status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(asked.status.message()), HasSubstr("command line: expected --role, found none"));
  EXPECT_EQ(asked.shown, "");
}

TEST(DialogueTest, TheEndOfTheInputIsNoAnswer) { EXPECT_FALSE(Ask(kRole, "", true).status.ok()); }

}  // namespace
}  // namespace splitveil
