// AlignIds with several buckets: exact, resumed after an interruption, and against a peer that abuses that.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/alignment/alignment_spill.h"
#include "common/alignment/buckets.h"
#include "common/alignment/intersection_protocol.h"
#include "common/alignment/masking_key.h"
#include "common/alignment/private_set_intersection.h"
#include "common/crypto/sha256.h"
#include "common/process/file.h"
#include "tests/testing/alignment_channel_pair.h"
#include "tests/testing/scratch_folder.h"
#include "tests/unit/common/alignment/points_for_test.h"

namespace splitveil {
namespace {

using Message = v1::AlignmentMessage;
using Ids = std::vector<std::string>;
using ::testing::HasSubstr;
using ::testing::Not;

AlignmentOptions BucketOptions(const std::string& spill_path = "") {
  AlignmentOptions options;
  options.run_id = "run";
  options.chunk_ids = 64;
  options.threads = 1;
  options.bucket_ids = 1000;
  options.spill_path = spill_path;
  return options;
}

// Records what one party sends, and may replace it or cut the connection.
class TappedChannel : public AlignmentChannel {
 public:
  // `tap`: sees each message before it is sent and may change it; false: the connection is lost in its place.
  using Tap = std::function<bool(Message&)>;
  TappedChannel(InMemoryAlignmentChannel& channel, Tap tap) : channel_(channel), tap_(std::move(tap)) {}
  absl::Status Send(const Message& message) override {
    sent_.push_back(message);
    if (tap_ && !tap_(sent_.back())) {
      channel_.Close();
      return absl::UnavailableError("cut");
    }
    return channel_.Send(sent_.back());
  }
  absl::StatusOr<Message> Receive() override { return channel_.Receive(); }
  const std::vector<Message>& sent() const { return sent_; }

 private:
  InMemoryAlignmentChannel& channel_;
  const Tap tap_;
  std::vector<Message> sent_;
};

struct Party {
  Ids ids;
  AlignmentOptions options = BucketOptions();
  TappedChannel::Tap tap = nullptr;
};

struct Ended {
  absl::StatusOr<AlignedIds> first, second;
  std::vector<Message> sent_by_first, sent_by_second;
};

Ended Align(const Party& first, const Party& second) {
  AlignmentChannelPair channels(1000);
  TappedChannel first_channel(*channels.first, first.tap), second_channel(*channels.second, second.tap);
  Ended ended;
  std::thread peer([&] {
    ended.second = AlignIds(second.ids, second.options, second_channel);
    channels.second->Close();
  });
  ended.first = AlignIds(first.ids, first.options, first_channel);
  if (!ended.first.ok()) {
    channels.first->Close();
  }
  peer.join();
  ended.sent_by_first = first_channel.sent();
  ended.sent_by_second = second_channel.sent();
  return ended;
}

Ids Named(int begin, int end) {
  Ids ids;
  for (int i = begin; i < end; ++i) {
    ids.push_back(absl::StrCat("planted-", i));
  }
  return ids;
}

Ids Select(const Ids& ids, const std::vector<uint32_t>& rows) {
  Ids selected;
  for (const uint32_t row : rows) {
    selected.push_back(ids.at(row));
  }
  return selected;
}

void ExpectIntersection(const Ids& first, const Ids& second, const Ended& ended) {
  ASSERT_TRUE(ended.first.ok()) << ended.first.status();
  ASSERT_TRUE(ended.second.ok()) << ended.second.status();
  const std::set<std::string> first_set(first.begin(), first.end()), second_set(second.begin(), second.end());
  Ids truth;
  std::set_intersection(first_set.begin(), first_set.end(), second_set.begin(), second_set.end(),
                        std::back_inserter(truth));
  Ids found = Select(first, ended.first->rows);
  EXPECT_EQ(found, Select(second, ended.second->rows));
  EXPECT_EQ(ended.first->order_sha256, ended.second->order_sha256);
  EXPECT_EQ(ended.first->peer_ids, second.size());
  EXPECT_EQ(ended.second->peer_ids, first.size());
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, truth);
}

TEST(BucketedIntersectionTest, FindsThePlainIntersectionOfRandomPairs) {
  std::mt19937 random(20261127);
  for (int pair = 0; pair < 20; ++pair) {
    SCOPED_TRACE(pair);
    // Every remainder modulo 8, and sizes down to a skew of 1:1000.
    const size_t more = 1001 + random() % 1500 / 8 * 8 + pair % 8;
    const size_t fewer = pair % 5 == 0 ? 1 + pair / 5 : 1 + random() % more;
    Ids universe = Named(0, static_cast<int>(more + fewer / 2));
    std::shuffle(universe.begin(), universe.end(), random);
    const Ids first(universe.begin(), universe.begin() + static_cast<std::ptrdiff_t>(more));
    const Ids second(universe.end() - static_cast<std::ptrdiff_t>(fewer), universe.end());
    ExpectIntersection(first, second, Align({first}, {second}));
  }
  ExpectIntersection(Named(0, 1200), Named(0, 1200), Align({Named(0, 1200)}, {Named(0, 1200)}));
  ExpectIntersection(Named(0, 1200), Named(1200, 2500), Align({Named(0, 1200)}, {Named(1200, 2500)}));
}

// The sizes of what a party sends, in order.
std::vector<size_t> Sizes(const std::vector<Message>& messages) {
  std::vector<size_t> sizes;
  for (const Message& message : messages) {
    sizes.push_back(message.ByteSizeLong());
  }
  return sizes;
}

TEST(BucketedIntersectionTest, SendsTheSameSizesWhateverTheIdsAre) {
  AlignmentOptions options = BucketOptions();
  options.bucket_ids = 20;
  std::vector<size_t> first, second;
  for (int set = 0; set < 100; ++set) {
    const Ids own = Named(set * 100, set * 100 + 30), others = Named(set * 100 + set % 30, set * 100 + set % 30 + 25);
    const Ended ended = Align({own, options}, {others, options});
    ExpectIntersection(own, others, ended);
    // The outcome names the number of shared ids, which both learn in any case.
    std::vector<Message> by_first = ended.sent_by_first, by_second = ended.sent_by_second;
    by_first.back().mutable_outcome()->set_shared_ids(1);
    by_second.back().mutable_outcome()->set_shared_ids(1);
    if (set == 0) {
      first = Sizes(by_first);
      second = Sizes(by_second);
    }
    ASSERT_EQ(Sizes(by_first), first);
    ASSERT_EQ(Sizes(by_second), second);
  }
}

int CountOf(const std::vector<Message>& messages, Message::ContentCase content) {
  return static_cast<int>(std::count_if(messages.begin(), messages.end(),
                                        [&](const Message& message) { return message.content_case() == content; }));
}

TEST(BucketedIntersectionTest, ResumesAtTheFirstUnfinishedBucketWhereverItIsCut) {
  const ScratchFolder folder;
  const Ids first_ids = Named(0, 120), second_ids = Named(60, 170);
  Party first = {first_ids, BucketOptions(folder.Path("first.spill"))};
  Party second = {second_ids, BucketOptions(folder.Path("second.spill"))};
  first.options.bucket_ids = second.options.bucket_ids = 30;  // Four buckets.
  const Ended whole = Align(first, second);
  ExpectIntersection(first_ids, second_ids, whole);
  const int messages = static_cast<int>(whole.sent_by_first.size());
  const int masked = CountOf(whole.sent_by_first, Message::kMasked);
  for (int cut = 1; cut < messages; cut += 7) {
    SCOPED_TRACE(cut);
    std::atomic<int> left{cut};
    first.tap = [&](Message&) { return --left >= 0; };
    const Ended broken = Align(first, second);
    EXPECT_TRUE(absl::IsUnavailable(broken.first.status())) << broken.first.status();
    EXPECT_TRUE(absl::IsUnavailable(broken.second.status())) << broken.second.status();
    struct stat facts = {};
    if (stat(first.options.spill_path.c_str(), &facts) == 0) {
      EXPECT_EQ(facts.st_mode & 0777, 0600);
    }
    first.tap = nullptr;
    const Ended resumed = Align(first, second);
    ExpectIntersection(first_ids, second_ids, resumed);
    // At most the bucket under way is sent again, and the one before it if the peer has not finished that.
    EXPECT_LE(CountOf(broken.sent_by_first, Message::kMasked) + CountOf(resumed.sent_by_first, Message::kMasked),
              masked + 2 * (masked / 4));
    // And is the same: a peer that interrupts sees no second mask of an id.
    std::map<uint64_t, std::string> points;
    for (const std::vector<Message>* sent : {&broken.sent_by_first, &resumed.sent_by_first}) {
      for (const Message& message : *sent) {
        if (message.has_masked() && resumed.sent_by_first.front().set_size().has_resumes()) {
          EXPECT_EQ(points.emplace(message.masked().first_index(), message.masked().points()).first->second,
                    message.masked().points());
        }
      }
    }
    EXPECT_FALSE(std::filesystem::exists(first.options.spill_path));
    EXPECT_FALSE(std::filesystem::exists(second.options.spill_path));
  }
}

// Two parties whose alignment in four buckets of 120 and 110 ids is cut after some messages of the second's.
class InterruptedAlignmentTest : public ::testing::Test {
 protected:
  InterruptedAlignmentTest() { first_.options.bucket_ids = second_.options.bucket_ids = 30; }

  // Before the second sends its `number`-th message with `content`, counted from 0.
  void CutBefore(Message::ContentCase content, int number) {
    second_.tap = [=, seen = 0](const Message& message) mutable {
      return message.content_case() != content || seen++ < number;
    };
    const Ended broken = Align(first_, second_);
    ASSERT_TRUE(absl::IsUnavailable(broken.first.status())) << broken.first.status();
    ASSERT_TRUE(std::filesystem::exists(first_.options.spill_path));
    second_.tap = nullptr;
    sent_by_second_ = broken.sent_by_second;
    sent_by_second_.pop_back();
  }

  // The latest that the second sent before the interruption.
  Message Latest(Message::ContentCase content) const {
    return *std::find_if(sent_by_second_.rbegin(), sent_by_second_.rend(),
                         [&](const Message& message) { return message.content_case() == content; });
  }

  // The second sends what `change` makes of its messages: the first refuses, and nothing of it stays.
  void ExpectRefused(absl::StatusCode code, const char* text, const std::function<void(Message&)>& change) {
    second_.tap = [&](Message& message) {
      change(message);
      return true;
    };
    const Ended ended = Align(first_, second_);
    EXPECT_EQ(ended.first.status().code(), code) << ended.first.status();
    EXPECT_THAT(ended.first.status().message(), HasSubstr(text));
    EXPECT_THAT(ended.first.status().message(), Not(HasSubstr("planted")));
    EXPECT_FALSE(std::filesystem::exists(first_.options.spill_path));
    second_.tap = nullptr;
  }

  const ScratchFolder folder_;
  Party first_ = {Named(0, 120), BucketOptions(folder_.Path("first.spill"))};
  Party second_ = {Named(60, 170), BucketOptions(folder_.Path("second.spill"))};
  std::vector<Message> sent_by_second_;  // Before the interruption.
};

TEST_F(InterruptedAlignmentTest, ResumesInAnotherRun) {
  CutBefore(Message::kMasked, 6);
  first_.options.run_id = second_.options.run_id = "next run";
  const Ended resumed = Align(first_, second_);
  ExpectIntersection(first_.ids, second_.ids, resumed);
  EXPECT_EQ(CountOf(resumed.sent_by_second, Message::kBucketKey), 0);
}

TEST_F(InterruptedAlignmentTest, RestartsIfOnePartyCannotResume) {
  CutBefore(Message::kMasked, 6);
  std::filesystem::remove(second_.options.spill_path);
  const Ended again = Align(first_, second_);
  ExpectIntersection(first_.ids, second_.ids, again);
  EXPECT_EQ(CountOf(again.sent_by_first, Message::kBucketKey), 1);
}

// Of what is spilled at `path`.
Digest BindingIn(const std::string& path) {
  const std::string bytes = ReadFile(path).value();
  v1::AlignmentSpillHeader header;
  Digest binding = {};
  for (const size_t slot : {4096, 8192}) {
    uint32_t length = 0;
    std::memcpy(&length, bytes.data() + slot + 40, sizeof(length));
    if (length > 0 && header.ParseFromString(bytes.substr(slot + 44, length))) {
      std::copy(header.binding_sha256().begin(), header.binding_sha256().end(), binding.begin());
    }
  }
  return binding;
}

// The second commits to a random point in place of a canary of one bucket, and takes a shared id for that canary.
TEST_F(InterruptedAlignmentTest, RefusesAPeerOfWhichACanaryIsMissingInOneBucket) {
  constexpr uint64_t kBucket = 1;
  first_.ids = Named(0, 800);
  second_.ids = Named(400, 1200);
  first_.options.bucket_ids = second_.options.bucket_ids = 200;  // Four buckets.
  // Its first three buckets are masked then, and the first has not held it to any point.
  CutBefore(Message::kMaskedCommitment, 3 * static_cast<int>(MaskedChunks(BucketCapacity(800, 4), 64).count()));
  AlignmentTerms terms;
  terms.bucket_ids = 200;
  terms.chunk_ids = 64;
  terms.binding = BindingIn(second_.options.spill_path);
  {
    const std::unique_ptr<AlignmentSpill> spill = *AlignmentSpill::Open(second_.options.spill_path, terms);
    ASSERT_NE(spill, nullptr);
    ASSERT_GT(spill->masked_buckets(), kBucket);
    const absl::Span<uint32_t> items = spill->Items(kBucket);
    const auto canary = std::find(items.begin(), items.end(), kFirstCanary);
    ASSERT_NE(canary, items.end());
    // The last of the shared rows, of which there is no test point.
    const auto shared = std::max_element(items.begin(), items.end(), [](uint32_t a, uint32_t b) {
      return (a < 400 ? a + 1 : 0) < (b < 400 ? b + 1 : 0);
    });
    *shared = kFirstCanary;
    *canary = kFirstTest - 1;  // As a padding.
    const PointChunks& chunks = spill->own_chunks();
    const auto position = static_cast<size_t>(canary - items.begin());
    const size_t number = position / chunks.chunk, begin = number * chunks.chunk;
    spill->Masked(kBucket)[position] = testing::SomePoints(1).front();
    const absl::Span<Point> chunk = spill->Masked(kBucket).subspan(begin, chunks.chunk);
    const uint64_t first = kBucket * chunks.points + begin;
    spill->Commitments(kBucket)[number] =
        CommitmentTo(PointKind::kMasked, spill->terms().run_id, first, spill->secret().Nonce(PointKind::kMasked, first),
                     absl::string_view(reinterpret_cast<const char*>(chunk.data()), chunk.size() * sizeof(Point)));
  }
  ExpectRefused(absl::StatusCode::kFailedPrecondition, "the 64 points that both parties add, found 63",
                [](Message&) {});
}

// Before the interruption the second sent `original`; after it, it commits to and sends other points.
std::function<void(Message&)> Forging(const Message& original) {
  Message forged = original;
  std::string& points = original.has_masked() ? *forged.mutable_masked()->mutable_points()
                                              : *forged.mutable_double_masked()->mutable_points();
  std::swap_ranges(points.begin(), points.begin() + 32, points.begin() + 32);
  const Message commitment = testing::CommitmentOf(forged);
  return [=](Message& message) {
    if (message.content_case() == commitment.content_case() &&
        message.masked_commitment().first_index() == commitment.masked_commitment().first_index() &&
        message.double_masked_commitment().first_index() == commitment.double_masked_commitment().first_index()) {
      message = commitment;
    } else if (message.content_case() == forged.content_case() &&
               message.masked().first_index() == forged.masked().first_index() &&
               message.double_masked().first_index() == forged.double_masked().first_index()) {
      message = forged;
    }
  };
}

TEST_F(InterruptedAlignmentTest, RefusesAnotherSetOfThePeer) {
  CutBefore(Message::kMasked, 6);
  ExpectRefused(absl::StatusCode::kFailedPrecondition, "committed to other points than before",
                Forging(Latest(Message::kMasked)));
  CutBefore(Message::kMasked, 6);
  ExpectRefused(absl::StatusCode::kInvalidArgument, "expected those that the peer is committed to",
                [](Message& message) {
                  if (message.has_masked()) {
                    std::string& points = *message.mutable_masked()->mutable_points();
                    std::swap_ranges(points.begin(), points.begin() + 32, points.begin() + 32);
                  }
                });
  CutBefore(Message::kMasked, 6);
  ExpectRefused(absl::StatusCode::kFailedPrecondition, "expected 110 as before the interruption, found 109",
                [](Message& message) {
                  if (message.has_set_size()) {
                    message.mutable_set_size()->set_ids(109);
                  }
                });
}

TEST_F(InterruptedAlignmentTest, RefusesOtherAnswersOnceThePeerHasSeenOurs) {
  // Its last answers of a bucket are missing: it has seen some of ours.
  CutBefore(Message::kDoubleMasked, 7);
  ExpectRefused(absl::StatusCode::kFailedPrecondition, "committed to other points than before",
                Forging(Latest(Message::kDoubleMasked)));
}

TEST_F(InterruptedAlignmentTest, RefusesAPlaceThatThePeerCannotHaveReached) {
  const auto at = [](uint64_t bucket) {
    return [bucket](Message& message) {
      if (message.has_set_size()) {
        message.mutable_set_size()->mutable_resumes()->set_next_bucket(bucket);
      }
    };
  };
  for (const uint64_t bucket : {uint64_t{0}, uint64_t{4}, uint64_t{5}, ~uint64_t{0}}) {
    // In the third bucket of four, so that both have finished the second.
    CutBefore(Message::kDoubleMasked, 2 * static_cast<int>(AnswerChunks(BucketCapacity(120, 4), 64, 4).count()) + 1);
    ExpectRefused(absl::StatusCode::kFailedPrecondition, "next_bucket", at(bucket));
  }
}

TEST_F(InterruptedAlignmentTest, RefusesABucketThatIsTooLargeOrComesTwice) {
  ExpectRefused(absl::StatusCode::kInvalidArgument, "masked.points: expected", [](Message& message) {
    if (message.has_masked() && message.masked().points().size() < 64 * 32) {
      message.mutable_masked()->mutable_points()->append(message.masked().points().substr(0, 32));
    }
  });
  std::vector<Message> bucket;
  size_t repeated = 0;
  ExpectRefused(absl::StatusCode::kInvalidArgument, "masked.first_index: expected", [&](Message& message) {
    if (!message.has_masked()) {
      return;
    }
    const bool is_next = !bucket.empty() && bucket.back().masked().points().size() < 64 * 32;
    if (is_next && message.masked().first_index() != 0) {
      message = bucket[repeated++];
    } else {
      bucket.push_back(message);
    }
  });
  EXPECT_GE(repeated, 1);
}

TEST_F(InterruptedAlignmentTest, RefusesAHalfOfTheBucketKeyThatIsChosenLate) {
  ExpectRefused(absl::StatusCode::kInvalidArgument, "bucket_key.half: is not the half that the peer committed to",
                [](Message& message) {
                  if (message.has_bucket_key()) {
                    message.mutable_bucket_key()->mutable_half()->front() ^= 1;
                  }
                });
  ExpectRefused(absl::StatusCode::kInvalidArgument, "bucket_key.half: expected 32 bytes", [](Message& message) {
    if (message.has_bucket_key()) {
      message.mutable_bucket_key()->clear_half();
    }
  });
  ExpectRefused(absl::StatusCode::kInvalidArgument, "bucket_key_commitment: expected 32 bytes", [](Message& message) {
    if (message.has_set_size()) {
      message.mutable_set_size()->clear_bucket_key_commitment();
    }
  });
}

TEST_F(InterruptedAlignmentTest, RefusesOtherOwnIdsAndAnotherBindingBeforeAnythingIsSent) {
  CutBefore(Message::kMasked, 6);
  Party others = first_, binding = first_, chunks = first_;
  others.ids.back() = "planted-other";
  binding.options.binding = Sha256("another certificate");
  chunks.options.chunk_ids = 65;
  for (const Party& party : {others, binding, chunks}) {
    AlignmentChannelPair channels(10);
    TappedChannel channel(*channels.first, nullptr);
    const absl::Status status = AlignIds(party.ids, party.options, channel).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("interrupted alignment of different ids"));
    EXPECT_THAT(channel.sent(), ::testing::IsEmpty());
  }
  ExpectIntersection(first_.ids, second_.ids, Align(first_, second_));
}

TEST_F(InterruptedAlignmentTest, LeavesFilesOfAnotherKindAlone) {
  folder_.Write("first.spill", "a key that took years");
  AlignmentChannelPair channels(10);
  const absl::Status status = AlignIds(first_.ids, first_.options, *channels.first).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(folder_.Read("first.spill"), "a key that took years");
}

TEST_F(InterruptedAlignmentTest, SaysThatTheDiskIsTooSmallBeforeAnythingIsSent) {
  first_.options.bucket_ids = 100;
  first_.options.max_ids = uint64_t{4'000'000'000};
  first_.options.spill_path = "/proc/self/first.spill";  // A file system without room.
  AlignmentChannelPair channels(10);
  TappedChannel channel(*channels.first, nullptr);
  const absl::Status status = AlignIds(first_.ids, first_.options, channel).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(channel.sent(), ::testing::IsEmpty());
}

TEST_F(InterruptedAlignmentTest, HoldsNoSecretOnceRemovedAndOneProcessAtATimeUsesIt) {
  CutBefore(Message::kMasked, 6);
  AlignmentTerms terms;
  EXPECT_TRUE(absl::IsInvalidArgument(AlignmentSpill::Open(first_.options.spill_path, terms).status()));
  const int file = open(first_.options.spill_path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(flock(file, LOCK_EX | LOCK_NB), 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(AlignmentSpill::Open(first_.options.spill_path, terms).status()));
  flock(file, LOCK_UN);
  ExpectIntersection(first_.ids, second_.ids, Align(first_, second_));
  std::string slots(8192, 'x');
  ASSERT_EQ(pread(file, slots.data(), slots.size(), 4096), slots.size());
  EXPECT_EQ(slots, std::string(8192, '\0'));
  close(file);
}

std::set<std::string> PointsIn(const std::vector<Message>& messages) {
  std::set<std::string> points;
  for (const Message& message : messages) {
    for (const std::string* bytes : {&message.masked().points(), &message.double_masked().points()}) {
      for (size_t begin = 0; begin < bytes->size(); begin += 32) {
        points.insert(bytes->substr(begin, 32));
      }
    }
  }
  return points;
}

// Pearson's statistic of the values of uniform bytes: those of encodings but the last and, for its sign bit, the first.
double ChiSquareOfBytes(const std::set<std::string>& points) {
  std::vector<double> counts(256);
  for (const std::string& point : points) {
    for (size_t i = 1; i < 31; ++i) {
      ++counts[static_cast<uint8_t>(point[i])];
    }
  }
  const double expected = static_cast<double>(points.size()) * 30 / 256;
  double chi_square = 0;
  for (const double count : counts) {
    chi_square += (count - expected) * (count - expected) / expected;
  }
  return chi_square;
}

TEST(BucketedIntersectionTest, TheTranscriptLooksRandomAndNamesNoId) {
  const Ids first = Named(0, 1100), second = Named(500, 1600);
  const Ended once = Align({first}, {second}), again = Align({first}, {second});
  const std::set<std::string> points = PointsIn(once.sent_by_first), later = PointsIn(again.sent_by_first);
  std::vector<std::string> repeated;
  std::set_intersection(points.begin(), points.end(), later.begin(), later.end(), std::back_inserter(repeated));
  EXPECT_THAT(repeated, ::testing::IsEmpty());
  // p > 0.001 with 255 degrees of freedom, in one of three independent runs: all fail by chance once in 10^9 times.
  constexpr double kLargest = 330.5;
  if (ChiSquareOfBytes(points) >= kLargest && ChiSquareOfBytes(later) >= kLargest) {
    EXPECT_LT(ChiSquareOfBytes(PointsIn(Align({first}, {second}).sent_by_first)), kLargest);
  }
  std::string transcript;
  for (const Message& message : once.sent_by_first) {
    transcript += message.SerializeAsString();
  }
  EXPECT_THAT(transcript, Not(HasSubstr("planted")));
  const IdHasher hasher("run");
  for (const std::string& id : first) {
    Point point;
    crypto_core_ristretto255_from_hash(point.data(), hasher.Hash(id).data());
    ASSERT_EQ(points.count(std::string(point.begin(), point.end())), 0);
    ASSERT_EQ(transcript.find(std::string(AsBytes(Sha256(id)))), std::string::npos);
  }
}

}  // namespace
}  // namespace splitveil
