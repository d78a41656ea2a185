// What `splitveil plan --ids` predicts, against alignments.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "deploy/operator/align/alignment_host.h"
#include "deploy/operator/align/id_table.h"
#include "deploy/operator/plan/privacy_plan.h"

#include "common/config/agreement.h"
#include "tests/testing/alignment_channel_pair.h"
#include "tests/testing/process/temp_folder.h"

namespace splitveil {
namespace {

class AlignmentPlanTest : public ::testing::Test {
 protected:
  // A whole alignment of so many ids.
  FinishedAlignment Align(size_t ids, size_t peer_ids, uint64_t bucket_ids = kBucketIds) {
    AlignmentSide own, peer;
    own.agreement.set_run_name("a-usual-name");
    own.agreement.set_cut_width(1);
    own.agreement.mutable_alignment()->set_chunk_ids(512);
    own.agreement.mutable_alignment()->set_bucket_ids(static_cast<int64_t>(bucket_ids));
    own.party.set_spill_path(folder_.File("own.spill"));
    peer.party.set_spill_path(folder_.File("peer.spill"));
    Canonicalize(own.agreement);
    peer.agreement = own.agreement;
    std::vector<std::string> own_ids, others;
    for (size_t i = 0; i < std::max(ids, peer_ids); ++i) {
      (i < ids) ? own_ids.push_back(absl::StrCat(i)) : void();
      (i < peer_ids) ? others.push_back(absl::StrCat(2 * i)) : void();
    }
    own.ids = own_ids;
    peer.ids = others;
    RunStatus status("label_party"), peer_status("nonlabel_party");
    AlignmentChannelPair channels(4);
    const auto heard = [] {};
    std::thread other(
        [&] { EXPECT_TRUE(AlignCounted(peer, "a-usual-name-0123abcd", &peer_status, heard, *channels.second).ok()); });
    absl::StatusOr<FinishedAlignment> finished =
        AlignCounted(own, "a-usual-name-0123abcd", &status, heard, *channels.first);
    other.join();
    EXPECT_TRUE(finished.ok()) << finished.status();
    return *std::move(finished);
  }

  const testing::TempFolder folder_;
};

TEST_F(AlignmentPlanTest, PredictsTheBytesOfAnAlignment) {
  for (const auto& [ids, peer_ids] : {std::pair<size_t, size_t>{6000, 6000}, {2000, 9000}, {9000, 100}, {1, 1}}) {
    AlignmentPlanOptions options;
    options.ids = ids;
    options.peer_ids = peer_ids;
    options.chunk_ids = 512;
    const AlignmentPlan plan = MakeAlignmentPlan(options, {1e-6, 1e-6});
    const FinishedAlignment found = Align(ids, peer_ids);
    EXPECT_NEAR(plan.bytes_sent / static_cast<double>(found.aligned.bytes_sent), 1, 0.02) << ids << " " << peer_ids;
    EXPECT_NEAR(plan.bytes_received / static_cast<double>(found.aligned.bytes_received), 1, 0.02)
        << ids << " " << peer_ids;
  }
}

TEST_F(AlignmentPlanTest, PredictsTheBytesOfBucketsWithTheirPadding) {
  AlignmentPlanOptions options;
  options.ids = 6000;
  options.peer_ids = 3000;
  options.chunk_ids = 512;
  options.bucket_ids = 1000;
  const AlignmentPlan plan = MakeAlignmentPlan(options, {1e-6, 1e-6});
  const FinishedAlignment found = Align(6000, 3000, 1000);
  EXPECT_NEAR(plan.bytes_sent / static_cast<double>(found.aligned.bytes_sent), 1, 0.02);
  EXPECT_NEAR(plan.bytes_received / static_cast<double>(found.aligned.bytes_received), 1, 0.02);
  EXPECT_GT(plan.disk_bytes, 6000 * 32);
}

// 64 bytes an id of either party, and below 3% more.
TEST_F(AlignmentPlanTest, ManyIdsTakeLittleMoreThanTheirPoints) {
  AlignmentPlanOptions options;
  options.ids = options.peer_ids = 1'000'000;
  const AlignmentPlan plan = MakeAlignmentPlan(options, {1e-6, 1e-6});
  const double per_id = (plan.bytes_sent + plan.bytes_received) / 2e6;
  EXPECT_GT(per_id, 64);
  EXPECT_LT(per_id, 64.1);
}

// The file has no name: its size is that of what this process holds open.
TEST_F(AlignmentPlanTest, CountsTheDiskOfAnIdTable) {
  const std::string path = folder_.File("table.csv");
  std::ofstream table(path);
  table << "id\n";
  constexpr int kRows = 20'000, kRepeated = 5;
  for (int i = 0; i < kRows + kRepeated; ++i) {
    table << absl::StrFormat("c%09d\n", i % kRows);
  }
  table.close();
  const absl::StatusOr<IdTable> ids = IdTable::Read({.path = path,
                                                     .key = {"id"},
                                                     .forms = {{}},
                                                     .repeated = RepeatedKeys::kFirst,
                                                     .spill_path = folder_.File("own.spill")});
  ASSERT_TRUE(ids.ok()) << ids.status();
  uintmax_t held = 0;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(file, gone).string();
    held += absl::StrContains(target, folder_.path()) ? std::filesystem::file_size(file) : 0;
  }
  AlignmentPlanOptions options;
  options.ids = options.peer_ids = kRows;
  EXPECT_EQ(MakeAlignmentPlan(options, {1e-6, 1e-6}).disk_bytes, 0);
  options.id_bytes = 10;
  // Three times while its parts are joined beside the table with the repeated rows.
  EXPECT_NEAR(MakeAlignmentPlan(options, {1e-6, 1e-6}).disk_bytes / 3 / static_cast<double>(held), 1, 0.01);
  // With buckets, the spill file is larger than the parts.
  options.bucket_ids = 1000;
  const double both = MakeAlignmentPlan(options, {1e-6, 1e-6}).disk_bytes;
  options.id_bytes = 0;
  EXPECT_NEAR(both - MakeAlignmentPlan(options, {1e-6, 1e-6}).disk_bytes, static_cast<double>(held), 0.01 * both);
}

TEST_F(AlignmentPlanTest, TheSlowerPartyAndTheFullerDirectionTakeTheTime) {
  AlignmentPlanOptions options;
  options.ids = 1000;
  options.peer_ids = 9000;
  options.cores = 2;
  options.bandwidth_mbps = 8;  // A byte a microsecond.
  const AlignmentPlan plan = MakeAlignmentPlan(options, {3e-3, 1e-3});
  EXPECT_NEAR(plan.own_core_seconds, 3 + 9, 1e-9);
  EXPECT_NEAR(plan.compute_seconds, (27. + 1) / 2, 1e-9);  // The peer's, of which more ids are to be hashed.
  EXPECT_NEAR(plan.transfer_seconds, std::max(plan.bytes_sent, plan.bytes_received) * 1e-6, 1e-9);
  EXPECT_GT(plan.memory_bytes, 10'000 * 61);
}

}  // namespace
}  // namespace splitveil
