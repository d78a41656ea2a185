#include "common/alignment/private_set_intersection.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"

#include "common/alignment/masking_key.h"
#include "tests/testing/alignment_channel_pair.h"
#include "tests/unit/common/alignment/scripted_peer.h"

namespace splitveil {
namespace {

// Records what one party sends.
class RecordingChannel : public AlignmentChannel {
 public:
  explicit RecordingChannel(AlignmentChannel& channel) : channel_(channel) {}
  absl::Status Send(const v1::AlignmentMessage& message) override {
    sent_.push_back(message);
    return channel_.Send(message);
  }
  absl::StatusOr<v1::AlignmentMessage> Receive() override { return channel_.Receive(); }
  const std::vector<v1::AlignmentMessage>& sent() const { return sent_; }

 private:
  AlignmentChannel& channel_;
  std::vector<v1::AlignmentMessage> sent_;
};

struct Outcome {
  AlignedIds first, second;
  std::vector<v1::AlignmentMessage> sent_by_first, sent_by_second;
};

AlignmentOptions TestOptions() {
  AlignmentOptions options;
  options.run_id = "run";
  options.chunk_ids = 5;
  options.threads = 2;
  return options;
}

Outcome Align(const std::vector<std::string>& first, const std::vector<std::string>& second,
              const AlignmentOptions& options = TestOptions(), size_t capacity = 1) {
  AlignmentChannelPair channels(capacity);
  RecordingChannel first_channel(*channels.first), second_channel(*channels.second);
  absl::StatusOr<AlignedIds> second_result;
  const auto align = [&](const std::vector<std::string>& ids, AlignmentChannel& channel) {
    absl::StatusOr<AlignedIds> result = AlignIds(ids, options, channel);
    if (!result.ok()) {
      channels.first->Close();  // So that the other one ends, too.
    }
    return result;
  };
  std::thread peer([&] { second_result = align(second, second_channel); });
  const absl::StatusOr<AlignedIds> first_result = align(first, first_channel);
  peer.join();
  EXPECT_TRUE(first_result.ok()) << first_result.status();
  EXPECT_TRUE(second_result.ok()) << second_result.status();
  if (!first_result.ok() || !second_result.ok()) {
    return {};
  }
  return {*first_result, *second_result, first_channel.sent(), second_channel.sent()};
}

std::vector<std::string> Ids(int begin, int end) {
  std::vector<std::string> ids;
  for (int i = begin; i < end; ++i) {
    ids.push_back(absl::StrCat("user-", i));
  }
  return ids;
}

std::vector<std::string> Select(const std::vector<std::string>& ids, const std::vector<uint32_t>& rows) {
  std::vector<std::string> selected;
  for (const uint32_t row : rows) {
    selected.push_back(ids.at(row));
  }
  return selected;
}

// Both parties found exactly the plain intersection, in one order.
void ExpectIntersection(const std::vector<std::string>& first, const std::vector<std::string>& second,
                        const Outcome& outcome) {
  const std::set<std::string> first_set(first.begin(), first.end()), second_set(second.begin(), second.end());
  std::vector<std::string> truth;
  std::set_intersection(first_set.begin(), first_set.end(), second_set.begin(), second_set.end(),
                        std::back_inserter(truth));
  const std::vector<std::string> found = Select(first, outcome.first.rows);
  EXPECT_THAT(found, ::testing::UnorderedElementsAreArray(truth));
  EXPECT_EQ(found, Select(second, outcome.second.rows));
  EXPECT_EQ(outcome.first.order_sha256, outcome.second.order_sha256);
  EXPECT_EQ(outcome.first.peer_ids, second.size());
  EXPECT_EQ(outcome.second.peer_ids, first.size());
}

TEST(AlignIdsTest, FindsThePlainIntersection) {
  const struct {
    const char* name;
    std::vector<std::string> first, second;
  } cases[] = {
      {"partly overlapping", Ids(0, 40), Ids(25, 61)},
      {"disjoint", Ids(0, 7), Ids(7, 20)},
      {"one contained", Ids(0, 23), Ids(4, 9)},
      {"identical", Ids(0, 10), Ids(0, 10)},
      {"single, shared", {"a"}, {"a"}},
      {"single, different", {"a"}, {"b"}},
      {"one against many", {"user-11"}, Ids(0, 30)},
  };
  for (const auto& test : cases) {
    SCOPED_TRACE(test.name);
    ExpectIntersection(test.first, test.second, Align(test.first, test.second));
  }
}

TEST(AlignIdsTest, TreatsIdsAsBytes) {
  const std::string with_null("a\0b", 3), shorter("a\0", 2), invalid_utf8("\xff\xfe\x80", 3);
  const std::vector<std::string> first = {with_null, "a", invalid_utf8, "é", "A", " a", std::string(100'000, 'x')};
  const std::vector<std::string> second = {
      shorter, "b", "é", invalid_utf8, "e\xcc\x81", with_null, std::string(100'000, 'x'), std::string(99'999, 'x')};
  ExpectIntersection(first, second, Align(first, second));
}

TEST(AlignIdsTest, FindsRandomIntersectionsForEveryChunkSizeAndThreadCount) {
  std::mt19937 random(20220410);
  for (const int chunk_ids : {1, 3, 64, 4096}) {
    for (const int threads : {0, 1, 3}) {
      std::vector<std::string> universe = Ids(0, 60);
      std::shuffle(universe.begin(), universe.end(), random);
      const std::vector<std::string> first(universe.begin(), universe.begin() + 1 + random() % 45);
      std::shuffle(universe.begin(), universe.end(), random);
      const std::vector<std::string> second(universe.begin(), universe.begin() + 1 + random() % 45);
      AlignmentOptions options = TestOptions();
      options.chunk_ids = chunk_ids;
      options.threads = threads;
      SCOPED_TRACE(absl::StrCat("chunk_ids ", chunk_ids, ", threads ", threads));
      ExpectIntersection(first, second, Align(first, second, options));
    }
  }
}

// `count` of the ids below `universe`, in a random order.
std::vector<std::string> RandomIds(size_t count, size_t universe, std::mt19937& random) {
  std::vector<std::string> ids = Ids(0, static_cast<int>(universe));
  std::shuffle(ids.begin(), ids.end(), random);
  ids.resize(count);
  return ids;
}

// Small sets, for a test's time. With sizes up to 50,000, drawn evenly in their logarithm, 300 of 300 were equal, too
// (53 s of processor time with IFMA).
TEST(AlignIdsTest, FindsTheIntersectionOf300RandomPairs) {
  const bool fast = ActiveRistrettoPath() == RistrettoPath::kIfma;  // Eight times the work in the same time.
  std::mt19937 random(20261127);
  for (size_t pair = 0; pair < 300; ++pair) {
    const size_t blocks = fast ? random() % 4 : pair % 50 == 0 ? 1 : 0;
    const size_t first_size = 1 + pair % 64 + 64 * blocks;  // Every remainder modulo 8 and 64.
    const size_t second_size = 1 + random() % (pair % 3 == 0 ? 2 * first_size : 64);
    const size_t universe = std::max(first_size, second_size) * (1 + random() % 3);
    const std::vector<std::string> first = RandomIds(first_size, universe, random);
    const std::vector<std::string> second = RandomIds(second_size, universe, random);
    AlignmentOptions options = TestOptions();
    options.chunk_ids = 1 + static_cast<int>(random() % 300);
    SCOPED_TRACE(absl::StrCat(first_size, " and ", second_size, " ids of ", universe));
    ExpectIntersection(first, second, Align(first, second, options));
  }
}

TEST(AlignIdsTest, FindsTheIntersectionOfLargeAndOfSkewedSets) {
  const int scale = ActiveRistrettoPath() == RistrettoPath::kIfma ? 50'000 : 2'000;
  AlignmentOptions options = TestOptions();
  options.chunk_ids = 4096;
  const std::vector<std::string> large = Ids(0, scale);
  for (const std::vector<std::string>& other :
       {Ids(scale / 2, scale / 2 + scale / 1000), Ids(17, scale / 3), Ids(scale, scale + 9)}) {
    ExpectIntersection(large, other, Align(large, other, options, /*capacity=*/16));
  }
}

TEST(AlignIdsTest, FileOrderDoesNotShowInTheAlignedOrder) {
  const std::vector<std::string> ids = Ids(0, 100);
  const std::vector<std::string> reversed(ids.rbegin(), ids.rend());
  const Outcome outcome = Align(ids, reversed);
  ExpectIntersection(ids, reversed, outcome);
  EXPECT_FALSE(std::is_sorted(outcome.first.rows.begin(), outcome.first.rows.end()));
  EXPECT_FALSE(std::is_sorted(outcome.second.rows.begin(), outcome.second.rows.end()));
}

TEST(AlignIdsTest, EveryRunHasItsOwnOrder) {
  const std::vector<std::string> ids = Ids(0, 100);
  const Outcome one = Align(ids, ids), other = Align(ids, ids);
  EXPECT_NE(one.first.rows, other.first.rows);
  EXPECT_NE(one.first.order_sha256, other.first.order_sha256);
}

TEST(AlignIdsTest, FileOrderDoesNotShowOnTheWire) {
  // A peer with the same ids, in the file's order: it learns which of them stands at each position of the other's wire.
  const std::vector<std::string> ids = Ids(0, 200);
  const MaskingKey key = MaskingKey::Generate();
  std::vector<Point> hashed;
  for (const std::string& id : ids) {
    hashed.push_back(testing::HashToPoint(IdHasher("run"), id));
  }
  const testing::ScriptedPeer script = {"run",
                                        5,
                                        ids.size(),
                                        testing::PeerPoints(key, "run", ids.size(), testing::AnswersOf(key, hashed)),
                                        [&](const auto& points) { return testing::AnswersOf(key, points); },
                                        testing::OutcomeMessage("run", 0, {})};
  AlignmentChannelPair channels(1000);
  testing::Heard heard;
  std::thread peer([&] { heard = testing::Play(script, ids.size(), *channels.second); });
  EXPECT_TRUE(absl::IsFailedPrecondition(AlignIds(ids, TestOptions(), *channels.first).status()));  // The outcome.
  channels.first->Close();
  peer.join();
  ASSERT_EQ(heard.answers.size(), MaskedPoints(ids.size()));
  std::map<Point, uint32_t> row_of;
  for (uint32_t row = 0; row < ids.size(); ++row) {
    row_of[heard.answers[row]] = row;
  }
  std::vector<uint32_t> row_at;  // Of the positions that have one.
  for (const Point& point : testing::AnswersOf(key, heard.masked)) {
    if (const auto found = row_of.find(point); found != row_of.end()) {
      row_at.push_back(found->second);
    }
  }
  ASSERT_EQ(row_at.size(), ids.size());
  int in_place = 0, ascending = 0;
  for (size_t i = 0; i < row_at.size(); ++i) {
    in_place += row_at[i] == i ? 1 : 0;
    ascending += i > 0 && row_at[i] > row_at[i - 1] ? 1 : 0;
  }
  // A random permutation of 200 has 1 fixed point and 99.5 ascents on average (standard deviation 1 and 4.1): each
  // bound fails by chance less than once in 10^9 runs.
  EXPECT_LT(in_place, 14);
  EXPECT_NEAR(ascending, 99.5, 26);
}

TEST(AlignIdsTest, NoIdAndNoPointOfAnotherRunIsOnTheWire) {
  const std::vector<std::string> ids = Ids(0, 20);
  const Outcome one = Align(ids, ids), other = Align(ids, ids);
  std::set<std::string> points;
  for (const v1::AlignmentMessage& message : one.sent_by_first) {
    EXPECT_EQ(message.SerializeAsString().find("user-"), std::string::npos);
    if (message.has_masked()) {
      points.insert(message.masked().points());
    }
  }
  for (const v1::AlignmentMessage& message : other.sent_by_first) {
    if (message.has_masked()) {
      EXPECT_EQ(points.count(message.masked().points()), 0);
    }
  }
}

TEST(AlignIdsTest, MessagesKeepToTheChunkLimit) {
  const Outcome outcome = Align(Ids(0, 23), Ids(10, 48));
  size_t masked = 0, double_masked = 0;
  for (const v1::AlignmentMessage& message : outcome.sent_by_first) {
    EXPECT_LE(message.masked().points().size(), 5 * 32);
    EXPECT_LE(message.double_masked().points().size(), 5 * 32);
    masked += message.masked().points().size() / 32;
    double_masked += message.double_masked().points().size() / 32;
  }
  EXPECT_EQ(masked, 23 + 23 + 64);  // As many test points as ids, up to 64, and the canaries.
  EXPECT_EQ(double_masked, 38 + 38 + 64);
}

// Whatever the peer commits to, it has seen nothing that it could have made it of.
TEST(AlignIdsTest, CommitsToASetBeforeAnyPointAndToAnswersBeforeAnyAnswer) {
  const Outcome outcome = Align(Ids(0, 23), Ids(10, 48));
  for (const auto* sent : {&outcome.sent_by_first, &outcome.sent_by_second}) {
    std::vector<int> kinds;
    for (const v1::AlignmentMessage& message : *sent) {
      kinds.push_back(message.content_case());
    }
    kinds.erase(std::unique(kinds.begin(), kinds.end()), kinds.end());
    EXPECT_THAT(kinds,
                ::testing::ElementsAre(v1::AlignmentMessage::kSetSize, v1::AlignmentMessage::kMaskedCommitment,
                                       v1::AlignmentMessage::kMasked, v1::AlignmentMessage::kDoubleMaskedCommitment,
                                       v1::AlignmentMessage::kDoubleMasked, v1::AlignmentMessage::kOutcome));
  }
}

TEST(AlignIdsTest, RefusesFewerAndMoreSharedIdsThanAgreed) {
  for (const auto& [least, most] : {std::pair<uint64_t, uint64_t>{16, 100}, {0, 14}}) {
    AlignmentOptions options = TestOptions();
    options.min_shared_ids = least;
    options.max_shared_ids = most;
    AlignmentChannelPair channels(1);
    absl::Status peer_status;
    std::thread peer([&] { peer_status = AlignIds(Ids(15, 40), options, *channels.second).status(); });
    const absl::Status status = AlignIds(Ids(0, 30), options, *channels.first).status();
    peer.join();
    for (const absl::Status& each : {status, peer_status}) {
      EXPECT_TRUE(absl::IsFailedPrecondition(each)) << each;
      EXPECT_THAT(std::string(each.message()), ::testing::HasSubstr("shared ids, found 15"));
    }
  }
}

TEST(AlignIdsTest, ReportsProgressToTheEnd) {
  AlignmentChannelPair channels(1);
  absl::StatusOr<AlignedIds> peer_result;
  std::thread peer([&] { peer_result = AlignIds(Ids(0, 30), TestOptions(), *channels.second); });
  std::vector<uint64_t> done;
  AlignmentOptions options = TestOptions();
  options.progress = [&](uint64_t ids, uint64_t total, int64_t /*bytes*/) {
    EXPECT_EQ(total, 42);
    done.push_back(ids);
  };
  EXPECT_TRUE(AlignIds(Ids(0, 12), options, *channels.first).ok());
  peer.join();
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  ASSERT_FALSE(done.empty());
  EXPECT_EQ(done.back(), 42);
}

}  // namespace
}  // namespace splitveil
