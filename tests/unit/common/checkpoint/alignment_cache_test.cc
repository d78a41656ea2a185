#include "common/checkpoint/alignment_cache.h"

#include <sys/stat.h>

#include <fstream>
#include <gtest/gtest.h>
#include <memory>
#include <string>

#include "common/crypto/sha256.h"
#include "tests/testing/process/temp_folder.h"
#include "tests/testing/small_table.h"

namespace splitveil::testing {
namespace {

std::shared_ptr<const Dataset> DataOf(double first) {
  SmallTable table;
  table.ids = {"a", "b", "c", "d"};
  table.numeric = {{static_cast<float>(first)}, {2}, {3}, {4}};
  table.categories.resize(4);
  return table.Store();
}

class AlignmentCacheTest : public ::testing::Test {
 protected:
  AlignmentCacheTest() { EXPECT_TRUE(store_.Keep(aligned_, *data_, agreement_, now_).ok()); }

  const TempFolder files_;
  const std::string path_ = files_.File("alignment");
  const std::shared_ptr<const Dataset> data_ = DataOf(1);
  const v1::RunAgreement agreement_;
  const AlignedIds aligned_ = {{3, 0, 2}, Sha256("order"), 17};
  const absl::Time now_ = absl::FromUnixSeconds(1'000'000);
  const AlignmentStore store_{path_, absl::Hours(24), Sha256("identities")};
};

TEST_F(AlignmentCacheTest, IsFoundAsItWasKept) {
  const auto found = store_.Find(*data_, agreement_, now_ + absl::Hours(2));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->aligned.rows, aligned_.rows);
  EXPECT_EQ(found->aligned.order_sha256, aligned_.order_sha256);
  EXPECT_EQ(found->aligned.peer_ids, 17u);
  EXPECT_EQ(found->age, absl::Hours(2));
  EXPECT_EQ(found->name, AlignmentName(aligned_));
  struct stat mode = {};
  ASSERT_EQ(stat(path_.c_str(), &mode), 0);
  EXPECT_EQ(mode.st_mode & 0777, 0600);
}

TEST_F(AlignmentCacheTest, TheSameOrderHasTheSameNameAtBothPartiesAndAnotherOrderAnother) {
  EXPECT_EQ(AlignmentName({{1, 2, 3}, Sha256("order"), 40}), AlignmentName(aligned_));
  EXPECT_NE(AlignmentName({{3, 0, 2}, Sha256("another order"), 17}), AlignmentName(aligned_));
  EXPECT_EQ(AlignmentName(aligned_).size(), 32u);
}

TEST_F(AlignmentCacheTest, OfOtherDataPeersOrTermsThereIsNone) {
  EXPECT_FALSE(store_.Find(*DataOf(1.5), agreement_, now_).has_value());
  EXPECT_FALSE(AlignmentStore(path_, absl::Hours(24), Sha256("others")).Find(*data_, agreement_, now_).has_value());
  v1::RunAgreement other = agreement_;
  other.mutable_alignment()->set_min_shared_ids(2);
  EXPECT_FALSE(store_.Find(*data_, other, now_).has_value());
  other = agreement_;
  other.set_epochs(77);  // No term of the alignment.
  EXPECT_TRUE(store_.Find(*data_, other, now_).has_value());
}

// A sound file: nothing is to be said of it, though its rows are more than there are.
TEST_F(AlignmentCacheTest, OfFewerRowsThereIsNoneInSilence) {
  SmallTable table;
  table.ids = {"a"};
  table.numeric = {{1}};
  table.categories.resize(1);
  ::testing::internal::CaptureStderr();
  EXPECT_FALSE(store_.Find(*table.Store(), agreement_, now_).has_value());
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

TEST_F(AlignmentCacheTest, NeitherAnOldOneNorOneOfTheFutureIsUsed) {
  EXPECT_TRUE(store_.Find(*data_, agreement_, now_ + absl::Hours(24)).has_value());
  EXPECT_FALSE(store_.Find(*data_, agreement_, now_ + absl::Hours(24) + absl::Seconds(1)).has_value());
  EXPECT_FALSE(store_.Find(*data_, agreement_, now_ - absl::Seconds(1)).has_value());
}

TEST_F(AlignmentCacheTest, ADamagedFileIsPassedOver) {
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(70);
  file.put('x');
  file.close();
  EXPECT_FALSE(store_.Find(*data_, agreement_, now_).has_value());
}

TEST_F(AlignmentCacheTest, RowsThatTheDataLackArePassedOver) {
  ASSERT_TRUE(store_.Keep({{3, 0, 4}, Sha256("order"), 17}, *data_, agreement_, now_).ok());
  EXPECT_FALSE(store_.Find(*data_, agreement_, now_).has_value());
  ASSERT_TRUE(store_.Keep({{3, 0, 3}, Sha256("order"), 17}, *data_, agreement_, now_).ok());
  EXPECT_FALSE(store_.Find(*data_, agreement_, now_).has_value());
}

TEST(AlignmentStoreTest, WithoutAPathNothingIsKeptNorFound) {
  const AlignmentStore none;
  const auto data = DataOf(1);
  EXPECT_TRUE(none.Keep({{0}, Sha256("order"), 1}, *data, v1::RunAgreement()).ok());
  EXPECT_FALSE(none.Find(*data, v1::RunAgreement()).has_value());
}

}  // namespace
}  // namespace splitveil::testing
