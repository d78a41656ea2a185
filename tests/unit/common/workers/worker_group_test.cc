#include "common/workers/worker_group.h"

#include <array>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <numeric>

#include "absl/types/span.h"

#include "tests/unit/common/workers/worker_threads.h"

namespace splitveil {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

TEST(ShareOfTest, PartsAllRowsAndGivesTheLeaderOne) {
  for (int size = 1; size <= 7; ++size) {
    for (int64_t rows = 0; rows <= 30; ++rows) {
      int64_t next = 0;
      for (int rank = 0; rank < size; ++rank) {
        const RowShare share = ShareOf(rows, rank, size);
        EXPECT_EQ(share.first, next);
        EXPECT_GE(share.rows, rows / size);
        EXPECT_LE(share.rows, rows / size + 1);
        next += share.rows;
      }
      EXPECT_EQ(next, rows);
      EXPECT_TRUE(rows == 0 || ShareOf(rows, 0, size).rows > 0);
    }
  }
}

TEST(WorkerGroupTest, SumsAndGathersAtEachWorker) {
  WithWorkers(3, [](WorkerGroup& group) {
    // 2^rank: the sum is 7 in any order. More than Gloo sends in one piece.
    std::vector<float> values(700'000, static_cast<float>(1 << group.rank()));
    ASSERT_TRUE(group.Sum(absl::MakeSpan(values)).ok());
    EXPECT_THAT(values, Each(7.0F));
    // Of different lengths, one of them none.
    const std::string own(static_cast<size_t>(group.rank() == 1 ? 0 : 2 + group.rank()),
                          static_cast<char>('a' + group.rank()));
    const auto all = group.Gather(own, {2, 0, 4});
    ASSERT_TRUE(all.ok()) << all.status();
    EXPECT_EQ(std::string(all->begin(), all->end()), "aacccc");
  });
}

TEST(WorkerGroupTest, SendsInOrderWhatBothName) {
  WithWorkers(3, [](WorkerGroup& group) {
    std::array<int64_t, 2> first = {group.rank(), 10}, second = {group.rank(), 20};
    if (group.leads()) {
      for (int rank = 1; rank < 3; ++rank) {
        group.Send(rank, first.data(), sizeof(first));
        group.Send(rank, second.data(), sizeof(second));
      }
    } else {
      ASSERT_TRUE(group.AwaitLeader(first.data(), sizeof(first)).ok());
      group.Receive(0, second.data(), sizeof(second));
    }
    ASSERT_TRUE(group.Wait().ok());
    EXPECT_EQ(first[0] + second[0], 0);
    EXPECT_EQ(first[1], 10);
    EXPECT_EQ(second[1], 20);
  });
}

TEST(WorkerGroupTest, ALostWorkerEndsTheOthersWork) {
  WithWorkers(3, [](WorkerGroup& group) {
    std::vector<float> values(10, 1.0F);
    ASSERT_TRUE(group.Sum(absl::MakeSpan(values)).ok());  // All are connected.
    if (group.rank() == 2) {
      return;  // Its connections close.
    }
    EXPECT_EQ(group.Sum(absl::MakeSpan(values)).code(), absl::StatusCode::kCancelled);
  });
}

TEST(WorkerGroupTest, ALostLeaderEndsTheWaitForIt) {
  WithWorkers(2, [](WorkerGroup& group) {
    float value = 1;
    ASSERT_TRUE(group.Sum(absl::MakeSpan(&value, 1)).ok());  // All are connected.
    int64_t order = 0;
    if (!group.leads()) {
      EXPECT_EQ(group.AwaitLeader(&order, sizeof(order)).code(), absl::StatusCode::kCancelled);
    }
  });
}

TEST(WorkerGroupTest, SaysWhichRankIsMissing) {
  WorkerGroup::Options options = WorkerOptions(0, 3, FreePort());
  options.deadline = SteadyAfter(absl::Milliseconds(200));
  const auto group = WorkerGroup::Join(options);
  EXPECT_EQ(group.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(group.status().message(), HasSubstr("missing rank 1, 2"));
}

// Joins a leader that waits for rank 1 of two with what `change` makes of its options.
absl::Status JoinWith(const std::function<void(WorkerGroup::Options&)>& change) {
  const int port = FreePort();
  std::thread leader([port] {
    WorkerGroup::Options options = WorkerOptions(0, 2, port);
    options.deadline = SteadyAfter(absl::Seconds(3));
    EXPECT_FALSE(WorkerGroup::Join(options).ok());
  });
  WorkerGroup::Options options = WorkerOptions(1, 2, port);
  options.deadline = SteadyAfter(absl::Seconds(2));
  change(options);
  const absl::Status status = WorkerGroup::Join(options).status();
  leader.join();
  return status;
}

TEST(WorkerGroupTest, RefusesOtherSettingsAnotherSizeAndATakenPlace) {
  absl::Status status = JoinWith([](WorkerGroup::Options& options) { options.settings[0] = 1; });
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("start all workers with the same files"));
  status = JoinWith([](WorkerGroup::Options& options) { options.place.size = 3; });
  EXPECT_THAT(status.message(), HasSubstr("WORLD_SIZE: expected 2"));
  status = JoinWith([](WorkerGroup::Options& options) { options.place = {2, 2, options.place.leader_address}; });
  EXPECT_THAT(status.message(), HasSubstr("RANK: expected one below 2"));
}

TEST(WorkerGroupTest, ARankThatIsStartedAgainMayTryAgain) {
  const int port = FreePort();
  const auto options = [port](int rank) {
    WorkerGroup::Options some = WorkerOptions(rank, 3, port);
    some.deadline = SteadyAfter(absl::Seconds(3));
    return some;
  };
  std::thread leader([&] { EXPECT_FALSE(WorkerGroup::Join(options(0)).ok()); });
  absl::Status first, second;
  std::thread earlier([&] { first = WorkerGroup::Join(options(1)).status(); });
  second = WorkerGroup::Join(options(1)).status();
  earlier.join();
  leader.join();
  // Whichever came second; the other one waits for rank 2 in vain.
  EXPECT_EQ(first.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(second.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(first.message()) + std::string(second.message()), HasSubstr("has joined already"));
}

TEST(WorkerGroupTest, APeerOfTheSameAuthorityMayNotJoin) {
  const CertifiedKey authority = NewAuthority();
  const CertifiedKey own = NewCertificate(authority, kNonLabelName);
  const CertifiedKey peer = NewCertificate(authority, kLabelName);
  const int port = FreePort();
  std::thread leader([&] {
    WorkerGroup::Options options = WorkerOptions(0, 2, port);
    options.identity = IdentityOf(own, kNonLabelName, kLabelName, authority);
    options.deadline = SteadyAfter(absl::Seconds(3));
    const auto group = WorkerGroup::Join(options);
    EXPECT_THAT(group.status().message(), HasSubstr("missing rank 1"));
  });
  WorkerGroup::Options options = WorkerOptions(1, 2, port);
  // Presents the label party's certificate to one that proves to be the non-label party.
  options.identity = IdentityOf(peer, kNonLabelName, kLabelName, authority);
  options.deadline = SteadyAfter(absl::Seconds(2));
  EXPECT_EQ(WorkerGroup::Join(options).status().code(), absl::StatusCode::kPermissionDenied);
  leader.join();
}

TEST(WorkerGroupTest, NamesAnInterfaceThatIsNotThere) {
  WorkerGroup::Options options = WorkerOptions(0, 2, FreePort());
  options.interface = "none0";
  const auto group = WorkerGroup::Join(options);
  EXPECT_EQ(group.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(group.status().message(), HasSubstr("workers.interface"));
}

}  // namespace
}  // namespace splitveil
