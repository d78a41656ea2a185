// What was answered is known after the process that answered is gone.
#include "common/checkpoint/release_journal.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "common/crypto/sha256.h"
#include "common/process/file.h"
#include "tests/testing/process/temp_folder.h"

namespace {

int synced = 0;
bool sync_fails = false;

}  // namespace

// In place of the library's, for the whole process.
extern "C" int fdatasync(int descriptor) {  // NOLINT(readability-identifier-naming): POSIX's
  ++synced;
  errno = EIO;
  return sync_fails ? -1 : fsync(descriptor);
}

namespace splitveil::testing {
namespace {

using ::testing::HasSubstr;

class ReleaseJournalTest : public ::testing::Test {
 protected:
  static ReleaseJournal::Reply ReplyOf(const Digest& bytes, double sum_kl = 0, bool scores_answered = false) {
    return {bytes, sum_kl, scores_answered};
  }

  const TempFolder files_;
  const std::string path_ = ReleaseJournal::PathOf(files_.File("half"), "run-1");
  const Digest ours_ = Sha256("activations"), others_ = Sha256("others");
};

TEST_F(ReleaseJournalTest, LiesBesideTheCheckpointIsOfOneRunAndItsOwnersAlone) {
  // printf run-1 | sha256sum
  EXPECT_EQ(path_, files_.File("half.answered.4e65d3fbe8ad6535"));
  EXPECT_NE(ReleaseJournal::PathOf(files_.File("half"), "run-2"), path_);
  ASSERT_TRUE(ReleaseJournal::Begin(path_, "").ok());
  struct stat facts = {};
  ASSERT_EQ(stat(path_.c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600);
}

TEST_F(ReleaseJournalTest, ItsFirstRecordIsOnTheDiskBeforeAnythingLeaves) {
  const std::unique_ptr<ReleaseJournal> journal = *ReleaseJournal::Begin(path_, "");
  EXPECT_TRUE(journal->empty());
  synced = 0;
  EXPECT_TRUE(journal->Take(0, 0, ours_).ok());
  EXPECT_EQ(synced, 1);
  EXPECT_TRUE(journal->Answer(0, 0, ReplyOf(ours_)).ok());
  EXPECT_EQ(synced, 1);
  EXPECT_TRUE(journal->Sync().ok());
  EXPECT_EQ(synced, 2);
  EXPECT_FALSE(journal->empty());
}

TEST_F(ReleaseJournalTest, ADiskThatTakesNothingIsAnError) {
  const std::unique_ptr<ReleaseJournal> journal = *ReleaseJournal::Begin(path_, "");
  sync_fails = true;
  const absl::Status status = journal->Take(0, 0, ours_);
  const absl::Status again = journal->Sync();
  sync_fails = false;
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_EQ(status.message(), path_ + ": cannot be made durable: Input/output error");
  EXPECT_EQ(again, status);
}

TEST_F(ReleaseJournalTest, SaysWhetherAnythingHasLeft) {
  EXPECT_TRUE(absl::IsNotFound(ReleaseJournal::Read(path_).status()));
  {
    const std::unique_ptr<ReleaseJournal> journal = *ReleaseJournal::Begin(path_, "");
    EXPECT_TRUE(ReleaseJournal::Read(path_)->empty);
    EXPECT_TRUE(journal->Take(3, 0, ours_).ok());
  }
  EXPECT_FALSE(ReleaseJournal::Read(path_)->empty);
  EXPECT_FALSE((*ReleaseJournal::Continue(path_, "", 7, 0))->empty());
}

TEST_F(ReleaseJournalTest, ARepeatedStepIsTakenWithTheSameActivationsAlone) {
  {
    const std::unique_ptr<ReleaseJournal> journal = *ReleaseJournal::Begin(path_, "");
    EXPECT_TRUE(journal->Take(0, 5, ours_).ok());
    EXPECT_TRUE(journal->Take(1, 0, ours_).ok());
  }  // As if killed: nothing else is written at the end.
  const std::unique_ptr<ReleaseJournal> journal = *ReleaseJournal::Continue(path_, "", 0, 5);
  EXPECT_TRUE(journal->Take(0, 5, ours_).ok());
  const absl::Status status = journal->Take(1, 0, others_);
  EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(status.message()), HasSubstr("that epoch 1 batch 0 was answered for before"));
  EXPECT_TRUE(journal->Take(1, 1, others_).ok());  // Of which there was none.
}

TEST_F(ReleaseJournalTest, ARepeatedStepGetsTheSameAnswerAlone) {
  {
    const std::unique_ptr<ReleaseJournal> journal = *ReleaseJournal::Begin(path_, "");
    EXPECT_TRUE(journal->Answer(0, 5, ReplyOf(ours_)).ok());
    EXPECT_TRUE(journal->Take(0, 6, ours_).ok());  // And was killed before it was answered.
  }
  const std::unique_ptr<ReleaseJournal> journal = *ReleaseJournal::Continue(path_, "", 0, 5);
  EXPECT_TRUE(journal->Answer(0, 5, ReplyOf(ours_)).ok());
  const absl::Status status = journal->Answer(0, 5, ReplyOf(others_));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the answer to epoch 0 batch 5 differs"));
  EXPECT_TRUE(journal->Answer(0, 6, ReplyOf(others_)).ok());
}

TEST_F(ReleaseJournalTest, ALoweredDisclosureStaysSoWhereverTheRunGoesOn) {
  {
    const std::unique_ptr<ReleaseJournal> journal = *ReleaseJournal::Begin(path_, "");
    EXPECT_FALSE(journal->lowered_from().has_value());
    EXPECT_TRUE(journal->LowerDisclosure(2, 7).ok());
    EXPECT_TRUE(journal->LowerDisclosure(3, 0).ok());  // The first holds.
  }
  for (const uint32_t epoch : {0, 2, 9}) {
    const std::unique_ptr<ReleaseJournal> journal = *ReleaseJournal::Continue(path_, "", epoch, 0);
    ASSERT_TRUE(journal->lowered_from().has_value());
    EXPECT_EQ(journal->lowered_from()->epoch, 2);
    EXPECT_EQ(journal->lowered_from()->batch, 7);
  }
  EXPECT_EQ(ReleaseJournal::Read(path_)->largest_sum_kl, 0);
}

TEST_F(ReleaseJournalTest, NoiseThatWasRaisedIsNoAnswerAndStaysSoWhereverTheRunGoesOn) {
  {
    const std::unique_ptr<ReleaseJournal> journal = *ReleaseJournal::Begin(path_, "");
    EXPECT_TRUE(journal->Answer(2, 6, ReplyOf(ours_)).ok());
    EXPECT_EQ(journal->FirstUnanswered({2, 7}).batch, 7);
    EXPECT_TRUE(journal->RaiseNoise({{2, 7}, 0.5}).ok());
    EXPECT_TRUE(journal->RaiseNoise({{2, 7}, 0.25}).ok());
    EXPECT_TRUE(journal->Take(2, 7, ours_).ok());
    EXPECT_EQ(journal->raised().size(), 2);
  }
  for (const uint32_t epoch : {0, 2, 9}) {
    const std::unique_ptr<ReleaseJournal> journal = *ReleaseJournal::Continue(path_, "", epoch, 0);
    ASSERT_EQ(journal->raised().size(), 2);
    EXPECT_EQ(journal->raised()[1].from.epoch, 2);
    EXPECT_EQ(journal->raised()[1].from.batch, 7);
    EXPECT_EQ(journal->raised()[1].max_sum_kl, 0.25);
    EXPECT_EQ(journal->FirstUnanswered({epoch, 0}).batch, epoch == 9 ? 0 : 7);
  }
  EXPECT_EQ(ReleaseJournal::Read(path_)->largest_sum_kl, ReplyOf(ours_).sum_kl);
}

TEST_F(ReleaseJournalTest, TellsWhichScoresWereAnswered) {
  {
    const std::unique_ptr<ReleaseJournal> journal = *ReleaseJournal::Begin(path_, "");
    EXPECT_TRUE(journal->Answer(0, 5, ReplyOf(ours_)).ok());
    EXPECT_TRUE(journal->Answer(1, 0, ReplyOf(ours_, 0, /*scores_answered=*/true)).ok());
    EXPECT_FALSE(journal->ScoresAnswered(1, 0));  // In this part of the run it is the auditor's to know.
  }
  const std::unique_ptr<ReleaseJournal> journal = *ReleaseJournal::Continue(path_, "", 0, 0);
  EXPECT_TRUE(journal->ScoresAnswered(1, 0));
  EXPECT_FALSE(journal->ScoresAnswered(0, 5));
  EXPECT_FALSE(journal->ScoresAnswered(1, 1));
}

TEST_F(ReleaseJournalTest, ARepeatedEvaluationIsOfTheSameActivationsAlone) {
  ASSERT_TRUE((*ReleaseJournal::Begin(path_, ""))->Evaluate(1, ours_).ok());
  for (const uint32_t batches : {0, 7}) {  // However much of the epoch is repeated.
    const std::unique_ptr<ReleaseJournal> journal = *ReleaseJournal::Continue(path_, "", 1, batches);
    EXPECT_TRUE(journal->Evaluate(1, ours_).ok());
    const absl::Status status = journal->Evaluate(1, others_);
    EXPECT_EQ(status.code(), absl::StatusCode::kAlreadyExists);
    EXPECT_THAT(std::string(status.message()), HasSubstr("that the evaluation after epoch 1 was answered for"));
    EXPECT_TRUE(journal->Evaluate(2, others_).ok());
    std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 56);
  }
}

TEST_F(ReleaseJournalTest, WhatLiesBeforeTheCheckpointIsNotAskedAgain) {
  ASSERT_TRUE((*ReleaseJournal::Begin(path_, ""))->Answer(0, 5, ReplyOf(ours_, 0, true)).ok());
  const std::unique_ptr<ReleaseJournal> journal = *ReleaseJournal::Continue(path_, "", 0, 6);
  EXPECT_FALSE(journal->ScoresAnswered(0, 5));
}

TEST_F(ReleaseJournalTest, ARunMayBeInterruptedMoreThanOnceAndTheFileOnlyNotesIt) {
  ASSERT_TRUE((*ReleaseJournal::Begin(path_, ""))->Take(0, 0, ours_).ok());
  ASSERT_TRUE((*ReleaseJournal::Continue(path_, "", 0, 0))->Take(0, 1, ours_).ok());
  const std::unique_ptr<ReleaseJournal> journal = *ReleaseJournal::Continue(path_, "", 0, 0);
  EXPECT_FALSE(journal->Take(0, 0, others_).ok());
  EXPECT_FALSE(journal->Take(0, 1, others_).ok());
  EXPECT_TRUE(journal->Take(0, 1, ours_).ok());
  EXPECT_EQ(journal->records(), 5);
  EXPECT_EQ(std::filesystem::file_size(path_), 5 * 56);
}

TEST_F(ReleaseJournalTest, ARecordThatACrashCutShortIsCutOff) {
  {
    const std::unique_ptr<ReleaseJournal> journal = *ReleaseJournal::Begin(path_, "");
    ASSERT_TRUE(journal->Take(0, 0, ours_).ok());
    ASSERT_TRUE(journal->Take(0, 1, ours_).ok());
  }
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 7);
  ASSERT_TRUE((*ReleaseJournal::Continue(path_, "", 0, 0))->Take(0, 2, ours_).ok());
  const std::unique_ptr<ReleaseJournal> journal = *ReleaseJournal::Continue(path_, "", 0, 0);
  EXPECT_FALSE(journal->Take(0, 0, others_).ok());
  EXPECT_TRUE(journal->Take(0, 1, others_).ok());  // Nothing had been decided of it.
  EXPECT_FALSE(journal->Take(0, 2, others_).ok());
}

TEST_F(ReleaseJournalTest, TellsTheLargestSumOfWhatLeft) {
  EXPECT_EQ(ReleaseJournal::Read(path_).status().code(), absl::StatusCode::kNotFound);
  const std::unique_ptr<ReleaseJournal> journal = *ReleaseJournal::Begin(path_, "");
  EXPECT_EQ(ReleaseJournal::Read(path_)->largest_sum_kl, 0);
  ASSERT_TRUE(journal->Answer(0, 0, ReplyOf(ours_, 0.5)).ok());
  ASSERT_TRUE(journal->Answer(0, 1, ReplyOf(ours_, 0.25)).ok());
  EXPECT_EQ(ReleaseJournal::Read(path_)->largest_sum_kl, 0.5);
  ASSERT_TRUE(journal->ReleaseUnprotected().ok());
  ASSERT_TRUE(journal->ReleaseUnprotected().ok());
  EXPECT_EQ(ReleaseJournal::Read(path_)->largest_sum_kl, std::numeric_limits<double>::infinity());
  EXPECT_EQ(std::filesystem::file_size(path_), 4 * 56);
}

TEST_F(ReleaseJournalTest, KnowsTheAccountThatCountsTheRunAndGoesOnUnderNoOther) {
  {
    const std::unique_ptr<ReleaseJournal> journal = *ReleaseJournal::Begin(path_, "ours");
    EXPECT_TRUE(journal->empty());  // Of what has left.
    EXPECT_TRUE(ReleaseJournal::Read(path_)->empty);
    EXPECT_TRUE(journal->Take(0, 0, ours_).ok());
  }
  EXPECT_TRUE(ReleaseJournal::Read(path_)->IsCountedBy("ours"));
  EXPECT_FALSE(ReleaseJournal::Read(path_)->IsCountedBy("another"));
  EXPECT_FALSE(ReleaseJournal::Read(path_)->IsCountedBy(""));
  EXPECT_FALSE((*ReleaseJournal::Continue(path_, "ours", 0, 0))->Take(0, 0, others_).ok());
  for (const auto& [account, found] :
       {std::pair("another", "a different privacy account"), std::pair("", "no privacy account")}) {
    const absl::Status status = ReleaseJournal::Continue(path_, account, 0, 0).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(found));
  }
}

// However much there is of it: this run would send its own batches a second time.
TEST_F(ReleaseJournalTest, OneOfAnotherRunIsRefusedButCanBeSettled) {
  const std::string other = ReleaseJournal::PathOf(files_.File("half"), "run-2");
  ASSERT_TRUE((*ReleaseJournal::Begin(path_, "ours"))->Take(0, 0, ours_).ok());
  for (const bool has_sent : {false, true}) {
    std::filesystem::remove(other);
    const std::unique_ptr<ReleaseJournal> journal = *ReleaseJournal::Begin(other, "ours");
    ASSERT_TRUE(!has_sent || journal->Take(0, 0, others_).ok());
    std::filesystem::copy_file(other, path_, std::filesystem::copy_options::overwrite_existing);
    for (const absl::Status& status :
         {ReleaseJournal::Continue(path_, "ours", 0, 0).status(), ReleaseJournal::Read(path_).status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()), HasSubstr(path_ + ": it says what another run has sent"));
    }
    EXPECT_TRUE(ReleaseJournal::Settle(path_).ok());  // As the operator's restart does.
  }
}

// A crash may leave the file without its first records: nothing was sent.
TEST_F(ReleaseJournalTest, WhatACrashKeptFromTheStartIsWrittenWhenTheRunGoesOn) {
  for (const int records : {0, 1}) {
    std::filesystem::remove(path_);
    ASSERT_TRUE(ReleaseJournal::Begin(path_, "ours").ok());
    std::filesystem::resize_file(path_, records * 56);
    EXPECT_TRUE(ReleaseJournal::Read(path_)->empty);
    ASSERT_TRUE((*ReleaseJournal::Continue(path_, "ours", 0, 0))->Take(0, 0, ours_).ok());
    EXPECT_TRUE(ReleaseJournal::Read(path_)->IsCountedBy("ours"));
    EXPECT_TRUE(ReleaseJournal::Continue(path_, "ours", 0, 0).ok());
  }
}

TEST_F(ReleaseJournalTest, OneOfARunThatNoAccountCountsIsNoneOfAnAccount) {
  ASSERT_TRUE((*ReleaseJournal::Begin(path_, ""))->Take(0, 0, ours_).ok());
  EXPECT_FALSE(ReleaseJournal::Read(path_)->IsCountedBy("ours"));
  EXPECT_FALSE(ReleaseJournal::Continue(path_, "ours", 0, 0).ok());
}

TEST_F(ReleaseJournalTest, ASettledOneStillTellsWhatHasLeft) {
  ASSERT_TRUE((*ReleaseJournal::Begin(path_, ""))->Answer(0, 0, ReplyOf(ours_, 0.5)).ok());
  EXPECT_FALSE(ReleaseJournal::Read(path_)->settled);
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) + 7);  // A crash had cut a record short.
  ASSERT_TRUE(ReleaseJournal::Settle(path_).ok());
  ASSERT_TRUE(ReleaseJournal::Settle(path_).ok());
  EXPECT_EQ(std::filesystem::file_size(path_), 3 * 56);
  const ReleaseJournal::Outline outline = *ReleaseJournal::Read(path_);
  EXPECT_TRUE(outline.settled);
  EXPECT_FALSE(outline.empty);
  EXPECT_EQ(outline.largest_sum_kl, 0.5);
  EXPECT_TRUE(absl::IsNotFound(ReleaseJournal::Settle(path_ + "0")));
}

// A run that begins, and ends before it has released anything, must not hide what the run before it released.
TEST_F(ReleaseJournalTest, ThoseThatARunReplacesBlockUntilItsOwnDoes) {
  ASSERT_TRUE((*ReleaseJournal::Begin(path_, ""))->Answer(0, 0, ReplyOf(ours_, 0.5)).ok());
  const std::string next = ReleaseJournal::PathOf(files_.File("half"), "run-2");
  {
    const std::unique_ptr<ReleaseJournal> journal = *ReleaseJournal::Begin(next, "account", {path_});
    EXPECT_FALSE(ReleaseJournal::Read(path_)->settled);
    ASSERT_TRUE(journal->Take(0, 0, ours_).ok());
    EXPECT_TRUE(ReleaseJournal::Read(path_)->settled);
    EXPECT_FALSE(ReleaseJournal::Read(next)->settled);
  }
  const std::string third = ReleaseJournal::PathOf(files_.File("half"), "run-3");
  ASSERT_TRUE((*ReleaseJournal::Begin(third, "", {next}))->Settle().ok());  // Complete without a record.
  EXPECT_TRUE(ReleaseJournal::Read(next)->settled);
}

TEST_F(ReleaseJournalTest, IsWrittenByOneProcessAtATime) {
  const std::unique_ptr<ReleaseJournal> journal = *ReleaseJournal::Begin(path_, "");
  ASSERT_TRUE(journal->Take(0, 0, ours_).ok());
  for (const absl::Status& status :
       {ReleaseJournal::Continue(path_, "", 0, 0).status(), ReleaseJournal::Settle(path_)}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("another process is using this run's journal"));
  }
  EXPECT_FALSE(ReleaseJournal::Read(path_)->empty);
}

TEST_F(ReleaseJournalTest, AllBesideACheckpointAreFoundWhetherItIsThereOrNot) {
  EXPECT_TRUE(ReleaseJournal::AllOf(files_.File("half"))->empty());
  ASSERT_TRUE(ReleaseJournal::Begin(path_, "").ok());
  ASSERT_TRUE(WriteFile(files_.File("half.answered.by"), "").ok());
  ASSERT_TRUE(ReleaseJournal::Begin(ReleaseJournal::PathOf(files_.File("other"), "run-1"), "").ok());
  EXPECT_THAT(*ReleaseJournal::AllOf(files_.File("half")), ::testing::ElementsAre(path_));
  EXPECT_FALSE(ReleaseJournal::AllOf(files_.File("no/half")).ok());
}

TEST_F(ReleaseJournalTest, ThoseOfRunsWithoutCheckpointsAreRemovedAndNothingElse) {
  const std::string other = ReleaseJournal::PathOf(files_.File("half"), "run-2");
  const std::string elsewhere = ReleaseJournal::PathOf(files_.File("another_half"), "run-2");
  for (const std::string& path : {path_, other, elsewhere, files_.File("half.answered.by"), files_.File("half")}) {
    ASSERT_TRUE(WriteFile(path, "").ok());
  }
  ReleaseJournal::RemoveOthers(files_.File("half"), {"run-1", "run-3"});
  EXPECT_FALSE(std::filesystem::exists(other));
  for (const std::string& path : {path_, elsewhere, files_.File("half.answered.by"), files_.File("half")}) {
    EXPECT_TRUE(std::filesystem::exists(path)) << path;
  }
}

TEST_F(ReleaseJournalTest, OneThatIsThereIsNeverEmptiedAndOneThatIsMissingOrALinkIsRefused) {
  EXPECT_EQ(ReleaseJournal::Continue(path_, "", 0, 0).status().code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE((*ReleaseJournal::Begin(path_, ""))->Take(0, 0, ours_).ok());
  EXPECT_EQ(ReleaseJournal::Begin(path_, "").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE((*ReleaseJournal::Continue(path_, "", 0, 0))->Take(0, 0, others_).ok());
  const std::string link = files_.File("link");
  std::filesystem::create_symlink(path_, link);
  EXPECT_EQ(ReleaseJournal::Continue(link, "", 0, 0).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReleaseJournal::Begin(files_.File("no/folder"), "").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace splitveil::testing
