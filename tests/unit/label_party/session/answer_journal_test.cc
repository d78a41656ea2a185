// What was answered is known after the process that answered is gone.
#include "label_party/session/answer_journal.h"

#include <sys/stat.h>

#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>

#include "common/process/file.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

class AnswerJournalTest : public ::testing::Test {
 protected:
  const TempFolder files_;
  const std::string path_ = AnswerJournal::PathOf(files_.File("half"));
  const Digest ours_ = Sha256("activations"), others_ = Sha256("others");
};

TEST_F(AnswerJournalTest, LiesBesideTheCheckpointAndIsItsOwnersAlone) {
  EXPECT_EQ(path_, files_.File("half.answered"));
  EXPECT_EQ(AnswerJournal::PathOf(""), "");
  ASSERT_TRUE(AnswerJournal::Begin(path_).ok());
  struct stat facts = {};
  ASSERT_EQ(stat(path_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600);
}

TEST_F(AnswerJournalTest, ARepeatedStepIsAnsweredForTheSameActivationsAlone) {
  {
    const std::unique_ptr<AnswerJournal> journal = *AnswerJournal::Begin(path_);
    EXPECT_TRUE(journal->Answer(0, 5, ours_, false).ok());
    EXPECT_TRUE(journal->Answer(1, 0, ours_, true).ok());
  }  // As if killed: nothing else is written at the end.
  const std::unique_ptr<AnswerJournal> journal = *AnswerJournal::Continue(path_, 0, 5);
  EXPECT_TRUE(journal->Answer(0, 5, ours_, false).ok());
  const absl::Status status = journal->Answer(1, 0, others_, true);
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr("that epoch 1 batch 0 was answered for before"));
  EXPECT_TRUE(journal->Answer(1, 1, others_, false).ok());  // Of which there was none.
  EXPECT_TRUE(journal->ScoresAnswered(1, 0));
  EXPECT_FALSE(journal->ScoresAnswered(0, 5));
  EXPECT_FALSE(journal->ScoresAnswered(1, 1));
}

TEST_F(AnswerJournalTest, WhatLiesBeforeTheCheckpointIsNotAskedAgain) {
  ASSERT_TRUE((*AnswerJournal::Begin(path_))->Answer(0, 5, ours_, true).ok());
  const std::unique_ptr<AnswerJournal> journal = *AnswerJournal::Continue(path_, 0, 6);
  EXPECT_FALSE(journal->ScoresAnswered(0, 5));
}

TEST_F(AnswerJournalTest, ARunMayBeBrokenOffMoreThanOnce) {
  ASSERT_TRUE((*AnswerJournal::Begin(path_))->Answer(0, 0, ours_, false).ok());
  ASSERT_TRUE((*AnswerJournal::Continue(path_, 0, 0))->Answer(0, 1, ours_, false).ok());
  const std::unique_ptr<AnswerJournal> journal = *AnswerJournal::Continue(path_, 0, 0);
  EXPECT_FALSE(journal->Answer(0, 0, others_, false).ok());
  EXPECT_FALSE(journal->Answer(0, 1, others_, false).ok());
}

TEST_F(AnswerJournalTest, ARecordThatACrashCutShortIsCutOff) {
  {
    const std::unique_ptr<AnswerJournal> journal = *AnswerJournal::Begin(path_);
    ASSERT_TRUE(journal->Answer(0, 0, ours_, false).ok());
    ASSERT_TRUE(journal->Answer(0, 1, ours_, false).ok());
  }
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 7);
  ASSERT_TRUE((*AnswerJournal::Continue(path_, 0, 0))->Answer(0, 2, ours_, false).ok());
  const std::unique_ptr<AnswerJournal> journal = *AnswerJournal::Continue(path_, 0, 0);
  EXPECT_FALSE(journal->Answer(0, 0, others_, false).ok());
  EXPECT_TRUE(journal->Answer(0, 1, others_, false).ok());  // It had not left.
  EXPECT_FALSE(journal->Answer(0, 2, others_, false).ok());
}

TEST_F(AnswerJournalTest, ANewRunKnowsOfNothing) {
  ASSERT_TRUE((*AnswerJournal::Begin(path_))->Answer(0, 0, ours_, false).ok());
  ASSERT_TRUE(AnswerJournal::Begin(path_).ok());
  EXPECT_TRUE((*AnswerJournal::Continue(path_, 0, 0))->Answer(0, 0, others_, false).ok());
}

TEST_F(AnswerJournalTest, OneThatIsMissingOrALinkIsRefused) {
  EXPECT_EQ(AnswerJournal::Continue(path_, 0, 0).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(WriteFile(files_.File("elsewhere"), "").ok());
  std::filesystem::create_symlink(files_.File("elsewhere"), path_);
  EXPECT_EQ(AnswerJournal::Begin(path_).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(AnswerJournal::Begin(files_.File("no/folder")).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace splitveil::testing
