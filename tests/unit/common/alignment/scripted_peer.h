// A peer of AlignIds whose points and answers a test makes up.
#ifndef SPLITVEIL_TESTS_UNIT_COMMON_ALIGNMENT_SCRIPTED_PEER_H_
#define SPLITVEIL_TESTS_UNIT_COMMON_ALIGNMENT_SCRIPTED_PEER_H_

#include <functional>
#include <gtest/gtest.h>
#include <string>
#include <utility>
#include <vector>

#include "common/crypto/sha256.h"
#include "tests/testing/alignment_channel_pair.h"
#include "tests/unit/common/alignment/points_for_test.h"

namespace splitveil::testing {

inline std::vector<Point> AnswersOf(const MaskingKey& key, const std::vector<Point>& points) {
  std::vector<Point> answers(points.size());
  for (size_t i = 0; i < points.size(); ++i) {
    EXPECT_TRUE(key.Mask(points[i], answers[i]));
  }
  return answers;
}

// As many points as a peer with `ids` ids masks: `own`, then made up ones that stand for test points, then the first
// `canaries` canaries of the run.
inline std::vector<Point> PeerPoints(const MaskingKey& key, const std::string& run_id, uint64_t ids,
                                     std::vector<Point> own = {}, uint64_t canaries = kCanaries) {
  const std::vector<Point> others = SomePoints(MaskedPoints(ids) - canaries - own.size());
  own.insert(own.end(), others.begin(), others.end());
  std::vector<Point> hashed(canaries);
  for (uint64_t i = 0; i < canaries; ++i) {
    crypto_core_ristretto255_from_hash(hashed[i].data(), IdHasher(run_id).HashCanary(i).data());
  }
  const std::vector<Point> masked = AnswersOf(key, hashed);
  own.insert(own.end(), masked.begin(), masked.end());
  return own;
}

inline v1::AlignmentMessage OutcomeMessage(const std::string& run_id, uint64_t shared_ids, const Digest& digest) {
  v1::AlignmentMessage message;
  message.set_run_id(run_id);
  message.mutable_outcome()->set_shared_ids(shared_ids);
  message.mutable_outcome()->set_order_sha256(std::string(AsBytes(digest)));
  return message;
}

struct ScriptedPeer {
  std::string run_id;
  uint64_t chunk_ids = 0;
  uint64_t ids = 0;
  std::vector<Point> masked;                                            // MaskedPoints(ids).
  std::function<std::vector<Point>(const std::vector<Point>&)> answer;  // To the other party's masked points.
  v1::AlignmentMessage outcome;
  bool outcome_after_other = false;  // Sends its outcome only when it has that of the other party.
};

// What the peer sends up to its last masked point.
inline std::vector<v1::AlignmentMessage> UpToMasked(const ScriptedPeer& peer) {
  std::vector<v1::AlignmentMessage> messages =
      Committed(PointKind::kMasked, peer.run_id, MaskedChunks(peer.ids, peer.chunk_ids), peer.masked);
  messages.insert(messages.begin(), SetSizeMessage(peer.run_id, peer.ids));
  return messages;
}

// What the other party, with `other_ids` ids, has sent.
struct Heard {
  std::vector<Point> masked, answers;
};

// Sends all of it, its answers once it has all of the other's masked points, and reads until the other hangs up.
inline Heard Play(const ScriptedPeer& peer, uint64_t other_ids, AlignmentChannel& channel) {
  for (const v1::AlignmentMessage& message : UpToMasked(peer)) {
    (void)channel.Send(message);
  }
  Heard heard;
  bool answered = false;
  for (auto message = channel.Receive(); message.ok(); message = channel.Receive()) {
    AppendPoints(message->masked().points(), heard.masked);
    AppendPoints(message->double_masked().points(), heard.answers);
    if (heard.masked.size() == MaskedPoints(other_ids) && !std::exchange(answered, true)) {
      std::vector<v1::AlignmentMessage> rest = Committed(
          PointKind::kDoubleMasked, peer.run_id, AnswerChunks(other_ids, peer.chunk_ids), peer.answer(heard.masked));
      if (!peer.outcome_after_other) {
        rest.push_back(peer.outcome);
      }
      for (const v1::AlignmentMessage& each : rest) {
        (void)channel.Send(each);
      }
    }
    if (message->has_outcome() && peer.outcome_after_other) {
      (void)channel.Send(peer.outcome);
    }
  }
  return heard;
}

}  // namespace splitveil::testing

#endif  // SPLITVEIL_TESTS_UNIT_COMMON_ALIGNMENT_SCRIPTED_PEER_H_
