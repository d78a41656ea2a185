// Random damage to a peer's valid messages, with a fixed seed: each case ends in a clean error or a possible result.
#include <algorithm>
#include <chrono>
#include <functional>
#include <gtest/gtest.h>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/alignment/masking_key.h"
#include "common/alignment/private_set_intersection.h"
#include "tests/fuzz/alignment/peer_inbox_fuzzer.h"
#include "tests/testing/alignment_channel_pair.h"
#include "tests/unit/common/alignment/points_for_test.h"
#include "tests/unit/common/alignment/scripted_peer.h"

namespace splitveil {
namespace {

using Message = v1::AlignmentMessage;
using Random = std::mt19937_64;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTimeATest(1500);
constexpr int kLeastCases = 100;

// Runs `one_case` until the time is over.
void Repeat(const std::function<void(Random&)>& one_case) {
  Random random(20220425);
  const Clock::time_point end = Clock::now() + kTimeATest;
  for (int i = 0; (i < kLeastCases || Clock::now() < end) && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(absl::StrCat("case ", i));
    one_case(random);
  }
}

std::string* PointsOf(Message& message) {
  return message.has_masked()          ? message.mutable_masked()->mutable_points()
         : message.has_double_masked() ? message.mutable_double_masked()->mutable_points()
                                       : nullptr;
}

// Random bytes in place of some, at random places.
void DamageBytes(std::string& bytes, Random& random) {
  for (uint64_t i = 0; i <= random() % 3 && !bytes.empty(); ++i) {
    bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
  }
}

// A change that a hostile or broken peer might make to one message.
void DamageMessage(Message& message, Random& random) {
  std::string* points = PointsOf(message);
  switch (random() % 8) {
    case 0:
      message.set_run_id(random() % 2 == 0 ? "" : std::string(random() % 5000, 'r'));
      return;
    case 1:
      message.mutable_set_size()->set_ids(random() % 2 == 0 ? random() : random() % 20);
      return;
    case 2:
      message.clear_content();
      return;
    case 3:
      message.mutable_masked()->set_first_index(random() % 2 == 0 ? random() : random() % 20);
      return;
    case 4: {  // The same points as another kind.
      const std::string copy = points == nullptr ? "" : *points;
      message.mutable_double_masked()->set_points(copy);
      return;
    }
    case 5:
      if (points != nullptr) {
        points->resize(random() % 300, '\0');
      }
      return;
    case 6:
      if (points != nullptr && points->size() >= 64) {
        points->replace(0, 32, points->substr(32, 32));
      }
      return;
    default:
      if (points != nullptr) {
        DamageBytes(*points, random);
      }
  }
}

// Passes on a party's messages, one of them damaged, doubled, or the last before the connection is lost.
class DamagingChannel : public AlignmentChannel {
 public:
  DamagingChannel(InMemoryAlignmentChannel& channel, Random& random)
      : channel_(channel), random_(random), damaged_message_(random() % 110) {}

  absl::Status Send(const Message& message) override {
    if (sent_++ != damaged_message_) {
      return channel_.Send(message);
    }
    hit_ = true;
    Message damaged = message;
    switch (random_() % 6) {
      case 0:
        channel_.Close();
        break;
      case 1:
        (void)channel_.Send(message);
        break;
      default:
        DamageMessage(damaged, random_);
    }
    return channel_.Send(damaged);
  }
  absl::StatusOr<Message> Receive() override { return channel_.Receive(); }
  bool hit() const { return hit_; }

 private:
  InMemoryAlignmentChannel& channel_;
  Random& random_;
  const uint64_t damaged_message_;
  uint64_t sent_ = 0;
  bool hit_ = false;
};

std::vector<std::string> Ids(int begin, int end) {
  std::vector<std::string> ids;
  for (int i = begin; i < end; ++i) {
    ids.push_back(absl::StrCat(i));
  }
  return ids;
}

void AlignWithADamagedPeer(Random& random) {
  const std::vector<std::string> ids = Ids(0, 6), peer_ids = Ids(3, 11);
  AlignmentOptions options;
  options.run_id = kFuzzedRun;
  options.max_ids = 50;
  options.chunk_ids = 3;
  options.threads = 1;
  AlignmentChannelPair channels(/*capacity=*/2);
  DamagingChannel damaging(*channels.second, random);
  std::thread peer([&] {
    (void)AlignIds(peer_ids, options, damaging);
    channels.second->Close();
  });
  const absl::StatusOr<AlignedIds> aligned = AlignIds(ids, options, *channels.first);
  channels.first->Close();
  peer.join();
  if (!aligned.ok()) {
    EXPECT_TRUE(absl::IsInvalidArgument(aligned.status()) || absl::IsFailedPrecondition(aligned.status()) ||
                absl::IsUnavailable(aligned.status()))
        << aligned.status();
    EXPECT_TRUE(damaging.hit());
    return;
  }
  // Another usable point in place of a right one is a lie that no receiver can see; it moves rows but invents none.
  const std::set<uint32_t> rows(aligned->rows.begin(), aligned->rows.end());
  EXPECT_EQ(rows.size(), aligned->rows.size());
  EXPECT_TRUE(rows.empty() || *rows.rbegin() < ids.size());
  EXPECT_TRUE(damaging.hit() || rows == (std::set<uint32_t>{3, 4, 5}));
}

TEST(AlignmentFuzzTest, ADamagedPeerGivesACleanErrorOrAPossibleResult) { Repeat(AlignWithADamagedPeer); }

// The serialised messages of a peer with 2 ids, in the fuzzer's framing.
std::string ValidStream() {
  constexpr uint64_t kPeerIds = 2;
  std::vector<Message> messages(1);
  messages[0].set_run_id(kFuzzedRun);
  messages[0].mutable_set_size()->set_ids(kPeerIds);
  for (const auto& [kind, chunks] : {std::pair{PointKind::kMasked, MaskedChunks(kPeerIds, kFuzzedChunkIds)},
                                     {PointKind::kDoubleMasked, AnswerChunks(kFuzzedOwnIds, kFuzzedChunkIds)}}) {
    const std::vector<Message> committed =
        testing::Committed(kind, kFuzzedRun, chunks, testing::SomePoints(chunks.points));
    messages.insert(messages.end(), committed.begin(), committed.end());
  }
  messages.push_back(testing::OutcomeMessage(kFuzzedRun, 1, Sha256("order")));
  std::string stream;
  for (const Message& message : messages) {
    const std::string bytes = message.SerializeAsString();
    absl::StrAppend(&stream, std::string(1, static_cast<char>(bytes.size())), bytes);
  }
  return stream;
}

TEST(AlignmentFuzzTest, DamagedBytesNeverBreakTheInbox) {
  const std::string valid = ValidStream();
  Repeat([&](Random& random) {
    std::string stream = valid;
    if (random() % 4 == 0) {
      stream.resize(random() % stream.size());
    }
    if (random() % 4 == 0) {
      stream.insert(random() % (stream.size() + 1), valid.substr(random() % valid.size(), random() % 200));
    }
    DamageBytes(stream, random);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(stream.data()), stream.size());
  });
}

}  // namespace
}  // namespace splitveil
