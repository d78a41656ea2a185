#include "common/alignment/alignment_spill.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <gtest/gtest.h>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/crypto/sha256.h"
#include "tests/testing/scratch_folder.h"

namespace splitveil {
namespace {

class AlignmentSpillTest : public ::testing::Test {
 protected:
  AlignmentSpillTest() {
    terms_.run_id = "run";
    terms_.binding = Sha256("binding");
    terms_.bucket_key = Sha256("key");
    terms_.own_ids = 4000;
    terms_.peer_ids = 3000;
    terms_.bucket_ids = 1000;
    terms_.chunk_ids = 64;
  }

  void Overwrite(int slot) const {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096 * (1 + slot) + 50);
    file << "torn";
  }

  const ScratchFolder folder_;
  const std::string path_ = folder_.Path("spill");
  AlignmentTerms terms_;
};

TEST_F(AlignmentSpillTest, HoldsWhatItHeldWhenTheProcessStopped) {
  Digest order;
  std::array<uint8_t, 32> secret;
  {
    const std::unique_ptr<AlignmentSpill> spill = *AlignmentSpill::Create(path_, terms_);
    ASSERT_EQ(spill->buckets().count, 4);
    for (uint64_t bucket = 0; bucket < 4; ++bucket) {
      std::fill(spill->Items(bucket).begin(), spill->Items(bucket).end(), static_cast<uint32_t>(bucket));
      spill->Masked(bucket).back().fill(static_cast<uint8_t>(bucket + 1));
      spill->Commitments(bucket).back().fill(static_cast<uint8_t>(bucket + 2));
    }
    ASSERT_TRUE(spill->SaveMasked(4).ok());
    ASSERT_TRUE(spill->HoldPeerTo(PointKind::kMasked, Sha256("theirs")).ok());
    ASSERT_TRUE(spill->FinishBucket({3, 1}, Sha256("first")).ok());
    ASSERT_TRUE(spill->FinishBucket({}, Sha256("")).ok());
    ASSERT_TRUE(spill->FinishBucket({2}, Sha256("third")).ok());
    order = spill->order_sha256();
    secret = spill->secret().key().bytes();
  }
  const std::unique_ptr<AlignmentSpill> spill = *AlignmentSpill::Open(path_, terms_);
  ASSERT_NE(spill, nullptr);
  EXPECT_EQ(spill->next_bucket(), 3);
  EXPECT_EQ(spill->masked_buckets(), 4);
  EXPECT_EQ(spill->terms().run_id, "run");
  EXPECT_EQ(spill->terms().peer_ids, 3000);
  EXPECT_EQ(spill->terms().bucket_key, terms_.bucket_key);
  EXPECT_EQ(spill->secret().key().bytes(), secret);
  EXPECT_EQ(spill->shared_rows(), (std::vector<uint32_t>{3, 1, 2}));
  EXPECT_EQ(spill->order_sha256(), order);
  EXPECT_EQ(order, Sha256(absl::StrCat(AsBytes(Sha256(absl::StrCat(AsBytes(Sha256("first")), AsBytes(Sha256(""))))),
                                       AsBytes(Sha256("third")))));
  for (uint64_t bucket = 2; bucket < 4; ++bucket) {  // Those before are given back.
    EXPECT_EQ(spill->Items(bucket).front(), bucket);
    EXPECT_EQ(spill->Items(bucket).back(), bucket);
    EXPECT_EQ(spill->Masked(bucket).back()[31], bucket + 1);
    EXPECT_EQ(spill->Commitments(bucket).back()[31], bucket + 2);
  }
  EXPECT_TRUE(spill->HoldPeerTo(PointKind::kMasked, Sha256("theirs")).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(spill->HoldPeerTo(PointKind::kMasked, Sha256("others"))));
}

TEST_F(AlignmentSpillTest, GoesBackByOneBucketAndNoFurther) {
  const std::unique_ptr<AlignmentSpill> spill = *AlignmentSpill::Create(path_, terms_);
  ASSERT_TRUE(spill->FinishBucket({3}, Sha256("first")).ok());
  const Digest order = spill->order_sha256();
  ASSERT_TRUE(spill->HoldPeerTo(PointKind::kDoubleMasked, Sha256("answers")).ok());
  ASSERT_TRUE(spill->FinishBucket({2}, Sha256("second")).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(spill->GoBackTo(0)));
  EXPECT_TRUE(absl::IsFailedPrecondition(spill->GoBackTo(3)));
  EXPECT_TRUE(spill->GoBackTo(2).ok());
  ASSERT_TRUE(spill->GoBackTo(1).ok());
  EXPECT_EQ(spill->shared_rows(), (std::vector<uint32_t>{3}));
  EXPECT_EQ(spill->order_sha256(), order);
  EXPECT_TRUE(absl::IsFailedPrecondition(spill->GoBackTo(0)));
  // The peer saw our answers in that bucket.
  EXPECT_TRUE(absl::IsFailedPrecondition(spill->HoldPeerTo(PointKind::kDoubleMasked, Sha256("others"))));
  EXPECT_TRUE(spill->HoldPeerTo(PointKind::kDoubleMasked, Sha256("answers")).ok());
}

TEST_F(AlignmentSpillTest, AHeaderThatWasBeingWrittenCostsNoMoreThanWhatItSaid) {
  {
    const std::unique_ptr<AlignmentSpill> spill = *AlignmentSpill::Create(path_, terms_);
    ASSERT_TRUE(spill->SaveMasked(1).ok());
    ASSERT_TRUE(spill->SaveMasked(2).ok());
  }
  Overwrite(0);  // The second.
  EXPECT_EQ((*AlignmentSpill::Open(path_, terms_))->masked_buckets(), 1);
  Overwrite(1);
  EXPECT_EQ(*AlignmentSpill::Open(path_, terms_), nullptr);
}

// A process that is killed while it removes the file must not make the next alignment fail.
TEST_F(AlignmentSpillTest, OneWhoseRemovalWasInterruptedIsReplaced) {
  const std::string second_name = folder_.Path("second name");
  {
    const std::unique_ptr<AlignmentSpill> spill = *AlignmentSpill::Create(path_, terms_);
    ASSERT_TRUE(spill->SaveMasked(1).ok());
    ASSERT_EQ(link(path_.c_str(), second_name.c_str()), 0);
    spill->Remove();
  }
  ASSERT_EQ(rename(second_name.c_str(), path_.c_str()), 0);
  const absl::StatusOr<std::unique_ptr<AlignmentSpill>> found = AlignmentSpill::Open(path_, terms_);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, nullptr);
  EXPECT_TRUE(AlignmentSpill::Create(path_, terms_).ok());
}

TEST_F(AlignmentSpillTest, IsItsOwnersAloneAndRefusesAFileThatIsCutShort) {
  {
    const std::unique_ptr<AlignmentSpill> spill = *AlignmentSpill::Create(path_, terms_);
    ASSERT_TRUE(spill->SaveMasked(0).ok());
    struct stat facts = {};
    ASSERT_EQ(stat(path_.c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0600);
  }
  ASSERT_EQ(truncate(path_.c_str(), 20'000), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(AlignmentSpill::Open(path_, terms_).status()));
}

// 32 bytes a point and 4 for what it stands for, with padding; 4 a shared id, which take the place of points.
TEST_F(AlignmentSpillTest, TakesAtMostFortyBytesAnOwnId) {
  EXPECT_LT(AlignmentSpill::Bytes(10'000'000, 16, 4096), 36.4 * 10'000'000);
  EXPECT_LT(AlignmentSpill::Bytes(1'048'577, 2, 4096), 36.5 * 1'048'577);
  terms_.own_ids = terms_.peer_ids = 200'000;
  terms_.bucket_ids = 50'000;
  const std::unique_ptr<AlignmentSpill> spill = *AlignmentSpill::Create(path_, terms_);
  std::vector<uint32_t> rows(50'000);
  std::iota(rows.begin(), rows.end(), 0);
  for (int bucket = 0; bucket < 4; ++bucket) {
    ASSERT_TRUE(spill->FinishBucket(rows, Sha256("")).ok());
    struct stat facts = {};
    ASSERT_EQ(stat(path_.c_str(), &facts), 0);
    EXPECT_LE(facts.st_blocks * 512, 40 * 200'000);
  }
}

TEST_F(AlignmentSpillTest, InMemoryItMakesNoFile) {
  const std::unique_ptr<AlignmentSpill> spill = *AlignmentSpill::Create("", terms_);
  ASSERT_TRUE(spill->SaveMasked(4).ok());
  ASSERT_TRUE(spill->FinishBucket({1}, Sha256("")).ok());
  EXPECT_EQ(spill->next_bucket(), 1);
  EXPECT_TRUE(folder_.Names().empty());
}

}  // namespace
}  // namespace splitveil
